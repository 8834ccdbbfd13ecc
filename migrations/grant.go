package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Grant gives the portal's database role what the portal needs and nothing else: it reads and writes rows, and empties the
// slots of the usage history, but only reads and appends audit entries, and neither owns nor changes the schema. url names the owner, who migrates; run it after each
// Up, as new tables have no grants. Where both are the same role it does nothing: an owner cannot be kept from anything.
func Grant(ctx context.Context, url, role string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var owner, schema string
		if err := tx.QueryRow(ctx, `SELECT current_user, current_schema()`).Scan(&owner, &schema); err != nil || owner == role {
			return err
		}
		for _, statement := range grants(pgx.Identifier{schema}.Sanitize(), pgx.Identifier{role}.Sanitize()) {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("grant to %s: %w", role, err)
			}
		}
		return stillOwner(ctx, tx, role)
	})
}

// grants are the statements, in order. The lock keeps two starters from granting the same at once, which Postgres refuses.
func grants(schema, role string) []string {
	return []string{
		`SELECT pg_advisory_xact_lock(hashtext('rayslice grants'))`,
		`REVOKE ALL ON ALL TABLES IN SCHEMA ` + schema + ` FROM ` + role,
		`REVOKE ALL ON ALL SEQUENCES IN SCHEMA ` + schema + ` FROM ` + role,
		`REVOKE CREATE ON SCHEMA ` + schema + ` FROM ` + role,
		`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + schema + ` TO ` + role,
		`GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ` + schema + ` TO ` + role,
		grantSlots(schema, role),
		`REVOKE UPDATE, DELETE ON ` + schema + `.audit FROM ` + role,
		`REVOKE INSERT, UPDATE, DELETE ON ` + schema + `.schema_migrations FROM ` + role,
	}
}

// grantSlots lets the role empty single slots of the rings that hold the usage history.
func grantSlots(schema, role string) string {
	quoted := strings.NewReplacer("'", "''")
	within, to := quoted.Replace(schema), strings.ReplaceAll(quoted.Replace(role), "%", "%%")
	return `
		DO $grant$
		DECLARE
			slot regclass;
		BEGIN
			FOR slot IN
				SELECT inhrelid::regclass
				FROM pg_inherits
				WHERE inhparent IN ('` + within + `.use_raw'::regclass, '` + within + `.use_minutes'::regclass, '` + within + `.use_hours'::regclass)
			LOOP
				EXECUTE format('GRANT TRUNCATE ON %s TO ` + to + `', slot);
			END LOOP;
		END
		$grant$`
}

// stillOwner refuses a role that would have the owner's rights all the same, as a member of it or as a superuser.
func stillOwner(ctx context.Context, tx pgx.Tx, role string) error {
	var owns bool
	err := tx.QueryRow(ctx, `
		SELECT pg_has_role($1, relowner, 'MEMBER')
		FROM pg_class
		WHERE oid = 'audit'::regclass`, role).Scan(&owns)
	if err == nil && owns {
		err = errors.New("role " + role + " is a superuser or a member of the role that owns the tables, so nothing can keep it from the audit log: use a role of its own")
	}
	return err
}
