package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// maxTokens is how many live tokens one person may have.
const maxTokens = 50

// Token returns whom a secret with this hash stands for, as rayslice.User.ByToken, and notes its use to the minute. One
// that is unknown, revoked or over, or whose owner is disabled, is rayslice.NotFound.
func (s *Store) Token(ctx context.Context, actor rayslice.User, hash []byte) (rayslice.User, error) {
	if !actor.System {
		return rayslice.User{}, errPortalOnly
	}
	var id, owner int64
	var team string
	var scopes []rayslice.Scope
	var stale bool
	err := s.db.QueryRow(ctx, `
		SELECT
			id,
			user_id,
			coalesce(team, ''),
			scopes,
			coalesce(used_at <= now() - interval '1 minute', true)
		FROM tokens
		WHERE hash = $1
			AND revoked_at IS NULL
			AND ends_at > now()`, hash).Scan(&id, &owner, &team, &scopes, &stale)
	if err != nil {
		return rayslice.User{}, missing(err, "token")
	}
	user, err := s.User(ctx, actor, owner)
	if rayslice.KindOf(err) == rayslice.KindForbidden {
		err = rayslice.NotFound("token")
	}
	if err == nil && stale {
		err = s.touchToken(ctx, id)
	}
	if err != nil {
		return rayslice.User{}, err
	}
	return user.ByToken(id, team, scopes), nil
}

func (s *Store) touchToken(ctx context.Context, id int64) error {
	_, err := s.db.Exec(ctx, `
		UPDATE tokens
		SET
			used_at = now()
		WHERE id = $1`, id)
	return answer(err)
}

const tokenColumns = `
	SELECT
		id,
		name,
		coalesce(team, ''),
		prefix,
		scopes,
		created_at,
		ends_at,
		used_at,
		revoked_at
	FROM tokens`

func scanToken(row pgx.CollectableRow) (t rayslice.Token, err error) {
	var used, revoked pgtype.Timestamptz
	err = row.Scan(&t.ID, &t.Name, &t.Team, &t.Prefix, &t.Scopes, &t.CreatedAt, &t.EndsAt, &used, &revoked)
	t.CreatedAt, t.EndsAt, t.UsedAt, t.RevokedAt = t.CreatedAt.UTC(), t.EndsAt.UTC(), used.Time.UTC(), revoked.Time.UTC()
	return t, err
}

// Tokens returns the actor's own tokens, the latest first; those that are over or revoked for another 30 days.
func (s *Store) Tokens(ctx context.Context, actor rayslice.User) ([]rayslice.Token, error) {
	return s.tokensOf(ctx, actor.ID)
}

// PersonTokens is Tokens of somebody else. KindForbidden unless the actor is an admin.
func (s *Store) PersonTokens(ctx context.Context, actor rayslice.User, userID int64) ([]rayslice.Token, error) {
	if !actor.CanAdmin() {
		return nil, s.forbid(ctx, actor, rayslice.AuditEntry{}, "admin_only")
	}
	return s.tokensOf(ctx, userID)
}

func (s *Store) tokensOf(ctx context.Context, userID int64) ([]rayslice.Token, error) {
	rows, _ := s.db.Query(ctx, tokenColumns+`
		WHERE user_id = $1
			AND least(ends_at, revoked_at) > now() - interval '30 days'
		ORDER BY id DESC`, userID)
	tokens, err := pgx.CollectRows(rows, scanToken)
	return tokens, answer(err)
}

// CreateToken makes a token of the actor's own from a normalized, valid draft and returns its secret, which nothing keeps.
// KindForbidden for a token: it makes no others. KindConflict when the actor has enough.
func (s *Store) CreateToken(ctx context.Context, actor rayslice.User, d rayslice.TokenDraft) (string, rayslice.Token, error) {
	entry := rayslice.AuditEntry{Action: "create_token", Team: d.Team, Reason: tokenReason(d)}
	switch {
	case actor.TokenID != 0:
		return "", rayslice.Token{}, s.forbid(ctx, actor, entry, "token_by_token")
	case d.Team != "" && !actor.MemberOf(d.Team):
		return "", rayslice.Token{}, errTeamUnknown
	}
	secret := rayslice.NewToken() // one for every try
	var made rayslice.Token
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		made, err = createToken(ctx, tx, actor, d, secret)
		return err
	})
	if err != nil {
		return "", rayslice.Token{}, err
	}
	return secret, made, nil
}

