package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rayslice/rayslice"
)

// CreateTeam adds a team with its base limit. The draft must be valid. A name or namespace that is taken is a bad field;
// KindForbidden unless the actor is an admin.
func (s *Store) CreateTeam(ctx context.Context, actor rayslice.User, draft rayslice.TeamDraft) error {
	entry := rayslice.AuditEntry{Action: "create_team", Team: draft.Name, Reason: limitReason(rayslice.ReasonTeamCreated, draft.Limit, "")}
	entry.Reason.Args["namespace"] = draft.Namespace
	if !actor.CanAdmin() {
		return s.forbid(ctx, actor, rayslice.AuditEntry{Action: entry.Action, Subject: draft.Name}, "admin_only")
	}
	return s.inTxOnce(ctx, func(tx pgx.Tx) error {
		if err := insertTeam(ctx, tx, draft); err != nil {
			return err
		}
		if err := insertGrant(ctx, tx, rayslice.Grant{Team: draft.Name, Charge: draft.Limit, Base: true, By: actor.Name}); err != nil {
			return err
		}
		return changedTeam(ctx, tx, actor, entry)
	})
}

func insertTeam(ctx context.Context, tx pgx.Tx, draft rayslice.TeamDraft) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO teams (
			name,
			namespace
		)
		VALUES ($1, $2)`, draft.Name, draft.Namespace)
	if sqlState(err) == codeUnique {
		return taken(err, draft)
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO quotas (
			team,
			limit_gib,
			limit_cards
		)
		VALUES ($1, 0, 0)`, draft.Name)
	return err
}

// taken names the field whose value another team has.
func taken(err error, draft rayslice.TeamDraft) error {
	field, value := "name", draft.Name
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.ConstraintName != "teams_pkey" {
		field, value = "namespace", draft.Namespace
	}
	return rayslice.Invalid(rayslice.FieldError{Field: field, Code: rayslice.CodeTaken, Args: map[string]any{"value": value}})
}

// SetLimit replaces a team's base limit, which must be valid; raises come on top of it. One below what is used stops
// nothing that runs, and lets nothing new start until enough has ended. KindForbidden unless the actor is an admin.
func (s *Store) SetLimit(ctx context.Context, actor rayslice.User, team string, limit rayslice.Charge, note string) error {
	if !actor.CanSee(team) {
		return rayslice.NotFound("team")
	}
	if !actor.CanAdmin() {
		return s.forbid(ctx, actor, rayslice.AuditEntry{Action: "set_limit", Team: team}, "admin_only")
	}
	return s.inTxOnce(ctx, func(tx pgx.Tx) error {
		err := insertGrant(ctx, tx, rayslice.Grant{Team: team, Charge: limit, Base: true, By: actor.Name, Note: note})
		if sqlState(err) == codeForeignKey {
			return rayslice.NotFound("team")
		}
		if err != nil {
			return err
		}
		reason := limitReason(rayslice.ReasonLimitSet, limit, note)
		was, err := replacedBase(ctx, tx, team)
		if err != nil {
			return err
		}
		reason.Args["was_gib"], reason.Args["was_cards"] = was.GiB, was.Cards
		return changedTeam(ctx, tx, actor, rayslice.AuditEntry{Action: "set_limit", Team: team, Reason: reason})
	})
}

// replacedBase returns the base limit that a new one has just replaced; nothing where there was none.
func replacedBase(ctx context.Context, tx pgx.Tx, team string) (was rayslice.Charge, err error) {
	err = tx.QueryRow(ctx, `
		SELECT
			gib,
			cards
		FROM grants
		WHERE team = $1
			AND base
			AND ended_at IS NOT NULL
		ORDER BY id DESC
		LIMIT 1`, team).Scan(&was.GiB, &was.Cards)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return was, err
}

// limitReason says what a limit or a part of it is; note "" = nobody said anything.
func limitReason(code string, c rayslice.Charge, note string) rayslice.Reason {
	r := rayslice.Reason{Code: code, Args: map[string]any{"gib": c.GiB, "cards": c.Cards}}
	if note != "" {
		r.Args["note"] = note
	}
	return r
}

// changedTeam records what was done to a team and announces it.
func changedTeam(ctx context.Context, tx pgx.Tx, actor rayslice.User, e rayslice.AuditEntry) error {
	if err := audit(ctx, tx, actor, e); err != nil {
		return err
	}
	notify(tx, Change{Kind: KindTeam, ID: e.Team})
	return nil
}
