package handlers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// listLength is how many requests one page of the list has.
const listLength = 50

// previewID stands in a preview where the request's id will be.
const previewID = "previewonly2"

var requestIDFormat = regexp.MustCompile(`^[a-z2-7]{12}$`)

// requestID returns the id in the path. What cannot be an id is not found, like an id that does not exist.
func requestID(c echo.Context) (string, error) {
	id := c.Param("id")
	if !requestIDFormat.MatchString(id) {
		return "", rayslice.NotFound("request")
	}
	return id, nil
}

// showClusters lists the requests the visitor may see.
func (s *Server) showClusters(c echo.Context) error {
	p, err := s.clusterList(c, s.liveFrame)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.ClusterListView(p))
}

// clusterList reads the list as the address asks for it; the page and its event stream both show it.
func (s *Server) clusterList(c echo.Context, framed func(echo.Context) (web.Frame, error)) (web.ClusterList, error) {
	ctx, actor, query := c.Request().Context(), user(c), c.QueryParams()
	filter, err := readFilter(actor, query, listLength)
	if err != nil {
		return web.ClusterList{}, err
	}
	frame, err := framed(c)
	if err != nil {
		return web.ClusterList{}, err
	}
	found, err := s.requests(ctx, actor, filter)
	if err != nil {
		return web.ClusterList{}, err
	}
	rows, err := s.rows(ctx, actor, found.Requests)
	if err != nil {
		return web.ClusterList{}, err
	}
	quotas, err := s.config.Store.Quotas(ctx, actor)
	if err != nil {
		return web.ClusterList{}, err
	}
	p := web.ClusterList{
		Frame: frame, Rows: rows, Quotas: quotas, Teams: teamsOf(quotas), Pages: pages("/clusters", query, "cursor", found.Next),
		Filter: web.ListFilter{State: query.Get("state"), Team: query.Get("team"), Search: query.Get("q"), Mine: query.Get("mine") == "1"},
		Stream: withQuery("/clusters/events", query),
	}
	return p, nil
}

// requests reads one page of the list. A cursor is called by the name that visitors know it by.
func (s *Server) requests(ctx context.Context, actor rayslice.User, filter store.RequestFilter) (store.RequestPage, error) {
	found, err := s.config.Store.Requests(ctx, actor, filter)
	if rayslice.KindOf(err) == rayslice.KindInvalid {
		err = rayslice.Invalid(rayslice.FieldError{Field: "cursor", Code: rayslice.CodeCharacters})
	}
	return found, err
}

// rows joins requests with what Kubernetes reported about them and what is known of their use.
func (s *Server) rows(ctx context.Context, actor rayslice.User, requests []rayslice.Request) ([]web.ClusterRow, error) {
	ids := idsOf(requests)
	observed, err := s.config.Store.Observed(ctx, actor, ids)
	if err != nil {
		return nil, err
	}
	uses, err := s.config.Store.Uses(ctx, actor, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]web.ClusterRow, len(requests))
	for i, r := range requests {
		o := observed[r.ID]
		rows[i] = web.ClusterRow{Request: r, Cluster: o.Cluster, Use: uses[r.ID], Badge: o.Badge}
	}
	return rows, nil
}

func idsOf(requests []rayslice.Request) []string {
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = r.ID
	}
	return ids
}

// newRequest shows the form.
func (s *Server) newRequest(c echo.Context) error {
	form, err := s.firstForm(c)
	if err != nil {
		return err
	}
	p, err := s.newRequestPage(c, form, rand.Text())
	if err != nil {
		return err
	}
	p.EnvLost = c.QueryParam(envLost) != ""
	return s.answerFirstForm(c, p)
}

// answerFirstForm shows a form that nobody has sent yet, with what would follow as far as that can be told.
func (s *Server) answerFirstForm(c echo.Context, p web.NewRequestPage) error {
	if _, err := s.look(c, &p); err != nil && rayslice.KindOf(err) != rayslice.KindInvalid {
		return err
	}
	return page(c, http.StatusOK, web.NewRequestView(p))
}

// look fills in what would follow from the form as it stands, as far as that can be told, and returns its draft and what is
// wrong with it.
func (s *Server) look(c echo.Context, p *web.NewRequestPage) (rayslice.RequestDraft, error) {
	draft, wrong := s.draftOf(c.Request().Context(), user(c), p.Form, p.Fleet)
	if wrong != nil && !foreseeable(wrong) {
		return draft, wrong
	}
	return draft, together(wrong, s.foresee(c, p, draft))
}

