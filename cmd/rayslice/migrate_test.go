package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rayslice/rayslice/migrations"
	"github.com/rayslice/rayslice/store/storetest"
)

func runSQL(t *testing.T, url, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql)
	return err
}

// TestMigrateAsTheOwnerServeAsAnother is T43's set-up as an operator does it: two URLs, and every start grants anew.
func TestMigrateAsTheOwnerServeAsAnother(t *testing.T) {
	config := Config{DatabaseURL: storetest.AppURL(t), MigrateURL: storetest.URL(t)}
	for range 2 {
		if err := migrate(t.Context(), config, "migrate up"); err != nil {
			t.Fatal(err)
		}
	}
	var refused *pgconn.PgError
	if err := runSQL(t, config.DatabaseURL, `DELETE FROM audit`); !errors.As(err, &refused) || refused.Code != "42501" {
		t.Errorf("the portal's role deletes audit entries: %v", err)
	}
	if err := checkSchema(t.Context(), config); err != nil {
		t.Errorf("the portal's role cannot tell the schema's version: %v", err)
	}
	if err := migrate(t.Context(), Config{}, "migrate up"); !errors.Is(err, errNoDatabase) {
		t.Errorf("without a database: %v", err)
	}
}

// TestT23NothingIsServedOnABadSchema: with automatic migration off, a schema that is too old or was killed half-way stops
// the start, with a line that says what to do; a newer one does not.
func TestT23NothingIsServedOnABadSchema(t *testing.T) {
	config := Config{DatabaseURL: storetest.URL(t)}
	set := func(sql string) {
		t.Helper()
		if err := runSQL(t, config.DatabaseURL, sql); err != nil {
			t.Fatal(err)
		}
	}
	set(`UPDATE schema_migrations SET version = version - 1`)
	if err := checkSchema(t.Context(), config); err == nil || !strings.Contains(err.Error(), "rayslice migrate up") {
		t.Errorf("too old: %v", err)
	}
	set(`UPDATE schema_migrations SET version = version + 2`)
	if err := checkSchema(t.Context(), config); err != nil {
		t.Errorf("newer: %v", err)
	}
	set(`UPDATE schema_migrations SET dirty = true`)
	var dirty *migrations.DirtyError
	if err := checkSchema(t.Context(), config); !errors.As(err, &dirty) {
		t.Errorf("dirty: %v", err)
	}
	if err := checkSchema(t.Context(), Config{DatabaseURL: storetest.EmptyURL(t)}); err == nil {
		t.Error("an empty database is served")
	}
}
