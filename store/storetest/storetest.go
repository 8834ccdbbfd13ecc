// Package storetest gives each test a private, migrated database on a real Postgres. TEST_DATABASE_URL names the server,
// as postgres://…, with a user who may create databases. Without it tests skip, and fail where CI=true.
package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/migrations"
	"github.com/rayslice/rayslice/store"
)

// New returns a Store on the test's private database; a second one for the same test is a second replica.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, URL(t))
}

// Open returns a Store on the given database that lets personas in, closed when the test ends.
func Open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	s.LetPersonasIn()
	t.Cleanup(s.Close)
	return s
}

// databases remembers each running test's database, so that URL and New agree.
var databases sync.Map // testing.TB → URL

// URL returns the URL of the test's private database. It is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	if known, ok := databases.Load(t); ok {
		return known.(string)
	}
	private := create(t, template(t))
	databases.Store(t, private)
	t.Cleanup(func() { databases.Delete(t) })
	return private
}

// AppURL returns the URL of the test's private database as the role a portal works as: one that owns nothing. The caller
// grants it what it needs, with migrations.Grant. TEST_APP_DATABASE_URL names the role and its password.
func AppURL(t testing.TB) string {
	t.Helper()
	app := os.Getenv("TEST_APP_DATABASE_URL")
	switch {
	case app != "":
	case os.Getenv("CI") == "true":
		t.Fatal("TEST_APP_DATABASE_URL is not set: CI needs a database role that owns nothing")
	default:
		t.Skip("TEST_APP_DATABASE_URL is not set: no role to work as that owns nothing")
	}
	owned, err := url.Parse(URL(t))
	if err != nil {
		t.Fatal(err)
	}
	return withDatabase(t, app, strings.TrimPrefix(owned.Path, "/"))
}

// AsApp returns a Store on the test's private database as the role of AppURL, with what migrations.Grant gives it.
func AsApp(t testing.TB) *store.Store {
	t.Helper()
	app := AppURL(t)
	u, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Grant(t.Context(), URL(t), u.User.Username()); err != nil {
		t.Fatal(err)
	}
	return Open(t, app)
}

// EmptyURL returns the URL of a fresh database without any schema, dropped when the test ends.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// Exec runs SQL on the test's private database, for what the Store has no method for.
func Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	exec(t, URL(t), sql, args...)
}

