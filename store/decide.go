package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// DecideRequest approves, asks back or rejects a request that waits, all of it or the part that the decision's terms
// grant. The decision must be valid. The right to decide is looked at under the request's lock, as it is in the actor
// now: nobody decides their own, no token decides. KindForbidden says which; KindConflict when somebody else has
// decided it meanwhile (code "decided_already", with who) or changed since the actor saw it ("revision_changed").
func (s *Store) DecideRequest(ctx context.Context, actor rayslice.User, id string, d rayslice.Decision) (rayslice.Request, error) {
	var decided rayslice.Request
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		decided, err = decideRequest(ctx, tx, actor, id, d)
		return err
	})
	return s.recorded(ctx, actor, cmp.Or(string(d.Verdict), "decide"), decided, err)
}

// recorded writes an audit row where the actor was refused by right what they tried, and passes the result on.
func (s *Store) recorded(ctx context.Context, actor rayslice.User, tried string, r rayslice.Request, err error) (rayslice.Request, error) {
	if err = s.Refuse(ctx, actor, rayslice.AuditEntry{Action: tried, RequestID: r.ID, Team: r.Team}, err); err != nil {
		return rayslice.Request{}, err
	}
	return r, nil
}

func decideRequest(ctx context.Context, tx pgx.Tx, actor rayslice.User, id string, d rayslice.Decision) (rayslice.Request, error) {
	r, err := lockRequest(ctx, tx, id)
	if err == nil {
		err = mayDecide(actor, r)
	}
	if err == nil {
		actor, err = rightsNow(ctx, tx, actor)
	}
	if err == nil {
		err = mayDecide(actor, r)
	}
	if err != nil {
		return r, err
	}
	if late := stillUndecided(r, d.Revision); late != nil {
		if !d.MadeOf(r) {
			return r, late
		}
		mine, err := decidedBy(ctx, tx, actor, r)
		if err == nil && !mine {
			err = late
		}
		return r, err // nil: sent twice, or tried again after the connection was lost in COMMIT
	}
	if d.Terms != nil {
		if err := grantLess(ctx, tx, r, *d.Terms); err != nil {
			return r, err
		}
	}
	c := change{id: id, from: r.State, to: d.Verdict.State(), reason: d.Reason(actor.Name), decidedBy: actor.Name, answer: d.Answer}
	if err := transition(ctx, tx, actor, c); err != nil {
		return r, err
	}
	return request(ctx, tx, id)
}

func mayDecide(actor rayslice.User, r rayslice.Request) error {
	if !actor.CanSee(r.Team) {
		return rayslice.NotFound("request")
	}
	return actor.MayDecide(r)
}

// rightsNow returns the actor with the rights they have at this moment, whatever they had when they began to ask.
func rightsNow(ctx context.Context, tx pgx.Tx, actor rayslice.User) (rayslice.User, error) {
	if actor.System || actor.TokenID != 0 { // a token decides nothing anyway
		return actor, nil
	}
	rows, _ := tx.Query(ctx, userColumns+`
		WHERE u.id = $1`, actor.ID)
	now, err := pgx.CollectExactlyOneRow(rows, scanUser)
	if errors.Is(err, pgx.ErrNoRows) {
		return rayslice.User{}, nil
	}
	actor.Admin, actor.Roles, actor.Disabled = now.Admin, now.Roles, now.Disabled
	return actor, err
}

// decidedBy reports whether the latest decision about a request is the actor's. The portal's own, like an approval at once,
// has no actor.
func decidedBy(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Request) (mine bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT
			coalesce((
				SELECT
					actor_id = $2
				FROM audit
				WHERE request_id = $1
					AND action IN ('approve', 'return', 'reject')
				ORDER BY id DESC
				LIMIT 1
			), false)`, r.ID, actor.ID).Scan(&mine)
	return mine, err
}

// stillUndecided refuses a decision that comes too late, or that is about something else by now.
func stillUndecided(r rayslice.Request, revision int) error {
	switch {
	case !r.State.Open():
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "decided_already", Args: map[string]any{"state": r.State, "who": r.DecidedBy}}
	case r.Revision != revision:
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "revision_changed", Args: map[string]any{"seen": revision, "now": r.Revision}}
	}
	return nil
}

// grantLess replaces the draft by the part that is granted, keeps what was asked, and gives the rest of the charge back.
func grantLess(ctx context.Context, tx pgx.Tx, r rayslice.Request, terms rayslice.Terms) error {
	granted, err := r.Draft.Grant(terms)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE requests
		SET
			asked = CASE WHEN draft = $2::jsonb THEN asked ELSE draft END,
			draft = $2,
			hours = $3
		WHERE id = $1`, r.ID, granted, granted.Hours)
	if err != nil {
		return err
	}
	return recharge(ctx, tx, r, granted.Charge())
}

