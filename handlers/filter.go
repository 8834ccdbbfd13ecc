package handlers

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

const (
	maxListLength = 200 // requests in one answer
	maxSearch     = 80  // characters of ?q=
	maxCursor     = 200 // bytes of ?cursor=
)

// codeStateUnknown is the field code of a state that does not exist; only lists have it.
const codeStateUnknown = "state_unknown"

// stateLive is the filter word for everything that has, or is about to have, something in Kubernetes.
const stateLive = "live"

// readFilter reads how a list is narrowed, from a page's address and the API's alike, and names every bad parameter.
func readFilter(actor rayslice.User, query url.Values, length int) (store.RequestFilter, error) {
	r := &filterReader{query: query}
	filter := store.RequestFilter{
		Team: r.team(actor), States: r.states(), Search: r.search(), After: r.cursor(), Limit: r.limit(length),
	}
	if r.flag("mine") {
		filter.OwnerID = actor.ID
	}
	return filter, rayslice.Invalid(r.bad...)
}

// filterReader collects bad query parameters.
type filterReader struct {
	query url.Values
	bad   []rayslice.FieldError
}

func (r *filterReader) refuse(field, code string, args map[string]any) {
	r.bad = append(r.bad, rayslice.FieldError{Field: field, Code: code, Args: args})
}

// team refuses teams the visitor cannot see and teams that do not exist with the same words.
func (r *filterReader) team(actor rayslice.User) string {
	team := r.query.Get("team")
	if team != "" && !actor.CanSee(team) {
		r.refuse("team", rayslice.CodeTeamUnknown, map[string]any{"team": team})
	}
	return team
}

func (r *filterReader) states() []rayslice.State {
	var states []rayslice.State
	for _, name := range r.query["state"] {
		switch state := rayslice.State(name); {
		case name == "":
		case name == stateLive:
			states = append(states, liveStates()...)
		case slices.Contains(rayslice.States(), state):
			states = append(states, state)
		default:
			r.refuse("state", codeStateUnknown, map[string]any{"states": stateNames()})
		}
	}
	return states
}

// liveStates are the states of requests that are not over; one that waits counts, since it holds quota.
func liveStates() []rayslice.State {
	return slices.DeleteFunc(rayslice.States(), rayslice.State.Final)
}

func stateNames() string {
	names := []string{stateLive}
	for _, s := range rayslice.States() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (r *filterReader) search() string {
	q := strings.TrimSpace(r.query.Get("q"))
	switch {
	case !utf8.ValidString(q) || strings.ContainsFunc(q, unicode.IsControl):
		r.refuse("q", rayslice.CodeCharacters, nil)
	case utf8.RuneCountInString(q) > maxSearch:
		r.refuse("q", rayslice.CodeTooLong, map[string]any{"max": maxSearch})
	}
	return q
}

func (r *filterReader) cursor() string {
	cursor := r.query.Get("cursor")
	if len(cursor) > maxCursor || !utf8.ValidString(cursor) || strings.ContainsFunc(cursor, unicode.IsControl) {
		r.refuse("cursor", rayslice.CodeCharacters, nil)
	}
	return cursor
}

// row reads a cursor that is the number of a row; 0 when there is none.
func (r *filterReader) row() int64 {
	text := r.query.Get("cursor")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !rowNumber.MatchString(text) {
		r.refuse("cursor", rayslice.CodeCharacters, nil)
	}
	return n
}

// flag reads a parameter that is 1 or not there.
func (r *filterReader) flag(name string) bool {
	text := r.query.Get(name)
	if text != "" && text != "1" {
		r.refuse(name, rayslice.CodeRange, map[string]any{"min": 1, "max": 1})
	}
	return text == "1"
}

func (r *filterReader) limit(otherwise int) int {
	text := r.query.Get("limit")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		r.refuse("limit", rayslice.CodeType, map[string]any{"want": "int", "got": "text"})
	case n < 1 || n > maxListLength:
		r.refuse("limit", rayslice.CodeRange, map[string]any{"min": 1, "max": maxListLength})
	}
	return n
}