// Query reads one value from the test's private database, for what the Store has no method for.
func Query(t testing.TB, dst any, sql string, args ...any) {
	t.Helper()
	conn := connect(t, URL(t))
	defer closeConn(conn)
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(dst); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// People are the personas that Fill makes.
type People struct {
	Ada  rayslice.User // member of vision
	Bob  rayslice.User // member of vision
	Lea  rayslice.User // lead of vision
	Sam  rayslice.User // member of speech
	Root rayslice.User // admin, in no team
}

// Fill seeds the teams "vision" and "speech", each with the given limit, and their people.
func Fill(t testing.TB, s *store.Store, limit rayslice.Charge) People {
	t.Helper()
	member, lead := rayslice.RoleMember, rayslice.RoleLead
	err := s.Seed(t.Context(), rayslice.System, store.Seed{
		Teams: []store.SeedTeam{
			{Name: "vision", Namespace: "team-vision", LimitGiB: limit.GiB, LimitCards: limit.Cards},
			{Name: "speech", Namespace: "team-speech", LimitGiB: limit.GiB, LimitCards: limit.Cards},
		},
		Users: []store.SeedUser{
			{Name: "Ada", Email: "ada@example.org", Roles: map[string]rayslice.Role{"vision": member}},
			{Name: "Bob", Email: "bob@example.org", Roles: map[string]rayslice.Role{"vision": member}},
			{Name: "Lea", Email: "lea@example.org", Roles: map[string]rayslice.Role{"vision": lead}},
			{Name: "Sam", Email: "sam@example.org", Roles: map[string]rayslice.Role{"speech": member}},
			{Name: "Root", Email: "root@example.org", Admin: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	users, err := s.Personas(t.Context(), rayslice.System)
	if err != nil || len(users) != 5 {
		t.Fatalf("personas: %v, %v", users, err)
	}
	return People{Ada: users[0], Bob: users[1], Lea: users[2], Sam: users[3], Root: users[4]}
}

// Draft returns a draft of the team "vision" for workers of gib GiB on the pool a10, normalized.
func Draft(workers, gib int) rayslice.RequestDraft {
	group := rayslice.Group{
		Slice:   rayslice.Slice{Pool: "a10", GiB: gib, Cards: 1},
		Workers: workers, CPU: rayslice.DefaultWorkerCPU, MemoryGiB: rayslice.DefaultWorkerMemoryGiB,
	}
	draft := rayslice.RequestDraft{
		Team: "vision", Name: "ablation-7", Purpose: "the new loss", Hours: rayslice.DefaultHours,
		Head:   rayslice.Head{CPU: rayslice.DefaultHeadCPU, MemoryGiB: rayslice.DefaultHeadMemoryGiB},
		Groups: []rayslice.Group{group},
		Image:  "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0",
	}
	draft.Normalize(rayslice.Catalogue{})
	return draft
}

// server returns TEST_DATABASE_URL.
func server(t testing.TB) string {
	t.Helper()
	server := os.Getenv("TEST_DATABASE_URL")
	switch {
	case server != "":
	case os.Getenv("CI") == "true":
		t.Fatal("TEST_DATABASE_URL is not set: CI needs a real Postgres")
	default:
		t.Skip("TEST_DATABASE_URL is not set: no Postgres to test on")
	}
	return server
}

// create makes a database from a template and drops it, whoever is still connected, when the test ends.
func create(t testing.TB, template string) string {
	t.Helper()
	server := server(t)
	name := "rayslice_test_" + rayslice.NewRequestID()
	exec(t, server, `CREATE DATABASE `+name+` TEMPLATE `+template)
	t.Cleanup(func() { drop(t, server, name) })
	return withDatabase(t, server, name)
}

// drop drops a database, whoever of ours is still connected. WITH (FORCE) would refuse a role that is not a superuser when
// autovacuum happens to be there; a plain DROP sends autovacuum away by itself and waits for it.
func drop(t testing.TB, server, name string) {
	t.Helper()
	exec(t, server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user AND datname = '`+name+`'`)
	exec(t, server, `DROP DATABASE IF EXISTS `+name)
}

// templateOnce lets parallel tests of one process share the making of the template.
var templateOnce sync.Mutex

// template returns the name of a migrated database that others are copied from, made once per content of the migrations.
func template(t testing.TB) string {
	t.Helper()
	templateOnce.Lock()
	defer templateOnce.Unlock()
	server := server(t)
	name := "rayslice_template_" + schemaHash(t)
	conn := connect(t, server)
	defer closeConn(conn)
	ctx := context.Background()
	// Test binaries of several packages run at once.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext($1))`, name); err != nil {
		t.Fatal(err)
	}
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil {
		t.Fatal(err)
	}
	if !exists {
		makeTemplate(t, server, name)
	}
	return name
}

// makeTemplate migrates under another name first, so that a killed run leaves no half template behind.
func makeTemplate(t testing.TB, server, name string) {
	t.Helper()
	making := name + "_making"
	drop(t, server, making)
	exec(t, server, `CREATE DATABASE `+making+` TEMPLATE template0`)
	if err := migrations.Up(context.Background(), withDatabase(t, server, making)); err != nil {
		t.Fatal(err)
	}
	exec(t, server, `ALTER DATABASE `+making+` RENAME TO `+name)
}

// schemaHash names the content of the migrations.
func schemaHash(t testing.TB) string {
	t.Helper()
	hash := sha256.New()
	names, err := fs.Glob(migrations.Files, "*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := migrations.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%s\n%s\n", name, content)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:6])
}

func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatalf("TEST_DATABASE_URL must be a postgres:// URL (%v)", err)
	}
	u.Path = "/" + name
	return u.String()
}

func exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	conn := connect(t, url)
	defer closeConn(conn)
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // a test that is over has no use for the error
}
