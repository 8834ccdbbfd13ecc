package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

type userRow struct {
	ID       int64
	Name     string
	Email    string
	Admin    bool
	Disabled bool
	Roles    map[string]rayslice.Role
}

// User returns the person with their roles, for the session. A disabled one is KindForbidden, an unknown one
// rayslice.NotFound.
func (s *Store) User(ctx context.Context, id int64) (rayslice.User, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			u.id,
			u.name,
			u.email,
			u.is_admin AS admin,
			u.disabled,
			coalesce((SELECT jsonb_object_agg(m.team, m.role) FROM memberships m WHERE m.user_id = u.id), '{}') AS roles
		FROM users u
		WHERE u.id = $1`, id)
	user, err := pgx.CollectExactlyOneRow(rows, scanUser)
	if err != nil {
		return rayslice.User{}, missing(err, "user")
	}
	if user.Disabled {
		return rayslice.User{}, &rayslice.Error{Kind: rayslice.KindForbidden, Code: "user_disabled"}
	}
	return user, nil
}

// Personas returns the seeded people who may sign in without an identity provider, in the order they were seeded. Only
// demo mode may show them.
func (s *Store) Personas(ctx context.Context) ([]rayslice.User, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			u.id,
			u.name,
			u.email,
			u.is_admin AS admin,
			u.disabled,
			coalesce((SELECT jsonb_object_agg(m.team, m.role) FROM memberships m WHERE m.user_id = u.id), '{}') AS roles
		FROM users u
		WHERE u.iss IS NULL AND NOT u.disabled
		ORDER BY u.id`)
	users, err := pgx.CollectRows(rows, scanUser)
	return users, answer(err)
}

func scanUser(row pgx.CollectableRow) (rayslice.User, error) {
	r, err := pgx.RowToStructByName[userRow](row)
	return rayslice.User{ID: r.ID, Name: r.Name, Email: r.Email, Admin: r.Admin, Disabled: r.Disabled, Roles: r.Roles}, err
}

// Team returns one team the actor may see.
func (s *Store) Team(ctx context.Context, actor rayslice.User, name string) (rayslice.Team, error) {
	if !actor.CanSee(name) {
		return rayslice.Team{}, rayslice.NotFound("team")
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			name,
			namespace
		FROM teams
		WHERE name = $1`, name)
	team, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[rayslice.Team])
	return team, missing(err, "team")
}

// Teams returns the actor's teams by name; all of them for an admin.
func (s *Store) Teams(ctx context.Context, actor rayslice.User) ([]rayslice.Team, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			name,
			namespace
		FROM teams
		WHERE $1 OR name = ANY ($2)
		ORDER BY name`, seesAll(actor), actor.Teams())
	teams, err := pgx.CollectRows(rows, pgx.RowToStructByName[rayslice.Team])
	return teams, answer(err)
}

// seesAll reports whether the actor may see every team; the SQL side of rayslice.User.CanSee.
func seesAll(actor rayslice.User) bool { return actor.System || actor.Admin }
