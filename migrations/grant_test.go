package migrations_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/rayslice/rayslice/migrations"
	"github.com/rayslice/rayslice/store/storetest"
)

// granted returns the test's database as the role that owns nothing, after Grant.
func granted(t *testing.T) (app *pgx.Conn) {
	t.Helper()
	appURL := storetest.AppURL(t)
	if err := migrations.Grant(t.Context(), storetest.URL(t), roleOf(t, appURL)); err != nil {
		t.Fatal(err)
	}
	return connect(t, appURL)
}

func roleOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// TestT43TheRoleCannotTouchAudit tries everything that would change what was recorded, as the role the portal works as.
func TestT43TheRoleCannotTouchAudit(t *testing.T) {
	app := granted(t)
	run(t, app, `INSERT INTO audit (actor, action) VALUES ('Ada', 'create')`)
	for _, sql := range []string{
		`UPDATE audit SET actor = 'nobody'`,
		`UPDATE audit SET actor = 'nobody' WHERE false`,
		`DELETE FROM audit`,
		`TRUNCATE audit`,
		`ALTER TABLE audit DISABLE TRIGGER audit_append_only`,
		`ALTER TABLE audit DISABLE TRIGGER ALL`,
		`DROP TRIGGER audit_append_only ON audit`,
		`DROP TABLE audit`,
		`ALTER TABLE audit RENAME TO other`,
		`ALTER TABLE audit OWNER TO CURRENT_USER`,
		`CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`CREATE TRIGGER mine BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()`,
		`CREATE RULE mine AS ON INSERT TO audit DO INSTEAD NOTHING`,
		`SET session_replication_role = replica`,
		`INSERT INTO audit (actor, action) VALUES ('Ada', 'create') ON CONFLICT (id) DO UPDATE SET actor = 'nobody'`,
		`SELECT setval('audit_id_seq', 1)`,
		`CREATE TABLE mine ()`,
		`TRUNCATE requests CASCADE`,
		`TRUNCATE use_raw`,
		`CREATE TABLE use_raw_99 PARTITION OF use_raw FOR VALUES IN (99)`,
		`UPDATE schema_migrations SET dirty = true`,
		`GRANT UPDATE ON audit TO CURRENT_USER`,
	} {
		_, err := app.Exec(t.Context(), sql)
		var refused *pgconn.PgError
		if strings.HasPrefix(sql, "GRANT") { // Postgres only warns, and grants nothing
			_, err = app.Exec(t.Context(), `UPDATE audit SET actor = 'nobody'`)
		}
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want insufficient_privilege", sql, err)
		}
	}
	var actor string
	if err := app.QueryRow(t.Context(), `SELECT string_agg(actor, ',') FROM audit`).Scan(&actor); err != nil || actor != "Ada" {
		t.Errorf("audit says %q, %v", actor, err)
	}
}

func TestTheRoleMayWhatThePortalNeeds(t *testing.T) {
	app := granted(t)
	for _, sql := range []string{
		`INSERT INTO teams (name, namespace) VALUES ('vision', 'team-vision')`,
		`UPDATE teams SET namespace = 'other'`,
		`SELECT FROM teams FOR UPDATE`,
		`DELETE FROM teams`,
		`INSERT INTO users (name, email) VALUES ('Ada', 'ada@example.org')`,
		`SELECT version FROM schema_migrations`,
		`TRUNCATE use_raw_0`,
		`TRUNCATE use_minutes_9`,
		`TRUNCATE use_hours_13`,
		`LISTEN rayslice_changes`,
		`SELECT pg_notify('rayslice_changes', '')`,
	} {
		run(t, app, sql)
	}
}

func TestGrantTwiceAndInParallel(t *testing.T) {
	role := roleOf(t, storetest.AppURL(t))
	owner := storetest.URL(t)
	run(t, connect(t, owner), `GRANT ALL ON audit TO `+role) // as somebody may have done by hand
	var group errgroup.Group
	for range 4 {
		group.Go(func() error { return migrations.Grant(t.Context(), owner, role) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, storetest.AppURL(t)).Exec(t.Context(), `DELETE FROM audit`); err == nil {
		t.Error("an earlier grant was left")
	}
}

func TestGrantToTheOwnerChangesNothing(t *testing.T) {
	owner := storetest.URL(t)
	if err := migrations.Grant(t.Context(), owner, roleOf(t, owner)); err != nil {
		t.Fatal(err)
	}
	run(t, connect(t, owner), `UPDATE teams SET namespace = ''`)
}

func TestGrantToARoleThatNothingKeepsOut(t *testing.T) {
	if err := migrations.Grant(t.Context(), storetest.URL(t), "postgres"); err == nil || !strings.Contains(err.Error(), "superuser") {
		t.Errorf("got %v", err)
	}
	if err := migrations.Grant(t.Context(), storetest.URL(t), `no"body`); err == nil || !strings.Contains(err.Error(), `no"body`) {
		t.Errorf("got %v", err)
	}
}
