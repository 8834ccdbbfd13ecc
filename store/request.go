package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// RequestFilter narrows Requests. The zero filter is every request the actor may see.
type RequestFilter struct {
	Team    string           // "" = every team
	OwnerID int64            // 0 = everybody's
	States  []rayslice.State // empty = every state
	Search  string           // part of the name, the id or the owner's name, in any case; "" = all
	Late    bool             // only those that admins were told about, as nobody decides
	After   string           // Next of the page before; "" = from the newest
	Limit   int              // requests on the page, at most MaxPage; 0 = DefaultPage
}

// Sizes of a page of requests.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// RequestPage is one page of requests, newest first.
type RequestPage struct {
	Requests []rayslice.Request
	Next     string // for RequestFilter.After; "" = this was the last page
}

// requestRow is one row of the SELECTs below, which all begin with requestColumns.
type requestRow struct {
	ID          string
	Draft       []byte // JSON
	Team        string
	Namespace   string
	OwnerID     int64
	OwnerName   string
	OwnerEmail  string
	State       rayslice.State
	Reason      []byte // JSON; nil = null
	GiB         int
	Cards       int
	Released    bool
	ClusterUID  string
	Asked       []byte // JSON; nil = null
	Revision    int
	SentAt      time.Time
	EscalatedAt pgtype.Timestamptz
	DecidedBy   string
	Answer      string
	CreatedAt   time.Time
	StateSince  time.Time
	DecidedAt   pgtype.Timestamptz
	ReadyAt     pgtype.Timestamptz
	EndsAt      pgtype.Timestamptz
	StoppingAt  pgtype.Timestamptz
	StoppedAt   pgtype.Timestamptz
}

const requestColumns = `
	SELECT
		r.id,
		r.draft,
		r.team,
		t.namespace,
		r.owner_id,
		u.name AS owner_name,
		u.email AS owner_email,
		r.state,
		r.reason,
		c.gib,
		c.cards,
		c.released_at IS NOT NULL AS released,
		r.cluster_uid,
		r.asked,
		r.revision,
		r.sent_at,
		r.escalated_at,
		r.decided_by,
		r.answer,
		r.created_at,
		r.state_since,
		r.decided_at,
		r.ready_at,
		r.ends_at,
		r.stopping_at,
		r.stopped_at
	FROM requests r
	JOIN teams t ON t.name = r.team
	JOIN users u ON u.id = r.owner_id
	JOIN charges c ON c.request_id = r.id`

func scanRequest(row pgx.CollectableRow) (rayslice.Request, error) {
	r, err := pgx.RowToStructByName[requestRow](row)
	if err != nil {
		return rayslice.Request{}, err
	}
	var draft rayslice.RequestDraft
	var asked *rayslice.RequestDraft
	var reason rayslice.Reason
	if err := errors.Join(json.Unmarshal(r.Draft, &draft), unmarshalKnown(r.Asked, &asked), unmarshalKnown(r.Reason, &reason)); err != nil {
		return rayslice.Request{}, err
	}
	return rayslice.Request{
		ID:          r.ID,
		Draft:       draft,
		Team:        r.Team,
		Namespace:   r.Namespace,
		Owner:       rayslice.User{ID: r.OwnerID, Name: r.OwnerName, Email: r.OwnerEmail},
		State:       r.State,
		Reason:      reason,
		Charge:      rayslice.Charge{GiB: r.GiB, Cards: r.Cards},
		Released:    r.Released,
		ClusterUID:  r.ClusterUID,
		Asked:       asked,
		Revision:    r.Revision,
		SentAt:      r.SentAt.UTC(),
		EscalatedAt: r.EscalatedAt.Time.UTC(),
		DecidedBy:   r.DecidedBy,
		Answer:      r.Answer,
		CreatedAt:   r.CreatedAt.UTC(),
		StateSince:  r.StateSince.UTC(),
		DecidedAt:   r.DecidedAt.Time.UTC(), // the time of a null is the zero time
		ReadyAt:     r.ReadyAt.Time.UTC(),
		EndsAt:      r.EndsAt.Time.UTC(),
		StoppingAt:  r.StoppingAt.Time.UTC(),
		StoppedAt:   r.StoppedAt.Time.UTC(),
	}, nil
}