// ResendRequest changes what the actor's own waiting request asks for and sends it for a decision again; reply is for the
// lead who asked back, "" = nothing to say. draft must be normalized and valid, and for the same team. The rules may let
// it start at once now. KindConflict as for DecideRequest, KindOverQuota when the change does not fit.
func (s *Store) ResendRequest(ctx context.Context, actor rayslice.User, id string, revision int, draft rayslice.RequestDraft, reply string) (rayslice.Request, error) {
	var sent rayslice.Request
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		sent, err = resendRequest(ctx, tx, actor, id, revision, draft, reply)
		return err
	})
	if refusal := overQuota(err); refusal != nil {
		return rayslice.Request{}, s.refuse(ctx, actor, rayslice.AuditEntry{Action: "resend", RequestID: id, Team: sent.Team}, refusal)
	}
	return s.recorded(ctx, actor, "resend", sent, err)
}

func resendRequest(ctx context.Context, tx pgx.Tx, actor rayslice.User, id string, revision int, draft rayslice.RequestDraft, reply string) (rayslice.Request, error) {
	r, err := lockRequest(ctx, tx, id)
	switch {
	case err != nil:
		return r, err
	case !actor.CanSee(r.Team):
		return r, rayslice.NotFound("request")
	case !actor.CanChange(r):
		return r, rayslice.Forbidden("change_not_owner")
	case draft.Team != r.Team:
		return r, errTeamUnknown
	}
	if late := stillUndecided(r, revision); late != nil {
		if r.Revision != revision+1 || !sameDraft(r.Draft, draft) {
			return r, late
		}
		said, err := lastReply(ctx, tx, r)
		if err == nil && said != reply {
			err = &rayslice.Error{Kind: rayslice.KindConflict, Code: "answered_already"}
		}
		return r, err // nil: sent twice, or tried again after the connection was lost in COMMIT
	}
	rules, err := checkedRules(ctx, tx, draft)
	if err != nil {
		return r, err
	}
	why, err := decide(ctx, tx, rules, actor.ID, draft, id)
	if err != nil {
		return r, err
	}
	if err := replaceDraft(ctx, tx, r, draft); err != nil {
		return r, err
	}
	if err := draft.CheckPurpose(why); err != nil {
		return r, err
	}
	if err := resent(ctx, tx, actor, r, why, reply); err != nil {
		return r, err
	}
	return request(ctx, tx, id)
}

// lastReply returns the reply that the request was last sent with again.
func lastReply(ctx context.Context, tx pgx.Tx, r rayslice.Request) (said string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT
			coalesce(reason -> 'args' ->> 'answer', '')
		FROM audit
		WHERE request_id = $1 AND action = 'resend'
		ORDER BY id DESC
		LIMIT 1`, r.ID).Scan(&said)
	return said, err
}

func sameDraft(a, b rayslice.RequestDraft) bool {
	one, err := json.Marshal(a)
	other, otherErr := json.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// resent records the resending and what follows from it at once.
func resent(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Request, why rayslice.Reason, reply string) error {
	entry := rayslice.AuditEntry{Action: "resend", RequestID: r.ID, Team: r.Team, From: r.State, To: rayslice.StatePending, Reason: why}
	if reply != "" {
		entry.Reason.Args = map[string]any{"answer": reply}
		for name, value := range why.Args {
			entry.Reason.Args[name] = value
		}
	}
	if err := audit(ctx, tx, actor, entry); err != nil {
		return err
	}
	if _, err := updateState(ctx, tx, change{id: r.ID, from: r.State, to: rayslice.StatePending, reason: why}); err != nil {
		return err
	}
	return settle(ctx, tx, r.ID, why)
}

// replaceDraft writes the new draft as the next revision and charges for the difference.
func replaceDraft(ctx context.Context, tx pgx.Tx, r rayslice.Request, draft rayslice.RequestDraft) error {
	_, err := tx.Exec(ctx, `
		UPDATE requests
		SET
			name = $2,
			hours = $3,
			draft = $4,
			asked = NULL,
			revision = revision + 1,
			sent_at = now(),
			escalated_at = NULL,
			decided_by = '',
			answer = ''
		WHERE id = $1`, r.ID, draft.Name, draft.Hours, draft)
	if err != nil {
		return err
	}
	return recharge(ctx, tx, r, draft.Charge())
}

// settle approves a pending request that starts at once; one that waits for a lead only gets its reason, which is no
// transition, and the leads are told. Nobody is told of what starts at once, so that path puts nothing into the outbox.
func settle(ctx context.Context, tx pgx.Tx, id string, why rayslice.Reason) error {
	c := change{id: id, from: rayslice.StatePending, to: rayslice.StatePending, reason: why}
	if why.Code == rayslice.ReasonAutoApproved {
		c.to = rayslice.StateApproved
		return transition(ctx, tx, rayslice.System, c)
	}
	m, err := updateState(ctx, tx, c)
	if err != nil {
		return err
	}
	if err := tellWaiting(ctx, tx, id, m, why); err != nil {
		return err
	}
	notify(tx, Change{Kind: KindRequest, ID: c.id})
	return nil
}