// foreseeable reports whether what is wrong with a form leaves its size, its time and its team known: then quota and
// decision can be told before the rest is right, e.g. before it has a name.
func foreseeable(wrong error) bool {
	_, problem := explain(wrong)
	return problem.Kind == rayslice.KindInvalid && !slices.ContainsFunc(problem.Fields, func(f rayslice.FieldError) bool {
		return f.Field == "team" || f.Field == "hours" || strings.HasPrefix(f.Field, "groups")
	})
}

// foresee fills in what the draft would cost and what would follow from sending it. An invalid field is one that the
// team's rules forbid.
func (s *Server) foresee(c echo.Context, p *web.NewRequestPage, draft rayslice.RequestDraft) error {
	ctx, actor, id := c.Request().Context(), user(c), ""
	if p.Edit != nil {
		id = p.Edit.Request.ID
	}
	p.Charge = draft.Charge()
	if p.Charge != (rayslice.Charge{}) {
		fit, err := s.whenFits(ctx, actor, draft)
		if err != nil {
			return err
		}
		p.Room = &fit
	}
	why, err := s.config.Store.WouldDecideAgain(ctx, actor, draft, id)
	if err != nil {
		return err
	}
	if p.Decision = why; why.Code != rayslice.ReasonAutoApproved {
		p.Deciders, err = s.config.Store.Deciders(ctx, actor, draft.Team, actor.ID)
	}
	return err
}

// firstForm returns the form as the address asks for it: like an earlier request, as it was when the session ended, or
// as a newcomer finds it.
func (s *Server) firstForm(c echo.Context) (web.RequestForm, error) {
	query := c.QueryParams()
	switch {
	case query.Has("from"):
		id := query.Get("from")
		if !requestIDFormat.MatchString(id) {
			return web.RequestForm{}, rayslice.NotFound("request")
		}
		earlier, err := s.config.Store.Request(c.Request().Context(), user(c), id)
		return web.FormFromDraft(earlier.Draft, s.config.Catalogue), err
	case query.Has("name"):
		return web.ParseRequestForm(query), nil
	}
	team := query.Get("team")
	if !user(c).CanAsk(team) {
		team = firstTeam(user(c))
	}
	catalogue, err := s.catalogueOf(c.Request().Context(), user(c), team)
	return web.NewRequestForm(catalogue, team), err
}

// previewRequest shows what the form would cost and apply, and what would follow, and writes nothing.
func (s *Server) previewRequest(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	p, err := s.newRequestPage(c, web.ParseRequestForm(values), formKey(values))
	if err != nil {
		return err
	}
	return s.answerPreview(c, p)
}

func (s *Server) answerPreview(c echo.Context, p web.NewRequestPage) error {
	draft, err := s.look(c, &p)
	if err == nil {
		p.YAML, err = s.preview(c.Request().Context(), user(c), draft)
	}
	status := http.StatusOK
	if err != nil {
		if status, p.Problem = explain(err); p.Problem.Kind != rayslice.KindInvalid {
			return err
		}
	}
	if c.Request().Header.Get("HX-Request") == "true" {
		if p.Problem != nil && unfinished(p.Problem) {
			status = http.StatusOK // somebody is still writing, and has sent nothing
		}
		return page(c, status, web.RequestPreview(p))
	}
	return page(c, status, web.NewRequestView(p))
}

// unfinished reports whether nothing is wrong with a form but that something is still to be filled in.
func unfinished(problem *rayslice.Error) bool {
	return !slices.ContainsFunc(problem.Fields, func(f rayslice.FieldError) bool { return f.Code != rayslice.CodeRequired })
}

// createRequest asks for the cluster. A refused form comes back filled in, with the reason.
func (s *Server) createRequest(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	form, key := web.ParseRequestForm(values), formKey(values)
	fleet, err := s.config.Store.Fleet(c.Request().Context(), user(c))
	if err != nil {
		return err
	}
	draft, err := s.draftOf(c.Request().Context(), user(c), form, fleet)
	if err != nil {
		return s.refuseForm(c, form, key, err)
	}
	request, err := s.config.Store.CreateRequest(c.Request().Context(), user(c), draft, key)
	if err != nil {
		return s.refuseForm(c, form, key, err)
	}
	return c.Redirect(http.StatusSeeOther, "/clusters/"+request.ID)
}