// unmarshalKnown leaves to as it is when there is no text.
func unmarshalKnown(text []byte, to any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, to)
}

// Request returns one request the actor may see.
func (s *Store) Request(ctx context.Context, actor rayslice.User, id string) (rayslice.Request, error) {
	r, err := request(ctx, s.db, id)
	err = missing(err, "request")
	if err == nil && !actor.CanSee(r.Team) {
		err = rayslice.NotFound("request")
	}
	if err != nil {
		return rayslice.Request{}, err
	}
	return r, nil
}

// request reads one request; pgx.ErrNoRows when there is none.
func request(ctx context.Context, db DB, id string) (rayslice.Request, error) {
	rows, _ := db.Query(ctx, requestColumns+`
		WHERE r.id = $1`, id)
	return pgx.CollectExactlyOneRow(rows, scanRequest)
}

// lockRequest reads one request and holds its row until the transaction ends.
func lockRequest(ctx context.Context, tx pgx.Tx, id string) (rayslice.Request, error) {
	rows, _ := tx.Query(ctx, requestColumns+`
		WHERE r.id = $1
		FOR UPDATE OF r`, id)
	r, err := pgx.CollectExactlyOneRow(rows, scanRequest)
	return r, missing(err, "request")
}

// Requests returns one page of the requests the actor may see, newest first. A team the actor may not see is
// rayslice.NotFound, a cursor that is not ours an invalid field "after".
func (s *Store) Requests(ctx context.Context, actor rayslice.User, f RequestFilter) (RequestPage, error) {
	if f.Team != "" && !actor.CanSee(f.Team) {
		return RequestPage{}, rayslice.NotFound("team")
	}
	after, err := parseCursor(f.After)
	if err != nil {
		return RequestPage{}, err
	}
	if f.Limit <= 0 {
		f.Limit = DefaultPage
	}
	f.Limit = min(f.Limit, MaxPage)
	rows, _ := s.db.Query(ctx, requestColumns+`
		WHERE ($1 OR r.team = ANY ($2))
			AND ($3 = '' OR r.team = $3)
			AND ($4::bigint = 0 OR r.owner_id = $4)
			AND (cardinality($5::text[]) = 0 OR r.state = ANY ($5))
			AND ($6 = '' OR strpos(lower(concat_ws(' ', r.name, r.id, u.name)), lower($6)) > 0)
			AND ($7::timestamptz IS NULL OR (r.created_at, r.id) < ($7, $8))
			AND (NOT $10 OR r.escalated_at IS NOT NULL)
		ORDER BY
			r.created_at DESC,
			r.id DESC
		LIMIT $9`,
		pgx.QueryExecModeCacheDescribe, // planned for these very values: a plan for any filter would read every row
		seesAll(actor), actor.Teams(), f.Team, f.OwnerID, stateNames(f.States), f.Search, after.at, after.id, f.Limit+1, f.Late)
	found, err := pgx.CollectRows(rows, scanRequest)
	if err != nil {
		return RequestPage{}, answer(err)
	}
	if len(found) <= f.Limit {
		return RequestPage{Requests: found}, nil
	}
	found = found[:f.Limit]
	return RequestPage{Requests: found, Next: cursorOf(found[f.Limit-1])}, nil
}

// stateNames is never nil, which would be NULL.
func stateNames(states []rayslice.State) []string {
	names := make([]string, 0, len(states))
	for _, s := range states {
		names = append(names, string(s))
	}
	return names
}

// cursor is the last request of the page before.
type cursor struct {
	at *time.Time // nil = no page before
	id string
}

const maxCursor = 1e16 // µs, in the year 2286: a time that Postgres can hold

func cursorOf(r rayslice.Request) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", r.CreatedAt.UnixMicro(), r.ID))
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var micro int64
	var id string
	if err == nil {
		_, err = fmt.Sscanf(strings.Replace(string(raw), ".", " ", 1), "%d %s", &micro, &id)
	}
	if err != nil || micro < 0 || micro > maxCursor {
		return cursor{}, rayslice.Invalid(rayslice.FieldError{Field: "after", Code: rayslice.CodeCharacters})
	}
	at := time.UnixMicro(micro)
	return cursor{at: &at, id: id}, nil
}
