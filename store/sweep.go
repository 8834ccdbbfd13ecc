package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Swept is what a sweep did.
type Swept struct {
	Grants    int // that were over and have been ended
	Escalated int // requests that nobody decided in time
	Cancelled int // requests that were asked back and not answered
	Keys      int // idempotency keys that were old
	Sessions  int // sign-in sessions that were over
	Rolled    int // rows of the usage history written for minutes and hours
	Slots     int // slots of the usage history that were emptied
}

const (
	sweepBatch = 100
	keysLive   = 48 * time.Hour // how long an idempotency key is remembered
)

// Sweep does what is due by the clock: it ends grants that are over, tells admins about requests that nobody decides, takes
// back requests whose owner did not answer, rolls the usage history up, and forgets old keys, sessions and readings. Any replica may run it, often and at the
// same time as others: what another holds is left to it. What it did before an error stays done.
func (s *Store) Sweep(ctx context.Context, actor rayslice.User) (Swept, error) {
	if !actor.System {
		return Swept{}, errPortalOnly
	}
	var done Swept
	var err error
	for _, part := range []struct {
		count *int
		sweep func(context.Context, pgx.Tx, rayslice.User) (int, error)
	}{
		{&done.Escalated, escalate},
		{&done.Cancelled, cancelUnanswered},
		{&done.Keys, forgetKeys},
		{&done.Sessions, forgetSessions},
	} {
		if *part.count, err = s.inBatches(ctx, actor, part.sweep); err != nil {
			return done, err
		}
	}
	if done.Grants, err = s.endGrants(ctx, actor); err != nil {
		return done, err
	}
	done.Rolled, done.Slots, err = s.sweepUse(ctx)
	return done, err
}

