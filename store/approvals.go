package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// ApprovalFilter narrows Approvals. The zero filter is everything that waits in the teams the actor decides for.
type ApprovalFilter struct {
	Team    string // "" = every team the actor decides for
	Decided bool   // what a person has decided, the latest first; else what waits, the oldest first
	Search  string // part of the name, the id or the owner's name, in any case; "" = all
	After   string // Next of the page before; "" = from the beginning
	Limit   int    // requests on the page, at most MaxPage; 0 = DefaultApprovals
}

// DefaultApprovals is how many requests one page of approvals has.
const DefaultApprovals = 20

// MaxWaiting is where Waiting stops counting.
const MaxWaiting = 100

// An Approval is a request with what somebody needs to know to decide it.
type Approval struct {
	Request rayslice.Request
	Quota   rayslice.Quota        // of its team, the request's own charge included; this and the next two only while it waits
	Record  rayslice.Record       // of its owner in the team
	Talk    []rayslice.AuditEntry // questions and answers so far, oldest first
	Refusal error                 // why the actor may not decide it (rayslice.User.MayDecide); nil = they may
}

// ApprovalPage is one page of approvals.
type ApprovalPage struct {
	Approvals []Approval
	Next      string // for ApprovalFilter.After; "" = this was the last page
}

// Approvals returns one page of the requests that wait, or were decided, in the teams the actor leads; an admin's are all
// teams. KindForbidden for somebody who leads no team, rayslice.NotFound for a team the actor may not see. Requests that
// were asked back wait as well, for their owner.
func (s *Store) Approvals(ctx context.Context, actor rayslice.User, f ApprovalFilter) (ApprovalPage, error) {
	if err := mayLook(actor, f.Team); err != nil {
		return ApprovalPage{}, s.Refuse(ctx, actor, rayslice.AuditEntry{Team: f.Team}, err)
	}
	after, err := parseCursor(f.After)
	if err != nil {
		return ApprovalPage{}, err
	}
	if f.Limit <= 0 {
		f.Limit = DefaultApprovals
	}
	f.Limit = min(f.Limit, MaxPage)
	found, err := s.waitingOrDecided(ctx, actor, f, after)
	if err != nil {
		return ApprovalPage{}, answer(err)
	}
	var next string
	if len(found) > f.Limit {
		found = found[:f.Limit]
		next = approvalCursor(found[f.Limit-1], f.Decided)
	}
	if f.Decided { // nobody needs to know more about what is over
		approvals := make([]Approval, len(found))
		for i, r := range found {
			approvals[i] = Approval{Request: r, Refusal: actor.MayDecide(r)}
		}
		return ApprovalPage{Approvals: approvals, Next: next}, nil
	}
	approvals, err := s.approvals(ctx, actor, found)
	return ApprovalPage{Approvals: approvals, Next: next}, answer(err)
}

// mayLook refuses those who decide for nobody; whether they may decide one request is looked at then.
func mayLook(actor rayslice.User, team string) error {
	switch {
	case team != "" && !actor.CanSee(team):
		return rayslice.NotFound("team")
	case team != "" && !actor.CanLead(team), team == "" && !actor.Admin && len(actor.LeadTeams()) == 0, actor.TokenID != 0:
		return rayslice.Forbidden("decide_not_lead")
	}
	return nil
}

