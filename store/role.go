package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// Member is a person of a team with every reason why they are one.
type Member struct {
	User   rayslice.User
	Grants []rayslice.RoleGrant // in this team, those that hold now
}

// grantColumns select the grants that hold now.
const grantColumns = `
	SELECT
		user_id,
		coalesce(team, ''),
		role,
		source,
		until_at,
		granted_by
	FROM held_roles`

func scanRoleGrant(row pgx.CollectableRow) (g rayslice.RoleGrant, err error) {
	var until pgtype.Timestamptz
	err = row.Scan(&g.UserID, &g.Team, &g.Role, &g.Source, &until, &g.By)
	g.Until = until.Time.UTC()
	return g, err
}

// Members returns the people of a team the actor may see, by name, disabled ones included.
func (s *Store) Members(ctx context.Context, actor rayslice.User, team string) ([]Member, error) {
	if !actor.CanSee(team) {
		return nil, rayslice.NotFound("team")
	}
	rows, _ := s.db.Query(ctx, grantColumns+`
		WHERE team = $1
		ORDER BY
			role,
			source`, team)
	grants, err := pgx.CollectRows(rows, scanRoleGrant)
	if err != nil {
		return nil, missing(err, "team")
	}
	of := grantsByUser(grants)
	rows, _ = s.db.Query(ctx, userColumns+`
		WHERE u.id = ANY ($1)
		ORDER BY
			lower(u.name),
			u.id`, userIDs(grants))
	users, err := pgx.CollectRows(rows, scanUser)
	members := make([]Member, 0, len(users))
	for _, u := range users {
		members = append(members, Member{User: u, Grants: of[u.ID]})
	}
	return members, answer(err)
}

func grantsByUser(grants []rayslice.RoleGrant) map[int64][]rayslice.RoleGrant {
	of := map[int64][]rayslice.RoleGrant{}
	for _, g := range grants {
		of[g.UserID] = append(of[g.UserID], g)
	}
	return of
}

func userIDs(grants []rayslice.RoleGrant) []int64 {
	ids := make([]int64, len(grants))
	for i, g := range grants {
		ids[i] = g.UserID
	}
	return ids
}

// insertRole gives a role and records it; one that is held already from the same source, or whose team does not exist,
// changes nothing.
func insertRole(ctx context.Context, tx pgx.Tx, actor rayslice.User, name string, g rayslice.RoleGrant) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO roles (
			user_id,
			team,
			role,
			source,
			granted_by
		)
		SELECT
			$1,
			nullif($2, ''),
			$3,
			$4,
			$5
		WHERE $2 = '' OR EXISTS (SELECT FROM teams WHERE name = $2)
		ON CONFLICT (user_id, team, role, source) DO UPDATE
		SET
			until_at = NULL
		WHERE roles.until_at IS NOT NULL`, g.UserID, g.Team, g.Role, g.Source, g.By)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	if err := tellRole(ctx, tx, actor, g.UserID, g.Team); err != nil {
		return err
	}
	return audit(ctx, tx, actor, roleEntry("grant_role", name, g))
}

// deleteRole takes one grant back and records it. A seeded one is ended and not deleted, or the next start would give it
// again. One that does not hold changes nothing.
func deleteRole(ctx context.Context, tx pgx.Tx, actor rayslice.User, name string, g rayslice.RoleGrant) error {
	const which = `
		WHERE user_id = $1
			AND team IS NOT DISTINCT FROM nullif($2, '')
			AND role = $3
			AND source = $4
			AND (until_at IS NULL OR until_at > now())`
	statement := `
		DELETE FROM roles` + which
	if g.Source == rayslice.SourceSeed {
		statement = `
		UPDATE roles
		SET
			until_at = now()` + which
	}
	tag, err := tx.Exec(ctx, statement, g.UserID, g.Team, g.Role, g.Source)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	if err := tellRole(ctx, tx, actor, g.UserID, g.Team); err != nil {
		return err
	}
	return audit(ctx, tx, actor, roleEntry("revoke_role", name, g))
}

// tellRole tells a person what they are in a team now, "" for the whole portal. What changed by itself with their groups at
// the identity provider they know from there.
func tellRole(ctx context.Context, tx pgx.Tx, actor rayslice.User, userID int64, team string) error {
	if actor.System {
		return nil
	}
	var role string // "" = nothing any more
	err := tx.QueryRow(ctx, `
		SELECT
			coalesce(CASE WHEN bool_or(role = 'lead') THEN 'lead' ELSE min(role) END, '')
		FROM held_roles
		WHERE user_id = $1
			AND team IS NOT DISTINCT FROM nullif($2, '')`, userID, team).Scan(&role)
	if err != nil {
		return err
	}
	return tell(ctx, tx, rayslice.News{Code: rayslice.NewsRole, Team: team, For: userID, By: actor.ID,
		Args: map[string]any{"who": actor.Name, "role": role}})
}

func roleEntry(action, name string, g rayslice.RoleGrant) rayslice.AuditEntry {
	code := map[string]string{"grant_role": reasonRoleGranted, "revoke_role": reasonRoleRevoked}[action]
	return rayslice.AuditEntry{Action: action, Subject: name, Team: g.Team, Reason: rayslice.Reason{
		Code: code, Args: map[string]any{"role": g.Role, "source": g.Source}}}
}

// What the audit log says about a role that changed.
const (
	reasonRoleGranted = "role_granted"
	reasonRoleRevoked = "role_revoked"
)

// MaxDeputyDays is how long a lead may be deputised at a time.
const MaxDeputyDays = 60

// NameDeputy lets a member of the team decide and set rules like a lead until then, at most MaxDeputyDays from now, and only
// while they are a member. A deputy there is already gets the new end. KindForbidden unless the actor leads the team or is an admin; a deputy names
// no deputies. KindInvalid when the person is not a member of the team, or is the actor.
func (s *Store) NameDeputy(ctx context.Context, actor rayslice.User, team string, userID int64, until time.Time) error {
	if !actor.CanSee(team) {
		return rayslice.NotFound("team")
	}
	entry := rayslice.AuditEntry{Action: "name_deputy", Team: team, Reason: rayslice.Reason{
		Code: "deputy_named", Args: map[string]any{"until": until.UTC().Format(time.DateOnly)}}}
	if !actor.CanLead(team) {
		entry.Subject = s.whom(ctx, userID)
		return s.forbid(ctx, actor, entry, "deputy_not_lead")
	}
	if userID == actor.ID {
		return rayslice.Invalid(rayslice.FieldError{Field: "user", Code: "deputy_self"})
	}
	var own bool // the actor leads in their own right
	err := s.inTxOnce(ctx, func(tx pgx.Tx) (err error) {
		if own, err = leadsInOwnRight(ctx, tx, actor, team); err != nil || !own {
			return err
		}
		if entry.Subject, err = s.memberName(ctx, tx, team, userID); err != nil {
			return err
		}
		if err := checkUntil(ctx, tx, until); err != nil {
			return err
		}
		if err := insertDeputy(ctx, tx, actor, team, userID, until); err != nil {
			return err
		}
		if err := tellRole(ctx, tx, actor, userID, team); err != nil {
			return err
		}
		return audit(ctx, tx, actor, entry)
	})
	if err == nil && !own {
		entry.Subject = s.whom(ctx, userID)
		return s.forbid(ctx, actor, entry, "deputy_not_lead")
	}
	return err
}

// leadsInOwnRight reports whether the actor is an admin, or leads the team by more than being somebody's deputy.
func leadsInOwnRight(ctx context.Context, tx pgx.Tx, actor rayslice.User, team string) (own bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT $1 OR EXISTS (
			SELECT
			FROM held_roles
			WHERE user_id = $2
				AND team = $3
				AND role = 'lead'
				AND source <> 'deputy'
		)`, actor.Admin, actor.ID, team).Scan(&own)
	return own, err
}

