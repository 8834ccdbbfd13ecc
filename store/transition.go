package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// change is one step of a request's life.
type change struct {
	id         string
	from, to   rayslice.State // the same state twice only gives a new reason
	reason     rayslice.Reason
	clusterUID string // "" = leave
	decidedBy  string // name of the person who decided; "" = leave
	answer     string // what they said; counts with decidedBy only
}

// Move takes a request from one state to the next on behalf of the portal, records why, and gives the charge back when
// nothing can follow. The same state twice records a new reason. When the request is no longer in from, or to may not
// follow it, nothing changes and the error is KindConflict; after a lost connection it may mean that this very move has
// been done, so read the request again.
func (s *Store) Move(ctx context.Context, actor rayslice.User, id string, from, to rayslice.State, reason rayslice.Reason, clusterUID string) error {
	if !actor.System {
		return errPortalOnly
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		return transition(ctx, tx, actor, change{id: id, from: from, to: to, reason: reason, clusterUID: clusterUID})
	})
}

// StopRequest takes a pending request back, or begins to stop a live one; its quota comes back when its pods are gone. One
// that is stopping or over is returned as it is. KindForbidden when the actor may see but not stop it.
func (s *Store) StopRequest(ctx context.Context, actor rayslice.User, id string) (rayslice.Request, error) {
	var stopped rayslice.Request
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		stopped, err = stopRequest(ctx, tx, actor, id)
		return err
	})
	return s.recorded(ctx, actor, "stop", stopped, err)
}

func stopRequest(ctx context.Context, tx pgx.Tx, actor rayslice.User, id string) (rayslice.Request, error) {
	r, err := lockRequest(ctx, tx, id)
	switch {
	case err != nil:
		return r, err
	case !actor.CanSee(r.Team):
		return r, rayslice.NotFound("request")
	case !actor.CanStop(r):
		return r, &rayslice.Error{Kind: rayslice.KindForbidden, Code: "stop_not_allowed"}
	case !r.State.Stoppable():
		return r, nil
	}
	c := change{id: id, from: r.State, to: rayslice.StateStopping,
		reason: rayslice.Reason{Code: rayslice.ReasonStopped, Args: map[string]any{"who": actor.Name}}}
	if r.State.CanBecome(rayslice.StateCancelled) {
		c.to = rayslice.StateCancelled
	}
	if err := transition(ctx, tx, actor, c); err != nil {
		return r, err
	}
	return request(ctx, tx, id)
}

// transition is the only place where a request changes its state: guarded by the state it comes from, with its audit
// entry, its times, the release when nothing can follow, the news for its owner, and the notification.
func transition(ctx context.Context, tx pgx.Tx, actor rayslice.User, c change) error {
	if !c.legal() {
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "transition_not_allowed", Args: map[string]any{"from": c.from, "to": c.to}}
	}
	m, err := updateState(ctx, tx, c)
	if errors.Is(err, pgx.ErrNoRows) {
		return conflict(ctx, tx, c)
	}
	if err != nil {
		return err
	}
	entry := rayslice.AuditEntry{Action: c.action(), RequestID: c.id, Team: m.team, From: c.from, To: c.to, Reason: c.reason}
	if err := audit(ctx, tx, actor, entry); err != nil {
		return err
	}
	if err := tellMove(ctx, tx, actor, c, m); err != nil {
		return err
	}
	if c.to == rayslice.StateStopping {
		if err := endVerification(ctx, tx, c.id); err != nil {
			return err
		}
	}
	if c.to.Final() {
		if err := release(ctx, tx, c.id); err != nil {
			return err
		}
	}
	notify(tx, Change{Kind: KindRequest, ID: c.id})
	return nil
}

func (c change) legal() bool {
	return c.from.CanBecome(c.to) || (c.from == c.to && !c.from.Final())
}

// action is the audit log's word for the change.
func (c change) action() string {
	switch c.to {
	case rayslice.StateApproved:
		return "approve"
	case rayslice.StateRejected:
		return "reject"
	case rayslice.StateReturned:
		return "return"
	case rayslice.StatePending:
		return "resend"
	case rayslice.StateCancelled:
		return "cancel"
	case rayslice.StateStopping:
		return "stop"
	}
	return "transition"
}

// moved is what is to be known about a request that changed its state.
type moved struct {
	team       string
	name       string
	ownerID    int64
	owner      string
	decidedBy  string
	smaller    bool // less than was asked for has been granted
	firstReady bool // it is ready, for the first time
}

// updateState returns what it moved, or pgx.ErrNoRows when the request is not in c.from. A stopped request keeps the
// reason it was stopped for.
func updateState(ctx context.Context, tx pgx.Tx, c change) (m moved, err error) {
	reason, err := reasonJSON(c.reason)
	if err != nil {
		return m, err
	}
	err = tx.QueryRow(ctx, `
		UPDATE requests
		SET
			state = $3,
			reason = coalesce($4::jsonb, CASE WHEN $3 = 'stopped' THEN reason END),
			cluster_uid = CASE WHEN $5 = '' THEN cluster_uid ELSE $5 END,
			state_since = CASE WHEN $3 = $2 AND $6 = '' THEN state_since ELSE now() END,
			decided_by = CASE WHEN $6 = '' THEN decided_by ELSE $6 END,
			answer = CASE WHEN $6 = '' THEN answer ELSE $7 END,
			escalated_at = CASE WHEN $3 = 'pending' THEN escalated_at END,
			decided_at = CASE WHEN $3 IN ('approved', 'rejected', 'cancelled') THEN now() ELSE decided_at END,
			ends_at = CASE WHEN $3 = 'approved' AND $2 <> 'approved' THEN now() + make_interval(hours => hours) ELSE ends_at END,
			ready_at = CASE WHEN $3 = 'ready' THEN coalesce(ready_at, now()) ELSE ready_at END,
			stopping_at = CASE WHEN $3 = 'stopping' THEN coalesce(stopping_at, now()) ELSE stopping_at END,
			stopped_at = CASE WHEN $3 = 'stopped' THEN now() ELSE stopped_at END
		WHERE id = $1 AND state = $2
		RETURNING
			team,
			name,
			owner_id,
			(SELECT name FROM users WHERE id = owner_id),
			decided_by,
			asked IS NOT NULL,
			coalesce(ready_at = now(), false)`,
		c.id, c.from, c.to, reason, c.clusterUID, c.decidedBy, c.answer).
		Scan(&m.team, &m.name, &m.ownerID, &m.owner, &m.decidedBy, &m.smaller, &m.firstReady)
	return m, err
}

// conflict says why a request could not be moved: its state is another by now, or it does not exist.
func conflict(ctx context.Context, tx pgx.Tx, c change) error {
	now, err := request(ctx, tx, c.id)
	if err != nil {
		return missing(err, "request")
	}
	return &rayslice.Error{Kind: rayslice.KindConflict, Code: "state_changed", Args: map[string]any{"expected": c.from, "state": now.State}}
}