func (s *Store) waitingOrDecided(ctx context.Context, actor rayslice.User, f ApprovalFilter, after cursor) ([]rayslice.Request, error) {
	where := `
		WHERE r.state IN ('pending', 'returned')
			AND ($1 OR r.team = ANY ($2))
			AND ($3 = '' OR r.team = $3)
			AND ($4 = '' OR strpos(lower(r.name), lower($4)) > 0 OR strpos(r.id, lower($4)) > 0
				OR r.owner_id IN (SELECT id FROM users WHERE strpos(lower(name), lower($4)) > 0))
			AND ($5::timestamptz IS NULL OR (r.sent_at, r.id) > ($5, $6))
		ORDER BY
			r.sent_at,
			r.id
		LIMIT $7`
	if f.Decided {
		where = `
		WHERE r.decided_by <> ''
			AND r.state NOT IN ('pending', 'returned')
			AND ($1 OR r.team = ANY ($2))
			AND ($3 = '' OR r.team = $3)
			AND ($4 = '' OR strpos(lower(r.name), lower($4)) > 0 OR strpos(r.id, lower($4)) > 0
				OR r.owner_id IN (SELECT id FROM users WHERE strpos(lower(name), lower($4)) > 0))
			AND ($5::timestamptz IS NULL OR (r.decided_at, r.id) < ($5, $6))
		ORDER BY
			r.decided_at DESC,
			r.id DESC
		LIMIT $7`
	}
	rows, _ := s.db.Query(ctx, requestColumns+where,
		pgx.QueryExecModeCacheDescribe, // planned for these very values, as in Requests
		actor.Admin, actor.LeadTeams(), f.Team, f.Search, after.at, after.id, f.Limit+1)
	return pgx.CollectRows(rows, scanRequest)
}

func approvalCursor(r rayslice.Request, decided bool) string {
	at := r.SentAt
	if decided {
		at = r.DecidedAt
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", at.UnixMicro(), r.ID))
}

// Approval returns one request with what somebody needs to know to decide it, to whoever may see the request.
func (s *Store) Approval(ctx context.Context, actor rayslice.User, id string) (Approval, error) {
	r, err := s.Request(ctx, actor, id)
	if err != nil {
		return Approval{}, err
	}
	found, err := s.approvals(ctx, actor, []rayslice.Request{r})
	if err != nil {
		return Approval{}, answer(err)
	}
	return found[0], nil
}

// approvals adds what the requests' deciders need to know, in three queries however many requests there are.
func (s *Store) approvals(ctx context.Context, actor rayslice.User, requests []rayslice.Request) ([]Approval, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	ids, teams, owners := make([]string, len(requests)), make([]string, len(requests)), make([]int64, len(requests))
	for i, r := range requests {
		ids[i], teams[i], owners[i] = r.ID, r.Team, r.Owner.ID
	}
	found, err := quotas(ctx, s.db, false, slices.Compact(slices.Sorted(slices.Values(teams))))
	if err != nil {
		return nil, err
	}
	byTeam := map[string]rayslice.Quota{}
	for _, q := range found {
		byTeam[q.Team] = q
	}
	records, err := records(ctx, s.db, teams, owners)
	if err != nil {
		return nil, err
	}
	talks, err := talks(ctx, s.db, ids)
	if err != nil {
		return nil, err
	}
	approvals := make([]Approval, len(requests))
	for i, r := range requests {
		approvals[i] = Approval{Request: r, Quota: byTeam[r.Team], Record: records[member{r.Team, r.Owner.ID}], Talk: talks[r.ID], Refusal: actor.MayDecide(r)}
	}
	return approvals, nil
}

// member is somebody in a team.
type member struct {
	team string
	id   int64
}

// records returns what each of the owners was granted in the team of the same place, and how long they held it.
func records(ctx context.Context, db DB, teams []string, owners []int64) (map[member]rayslice.Record, error) {
	rows, _ := db.Query(ctx, `
		SELECT
			g.team,
			g.owner_id,
			count(*),
			coalesce(sum(c.gib * g.granted), 0)::float8,
			coalesce(sum(c.cards * g.granted), 0)::float8,
			coalesce(sum(c.gib * g.held), 0)::float8,
			coalesce(sum(c.cards * g.held), 0)::float8
		FROM (
			SELECT
				r.id,
				r.team,
				r.owner_id,
				extract(epoch FROM least(r.ends_at, now()) - r.decided_at) / 3600 AS granted,
				extract(epoch FROM coalesce(r.stopping_at, now()) - r.ready_at) / 3600 AS held
			FROM requests r
			WHERE r.ends_at IS NOT NULL
				AND (r.owner_id, r.team) IN (SELECT DISTINCT * FROM unnest($2::bigint[], $1::text[]))
				AND r.decided_at > now() - $3::interval
		) g
		JOIN charges c ON c.request_id = g.id
		GROUP BY
			g.team,
			g.owner_id`, teams, owners, rayslice.RecordSpan)
	found := map[member]rayslice.Record{}
	var m member
	var r rayslice.Record
	_, err := pgx.ForEachRow(rows, []any{&m.team, &m.id, &r.Grants, &r.Granted.GiB, &r.Granted.Cards, &r.Held.GiB, &r.Held.Cards}, func() error {
		found[m] = r
		return nil
	})
	return found, err
}

// talks returns the questions and the answers about each of the requests.
func talks(ctx context.Context, db DB, ids []string) (map[string][]rayslice.AuditEntry, error) {
	rows, _ := db.Query(ctx, `
		SELECT
			at,
			actor,
			action,
			request_id,
			team,
			from_state,
			to_state,
			coalesce(reason, '{}')
		FROM audit
		WHERE request_id = ANY ($1)
			AND action IN ('return', 'resend')
			AND reason -> 'args' ? 'answer'
		ORDER BY id`, ids)
	found := map[string][]rayslice.AuditEntry{}
	var e rayslice.AuditEntry
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&at, &e.Actor, &e.Action, &e.RequestID, &e.Team, &e.From, &e.To, &e.Reason}, func() error {
		entry := e
		entry.At = at.UTC()
		found[e.RequestID] = append(found[e.RequestID], entry)
		e.Reason = rayslice.Reason{} // decoding adds to the map there is
		return nil
	})
	return found, err
}

