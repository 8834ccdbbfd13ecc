package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// maxKeyLength bounds an idempotency key, in characters.
const maxKeyLength = 255

// CreateRequest charges the team's quota for the draft, which must be normalized and valid, and returns the new request.
// By the team's rules it is approved at once or waits for a lead. Refusals: an invalid field "team" when the actor may not ask there, fields
// that the rules forbid, KindOverQuota with the numbers. With an idempotency key ("" = none) the same user's same draft gives the request of the first time;
// another draft is KindInvalid, code "idempotency_key_reused". When the connection is lost, also in the middle of COMMIT,
// the true result is found out and returned; nothing is ever charged twice.
func (s *Store) CreateRequest(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft, idempotencyKey string) (rayslice.Request, error) {
	if !actor.CanAsk(draft.Team) {
		return rayslice.Request{}, errTeamUnknown
	}
	if err := checkKey(idempotencyKey); err != nil {
		return rayslice.Request{}, err
	}
	id := rayslice.NewRequestID() // one id for every try, so that a try sees what an earlier one has committed
	var created rayslice.Request
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		created, err = createRequest(ctx, tx, actor, draft, id, idempotencyKey)
		return err
	})
	if refusal := overQuota(err); refusal != nil {
		err = s.refuse(ctx, actor, rayslice.AuditEntry{Team: draft.Team}, refusal)
	}
	if err != nil {
		return rayslice.Request{}, err
	}
	return created, nil
}

var errTeamUnknown = rayslice.Invalid(rayslice.FieldError{Field: "team", Code: rayslice.CodeTeamUnknown})

func checkKey(key string) error {
	bad := rayslice.FieldError{Field: "Idempotency-Key"}
	switch {
	case utf8.RuneCountInString(key) > maxKeyLength:
		bad.Code, bad.Args = rayslice.CodeTooLong, map[string]any{"max": maxKeyLength}
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		bad.Code = rayslice.CodeCharacters
	default:
		return nil
	}
	return rayslice.Invalid(bad)
}

func overQuota(err error) *rayslice.Error {
	var e *rayslice.Error
	if errors.As(err, &e) && e.Kind == rayslice.KindOverQuota {
		return e
	}
	return nil
}

// createRequest makes one request, unless the key or an earlier try of the same call already has. The first insert waits
// for an earlier try that is still in its COMMIT. The charge comes last, to hold the team's quota row as briefly as
// possible.
func createRequest(ctx context.Context, tx pgx.Tx, actor rayslice.User, draft rayslice.RequestDraft, id, key string) (rayslice.Request, error) {
	if key != "" {
		first, err := claimKey(ctx, tx, actor, draft, id, key)
		if err != nil {
			return rayslice.Request{}, err
		}
		id = first
	}
	fresh, err := insertRequest(ctx, tx, actor, draft, id)
	if err != nil {
		return rayslice.Request{}, err
	}
	if fresh {
		err = submit(ctx, tx, actor, draft, id)
	}
	if err != nil {
		return rayslice.Request{}, err
	}
	return request(ctx, tx, id)
}

// submit records the new request, approves it where the rules let it start at once, and charges for it.
func submit(ctx context.Context, tx pgx.Tx, actor rayslice.User, draft rayslice.RequestDraft, id string) error {
	why, err := decide(ctx, tx, actor.ID, draft, id)
	if err != nil {
		return err
	}
	created := rayslice.AuditEntry{Action: "create", RequestID: id, Team: draft.Team, To: rayslice.StatePending}
	if why.Code != rayslice.ReasonAutoApproved {
		created.Reason = why
	}
	if err := audit(ctx, tx, actor, created); err != nil {
		return err
	}
	if err := settle(ctx, tx, id, why); err != nil {
		return err
	}
	return charge(ctx, tx, id, draft.Team, draft.Charge())
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
	return notify(ctx, tx, Change{Kind: KindRequest, ID: c.id})
}

// insertRequest writes the pending request; false when an earlier try of the same call has been committed.
func insertRequest(ctx context.Context, tx pgx.Tx, actor rayslice.User, draft rayslice.RequestDraft, id string) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO requests (
			id,
			team,
			owner_id,
			name,
			hours,
			draft,
			state
		)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING`,
		id, draft.Team, actor.ID, draft.Name, draft.Hours, draft, rayslice.StatePending)
	if sqlState(err) == codeForeignKey { // the team was removed while the actor's session still named it
		return false, errTeamUnknown
	}
	return tag.RowsAffected() == 1, err
}

// claimKey binds the actor's key to id, or returns the id it was bound to before.
func claimKey(ctx context.Context, tx pgx.Tx, actor rayslice.User, draft rayslice.RequestDraft, id, key string) (string, error) {
	body, err := json.Marshal(draft)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(body)
	tag, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys (
			user_id,
			key,
			body_hash,
			request_id
		)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, key) DO NOTHING`, actor.ID, key, hash[:], id)
	if err != nil || tag.RowsAffected() == 1 {
		return id, err
	}
	var firstHash []byte
	err = tx.QueryRow(ctx, `
		SELECT
			body_hash,
			request_id
		FROM idempotency_keys
		WHERE user_id = $1 AND key = $2`, actor.ID, key).Scan(&firstHash, &id)
	if err == nil && !bytes.Equal(firstHash, hash[:]) {
		err = &rayslice.Error{Kind: rayslice.KindInvalid, Code: "idempotency_key_reused"}
	}
	return id, err
}
