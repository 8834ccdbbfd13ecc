package store

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rayslice/rayslice"
)

// maxTries is how often one transaction is tried before people hear that the database is busy.
const maxTries = 5

// inTx runs fn in one READ COMMITTED transaction and runs it again when Postgres aborted it for the sake of another
// (serialization, deadlock, lock timeout) or the connection was lost, also in the middle of COMMIT. So fn must be right
// when an earlier try of the same call has been committed after all, and must do nothing outside the transaction.
func (s *Store) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return s.retry(ctx, func() error { return s.tryTx(ctx, fn) })
}

// tryTx is one try of inTx: what fn announces is announced when the transaction has been committed.
func (s *Store) tryTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	changes, err := s.attempt(ctx, fn)
	if err != nil {
		return err
	}
	return s.announce(ctx, changes)
}

// retry tries again what inTx tries again.
func (s *Store) retry(ctx context.Context, attempt func() error) error {
	for try := 1; ; try++ {
		err := attempt()
		if err == nil || try == maxTries || !worthRetrying(err) || ctx.Err() != nil {
			return answer(err)
		}
		pause(ctx, try)
	}
}

// transaction is one try of inTx; it collects what to announce when it has been committed.
type transaction struct {
	pgx.Tx
	changes []Change
}

// inTxOnce is inTx for work that must not be done twice and cannot be recognized by what it leaves: before each further
// try it asks Postgres what became of the ones before.
func (s *Store) inTxOnce(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if s.pool == nil { // a savepoint ends with its own connection
		return s.inTx(ctx, fn)
	}
	var earlier []string
	return s.inTx(ctx, func(tx pgx.Tx) error {
		var done, open bool
		var now string
		err := tx.QueryRow(ctx, `
			SELECT
				coalesce(bool_or(pg_xact_status(x::xid8) = 'committed'), false),
				coalesce(bool_or(pg_xact_status(x::xid8) = 'in progress'), false),
				pg_current_xact_id()::text
			FROM unnest($1::text[]) AS x`, earlier).Scan(&done, &open, &now)
		switch {
		case err != nil || done:
			return err
		case open:
			return errStillCommitting
		}
		earlier = append(earlier, now)
		return fn(tx)
	})
}

// errStillCommitting makes inTx wait and look again.
var errStillCommitting = &pgconn.PgError{Code: codeSerialization, Message: "an earlier try is still in its COMMIT"}

// attempt sets the isolation explicitly: a database may default to repeatable read, under which the conditional UPDATE of
// a quota would fail instead of wait.
func (s *Store) attempt(ctx context.Context, fn func(tx pgx.Tx) error) ([]Change, error) {
	t := &transaction{}
	work := func(tx pgx.Tx) error {
		t.Tx = tx
		return fn(t)
	}
	if s.pool == nil {
		err := pgx.BeginFunc(ctx, s.db, work) // a savepoint in the caller's transaction, whose isolation holds
		return t.changes, err
	}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, work)
	return t.changes, err
}

// pause waits about 10 ms, doubled with every try.
func pause(ctx context.Context, try int) {
	step := 10 * time.Millisecond << (try - 1)
	sleep(ctx, step/2+rand.N(step/2))
}

// sleep waits, or returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// SQLSTATE codes that mean something to us.
const (
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeLockTimeout      = "55P03"
	codeQueryCanceled    = "57014" // statement_timeout
	codeReadOnly         = "25006" // connected to a standby
	codeForeignKey       = "23503"
	codeUnique           = "23505"
	codeBadEncoding      = "22021" // NUL or invalid UTF-8 in text
	codeBadJSONCharacter = "22P05" // NUL in jsonb
)

// worthRetrying reports whether the same transaction may well succeed when run again now.
func worthRetrying(err error) bool {
	switch sqlState(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout:
		return true
	}
	var cannotConnect *pgconn.ConnectError
	return connectionLost(err) && !errors.As(err, &cannotConnect)
}

// connectionLost reports whether err is about the connection, not about what was asked.
func connectionLost(err error) bool {
	if state := sqlState(err); state != "" {
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == "25P03"
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}

func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// answer turns what Postgres or the network said into the product's errors. Errors of rayslice and of the context pass as
// they are; what is left is a fault of ours.
func answer(err error) error {
	if err == nil || rayslice.KindOf(err) != "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	state := sqlState(err)
	switch {
	case state == codeSerialization, state == codeDeadlock, state == codeLockTimeout, state == codeQueryCanceled:
		return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_busy", Err: err}
	case connectionLost(err), strings.HasPrefix(state, "53"), state == codeReadOnly: // 53: out of connections, disk, memory
		return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_unavailable", Err: err}
	case state == codeBadEncoding, state == codeBadJSONCharacter:
		return &rayslice.Error{Kind: rayslice.KindInvalid, Code: "invalid_fields", Err: err,
			Fields: []rayslice.FieldError{{Field: "body", Code: rayslice.CodeCharacters}}}
	}
	return err
}

// missing turns "no row" into NotFound. So is an id that Postgres cannot even hold: nothing has it.
func missing(err error, what string) error {
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == codeBadEncoding {
		return rayslice.NotFound(what)
	}
	return answer(err)
}
