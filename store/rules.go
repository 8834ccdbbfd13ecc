package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Rules returns the rules of a team the actor may see.
func (s *Store) Rules(ctx context.Context, actor rayslice.User, team string) (rayslice.Rules, error) {
	if !actor.CanSee(team) {
		return rayslice.Rules{}, rayslice.NotFound("team")
	}
	r, err := rules(ctx, s.db, team)
	return r, missing(err, "team")
}

// SetRules replaces a team's rules, which must be valid. KindForbidden unless the actor leads the team or is an admin.
func (s *Store) SetRules(ctx context.Context, actor rayslice.User, team string, to rayslice.Rules) error {
	if !actor.CanSee(team) {
		return rayslice.NotFound("team")
	}
	entry := rayslice.AuditEntry{Action: "set_rules", Team: team}
	if !actor.CanLead(team) {
		return s.forbid(ctx, actor, entry, "rules_not_lead")
	}
	return s.inTxOnce(ctx, func(tx pgx.Tx) error {
		before, err := rules(ctx, tx, team)
		if err != nil {
			return missing(err, "team")
		}
		if err := saveRules(ctx, tx, team, to); err != nil {
			return err
		}
		entry.Reason = rayslice.Reason{Code: "rules_set", Args: map[string]any{"rules": to, "before": before}}
		return audit(ctx, tx, actor, entry)
	})
}

// WouldDecide says whether the draft would start at once (rayslice.ReasonAutoApproved) or need a lead, and why, if the
// actor sent it now.
func (s *Store) WouldDecide(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft) (rayslice.Reason, error) {
	return s.WouldDecideAgain(ctx, actor, draft, "")
}

// WouldDecideAgain is WouldDecide for the draft in place of the actor's waiting request with the given id, which then no
// longer counts.
func (s *Store) WouldDecideAgain(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft, id string) (rayslice.Reason, error) {
	if !actor.CanAsk(draft.Team) {
		return rayslice.Reason{}, errTeamUnknown
	}
	r, err := checkedRules(ctx, s.db, draft)
	if err != nil {
		return rayslice.Reason{}, answer(err)
	}
	held, err := memberHolds(ctx, s.db, actor.ID, draft.Team, id)
	return r.Decide(draft, held), answer(err)
}

// checkedRules returns the rules of the draft's team, or what they forbid in it.
func checkedRules(ctx context.Context, db DB, draft rayslice.RequestDraft) (rayslice.Rules, error) {
	r, err := rules(ctx, db, draft.Team)
	if errors.Is(err, pgx.ErrNoRows) { // the team was removed while the actor's session still named it
		return r, errTeamUnknown
	}
	if err != nil {
		return r, err
	}
	return r, r.Check(draft)
}

// decide says whether a draft starts at once. Where a member's share counts it takes the quota row first, so that two
// requests of one member cannot both fit into the same share.
func decide(ctx context.Context, tx pgx.Tx, r rayslice.Rules, ownerID int64, draft rayslice.RequestDraft, id string) (rayslice.Reason, error) {
	if r.Member == nil {
		return r.Decide(draft, rayslice.Charge{}), nil
	}
	if _, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
		FOR UPDATE`, draft.Team); err != nil {
		return rayslice.Reason{}, err
	}
	held, err := memberHolds(ctx, tx, ownerID, draft.Team, id)
	return r.Decide(draft, held), err
}

// rules reads a team's rules; the default ones where it has set none.
func rules(ctx context.Context, db DB, team string) (rayslice.Rules, error) {
	var set *rayslice.Rules
	err := db.QueryRow(ctx, `
		SELECT
			r.rules
		FROM teams t
		LEFT JOIN rules r ON r.team = t.name
		WHERE t.name = $1`, team).Scan(&set)
	if err != nil || set == nil {
		return rayslice.DefaultRules(), err
	}
	return *set, nil
}

func saveRules(ctx context.Context, tx pgx.Tx, team string, rules rayslice.Rules) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO rules (
			team,
			rules
		)
		VALUES ($1, $2)
		ON CONFLICT (team) DO UPDATE
		SET
			rules = excluded.rules,
			changed_at = now()`, team, rules)
	return err
}

// memberHolds returns what a member's requests hold in a team, the one with the given id left out.
func memberHolds(ctx context.Context, db DB, userID int64, team, without string) (held rayslice.Charge, err error) {
	err = db.QueryRow(ctx, `
		SELECT
			coalesce(sum(c.gib), 0)::bigint,
			coalesce(sum(c.cards), 0)::bigint
		FROM requests r
		JOIN charges c ON c.request_id = r.id AND c.released_at IS NULL
		WHERE r.team = $2
			AND r.owner_id = $1
			AND r.id <> $3
			AND r.state NOT IN ('rejected', 'cancelled', 'stopped')`, userID, team, without).Scan(&held.GiB, &held.Cards)
	return held, err
}
