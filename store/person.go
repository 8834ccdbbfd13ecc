package store

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// Person is somebody as an admin sees them.
type Person struct {
	User   rayslice.User
	Issuer string    // of the identity provider; "" = a seeded persona
	SeenAt time.Time // last sign-in; zero = never
	Grants []rayslice.RoleGrant
}

// PersonFilter narrows and pages people.
type PersonFilter struct {
	Search   string // part of a name or address
	Team     string
	Role     rayslice.Role
	Disabled bool // only those who are
	ID       int64
	After    string // PersonPage.Next of the page before
	Limit    int
}

// PersonPage is one page of people, by name.
type PersonPage struct {
	People []Person
	Next   string // "" = no more
}

// Users returns the people there are. KindForbidden unless the actor is an admin.
func (s *Store) Users(ctx context.Context, actor rayslice.User, f PersonFilter) (PersonPage, error) {
	if !actor.CanAdmin() {
		return PersonPage{}, s.forbid(ctx, actor, rayslice.AuditEntry{}, "admin_only")
	}
	after, err := parsePersonCursor(f.After)
	if err != nil {
		return PersonPage{}, err
	}
	if f.Limit <= 0 {
		f.Limit = DefaultPage
	}
	f.Limit = min(f.Limit, MaxPage)
	found, err := s.people(ctx, f, after)
	if err != nil {
		return PersonPage{}, err
	}
	page := PersonPage{People: found}
	if len(found) > f.Limit {
		page.People = found[:f.Limit]
		page.Next = strconv.FormatInt(found[f.Limit-1].User.ID, 10)
	}
	return page, s.addGrants(ctx, page.People)
}

// parsePersonCursor reads the id of the last person of the page before; 0 = none.
func parsePersonCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, rayslice.Invalid(rayslice.FieldError{Field: "after", Code: rayslice.CodeCharacters})
	}
	return id, nil
}

func (s *Store) people(ctx context.Context, f PersonFilter, after int64) ([]Person, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			u.id,
			u.name,
			u.email,
			u.disabled,
			coalesce(u.iss, ''),
			u.seen_at
		FROM users u
		WHERE ($1 = '' OR strpos(lower(concat_ws(' ', u.name, u.email)), lower($1)) > 0)
			AND (($2 = '' AND $3 = '') OR EXISTS (
				SELECT
				FROM held_roles
				WHERE user_id = u.id
					AND ($2 = '' OR team = $2)
					AND ($3 = '' OR role = $3)
			))
			AND (NOT $4 OR u.disabled)
			AND ($5::bigint = 0 OR u.id = $5)
			AND ($6::bigint = 0 OR (lower(u.name), u.id) > (SELECT lower(name), id FROM users WHERE id = $6))
		ORDER BY
			lower(u.name),
			u.id
		LIMIT $7`, f.Search, f.Team, f.Role, f.Disabled, f.ID, after, f.Limit+1)
	people, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Person, err error) {
		var seen pgtype.Timestamptz
		err = row.Scan(&p.User.ID, &p.User.Name, &p.User.Email, &p.User.Disabled, &p.Issuer, &seen)
		p.SeenAt = seen.Time.UTC()
		return p, err
	})
	return people, answer(err)
}

func (s *Store) addGrants(ctx context.Context, people []Person) error {
	ids := make([]int64, len(people))
	for i, p := range people {
		ids[i] = p.User.ID
	}
	grants, err := s.grantsOf(ctx, ids)
	of := grantsByUser(grants)
	for i := range people {
		people[i].Grants = of[people[i].User.ID]
	}
	return err
}

func (s *Store) grantsOf(ctx context.Context, ids []int64) ([]rayslice.RoleGrant, error) {
	rows, _ := s.db.Query(ctx, grantColumns+`
		WHERE user_id = ANY ($1)
		ORDER BY
			team NULLS FIRST,
			role,
			source`, ids)
	grants, err := pgx.CollectRows(rows, scanRoleGrant)
	return grants, answer(err)
}

// RoleGrants returns why the actor has the roles they have.
func (s *Store) RoleGrants(ctx context.Context, actor rayslice.User) ([]rayslice.RoleGrant, error) {
	return s.grantsOf(ctx, []int64{actor.ID})
}

// Person returns one person. KindForbidden unless the actor is an admin.
func (s *Store) Person(ctx context.Context, actor rayslice.User, id int64) (Person, error) {
	if id <= 0 {
		return Person{}, rayslice.NotFound("user")
	}
	page, err := s.Users(ctx, actor, PersonFilter{ID: id})
	if err == nil && len(page.People) == 0 {
		err = rayslice.NotFound("user")
	}
	if err != nil {
		return Person{}, err
	}
	return page.People[0], nil
}

// GrantRole gives somebody a role by hand. role admin has no team. KindForbidden unless the actor is an admin.
func (s *Store) GrantRole(ctx context.Context, actor rayslice.User, userID int64, team string, role rayslice.Role) error {
	g := rayslice.RoleGrant{UserID: userID, Team: team, Role: role, Source: rayslice.SourceManual, By: actor.Name}
	return s.administer(ctx, actor, userID, roleEntry("grant_role", "", g), func(tx pgx.Tx, name string) error {
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM teams WHERE name = $1)`, team).Scan(&known); err != nil {
			return err
		}
		switch {
		case role != rayslice.RoleAdmin && !known:
			return rayslice.Invalid(rayslice.FieldError{Field: "team", Code: "team_missing"})
		case role != rayslice.RoleAdmin && role != rayslice.RoleLead && role != rayslice.RoleMember, role == rayslice.RoleAdmin && team != "":
			return rayslice.Invalid(rayslice.FieldError{Field: "role", Code: rayslice.CodeRequired})
		}
		return insertRole(ctx, tx, actor, name, g)
	})
}

