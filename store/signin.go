package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// SignIn returns the person behind an identity, new ones included, with the name, address and roles the provider and the
// portal's settings give them now. Only roles of these two are touched (DefGuard/defguard#3516), and none of the provider's
// where it said nothing about groups (nexspence/nexspence#487). Nobody becomes somebody else by having their address. A disabled person is
// KindForbidden, code "user_disabled".
func (s *Store) SignIn(ctx context.Context, actor rayslice.User, id rayslice.Identity) (rayslice.User, error) {
	if !actor.System {
		return rayslice.User{}, errPortalOnly
	}
	var user rayslice.User
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		user, err = signIn(ctx, tx, actor, id)
		return err
	})
	if rayslice.KindOf(err) == rayslice.KindForbidden {
		return rayslice.User{}, s.forbid(ctx, actor, rayslice.AuditEntry{Subject: "sign-in " + id.Name}, "user_disabled")
	}
	return user, err
}

// SignInPersona notes that a persona of the demo has signed in now.
func (s *Store) SignInPersona(ctx context.Context, actor rayslice.User, id int64) error {
	if !actor.System {
		return errPortalOnly
	}
	_, err := s.db.Exec(ctx, `
		UPDATE users
		SET
			seen_at = now()
		WHERE id = $1`, id)
	return answer(err)
}

func signIn(ctx context.Context, tx pgx.Tx, actor rayslice.User, id rayslice.Identity) (rayslice.User, error) {
	userID, disabled, err := upsertUser(ctx, tx, id)
	if err != nil {
		return rayslice.User{}, err
	}
	if disabled {
		return rayslice.User{}, rayslice.Forbidden("user_disabled")
	}
	if id.Roles != nil {
		if err := syncRoles(ctx, tx, actor, userID, id.Name, rayslice.SourceOIDC, id.Roles); err != nil {
			return rayslice.User{}, err
		}
	}
	var configured []rayslice.RoleGrant
	if id.Admin {
		configured = []rayslice.RoleGrant{{Role: rayslice.RoleAdmin}}
	}
	if err := syncRoles(ctx, tx, actor, userID, id.Name, rayslice.SourceConfig, configured); err != nil {
		return rayslice.User{}, err
	}
	rows, _ := tx.Query(ctx, userColumns+`
		WHERE u.id = $1`, userID)
	return pgx.CollectExactlyOneRow(rows, scanUser)
}

// upsertUser also locks the person, so that two sign-ins of one take turns.
func upsertUser(ctx context.Context, tx pgx.Tx, id rayslice.Identity) (userID int64, disabled bool, err error) {
	err = tx.QueryRow(ctx, `
		INSERT INTO users (
			iss,
			sub,
			name,
			email,
			seen_at
		)
		VALUES ($1, $2, $3, $4, now())
		ON CONFLICT (iss, sub) DO UPDATE
		SET
			name = excluded.name,
			email = excluded.email,
			seen_at = now()
		RETURNING
			id,
			disabled`, id.Issuer, id.Subject, id.Name, id.Email).Scan(&userID, &disabled)
	return userID, disabled, err
}

// syncRoles makes one source's grants to a person what it says now. Teams that do not exist here are passed over.
func syncRoles(ctx context.Context, tx pgx.Tx, actor rayslice.User, userID int64, name string, source rayslice.Source, roles []rayslice.RoleGrant) error {
	rows, _ := tx.Query(ctx, grantColumns+`
		WHERE user_id = $1
			AND source = $2`, userID, source)
	had, err := pgx.CollectRows(rows, scanRoleGrant)
	if err != nil {
		return err
	}
	for _, g := range had {
		if !holds(roles, g) {
			if err := deleteRole(ctx, tx, actor, name, g); err != nil {
				return err
			}
		}
	}
	for _, g := range roles {
		g.UserID, g.Source, g.By = userID, source, ""
		if holds(had, g) {
			continue
		}
		if err := insertRole(ctx, tx, actor, name, g); err != nil {
			return err
		}
	}
	return nil
}

func holds(grants []rayslice.RoleGrant, wanted rayslice.RoleGrant) bool {
	return slices.ContainsFunc(grants, func(g rayslice.RoleGrant) bool { return g.Team == wanted.Team && g.Role == wanted.Role })
}