// refuseForm answers with the same form, filled in. Errors that changing the form cannot mend are passed on.
func (s *Server) refuseForm(c echo.Context, form web.RequestForm, key string, cause error) error {
	if _, problem := explain(cause); problem.Code == codeKeyReused {
		key = rand.Text() // the form was changed after it had been sent once: from now on it is another request
	}
	return s.answerRefused(c, cause, func() (web.NewRequestPage, error) { return s.newRequestPage(c, form, key) })
}

// answerRefused shows the form's page again with why it was refused, and with what would follow as far as that can be told.
func (s *Server) answerRefused(c echo.Context, cause error, draw func() (web.NewRequestPage, error)) error {
	status, problem := explain(cause)
	if problem.Kind != rayslice.KindInvalid && problem.Kind != rayslice.KindOverQuota && problem.Kind != rayslice.KindConflict {
		return cause
	}
	p, err := draw()
	if err != nil {
		return err
	}
	visitOf(c).failure, p.Problem = cause, problem
	if _, err := s.look(c, &p); err != nil && rayslice.KindOf(err) != rayslice.KindInvalid {
		return err
	}
	return page(c, status, web.NewRequestView(p))
}

// codeKeyReused is the store's refusal of a key that came with another body before.
const codeKeyReused = "idempotency_key_reused"

var saneKey = regexp.MustCompile(`^[!-~]{1,255}$`)

// formKey returns the key that makes sending the form twice ask once; a form without a sane one gets a new key.
func formKey(values url.Values) string {
	if key := values.Get("idempotency_key"); saneKey.MatchString(key) {
		return key
	}
	return rand.Text()
}

func teamsOf(quotas []rayslice.Quota) []string {
	var teams []string
	for _, q := range quotas {
		teams = append(teams, q.Team)
	}
	return teams
}

// firstTeam returns the team a new form begins with, "" for somebody without a team.
func firstTeam(u rayslice.User) string {
	if teams := u.Teams(); len(teams) > 0 {
		return teams[0]
	}
	return ""
}

// newRequestPage returns the form's page without what depends on the form being right.
func (s *Server) newRequestPage(c echo.Context, form web.RequestForm, key string) (web.NewRequestPage, error) {
	ctx, actor := c.Request().Context(), user(c)
	frame, fleet, err := s.frameAndFleet(c)
	if err != nil {
		return web.NewRequestPage{}, err
	}
	p := web.NewRequestPage{Frame: frame, Form: form, Fleet: fleet, IdempotencyKey: key}
	all, err := s.config.Store.Quotas(ctx, actor)
	if err != nil {
		return p, err
	}
	for _, q := range all {
		if actor.CanAsk(q.Team) { // an admin sees every team, and asks only in their own
			p.Quotas = append(p.Quotas, q)
		}
	}
	if actor.CanAsk(form.Team) {
		if p.Grants, err = s.config.Store.Grants(ctx, actor, form.Team); err != nil {
			return p, err
		}
	}
	if p.Catalogue, err = s.catalogueOf(ctx, actor, form.Team); err != nil {
		return p, err
	}
	p.Fits, err = s.sizesFit(ctx, actor, form, p.Catalogue)
	return p, err
}

// draftOf turns a form into a draft that may be sent to the store.
func (s *Server) draftOf(ctx context.Context, actor rayslice.User, form web.RequestForm, fleet rayslice.Fleet) (rayslice.RequestDraft, error) {
	draft, unread := form.Draft()
	return draft, together(unread, s.check(ctx, actor, &draft, fleet))
}

// check completes a draft and names what is wrong with it. Another team is answered like one that does not exist.
func (s *Server) check(ctx context.Context, actor rayslice.User, draft *rayslice.RequestDraft, fleet rayslice.Fleet) error {
	catalogue, err := s.catalogueOf(ctx, actor, draft.Team)
	if err != nil {
		return err
	}
	draft.Normalize(catalogue)
	if err := draft.Validate(catalogue); err != nil {
		return err
	}
	bad := closedPools(*draft, fleet)
	if !actor.CanAsk(draft.Team) {
		bad = append(bad, rayslice.FieldError{Field: "team", Code: rayslice.CodeTeamUnknown})
	}
	return rayslice.Invalid(bad...)
}

// catalogueOf returns the catalogue as a team's rules narrow it; the whole one for a team the actor cannot see, where
// nothing may be asked for anyway.
func (s *Server) catalogueOf(ctx context.Context, actor rayslice.User, team string) (rayslice.Catalogue, error) {
	if !actor.CanSee(team) {
		return s.config.Catalogue, nil
	}
	rules, err := s.config.Store.Rules(ctx, actor, team)
	if rayslice.KindOf(err) == rayslice.KindNotFound {
		return s.config.Catalogue, nil
	}
	return rules.Narrow(s.config.Catalogue), err
}

