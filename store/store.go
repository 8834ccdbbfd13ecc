// Package store keeps what people asked for, what it costs and what was observed, in Postgres. Every method that serves
// a person takes the acting user and refuses by itself: another team's object is rayslice.NotFound.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
)

// DB is what a pool and a transaction share.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Store is the way to Postgres. It is safe for concurrent use when its DB is a pool.
type Store struct {
	db        DB
	pool      *pgxpool.Pool // nil when db is a transaction
	announcer *announcer
	repeats   *repeats
	personas  bool // can sign in
	keepUse   rayslice.UseRetention
}

// sessionDefaults bound how long one statement, one lock or one forgotten transaction can hold others up. The database
// URL may set others.
var sessionDefaults = map[string]string{
	"application_name":                    "rayslice",
	"default_transaction_isolation":       "read committed", // under another the conditional UPDATE of a quota would fail instead of wait
	"statement_timeout":                   "30s",
	"lock_timeout":                        "5s",
	"idle_in_transaction_session_timeout": "10s", // a cut connection gives its locks back
}

// connectTimeout bounds the wait for a host that does not answer at all, unless the URL sets connect_timeout.
const connectTimeout = 5 * time.Second

// Open returns a Store on a pool of its own; Close it when done. A database that is away is no error here: Ping says so.
// Pool settings are part of the URL, e.g. pool_max_conns=20.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	for name, value := range sessionDefaults {
		if _, set := config.ConnConfig.RuntimeParams[name]; !set {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return New(pool), nil
}

// New returns a Store on a pool, or on a transaction, inside which its own transactions become savepoints.
func New(db DB) *Store {
	pool, _ := db.(*pgxpool.Pool)
	return &Store{db: db, pool: pool, announcer: &announcer{db: db}, repeats: newRepeats(), keepUse: rayslice.DefaultUseRetention}
}

// LetPersonasIn says that personas can sign in, as a portal for trying out lets them. Else they count for nothing: they are
// not told of anything, decide nothing, and are no admins that could be left. Call it before the Store is used.
func (s *Store) LetPersonasIn() { s.personas = true }

// KeepUse says how long readings of use are kept, up to rayslice.MaxUseRetention. Call it before the Store is used.
func (s *Store) KeepUse(r rayslice.UseRetention) { s.keepUse = r.OrDefault() }

// canSignIn is the condition that the users row u is somebody who can sign in.
func (s *Store) canSignIn() string {
	if s.personas {
		return `NOT u.disabled`
	}
	return `NOT u.disabled AND u.iss IS NOT NULL`
}

// Close closes the pool after what was committed has been announced and its connections have been given back.
func (s *Store) Close() {
	s.announcer.senders.Wait()
	if s.pool != nil {
		s.pool.Close()
	}
}

// Ping reports whether Postgres answers.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `SELECT 1`)
	return answer(err)
}

// errNoPool is what needs a connection of its own says on a Store inside a transaction.
var errNoPool = errors.New("store: needs a pool, not a transaction")
