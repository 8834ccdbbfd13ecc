package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// Grants returns what the limit of a team the actor may see is made of now, the base first.
func (s *Store) Grants(ctx context.Context, actor rayslice.User, team string) ([]rayslice.Grant, error) {
	if !actor.CanSee(team) {
		return nil, rayslice.NotFound("team")
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			id,
			team,
			gib,
			cards,
			base,
			since,
			until_at,
			granted_by,
			note
		FROM grants
		WHERE team = $1
			AND ended_at IS NULL
			AND (until_at IS NULL OR until_at > now())
		ORDER BY
			base DESC,
			id`, team)
	grants, err := pgx.CollectRows(rows, scanGrant)
	return grants, answer(err)
}

func scanGrant(row pgx.CollectableRow) (g rayslice.Grant, err error) {
	var until pgtype.Timestamptz
	err = row.Scan(&g.ID, &g.Team, &g.Charge.GiB, &g.Charge.Cards, &g.Base, &g.Since, &until, &g.By, &g.Note)
	g.Since, g.Until = g.Since.UTC(), until.Time.UTC()
	return g, err
}

// insertGrant adds a grant and writes the team's limit anew. A base replaces the one there was. It locks the quota row.
func insertGrant(ctx context.Context, tx pgx.Tx, g rayslice.Grant) error {
	if _, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
		FOR UPDATE`, g.Team); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `
		UPDATE grants
		SET
			ended_at = now()
		WHERE $2 AND team = $1 AND base AND ended_at IS NULL`, g.Team, g.Base); err != nil {
		return err
	}
	until := pgtype.Timestamptz{Time: g.Until, Valid: !g.Until.IsZero()}
	if _, err := tx.Exec(ctx, `
		INSERT INTO grants (
			team,
			gib,
			cards,
			base,
			until_at,
			granted_by,
			note
		)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, g.Team, g.Charge.GiB, g.Charge.Cards, g.Base, until, g.By, g.Note); err != nil {
		return err
	}
	return refreshLimit(ctx, tx, g.Team, false)
}

// refreshLimit writes a team's limit as the sum of the grants that hold now; with due only when one of them has ended
// since it was last written. The quota row is locked before the grants are read, so that two writers cannot overtake
// each other.
func refreshLimit(ctx context.Context, tx pgx.Tx, team string, due bool) error {
	tag, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
			AND (NOT $2 OR limit_until <= now())
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
				AND (until_at IS NULL OR until_at > now())
		) live
		WHERE team = $1`, team)
	return err
}
