// Package migrations holds the database schema as numbered pairs of SQL files and brings a database up to it. Each file
// runs as one implicit transaction; an advisory lock lets one runner work while others wait.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/golang-migrate/migrate/v4"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Files are the migrations, NNNNNN_name.up.sql and NNNNNN_name.down.sql.
//
//go:embed *.sql
var Files embed.FS

// lockTimeout is how long a second starter waits for the first to finish.
const lockTimeout = 5 * time.Minute

// A DirtyError says that a migration was killed half-way. Nothing may be served on such a schema.
type DirtyError struct{ Version int }

// Error names the version and the way out.
func (e *DirtyError) Error() string {
	return fmt.Sprintf("database schema is dirty at version %d: a migration was interrupted. If its changes are there, "+
		"force version %d; if they are not, force version %d and migrate up again", e.Version, e.Version, e.Version-1)
}

// Up applies every migration that is missing; none is no error. It waits while another runner is at work, and gives a
// *DirtyError when an earlier run was killed half-way. When ctx ends it stops between two migrations.
func Up(ctx context.Context, url string) error {
	return run(ctx, url, (*migrate.Migrate).Up)
}

// Down takes every migration back, and all data with it.
func Down(ctx context.Context, url string) error {
	return run(ctx, url, (*migrate.Migrate).Down)
}

// Force notes version as the present one, without running anything, and clears the dirty mark. Version 0 means that no
// migration has been applied.
func Force(ctx context.Context, url string, version int) error {
	if version <= 0 {
		version = -1 // golang-migrate's word for "none"
	}
	return run(ctx, url, func(m *migrate.Migrate) error { return m.Force(version) })
}

// Version returns the version the database is at, 0 for an empty one, and whether a migration was killed half-way.
func Version(ctx context.Context, url string) (version int, dirty bool, err error) {
	err = run(ctx, url, func(m *migrate.Migrate) error {
		v, d, err := m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		version, dirty = int(v), d
		return err
	})
	return version, dirty, err
}

// Latest returns the version that Up leads to.
func Latest() int {
	names, err := fs.Glob(Files, "*.up.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	return len(names) // numbered 1, 2, 3, … without a gap, which a test pins
}

// run opens a migrator on its own connection, does one thing with it and closes it.
func run(ctx context.Context, url string, do func(*migrate.Migrate) error) error {
	m, err := open(ctx, url)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	err = do(m)
	sourceErr, databaseErr := m.Close()
	return errors.Join(explain(err), sourceErr, databaseErr)
}

func open(ctx context.Context, url string) (*migrate.Migrate, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	db := stdlib.OpenDB(*config)
	if err := db.PingContext(ctx); err != nil { // the driver itself knows no context
		return nil, errors.Join(fmt.Errorf("reach the database: %w", err), db.Close())
	}
	to, err := driver.WithInstance(db, &driver.Config{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	from, err := iofs.New(Files, ".")
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	m, err := migrate.NewWithInstance("iofs", from, "pgx5", to)
	if err != nil {
		return nil, errors.Join(err, from.Close(), to.Close())
	}
	m.LockTimeout = lockTimeout
	return m, nil
}

func explain(err error) error {
	var dirty migrate.ErrDirty
	switch {
	case errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.As(err, &dirty):
		return &DirtyError{Version: dirty.Version}
	}
	return err
}