// memberName returns the name of somebody who is in the team by more than being a deputy, and who can sign in.
func (s *Store) memberName(ctx context.Context, tx pgx.Tx, team string, userID int64) (name string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT u.name
		FROM users u
		WHERE u.id = $1
			AND `+s.canSignIn()+`
			AND EXISTS (
				SELECT
				FROM held_roles
				WHERE user_id = u.id
					AND team = $2
					AND source <> 'deputy'
			)`, userID, team).Scan(&name)
	if rayslice.KindOf(missing(err, "user")) == rayslice.KindNotFound {
		err = rayslice.Invalid(rayslice.FieldError{Field: "user", Code: "not_member", Args: map[string]any{"team": team}})
	}
	return name, err
}

func checkUntil(ctx context.Context, tx pgx.Tx, until time.Time) error {
	var ok bool
	err := tx.QueryRow(ctx, `SELECT $1::timestamptz > now() AND $1 <= now() + make_interval(days => $2)`, until, MaxDeputyDays).Scan(&ok)
	if err == nil && !ok {
		err = rayslice.Invalid(rayslice.FieldError{Field: "until", Code: "until_days", Args: map[string]any{"max": MaxDeputyDays}})
	}
	return err
}

func insertDeputy(ctx context.Context, tx pgx.Tx, actor rayslice.User, team string, userID int64, until time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO roles (
			user_id,
			team,
			role,
			source,
			until_at,
			granted_by
		)
		VALUES ($1, $2, 'lead', 'deputy', $3, $4)
		ON CONFLICT (user_id, team, role, source) DO UPDATE
		SET
			until_at = excluded.until_at,
			granted_by = excluded.granted_by`, userID, team, until, actor.Name)
	return err
}

// EndDeputy ends a deputy's time now; one that is over already is no error. KindForbidden unless the actor leads the team
// or is an admin. Deputies may end their own.
func (s *Store) EndDeputy(ctx context.Context, actor rayslice.User, team string, userID int64) error {
	if !actor.CanSee(team) {
		return rayslice.NotFound("team")
	}
	entry := rayslice.AuditEntry{Action: "end_deputy", Team: team, Reason: rayslice.Reason{Code: "deputy_ended"}}
	if !actor.CanLead(team) {
		entry.Subject = s.whom(ctx, userID)
		return s.forbid(ctx, actor, entry, "deputy_not_lead")
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			DELETE FROM roles
			WHERE user_id = $1
				AND team = $2
				AND source = 'deputy'`, userID, team)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if entry.Subject, err = userName(ctx, tx, userID); err != nil {
			return err
		}
		if err := tellRole(ctx, tx, actor, userID, team); err != nil {
			return err
		}
		return audit(ctx, tx, actor, entry)
	})
}

// whom returns somebody's name for an entry about what was tried on them; "" for nobody.
func (s *Store) whom(ctx context.Context, id int64) string {
	name, _ := userName(ctx, s.db, id) // a database that is away fails the entry itself
	return name
}

func userName(ctx context.Context, db DB, id int64) (name string, err error) {
	err = db.QueryRow(ctx, `
		SELECT name
		FROM users
		WHERE id = $1`, id).Scan(&name)
	return name, missing(err, "user")
}