func tokenReason(d rayslice.TokenDraft) rayslice.Reason {
	return rayslice.Reason{Code: "token_made", Args: map[string]any{"scopes": d.Scopes, "days": d.Days}}
}

func createToken(ctx context.Context, tx pgx.Tx, actor rayslice.User, d rayslice.TokenDraft, secret string) (rayslice.Token, error) {
	if _, err := tx.Exec(ctx, `
		SELECT
		FROM users
		WHERE id = $1
		FOR UPDATE`, actor.ID); err != nil { // so that two at once cannot both be the last
		return rayslice.Token{}, err
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO tokens (
			user_id,
			team,
			name,
			prefix,
			hash,
			scopes,
			ends_at
		)
		VALUES ($1, nullif($2, ''), $3, $4, $5, $6, now() + make_interval(days => $7))
		ON CONFLICT (hash) DO NOTHING`,
		actor.ID, d.Team, d.Name, rayslice.PublicPrefix(secret), rayslice.HashToken(secret), d.Scopes, d.Days)
	if err != nil {
		return rayslice.Token{}, err
	}
	if tag.RowsAffected() == 1 { // else an earlier try was committed
		entry := rayslice.AuditEntry{Action: "create_token", Subject: d.Name, Team: d.Team, Reason: tokenReason(d)}
		if err := audit(ctx, tx, actor, entry); err != nil {
			return rayslice.Token{}, err
		}
	}
	if err := checkTokenCount(ctx, tx, actor.ID); err != nil {
		return rayslice.Token{}, err
	}
	rows, _ := tx.Query(ctx, tokenColumns+`
		WHERE hash = $1`, rayslice.HashToken(secret))
	return pgx.CollectExactlyOneRow(rows, scanToken)
}

func checkTokenCount(ctx context.Context, tx pgx.Tx, userID int64) error {
	var live int
	err := tx.QueryRow(ctx, `
		SELECT
			count(*)
		FROM tokens
		WHERE user_id = $1
			AND revoked_at IS NULL
			AND ends_at > now()`, userID).Scan(&live)
	if err == nil && live > maxTokens {
		err = &rayslice.Error{Kind: rayslice.KindConflict, Code: "token_limit", Args: map[string]any{"max": maxTokens}}
	}
	return err
}

// RevokeToken ends one of the owner's tokens now: one's own, or anybody's for an admin. A token may revoke only itself. One
// that is revoked already is no error; one that is not the owner's, or is not for the actor to revoke, is rayslice.NotFound.
func (s *Store) RevokeToken(ctx context.Context, actor rayslice.User, owner, id int64) error {
	if actor.TokenID != 0 && actor.TokenID != id {
		return s.forbid(ctx, actor, rayslice.AuditEntry{Action: "revoke_token"}, "token_by_token")
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		entry := rayslice.AuditEntry{Action: "revoke_token", Reason: rayslice.Reason{Code: "token_revoked"}}
		var name string // of the owner; "" = the actor
		var revoked bool
		err := tx.QueryRow(ctx, `
			SELECT
				t.name,
				coalesce(t.team, ''),
				CASE WHEN t.user_id = $3 THEN '' ELSE u.name END,
				t.revoked_at IS NOT NULL
			FROM tokens t
			JOIN users u ON u.id = t.user_id
			WHERE t.id = $1
				AND t.user_id = $2
				AND ($2 = $3 OR $4)
			FOR UPDATE OF t`, id, owner, actor.ID, actor.CanAdmin()).Scan(&entry.Subject, &entry.Team, &name, &revoked)
		if err != nil || revoked {
			return missing(err, "token")
		}
		if _, err := tx.Exec(ctx, `
			UPDATE tokens
			SET
				revoked_at = now()
			WHERE id = $1`, id); err != nil {
			return err
		}
		if name != "" {
			entry.Reason.Args = map[string]any{"owner": name}
		}
		return audit(ctx, tx, actor, entry)
	})
}
