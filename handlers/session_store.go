package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
)

// sessionStore keeps scs sessions in Postgres. It does what scs's pgxstore does, but passes the request's context on, so
// that a database that hangs does not hold every visitor's connection, and it needs no goroutine to tidy up.
type sessionStore struct{ pool *pgxpool.Pool }

// sessionWait bounds each query, also where the caller's context has no end.
const sessionWait = 5 * time.Second

// FindCtx returns the data of a session; exists is false when there is none or its time is over.
func (s sessionStore) FindCtx(ctx context.Context, token string) (data []byte, exists bool, err error) {
	data, expiry, err := s.find(ctx, token)
	return data, !expiry.IsZero(), err
}

// find returns the data of a session and when it ends if nobody uses it; a zero expiry means that there is none.
func (s sessionStore) find(ctx context.Context, token string) (data []byte, expiry time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	err = s.pool.QueryRow(ctx, `
		SELECT
			data,
			expiry
		FROM sessions
		WHERE token = $1
			AND expiry > now()`, token).Scan(&data, &expiry)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, time.Time{}, nil
	}
	return data, expiry, away(err)
}

// touch moves the time at which an unused session ends.
func (s sessionStore) touch(ctx context.Context, token string, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	_, err := s.pool.Exec(ctx, `
		UPDATE sessions
		SET
			expiry = $2
		WHERE token = $1
			AND expiry > now()`, token, expiry)
	return away(err)
}

// claim lets one caller at a time ask the identity provider about a session, and gives it the data as they are now; nil
// when it is somebody else's turn. Whoever finds the provider away leaves the claim to run out.
func (s sessionStore) claim(ctx context.Context, token string) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	err = s.pool.QueryRow(ctx, `
		UPDATE sessions
		SET
			checking_until = now() + interval '30 seconds'
		WHERE token = $1
			AND expiry > now()
			AND (checking_until IS NULL OR checking_until <= now())
		RETURNING data`, token).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return data, away(err)
}

// save writes what the provider said about a session and, when it has answered, ends the claim. It is no use of the
// session.
func (s sessionStore) save(ctx context.Context, token string, data []byte, answered bool) error {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	_, err := s.pool.Exec(ctx, `
		UPDATE sessions
		SET
			data = $2,
			checking_until = CASE WHEN $3 THEN NULL ELSE checking_until END
		WHERE token = $1`, token, data, answered)
	return away(err)
}

// CommitCtx writes a session. Sessions are written at sign-in only, so this is also when old ones are swept out.
func (s sessionStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM sessions WHERE expiry <= now()`)
	batch.Queue(`
		INSERT INTO sessions (token, data, expiry)
		VALUES ($1, $2, $3)
		    ON CONFLICT (token) DO UPDATE
		   SET data = EXCLUDED.data,
		       expiry = EXCLUDED.expiry`, token, data, expiry)
	return away(s.pool.SendBatch(ctx, batch).Close())
}

// DeleteCtx ends a session; one that is gone already is no error.
func (s sessionStore) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	_, err := s.pool.Exec(ctx, `DELETE FROM sessions WHERE token = $1`, token)
	return away(err)
}

// away says that sessions cannot be read or written now: nothing a visitor can send makes these queries fail.
func away(err error) error {
	if err == nil {
		return nil
	}
	return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_unavailable", Err: err}
}

// Find is FindCtx for callers without a context.
func (s sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx for callers without a context.
func (s sessionStore) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete is DeleteCtx for callers without a context.
func (s sessionStore) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
