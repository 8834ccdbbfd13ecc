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
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// maxKeyLength bounds an idempotency key, in characters.
const maxKeyLength = 255

// CreateRequest charges the team's quota for the draft, which must be normalized and valid, and returns the new request.
// By the team's rules it is approved at once or waits for a lead. Refusals: an invalid field "team" when the actor may not
// ask there, fields that the rules forbid, KindOverQuota with the numbers. With an idempotency key ("" = none) the same
// user's same draft gives the request of the first time; another draft is KindInvalid, code "idempotency_key_reused". When
// the connection is lost, also in the middle of COMMIT, the true result is found out and returned; nothing is ever charged
// twice.
func (s *Store) CreateRequest(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft, key string) (rayslice.Request, error) {
	if !actor.CanAsk(draft.Team) {
		return rayslice.Request{}, errTeamUnknown
	}
	if err := checkKey(key); err != nil {
		return rayslice.Request{}, err
	}
	bound, err := newIdempotencyKey(key, draft)
	if err != nil {
		return rayslice.Request{}, err
	}
	n := newcomer{actor: actor, draft: draft, key: bound, id: rayslice.NewRequestID()}
	var created rayslice.Request
	err = s.retry(ctx, func() error {
		created, err = s.createRequest(ctx, n)
		return err
	})
	switch sqlState(err) {
	case codeUnique: // sent before
		created, err = n.found(ctx, s.db)
		err = answer(err)
	case codeForeignKey: // the team was removed while the actor's session still named it
		err = errTeamUnknown
	}
	if refusal := overQuota(err); refusal != nil {
		err = s.refuse(ctx, actor, rayslice.AuditEntry{Action: "create", Team: draft.Team}, refusal)
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

// newcomer is a request that is about to be made. It has one id for every try, so that a try sees what an earlier one has
// committed.
type newcomer struct {
	actor rayslice.User
	draft rayslice.RequestDraft
	key   idempotencyKey
	id    string
}

// createRequest makes one request. What starts at once is one statement, which is a transaction by itself; where a
// member's share counts or a lead must be told, that belongs into the same transaction. Where the key or an earlier try
// has made it already, that one is returned, or the error is codeUnique and found says what there is.
func (s *Store) createRequest(ctx context.Context, n newcomer) (rayslice.Request, error) {
	if n.key.key != "" { // first: the answer of a key does not depend on the rules of today
		earlier, err := n.found(ctx, s.db)
		if !errors.Is(err, pgx.ErrNoRows) {
			return earlier, err
		}
	}
	r, err := checkedRules(ctx, s.db, n.draft)
	if err != nil {
		return rayslice.Request{}, err
	}
	why := r.Decide(n.draft, rayslice.Charge{})
	if s.pool != nil && r.Member == nil && why.Code == rayslice.ReasonAutoApproved {
		created, err := n.insert(ctx, s.db, why)
		if err == nil {
			err = s.announce(ctx, []Change{{Kind: KindRequest, ID: created.ID}})
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return created, err
		}
	}
	var created rayslice.Request
	err = s.tryTx(ctx, func(tx pgx.Tx) error {
		why, err := decide(ctx, tx, r, n.actor.ID, n.draft, n.id)
		if err != nil {
			return err
		}
		var fresh bool
		if created, fresh, err = n.insertOrRefuse(ctx, tx, why); err != nil || !fresh {
			return err
		}
		notify(tx, Change{Kind: KindRequest, ID: created.ID})
		if err := n.draft.CheckPurpose(why); err != nil { // last: what does not fit needs no purpose
			return err
		}
		if created.State != rayslice.StatePending { // nobody is told of what starts at once
			return nil
		}
		return tellWaiting(ctx, tx, n.id, moved{team: n.draft.Team, name: n.draft.Name, ownerID: n.actor.ID, owner: n.actor.Name}, why)
	})
	return created, err
}

// insertOrRefuse inserts the request, or says why the quota does not allow it. fresh is false when it was there already.
func (n newcomer) insertOrRefuse(ctx context.Context, tx pgx.Tx, why rayslice.Reason) (r rayslice.Request, fresh bool, err error) {
	for {
		r, err = n.insert(ctx, tx, why)
		if !errors.Is(err, pgx.ErrNoRows) {
			return r, true, err
		}
		r, err = n.found(ctx, tx)
		if !errors.Is(err, pgx.ErrNoRows) {
			return r, false, err // it may be this very request that has taken the quota
		}
		if err := whyNotTaken(ctx, tx, n.draft.Team, n.draft.Charge()); err != nil {
			return rayslice.Request{}, false, err
		}
	}
}

// insert returns the new request, or pgx.ErrNoRows when the quota does not allow it.
func (n newcomer) insert(ctx context.Context, db DB, why rayslice.Reason) (rayslice.Request, error) {
	r := rayslice.Request{
		ID: n.id, Draft: n.draft, Team: n.draft.Team, Owner: rayslice.User{ID: n.actor.ID, Name: n.actor.Name, Email: n.actor.Email},
		State: rayslice.StatePending, Reason: why, Charge: n.draft.Charge(), Revision: 1,
	}
	if why.Code == rayslice.ReasonAutoApproved {
		r.State = rayslice.StateApproved
	}
	err := insertCharged(ctx, db, n.actor, &r, n.key)
	return r, err
}

// insertCharged takes the quota and writes the request with its ledger row, its audit rows and its key, in one statement:
// the quota row is locked for no longer than that and the COMMIT. pgx.ErrNoRows when the quota does not allow it.
func insertCharged(ctx context.Context, db DB, actor rayslice.User, r *rayslice.Request, key idempotencyKey) error {
	reason, err := reasonJSON(r.Reason)
	if err != nil {
		return err
	}
	var ends pgtype.Timestamptz
	err = db.QueryRow(ctx, `
		WITH charged AS (
			UPDATE quotas
			SET
				used_gib = used_gib + $3::bigint,
				used_cards = used_cards + $4::bigint
			WHERE team = $2
				AND (limit_until IS NULL OR limit_until > clock_timestamp()) -- the lock may have been waited for
				AND ($3::bigint = 0 OR used_gib + $3 <= limit_gib)
				AND ($4::bigint = 0 OR used_cards + $4 <= limit_cards)
			RETURNING team
		), created AS (
			INSERT INTO requests (
				id,
				team,
				owner_id,
				name,
				hours,
				draft,
				state,
				reason,
				decided_at,
				ends_at
			)
			SELECT
				$1,
				team,
				$5,
				$6,
				$7,
				$8,
				$9,
				$10,
				CASE WHEN $9 = 'approved' THEN now() END,
				CASE WHEN $9 = 'approved' THEN now() + make_interval(hours => $7) END
			FROM charged
			RETURNING
				team,
				created_at,
				ends_at
		), ledger AS (
			INSERT INTO charges (
				request_id,
				team,
				gib,
				cards
			)
			SELECT
				$1,
				team,
				$3,
				$4
			FROM created
		), keyed AS (
			INSERT INTO idempotency_keys (
				user_id,
				key,
				body_hash,
				request_id
			)
			SELECT
				$5,
				$11,
				$12,
				$1
			FROM created
			WHERE $11 <> ''
		), audited AS (
			INSERT INTO audit (
				actor_id,
				actor,
				via,
				action,
				request_id,
				team,
				from_state,
				to_state,
				reason
			)
			SELECT
				step.actor_id,
				step.actor,
				step.via,
				step.action,
				$1,
				created.team,
				step.from_state,
				step.to_state,
				step.reason
			FROM created
			CROSS JOIN (
				VALUES
					(1, $5::bigint, $13, coalesce((SELECT prefix FROM tokens WHERE id = $14), ''), 'create', '', 'pending', CASE WHEN $9 = 'pending' THEN $10::jsonb END),
					(2, NULL, $15, '', 'approve', 'pending', 'approved', $10::jsonb)
			) step (n, actor_id, actor, via, action, from_state, to_state, reason)
			WHERE step.n = 1 OR $9 = 'approved'
			ORDER BY step.n
		)
		SELECT
			created.created_at,
			created.ends_at,
			t.namespace
		FROM created
		JOIN teams t ON t.name = created.team`,
		r.ID, r.Team, r.Charge.GiB, r.Charge.Cards, actor.ID, r.Draft.Name, r.Draft.Hours, r.Draft, r.State, reason,
		key.key, key.hash, actor.Name, actor.TokenID, rayslice.System.Name).Scan(&r.CreatedAt, &ends, &r.Namespace)
	r.CreatedAt = r.CreatedAt.UTC()
	r.SentAt, r.StateSince, r.EndsAt = r.CreatedAt, r.CreatedAt, ends.Time.UTC()
	if ends.Valid {
		r.DecidedAt = r.CreatedAt
	}
	return err
}

// found returns what an earlier call, or an earlier try of this one, has made already: the request of the key, or else of
// the id.
func (n newcomer) found(ctx context.Context, db DB) (rayslice.Request, error) {
	id := n.id
	if n.key.key != "" {
		var hash []byte
		err := db.QueryRow(ctx, `
			SELECT
				body_hash,
				request_id
			FROM idempotency_keys
			WHERE user_id = $1 AND key = $2`, n.actor.ID, n.key.key).Scan(&hash, &id)
		if err != nil {
			return rayslice.Request{}, err
		}
		if !bytes.Equal(hash, n.key.hash) {
			return rayslice.Request{}, &rayslice.Error{Kind: rayslice.KindInvalid, Code: "idempotency_key_reused"}
		}
	}
	return request(ctx, db, id)
}

// idempotencyKey binds a caller's key to what was sent with it; the zero key binds nothing.
type idempotencyKey struct {
	key  string
	hash []byte // SHA-256 of the draft
}

func newIdempotencyKey(key string, draft rayslice.RequestDraft) (idempotencyKey, error) {
	if key == "" {
		return idempotencyKey{}, nil
	}
	body, err := json.Marshal(draft)
	hash := sha256.Sum256(body)
	return idempotencyKey{key, hash[:]}, err
}
