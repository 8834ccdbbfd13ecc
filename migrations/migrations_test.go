package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice/migrations"
	"github.com/rayslice/rayslice/store/storetest"
)

func TestNumberedPairsWithoutGaps(t *testing.T) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil || len(names) != 2*migrations.Latest() {
		t.Fatalf("%d files for %d versions, %v", len(names), migrations.Latest(), err)
	}
	for i, name := range names {
		want := fmt.Sprintf("%06d_", i/2+1)
		if !strings.HasPrefix(name, want) || strings.HasSuffix(name, ".down.sql") != (i%2 == 0) {
			t.Errorf("%s does not begin with %s, or has no partner", name, want)
		}
	}
}

func TestUpDownUp(t *testing.T) {
	url := storetest.EmptyURL(t)
	wantVersion(t, url, 0, false)
	empty := schema(t, url)
	up(t, url)
	wantVersion(t, url, migrations.Latest(), false)
	first := schema(t, url)
	up(t, url) // nothing is missing
	if err := migrations.Down(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, url, 0, false)
	if diff := cmp.Diff(empty, schema(t, url)); diff != "" {
		t.Errorf("down leaves something behind (-empty +left):\n%s", diff)
	}
	up(t, url)
	if diff := cmp.Diff(first, schema(t, url)); diff != "" {
		t.Errorf("(-first up +second up):\n%s", diff)
	}
}

func TestT23ManyStartersAtOnce(t *testing.T) {
	url := storetest.EmptyURL(t)
	done := make(chan error)
	for range 4 {
		go func() { done <- migrations.Up(context.Background(), url) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantVersion(t, url, migrations.Latest(), false)
}

// TestT23KilledHalfWay ends the connection of a migration at work while a second starter waits for it.
func TestT23KilledHalfWay(t *testing.T) {
	url := storetest.EmptyURL(t)
	conn := connect(t, url)
	blocker, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, conn, `CREATE TABLE users ()`) // not committed: the migration's own CREATE TABLE waits for it
	first, second := make(chan error), make(chan error)
	go func() { first <- migrations.Up(context.Background(), url) }()
	waitFor(t, url, `relation`, `transactionid`)
	go func() { second <- migrations.Up(context.Background(), url) }()
	waitFor(t, url, `advisory`)
	run(t, connect(t, url), `
		SELECT pg_terminate_backend(pid)
		FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE '%CREATE TABLE users%' AND wait_event_type = 'Lock' AND wait_event <> 'advisory'`)
	if err := <-first; err == nil {
		t.Error("the killed migration said nothing")
	}
	var dirty *migrations.DirtyError
	if err := <-second; !errors.As(err, &dirty) || dirty.Version != 1 || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("the second starter got %v, want dirty at version 1", err)
	}
	wantVersion(t, url, 1, true)
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Force(t.Context(), url, 0); err != nil {
		t.Fatal(err)
	}
	up(t, url)
	wantVersion(t, url, migrations.Latest(), false)
}

func TestUnreachable(t *testing.T) {
	for _, url := range []string{"postgres://nobody@127.0.0.1:1/none?sslmode=disable", "://"} {
		if err := migrations.Up(t.Context(), url); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}

func up(t *testing.T, url string) {
	t.Helper()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

func wantVersion(t *testing.T, url string, version int, dirty bool) {
	t.Helper()
	v, d, err := migrations.Version(t.Context(), url)
	if err != nil || v != version || d != dirty {
		t.Errorf("version %d, dirty %v, %v; want %d, %v", v, d, err, version, dirty)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its database may be gone by now
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until a connection waits for one of the kinds of lock.
func waitFor(t *testing.T, url string, locks ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := connect(t, url)
	for waiting := 0; waiting == 0; {
		err := conn.QueryRow(ctx, `
			SELECT count(*)
			FROM pg_stat_activity, pg_sleep(0.01)
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = ANY ($1)`, locks).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// schema describes tables, indexes, constraints, triggers and functions of the database, one a line.
func schema(t *testing.T, url string) []string {
	t.Helper()
	rows, _ := connect(t, url).Query(t.Context(), `
		SELECT concat_ws(' ', 'column', table_name, column_name, data_type, is_nullable, column_default, is_identity)
		FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name <> 'schema_migrations'
		UNION ALL
		SELECT concat_ws(' ', 'index', indexdef)
		FROM pg_indexes
		WHERE schemaname = 'public' AND tablename <> 'schema_migrations'
		UNION ALL
		SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace AND conrelid <> coalesce(to_regclass('schema_migrations')::oid, 0)
		UNION ALL
		SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(oid))
		FROM pg_trigger
		WHERE NOT tgisinternal
		UNION ALL
		SELECT concat_ws(' ', 'function', proname, prosrc)
		FROM pg_proc
		WHERE pronamespace = 'public'::regnamespace
		ORDER BY 1`)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
