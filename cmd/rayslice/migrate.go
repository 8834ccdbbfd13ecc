package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rayslice/rayslice/migrations"
)

var errNoDatabase = errors.New("--database-url (RAYSLICE_DATABASE_URL) is not set: name a Postgres, e.g. postgres://rayslice:secret@127.0.0.1:5432/rayslice")

// migrate changes or prints the schema's version.
func migrate(ctx context.Context, config Config, command string) error {
	if config.DatabaseURL == "" {
		return errNoDatabase
	}
	switch command {
	case "migrate up":
		return migrations.Up(ctx, config.DatabaseURL)
	case "migrate down":
		return migrations.Down(ctx, config.DatabaseURL)
	}
	number, dirty, err := migrations.Version(ctx, config.DatabaseURL)
	if err != nil {
		return err
	}
	fmt.Println(number)
	if dirty {
		return fmt.Errorf("migration %d was killed half-way: look what it left, then run it again", number)
	}
	return nil
}