// RevokeRole takes back a role that an admin, a lead or the file of people gave. One that the identity provider gives is
// KindConflict, code "role_from_oidc": only the group there can be changed; one of the portal's settings likewise, code
// "role_from_config". The last admin stays one. KindForbidden unless the actor is an admin.
func (s *Store) RevokeRole(ctx context.Context, actor rayslice.User, g rayslice.RoleGrant) error {
	return s.administer(ctx, actor, g.UserID, roleEntry("revoke_role", "", g), func(tx pgx.Tx, name string) error {
		switch g.Source {
		case rayslice.SourceOIDC:
			return &rayslice.Error{Kind: rayslice.KindConflict, Code: "role_from_oidc"}
		case rayslice.SourceConfig:
			return &rayslice.Error{Kind: rayslice.KindConflict, Code: "role_from_config"}
		}
		if err := deleteRole(ctx, tx, actor, name, g); err != nil || g.Role != rayslice.RoleAdmin {
			return err
		}
		return s.checkAdminLeft(ctx, tx, g.UserID)
	})
}

// SetDisabled keeps somebody out, tokens and open pages included, or lets them in again. The last admin cannot be kept
// out. KindForbidden unless the actor is an admin.
func (s *Store) SetDisabled(ctx context.Context, actor rayslice.User, userID int64, disabled bool) error {
	entry := rayslice.AuditEntry{Action: "enable_user", Reason: rayslice.Reason{Code: "user_enabled"}}
	if disabled {
		entry = rayslice.AuditEntry{Action: "disable_user", Reason: rayslice.Reason{Code: "user_kept_out"}}
	}
	return s.administer(ctx, actor, userID, entry, func(tx pgx.Tx, name string) error {
		tag, err := tx.Exec(ctx, `
			UPDATE users
			SET
				disabled = $2,
				session_epoch = session_epoch + 1
			WHERE id = $1
				AND disabled <> $2`, userID, disabled)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if disabled {
			if err := s.checkAdminLeft(ctx, tx, userID); err != nil {
				return err
			}
		}
		entry.Subject = name
		return audit(ctx, tx, actor, entry)
	})
}

// administer runs an admin's change of somebody's account. Admins are locked first, so that two of them cannot remove
// each other.
func (s *Store) administer(ctx context.Context, actor rayslice.User, userID int64, entry rayslice.AuditEntry, fn func(tx pgx.Tx, name string) error) error {
	if !actor.CanAdmin() {
		entry.Subject = s.whom(ctx, userID)
		return s.forbid(ctx, actor, entry, "admin_only")
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			SELECT
			FROM roles
			WHERE role = 'admin'
			ORDER BY user_id
			FOR UPDATE`); err != nil {
			return err
		}
		name, err := userName(ctx, tx, userID)
		if err != nil {
			return err
		}
		return fn(tx, name)
	})
}

// checkAdminLeft refuses a change after which nobody who can sign in is an admin. Where personas can, they and people of an
// identity provider are counted apart: a portal for trying out often has no provider.
func (s *Store) checkAdminLeft(ctx context.Context, tx pgx.Tx, userID int64) error {
	var left bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT
			FROM held_roles r
			JOIN users u ON u.id = r.user_id
			WHERE r.role = 'admin'
				AND `+s.canSignIn()+`
				AND (NOT $2 OR (u.iss IS NULL) = (SELECT iss IS NULL FROM users WHERE id = $1))
		)`, userID, s.personas).Scan(&left)
	if err == nil && !left {
		err = &rayslice.Error{Kind: rayslice.KindConflict, Code: "last_admin"}
	}
	return err
}

// EndSessions signs somebody out everywhere; open pages notice within seconds. Everybody may do so for themselves, but
// not by a token; for others KindForbidden unless the actor is an admin. Tokens are no sessions and stay.
func (s *Store) EndSessions(ctx context.Context, actor rayslice.User, userID int64) error {
	entry := rayslice.AuditEntry{Action: "end_sessions", Reason: rayslice.Reason{Code: "sessions_ended"}}
	if actor.TokenID != 0 || (actor.ID != userID && !actor.CanAdmin()) {
		entry.Subject = s.whom(ctx, userID)
		return s.forbid(ctx, actor, entry, "admin_only")
	}
	return s.inTxOnce(ctx, func(tx pgx.Tx) (err error) {
		if entry.Subject, err = userName(ctx, tx, userID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE users
			SET
				session_epoch = session_epoch + 1
			WHERE id = $1`, userID); err != nil {
			return err
		}
		return audit(ctx, tx, actor, entry)
	})
}
