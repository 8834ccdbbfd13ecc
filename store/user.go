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
	Persona  bool
	Epoch    int
	Roles    map[string]rayslice.Role
}

// userColumns select a person with the roles that hold now, the strongest per team.
const userColumns = `
	SELECT
		u.id,
		u.name,
		u.email,
		EXISTS (
			SELECT
			FROM held_roles
			WHERE user_id = u.id AND role = 'admin'
		) AS admin,
		u.disabled,
		u.iss IS NULL AS persona,
		u.session_epoch AS epoch,
		coalesce((
			SELECT
				jsonb_object_agg(held.team, held.role)
			FROM (
				SELECT
					team,
					CASE WHEN bool_or(role = 'lead') THEN 'lead' ELSE 'member' END AS role
				FROM held_roles
				WHERE user_id = u.id AND team IS NOT NULL
				GROUP BY team
			) held
		), '{}') AS roles
	FROM users u`

// User returns the person with their roles, for the session. A disabled one is KindForbidden, an unknown one
// rayslice.NotFound.
func (s *Store) User(ctx context.Context, actor rayslice.User, id int64) (rayslice.User, error) {
	if !actor.System {
		return rayslice.User{}, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, userColumns+`
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
func (s *Store) Personas(ctx context.Context, actor rayslice.User) ([]rayslice.User, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, userColumns+`
		WHERE u.iss IS NULL AND NOT u.disabled
		ORDER BY u.id`)
	users, err := pgx.CollectRows(rows, scanUser)
	return users, answer(err)
}

func scanUser(row pgx.CollectableRow) (rayslice.User, error) {
	r, err := pgx.RowToStructByName[userRow](row)
	return rayslice.User{
		ID: r.ID, Name: r.Name, Email: r.Email, Admin: r.Admin, Disabled: r.Disabled, Persona: r.Persona, Epoch: r.Epoch, Roles: r.Roles,
	}, err
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
