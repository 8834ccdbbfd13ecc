package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

const auditColumns = `
	SELECT
		id,
		at,
		actor,
		via,
		action,
		subject,
		request_id,
		team,
		from_state,
		to_state,
		coalesce(reason, '{}')
	FROM audit`

func scanAudit(row pgx.CollectableRow) (e rayslice.AuditEntry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.Actor, &e.Via, &e.Action, &e.Subject, &e.RequestID, &e.Team, &e.From, &e.To, &e.Reason)
	e.At = e.At.UTC()
	return e, err
}

// Audit returns what happened to one request the actor may see, oldest first.
func (s *Store) Audit(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.AuditEntry, error) {
	rows, _ := s.db.Query(ctx, auditColumns+`
		WHERE request_id = $1
		ORDER BY id`, requestID)
	entries, err := pgx.CollectRows(rows, scanAudit)
	if err == nil && (len(entries) == 0 || !actor.CanSee(entries[0].Team)) { // every request has an entry: it was created
		err = rayslice.NotFound("request")
	}
	if err != nil {
		return nil, missing(err, "request")
	}
	return entries, nil
}

// AuditFilter narrows AuditLog. The zero filter is every entry the actor may see.
type AuditFilter struct {
	Team      string    // "" = every team
	Actor     string    // part of the name of who did it or whom it is about, in any case; "" = everybody
	Action    string    // "" = everything
	RequestID string    // "" = every request, and what is about none
	From      time.Time // earliest; zero = from the beginning
	To        time.Time // earlier than this; zero = until now
	After     int64     // Next of the page before; 0 = from the newest
	Limit     int       // at most MaxPage; 0 = DefaultPage
}

// AuditPage is one page of the audit log, newest first.
type AuditPage struct {
	Entries []rayslice.AuditEntry
	Next    int64 // for AuditFilter.After; 0 = this was the last page
}

// AuditLog returns one page of the audit log: all of it for an admin, the entries of the teams they lead for a lead.
// KindForbidden for everybody else; a team the actor cannot see is rayslice.NotFound.
func (s *Store) AuditLog(ctx context.Context, actor rayslice.User, f AuditFilter) (AuditPage, error) {
	if err := s.mayReadAudit(ctx, actor, f.Team); err != nil {
		return AuditPage{}, err
	}
	return s.auditPage(ctx, actor, f, pageLength(f.Limit))
}

// auditChunk is how many entries AuditChunk returns, so that no statement takes long.
const auditChunk = 1000

// AuditChunk is AuditLog for exports, with pages of 1,000 entries whatever the Limit. Who may, as for AuditLog.
func (s *Store) AuditChunk(ctx context.Context, actor rayslice.User, f AuditFilter) (AuditPage, error) {
	if err := s.mayReadAudit(ctx, actor, f.Team); err != nil {
		return AuditPage{}, err
	}
	return s.auditPage(ctx, actor, f, auditChunk)
}

// AdminOnly refuses everybody but admins, with an audit entry, what has no object of its own to ask about. what names it,
// e.g. "POST /admin/teams".
func (s *Store) AdminOnly(ctx context.Context, actor rayslice.User, what string) error {
	if actor.CanAdmin() {
		return nil
	}
	return s.forbid(ctx, actor, rayslice.AuditEntry{Subject: what}, "admin_only")
}

// LeadOnly refuses everybody but the team's leads and admins, with an audit entry, what leads up to setting its rules. what
// names it, as in AdminOnly.
func (s *Store) LeadOnly(ctx context.Context, actor rayslice.User, team, what string) error {
	switch {
	case !actor.CanSee(team):
		return rayslice.NotFound("team")
	case actor.CanLead(team):
		return nil
	}
	return s.forbid(ctx, actor, rayslice.AuditEntry{Subject: what, Team: team}, "rules_not_lead")
}

func (s *Store) mayReadAudit(ctx context.Context, actor rayslice.User, team string) error {
	switch {
	case actor.System || actor.CanAdmin():
		return nil
	case team != "" && !actor.CanSee(team):
		return rayslice.NotFound("team")
	case team == "" && len(actor.LeadTeams()) > 0 && actor.TokenID == 0 && !actor.Disabled:
		return nil
	case team != "" && actor.CanLead(team):
		return nil
	}
	return s.forbid(ctx, actor, rayslice.AuditEntry{Team: team}, "audit_not_lead")
}

func (s *Store) auditPage(ctx context.Context, actor rayslice.User, f AuditFilter, limit int) (AuditPage, error) {
	from, to := pgtype.Timestamptz{Time: f.From, Valid: !f.From.IsZero()}, pgtype.Timestamptz{Time: f.To, Valid: !f.To.IsZero()}
	rows, _ := s.db.Query(ctx, auditColumns+`
		WHERE ($1 OR team = ANY ($2))
			AND ($3 = '' OR team = $3)
			AND ($4 = '' OR strpos(lower(concat_ws(' ', actor, subject)), lower($4)) > 0)
			AND ($5 = '' OR action = $5)
			AND ($6 = '' OR request_id = $6)
			AND ($7::timestamptz IS NULL OR at >= $7)
			AND ($8::timestamptz IS NULL OR at < $8)
			AND ($9::bigint = 0 OR id < $9)
		ORDER BY id DESC
		LIMIT $10`,
		pgx.QueryExecModeCacheDescribe, // planned for these very values, as in Requests
		seesAll(actor), actor.LeadTeams(), f.Team, f.Actor, f.Action, f.RequestID, from, to, f.After, limit+1)
	entries, err := pgx.CollectRows(rows, scanAudit)
	if err != nil || len(entries) <= limit {
		return AuditPage{Entries: entries}, answer(err)
	}
	return AuditPage{Entries: entries[:limit], Next: entries[limit-1].ID}, nil
}

// AuditIsOpen reports whether the database role that this Store works as could change, remove or reshape audit entries.
// It should not: see migrations.Grant.
func (s *Store) AuditIsOpen(ctx context.Context) (open bool, err error) {
	err = s.db.QueryRow(ctx, `
		SELECT
			has_table_privilege('audit', 'UPDATE, DELETE, TRUNCATE, TRIGGER')
				OR has_any_column_privilege('audit', 'UPDATE')
				OR pg_has_role(relowner, 'MEMBER')
		FROM pg_class
		WHERE oid = 'audit'::regclass`).Scan(&open)
	return open, answer(err)
}

// audit appends one entry; its time is the transaction's.
func audit(ctx context.Context, tx pgx.Tx, actor rayslice.User, e rayslice.AuditEntry) error {
	reason, err := reasonJSON(e.Reason)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO audit (
			actor_id,
			actor,
			action,
			request_id,
			team,
			from_state,
			to_state,
			reason,
			subject,
			via
		)
		VALUES (nullif($1::bigint, 0), $2, $3, $4, $5, $6, $7, $8, $9, coalesce((SELECT prefix FROM tokens WHERE id = $10), ''))`,
		actor.ID, actor.Name, e.Action, e.RequestID, e.Team, e.From, e.To, reason, e.Subject, actor.TokenID)
	return err
}