// inBatches runs a part of the sweep until nothing is left to do, each batch in a transaction of its own.
func (s *Store) inBatches(ctx context.Context, actor rayslice.User, sweep func(context.Context, pgx.Tx, rayslice.User) (int, error)) (total int, err error) {
	for {
		var n int
		err := s.inTx(ctx, func(tx pgx.Tx) error {
			var err error
			n, err = sweep(ctx, tx, actor)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		if n < sweepBatch {
			return total, nil
		}
	}
}

// endGrants ends the grants that are over, one team at a time. A team whose quota somebody holds is left to the next sweep;
// nothing waits for this, as charges and reads look at the clock themselves.
func (s *Store) endGrants(ctx context.Context, actor rayslice.User) (total int, err error) {
	rows, _ := s.db.Query(ctx, `
		SELECT DISTINCT
			team
		FROM grants
		WHERE ended_at IS NULL AND until_at <= now()`)
	teams, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, team := range teams {
		var n int
		err := s.inTx(ctx, func(tx pgx.Tx) error {
			var err error
			n, err = endGrantsOf(ctx, tx, actor, team)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, answer(err)
}

func endGrantsOf(ctx context.Context, tx pgx.Tx, actor rayslice.User, team string) (int, error) {
	tag, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
		FOR UPDATE SKIP LOCKED`, team)
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err
	}
	rows, _ := tx.Query(ctx, limitColumns+`
		WHERE team = $1 AND ended_at IS NULL AND until_at <= now()`, team)
	over, err := pgx.CollectRows(rows, scanGrant)
	if err != nil || len(over) == 0 {
		return 0, err
	}
	for _, g := range over {
		if err := markEnded(ctx, tx, g.ID); err != nil {
			return 0, err
		}
		entry := rayslice.AuditEntry{Action: "grant_ended", Team: team, Subject: g.By, Reason: raiseReason(rayslice.ReasonGrantEnded, g.Charge, g.Until, "note", g.Note)}
		if err := changedTeam(ctx, tx, actor, entry); err != nil {
			return 0, err
		}
		ended := rayslice.News{Code: rayslice.NewsRaiseEnded, Team: team, Args: map[string]any{"gib": g.Charge.GiB, "cards": g.Charge.Cards}}
		if err := tell(ctx, tx, ended); err != nil {
			return 0, err
		}
	}
	return len(over), refreshLimit(ctx, tx, team, false)
}

// escalate marks requests that have waited longer than their team allows.
func escalate(ctx context.Context, tx pgx.Tx, actor rayslice.User) (int, error) {
	type late struct {
		ID      string
		Team    string
		Minutes int
		Name    string
		Owner   string
	}
	rows, _ := tx.Query(ctx, `
		SELECT
			r.id,
			r.team,
			w.minutes,
			r.name,
			u.name
		FROM requests r
		JOIN users u ON u.id = r.owner_id
		LEFT JOIN rules s ON s.team = r.team
		CROSS JOIN LATERAL (
			SELECT coalesce((s.rules ->> 'escalate_minutes')::int, $1) AS minutes
		) w
		WHERE r.state = 'pending'
			AND r.escalated_at IS NULL
			AND w.minutes > 0
			AND r.sent_at <= now() - make_interval(mins => w.minutes)
		ORDER BY r.sent_at
		LIMIT $2
		FOR UPDATE OF r SKIP LOCKED`, rayslice.DefaultRules().EscalateMinutes, sweepBatch)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[late])
	for _, r := range found {
		if err := markEscalated(ctx, tx, actor, r.ID, r.Team, r.Minutes); err != nil {
			return 0, err
		}
		escalated := rayslice.News{Code: rayslice.NewsEscalated, Team: r.Team, RequestID: r.ID,
			Args: map[string]any{"name": r.Name, "who": r.Owner, "minutes": r.Minutes}}
		if err := tell(ctx, tx, escalated); err != nil {
			return 0, err
		}
	}
	return len(found), err
}

func markEscalated(ctx context.Context, tx pgx.Tx, actor rayslice.User, id, team string, minutes int) error {
	if _, err := tx.Exec(ctx, `
		UPDATE requests
		SET
			escalated_at = now()
		WHERE id = $1`, id); err != nil {
		return err
	}
	reason := rayslice.Reason{Code: "escalated", Args: map[string]any{"minutes": minutes}}
	entry := rayslice.AuditEntry{Action: "escalate", RequestID: id, Team: team, From: rayslice.StatePending, To: rayslice.StatePending, Reason: reason}
	if err := audit(ctx, tx, actor, entry); err != nil {
		return err
	}
	notify(tx, Change{Kind: KindRequest, ID: id})
	return nil
}

// cancelUnanswered takes back requests that were asked back and not answered, so that their quota is free again.
func cancelUnanswered(ctx context.Context, tx pgx.Tx, actor rayslice.User) (int, error) {
	rows, _ := tx.Query(ctx, `
		SELECT
			id
		FROM requests
		WHERE state = 'returned' AND state_since <= now() - $1::interval
		ORDER BY state_since
		LIMIT $2
		FOR UPDATE SKIP LOCKED`, rayslice.ReturnedLimit, sweepBatch)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	reason := rayslice.Reason{Code: rayslice.ReasonUnanswered, Args: map[string]any{"hours": int(rayslice.ReturnedLimit.Hours())}}
	for _, id := range ids {
		if err := transition(ctx, tx, actor, change{id: id, from: rayslice.StateReturned, to: rayslice.StateCancelled, reason: reason}); err != nil {
			return 0, err
		}
	}
	return len(ids), err
}

func forgetKeys(ctx context.Context, tx pgx.Tx, _ rayslice.User) (int, error) {
	tag, err := tx.Exec(ctx, `
		DELETE FROM idempotency_keys
		WHERE (user_id, key) IN (
			SELECT
				user_id,
				key
			FROM idempotency_keys
			WHERE created_at < now() - $1::interval
			LIMIT $2
			FOR UPDATE SKIP LOCKED
		)`, keysLive, sweepBatch)
	return int(tag.RowsAffected()), err
}

func forgetSessions(ctx context.Context, tx pgx.Tx, _ rayslice.User) (int, error) {
	tag, err := tx.Exec(ctx, `
		DELETE FROM sessions
		WHERE token IN (
			SELECT
				token
			FROM sessions
			WHERE expiry < now()
			LIMIT $1
			FOR UPDATE SKIP LOCKED
		)`, sweepBatch)
	return int(tag.RowsAffected()), err
}