// Waiting returns how many requests wait for a decision that the actor may make; it stops counting at MaxWaiting.
func (s *Store) Waiting(ctx context.Context, actor rayslice.User) (n int, err error) {
	teams := actor.LeadTeams()
	if actor.TokenID != 0 || actor.Disabled || (!actor.Admin && len(teams) == 0) {
		return 0, nil
	}
	err = s.db.QueryRow(ctx, `
		SELECT
			count(*)
		FROM (
			SELECT
			FROM requests
			WHERE state IN ('pending', 'returned')
				AND state = 'pending'
				AND ($1 OR team = ANY ($2))
				AND owner_id <> $3
			LIMIT $4
		) waiting`, actor.Admin, teams, actor.ID, MaxWaiting).Scan(&n)
	return n, answer(err)
}

// Deciders returns the names of those who may decide in a team the actor may see, the one who asked left out: its leads,
// or the admins where it has none.
func (s *Store) Deciders(ctx context.Context, actor rayslice.User, team string, askedBy int64) ([]string, error) {
	if !actor.CanSee(team) {
		return nil, rayslice.NotFound("team")
	}
	rows, _ := s.db.Query(ctx, `
		SELECT DISTINCT
			u.name,
			r.role
		FROM held_roles r
		JOIN users u ON u.id = r.user_id
		WHERE ((r.team = $1 AND r.role = 'lead') OR r.role = 'admin')
			AND `+s.canSignIn()+`
			AND u.id <> $2
		ORDER BY u.name`, team, askedBy)
	var name string
	var role rayslice.Role
	byRole := map[rayslice.Role][]string{}
	_, err := pgx.ForEachRow(rows, []any{&name, &role}, func() error {
		byRole[role] = append(byRole[role], name)
		return nil
	})
	if leads := byRole[rayslice.RoleLead]; len(leads) > 0 {
		return leads, answer(err)
	}
	return byRole[rayslice.RoleAdmin], answer(err)
}

// Occupants returns every live request, as far as its cards are concerned. It crosses teams, so only the portal itself may ask.
func (s *Store) Occupants(ctx context.Context, actor rayslice.User) ([]rayslice.Occupant, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			id AS request_id,
			team,
			name,
			coalesce(ends_at, '0001-01-01 00:00:00Z') AS ends_at,
			state = 'stopping' AS stopping
		FROM requests
		WHERE state IN ('approved', 'provisioning', 'ready', 'attention', 'stopping')
		ORDER BY id`)
	occupants, err := pgx.CollectRows(rows, pgx.RowToStructByName[rayslice.Occupant])
	for i := range occupants {
		occupants[i].EndsAt = occupants[i].EndsAt.UTC()
	}
	return occupants, answer(err)
}
