package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Audit returns what happened to one request the actor may see, oldest first.
func (s *Store) Audit(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.AuditEntry, error) {
	rows, _ := s.db.Query(ctx, `
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
		WHERE request_id = $1
		ORDER BY id`, requestID)
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e rayslice.AuditEntry, err error) {
		err = row.Scan(&e.At, &e.Actor, &e.Action, &e.RequestID, &e.Team, &e.From, &e.To, &e.Reason)
		e.At = e.At.UTC()
		return e, err
	})
	if err == nil && (len(entries) == 0 || !actor.CanSee(entries[0].Team)) { // every request has an entry: it was created
		err = rayslice.NotFound("request")
	}
	if err != nil {
		return nil, missing(err, "request")
	}
	return entries, nil
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

// refuse records that the actor was refused and why, and returns the refusal.
func (s *Store) refuse(ctx context.Context, actor rayslice.User, e rayslice.AuditEntry, refusal *rayslice.Error) error {
	e.Action = "refuse"
	e.Reason = rayslice.Reason{Code: refusal.Code, Args: refusal.Args}
	if err := s.inTx(ctx, func(tx pgx.Tx) error { return audit(ctx, tx, actor, e) }); err != nil {
		return err
	}
	return refusal
}