// closedPools names the groups whose pool the nodes themselves have closed, e.g. because they count in different units.
func closedPools(draft rayslice.RequestDraft, fleet rayslice.Fleet) []rayslice.FieldError {
	var bad []rayslice.FieldError
	for i, g := range draft.Groups {
		for _, p := range fleet.Pools {
			if p.Pool == g.Pool && !p.Blocked.IsZero() {
				bad = append(bad, rayslice.FieldError{Field: fmt.Sprintf("groups[%d].pool", i), Code: rayslice.CodePoolClosed, Args: map[string]any{"pool": p.Pool}})
			}
		}
	}
	return bad
}

// preview renders what would be applied. Only the name is not the real one yet.
func (s *Server) preview(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft) (string, error) {
	team, err := s.config.Store.Team(ctx, actor, draft.Team)
	if err != nil {
		return "", err
	}
	return s.config.Render(rayslice.Request{
		ID: previewID, Team: team.Name, Namespace: team.Namespace, Owner: actor, Draft: draft, Charge: draft.Charge(),
	})
}

// showRequest shows one request and its cluster.
func (s *Server) showRequest(c echo.Context) error {
	p, err := s.requestPage(c, s.liveFrame)
	if err != nil {
		return err
	}
	return s.answerRequestPage(c, http.StatusOK, p)
}

// answerRequestPage shows the whole page of a request, with the decision for those who may make it.
func (s *Server) answerRequestPage(c echo.Context, status int, p web.RequestPage) error {
	var err error
	if p.YAML, err = s.config.Render(p.Request); err != nil {
		return err
	}
	if p.Use, err = s.config.Store.Use(c.Request().Context(), user(c), p.Request.ID); err != nil {
		return err
	}
	if p.History, err = s.pastUse(c, p.Request.ID); err != nil {
		return err
	}
	if actor := decider(c); p.Request.State.Open() && actor.CanLead(p.Request.Team) && p.Request.Owner.ID != actor.ID {
		row, err := s.oneApproval(c)
		if err != nil {
			return err
		}
		row.Back = true
		p.Decision = &row
	}
	s.letOpen(c, p.Request.ID)
	return page(c, status, web.RequestView(p))
}

// requestPage reads one request with all that its page shows; the page and its event stream both show it.
func (s *Server) requestPage(c echo.Context, framed func(echo.Context) (web.Frame, error)) (web.RequestPage, error) {
	ctx, actor := c.Request().Context(), user(c)
	id, err := requestID(c)
	if err != nil {
		return web.RequestPage{}, err
	}
	request, err := s.config.Store.Request(ctx, actor, id)
	if err != nil {
		return web.RequestPage{}, err
	}
	cluster, err := s.config.Store.Cluster(ctx, actor, id)
	if err != nil {
		return web.RequestPage{}, err
	}
	audit, err := s.config.Store.Audit(ctx, actor, id)
	if err != nil {
		return web.RequestPage{}, err
	}
	slices.Reverse(audit) // the page shows the latest first
	frame, err := framed(c)
	if err != nil {
		return web.RequestPage{}, err
	}
	p := web.RequestPage{
		Frame: frame, Request: request, Cluster: cluster, Catalogue: s.config.Catalogue, Audit: audit,
		CanStop: actor.CanStop(request) && request.State.Stoppable(), ConfirmStop: c.QueryParam("confirm") == "stop",
		CanChange: actor.CanChange(request) && request.State.Open(), Stream: "/clusters/" + id + "/events",
	}
	if p.Verification, err = s.verification(ctx, actor, request); err != nil {
		return p, err
	}
	p.Way = s.wayTo(c, request)
	if request.State.Open() {
		p.Deciders, err = s.config.Store.Deciders(ctx, actor, request.Team, request.Owner.ID)
	}
	return p, err
}

// showYAML shows what is applied for a request.
func (s *Server) showYAML(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	request, err := s.config.Store.Request(c.Request().Context(), user(c), id)
	if err != nil {
		return err
	}
	yaml, err := s.config.Render(request)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `inline; filename="`+request.ObjectName()+`.yaml"`)
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(yaml)) // browsers show plain text and download YAML
}

// stopRequest stops the cluster, or takes back a request that waits.
func (s *Server) stopRequest(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	if _, err := s.config.Store.StopRequest(c.Request().Context(), user(c), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/clusters/"+id)
}
