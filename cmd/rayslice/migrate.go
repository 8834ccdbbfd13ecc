package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice/migrations"
)

var errNoDatabase = errors.New("--database-url (RAYSLICE_DATABASE_URL) is not set: name a Postgres, e.g. postgres://rayslice:secret@127.0.0.1:5432/rayslice")

// migrate changes or prints the schema's version.
func migrate(ctx context.Context, config Config, command string) error {
	if config.DatabaseURL == "" && config.MigrateURL == "" {
		return errNoDatabase
	}
	switch command {
	case "migrate up":
		return migrateUp(ctx, config)
	case "migrate down":
		return migrations.Down(ctx, config.ownerURL())
	}
	number, dirty, err := migrations.Version(ctx, config.ownerURL())
	if err != nil {
		return err
	}
	fmt.Println(number)
	if dirty {
		return fmt.Errorf("migration %d was killed half-way: look what it left, then run it again", number)
	}
	return nil
}

// migrateUp brings the schema up as its owner, and then gives the portal's own role what it needs.
func migrateUp(ctx context.Context, config Config) error {
	if err := migrations.Up(ctx, config.ownerURL()); err != nil {
		return fmt.Errorf("%s: %w", config.ownerVariable(), err)
	}
	if config.MigrateURL == "" || config.DatabaseURL == "" {
		return nil
	}
	app, err := pgx.ParseConfig(config.DatabaseURL)
	if err != nil {
		return fmt.Errorf("RAYSLICE_DATABASE_URL: %w", err)
	}
	if err := migrations.Grant(ctx, config.MigrateURL, app.User); err != nil {
		return fmt.Errorf("RAYSLICE_MIGRATE_URL: %w", err)
	}
	return nil
}

// checkSchema refuses to serve on a schema that is older than this program, or that a migration was killed on. A newer one
// is another replica's, which is being updated.
func checkSchema(ctx context.Context, config Config) error {
	version, dirty, err := migrations.Version(ctx, config.DatabaseURL)
	switch {
	case err != nil:
		return fmt.Errorf("RAYSLICE_DATABASE_URL: %w", err)
	case dirty:
		return &migrations.DirtyError{Version: version}
	case version < migrations.Latest():
		return fmt.Errorf("the database's schema is at version %d and this program needs %d: run rayslice migrate up first", version, migrations.Latest())
	}
	return nil
}

// ownerURL returns the database as the role that migrates.
func (c Config) ownerURL() string {
	if c.MigrateURL != "" {
		return c.MigrateURL
	}
	return c.DatabaseURL
}

func (c Config) ownerVariable() string {
	if c.MigrateURL != "" {
		return "RAYSLICE_MIGRATE_URL"
	}
	return "RAYSLICE_DATABASE_URL"
}
