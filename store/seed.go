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
func (s *Store) Seed(ctx context.Context, seed Seed) error {
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
	_, err = tx.Exec(ctx, `
		INSERT INTO quotas (
			team,
			limit_gib,
			limit_cards
		)
		VALUES ($1, $2, $3)
		ON CONFLICT (team) DO NOTHING`, t.Name, t.LimitGiB, t.LimitCards)
	return err
}

func seedUser(ctx context.Context, tx pgx.Tx, field string, u SeedUser) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO users (
			name,
			email,
			is_admin
		)
		VALUES ($1, $2, $3)
		ON CONFLICT (lower(email)) WHERE iss IS NULL DO NOTHING`, u.Name, u.Email, u.Admin)
	if err != nil {
		return err
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
	_, err := tx.Exec(ctx, `
		INSERT INTO memberships (
			user_id,
			team,
			role
		)
		SELECT
			id,
			$2,
			$3
		FROM users
		WHERE iss IS NULL AND lower(email) = lower($1)
		ON CONFLICT (user_id, team) DO NOTHING`, email, team, role)
	if sqlState(err) == codeForeignKey {
		return rayslice.Invalid(rayslice.FieldError{Field: field, Code: rayslice.CodeTeamUnknown})
	}
	return err
}
