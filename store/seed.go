package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Seed is the teams and people a portal begins with.
type Seed struct {
	Teams []SeedTeam
	Users []SeedUser
}

// SeedTeam is a team and its first limits.
type SeedTeam struct {
	Name       string
	Namespace  string
	LimitGiB   int
	LimitCards int
	Rules      *rayslice.Rules // nil = rayslice.DefaultRules of the limit
}

// SeedUser is a persona of demo mode.
type SeedUser struct {
	Name  string
	Email string // tells personas apart
	Admin bool
	Roles map[string]rayslice.Role // team name → role
}

// Seed adds the teams, people and roles that are missing. What exists stays as it is, limits above all, so seeding at
// every start is safe.
func (s *Store) Seed(ctx context.Context, actor rayslice.User, seed Seed) error {
	if !actor.System {
		return errPortalOnly
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		for i, t := range seed.Teams {
			if err := seedTeam(ctx, tx, fmt.Sprintf("teams[%d]", i), t); err != nil {
				return err
			}
		}
		for i, u := range seed.Users {
			if err := seedUser(ctx, tx, fmt.Sprintf("users[%d]", i), u); err != nil {
				return err
			}
		}
		return nil
	})
}

func seedTeam(ctx context.Context, tx pgx.Tx, field string, t SeedTeam) error {
	if t.LimitGiB < 0 || t.LimitCards < 0 {
		return rayslice.Invalid(rayslice.FieldError{Field: field + ".limit", Code: rayslice.CodeRange, Args: map[string]any{"min": 0}})
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO teams (
			name,
			namespace
		)
		VALUES ($1, $2)
		ON CONFLICT (name) DO NOTHING`, t.Name, t.Namespace)
	if sqlState(err) == codeUnique {
		return rayslice.Invalid(rayslice.FieldError{Field: field + ".namespace", Code: rayslice.CodeDuplicate, Args: map[string]any{"value": t.Namespace}})
	}
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO quotas (
			team,
			limit_gib,
			limit_cards
		)
		VALUES ($1, 0, 0)
		ON CONFLICT (team) DO NOTHING`, t.Name)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	limit := rayslice.Charge{GiB: t.LimitGiB, Cards: t.LimitCards}
	if err := insertGrant(ctx, tx, rayslice.Grant{Team: t.Name, Charge: limit, Base: true, By: rayslice.System.Name}); err != nil {
		return err
	}
	if t.Rules == nil {
		return nil
	}
	return saveRules(ctx, tx, t.Name, *t.Rules)
}

func seedUser(ctx context.Context, tx pgx.Tx, field string, u SeedUser) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO users (
			name,
			email
		)
		VALUES ($1, $2)
		ON CONFLICT (lower(email)) WHERE iss IS NULL DO NOTHING`, u.Name, u.Email)
	if err != nil {
		return err
	}
	if u.Admin && tag.RowsAffected() == 1 { // somebody who exists already stays what they are
		if err := insertSeedRole(ctx, tx, u.Email, nil, rayslice.RoleAdmin); err != nil {
			return err
		}
	}
	for _, team := range slices.Sorted(maps.Keys(u.Roles)) {
		if err := seedRole(ctx, tx, field+".roles."+team, u.Email, team, u.Roles[team]); err != nil {
			return err
		}
	}
	return nil
}

func seedRole(ctx context.Context, tx pgx.Tx, field, email, team string, role rayslice.Role) error {
	if role != rayslice.RoleMember && role != rayslice.RoleLead {
		return rayslice.Invalid(rayslice.FieldError{Field: field, Code: rayslice.CodeType, Args: map[string]any{"want": "member, lead", "got": string(role)}})
	}
	err := insertSeedRole(ctx, tx, email, &team, role)
	if sqlState(err) == codeForeignKey {
		return rayslice.Invalid(rayslice.FieldError{Field: field, Code: rayslice.CodeTeamUnknown})
	}
	return err
}

// insertSeedRole gives a persona a role, unless the seed has given one in that team before.
func insertSeedRole(ctx context.Context, tx pgx.Tx, email string, team *string, role rayslice.Role) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO roles (
			user_id,
			team,
			role,
			source
		)
		SELECT
			u.id,
			$2,
			$3,
			'seed'
		FROM users u
		WHERE u.iss IS NULL
			AND lower(u.email) = lower($1)
			AND NOT EXISTS (
				SELECT
				FROM roles
				WHERE user_id = u.id AND team IS NOT DISTINCT FROM $2 AND source = 'seed'
			)`, email, team, role)
	return err
}
