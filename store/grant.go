package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

const limitColumns = `
	SELECT
		id,
		team,
		gib,
		cards,
		base,
		since,
		until_at,
		ended_at,
		granted_by,
		note
	FROM grants`

// Grants returns what the limit of a team the actor may see is made of now, the base first.
func (s *Store) Grants(ctx context.Context, actor rayslice.User, team string) ([]rayslice.Grant, error) {
	if !actor.CanSee(team) {
		return nil, rayslice.NotFound("team")
	}
	rows, _ := s.db.Query(ctx, limitColumns+`
		WHERE team = $1
			AND ended_at IS NULL
			AND (until_at IS NULL OR until_at > now())
		ORDER BY
			base DESC,
			id`, team)
	grants, err := pgx.CollectRows(rows, scanGrant)
	return grants, answer(err)
}

// GrantPage is one page of grants, the latest first.
type GrantPage struct {
	Grants []rayslice.Grant
	Next   int64 // for the after of the next page; 0 = this was the last
}

// GrantHistory returns what a limit was ever made of, for a team the actor may see, the latest first. after is Next of the
// page before, 0 for the first.
func (s *Store) GrantHistory(ctx context.Context, actor rayslice.User, team string, after int64, limit int) (GrantPage, error) {
	if !actor.CanSee(team) {
		return GrantPage{}, rayslice.NotFound("team")
	}
	limit = pageLength(limit)
	rows, _ := s.db.Query(ctx, limitColumns+`
		WHERE team = $1
			AND ($2::bigint = 0 OR id < $2)
		ORDER BY id DESC
		LIMIT $3`, team, after, limit+1)
	grants, err := pgx.CollectRows(rows, scanGrant)
	if err != nil || len(grants) <= limit {
		return GrantPage{Grants: grants}, answer(err)
	}
	return GrantPage{Grants: grants[:limit], Next: grants[limit-1].ID}, nil
}

// pageLength bounds how many rows one page has; 0 = DefaultPage.
func pageLength(asked int) int {
	if asked <= 0 {
		return DefaultPage
	}
	return min(asked, MaxPage)
}

func scanGrant(row pgx.CollectableRow) (g rayslice.Grant, err error) {
	var until, ended pgtype.Timestamptz
	err = row.Scan(&g.ID, &g.Team, &g.Charge.GiB, &g.Charge.Cards, &g.Base, &g.Since, &until, &ended, &g.By, &g.Note)
	g.Since, g.Until, g.Ended = g.Since.UTC(), until.Time.UTC(), ended.Time.UTC()
	return g, err
}

// EndGrant takes a team's raise back before its end. KindForbidden unless the actor is an admin, KindConflict when it has
// ended or is the base, which SetLimit replaces; another team's is rayslice.NotFound.
func (s *Store) EndGrant(ctx context.Context, actor rayslice.User, team string, id int64) error {
	err := s.inTxOnce(ctx, func(tx pgx.Tx) error { return endGrant(ctx, tx, actor, team, id) })
	return s.Refuse(ctx, actor, rayslice.AuditEntry{Action: "end_grant", Team: team}, err)
}

func endGrant(ctx context.Context, tx pgx.Tx, actor rayslice.User, team string, id int64) error {
	g, err := lockGrant(ctx, tx, id)
	switch {
	case err != nil:
		return missing(err, "grant")
	case g.Team != team || !actor.CanSee(team):
		return rayslice.NotFound("grant")
	case !actor.CanAdmin():
		return rayslice.Forbidden("admin_only")
	case g.Base:
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "grant_is_base"}
	case !g.Ended.IsZero():
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "grant_over"}
	}
	if err := markEnded(ctx, tx, id); err != nil {
		return err
	}
	if err := refreshLimit(ctx, tx, team, false); err != nil {
		return err
	}
	reason := limitReason(rayslice.ReasonGrantTakenBack, g.Charge, g.Note)
	return changedTeam(ctx, tx, actor, rayslice.AuditEntry{Action: "end_grant", Team: team, Subject: g.By, Reason: reason})
}

// lockGrant holds the team's quota row before it reads the grant, as everybody does who changes a limit.
func lockGrant(ctx context.Context, tx pgx.Tx, id int64) (rayslice.Grant, error) {
	if _, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = (SELECT team FROM grants WHERE id = $1)
		FOR UPDATE`, id); err != nil {
		return rayslice.Grant{}, err
	}
	rows, _ := tx.Query(ctx, limitColumns+`
		WHERE id = $1`, id)
	return pgx.CollectExactlyOneRow(rows, scanGrant)
}

func markEnded(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := tx.Exec(ctx, `
		UPDATE grants
		SET
			ended_at = now()
		WHERE id = $1`, id)
	return err
}

// insertGrant is addGrant without the id.
func insertGrant(ctx context.Context, tx pgx.Tx, g rayslice.Grant) error {
	_, err := addGrant(ctx, tx, g)
	return err
}

// addGrant adds a grant, writes the team's limit anew and returns the grant's id. A base replaces the one there was. It
// locks the quota row.
func addGrant(ctx context.Context, tx pgx.Tx, g rayslice.Grant) (id int64, err error) {
	if _, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
		FOR UPDATE`, g.Team); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `
		UPDATE grants
		SET
			ended_at = now()
		WHERE $2 AND team = $1 AND base AND ended_at IS NULL`, g.Team, g.Base); err != nil {
		return 0, err
	}
	until := pgtype.Timestamptz{Time: g.Until, Valid: !g.Until.IsZero()}
	err = tx.QueryRow(ctx, `
		INSERT INTO grants (
			team,
			gib,
			cards,
			base,
			until_at,
			granted_by,
			note
		)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		RETURNING id`, g.Team, g.Charge.GiB, g.Charge.Cards, g.Base, until, g.By, g.Note).Scan(&id)
	if err != nil {
		return 0, err
	}
	return id, refreshLimit(ctx, tx, g.Team, false)
}

// refreshLimit writes a team's limit as the sum of the grants that hold now; with due only when one of them has ended
// since it was last written. The quota row is locked before the grants are read, so that two writers cannot overtake
// each other.
func refreshLimit(ctx context.Context, tx pgx.Tx, team string, due bool) error {
	tag, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
			AND (NOT $2 OR limit_until <= clock_timestamp())
		FOR UPDATE`, team, due)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE quotas
		SET
			limit_gib = live.gib,
			limit_cards = live.cards,
			limit_until = live.until_at
		FROM (
			SELECT
				coalesce(sum(gib), 0)::bigint AS gib,
				coalesce(sum(cards), 0)::bigint AS cards,
				min(until_at) AS until_at
			FROM grants
			WHERE team = $1
				AND ended_at IS NULL
				AND (until_at IS NULL OR until_at > clock_timestamp())
		) live
		WHERE team = $1`, team)
	return err
}
