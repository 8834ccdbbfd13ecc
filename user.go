package rayslice

import (
	"maps"
	"slices"
	"time"
)

// Role is what a person may do.
type Role string

// The roles: member and lead are per team, admin is global and stands on the User.
const (
	RoleMember Role = "member"
	RoleLead   Role = "lead"
	RoleAdmin  Role = "admin"
)

// Scope is what an API token may do in its owner's name. Every token may read.
type Scope string

// The scopes of an API token. There is none for deciding: a token never approves.
const (
	ScopeRead    Scope = "read"
	ScopeRequest Scope = "request"
	ScopeStop    Scope = "stop"
)

// Scopes returns every scope, the least first.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeRequest, ScopeStop} }

// User is a person, or the portal itself (System), or an API token acting for a person (TokenID).
type User struct {
	ID       int64           `json:"id"`
	Name     string          `json:"name"`
	Email    string          `json:"email"`
	Admin    bool            `json:"admin"`
	Roles    map[string]Role `json:"roles"` // team name → role, the strongest of those that hold now
	System   bool            `json:"-"`     // the reconciler and other work of the portal itself
	Disabled bool            `json:"disabled"`
	Persona  bool            `json:"-"` // seeded, without an account at an identity provider: only for the demo
	Epoch    int             `json:"-"` // sessions begun under an earlier one are over
	TokenID  int64           `json:"-"` // API token that acts for the person; 0 = the person
	Scopes   []Scope         `json:"-"` // what the token may do; nothing without TokenID
}

// System is the portal acting by itself: lifetime ends, state records. It may do what the reconciler needs and is
// named "rayslice" in the audit log.
var System = User{Name: "rayslice", System: true}

// ByToken returns the user as an API token acts for them: a member, whatever they are themselves, in the given team
// ("" = in each of theirs), and within the scopes.
func (u User) ByToken(id int64, team string, scopes []Scope) User {
	roles := map[string]Role{}
	for t := range u.Roles {
		if team == "" || t == team {
			roles[t] = RoleMember
		}
	}
	u.Admin, u.Roles, u.TokenID, u.Scopes = false, roles, id, scopes
	return u
}

// Teams returns the names of the user's teams, sorted.
func (u User) Teams() []string { return slices.Sorted(maps.Keys(u.Roles)) }

// LeadTeams returns the names of the teams the user leads, sorted.
func (u User) LeadTeams() []string {
	return slices.DeleteFunc(u.Teams(), func(team string) bool { return u.Roles[team] != RoleLead })
}

// MemberOf reports whether the user has any role in the team.
func (u User) MemberOf(team string) bool { _, ok := u.Roles[team]; return ok }

// CanSee reports whether the user may know that an object of the team exists.
func (u User) CanSee(team string) bool { return u.System || u.Admin || u.MemberOf(team) }

// CanAsk reports whether the user may ask for a cluster in the team's name.
func (u User) CanAsk(team string) bool {
	return !u.Disabled && u.MemberOf(team) && u.Within(ScopeRequest)
}

// CanChange reports whether the user may change or resend the request: only its owner.
func (u User) CanChange(r Request) bool { return r.Owner.ID == u.ID && u.CanAsk(r.Team) }

// CanStop reports whether the user may stop the request: its owner, a lead of its team, an admin.
func (u User) CanStop(r Request) bool {
	return u.System || u.Within(ScopeStop) && (u.Admin || (u.MemberOf(r.Team) && (r.Owner.ID == u.ID || u.Roles[r.Team] == RoleLead)))
}

// CanVerify reports whether the user may ask for a verification of the request's workers: its owner, a lead of its team, an
// admin.
func (u User) CanVerify(r Request) bool {
	return u.System || u.Within(ScopeRequest) && (u.Admin || (u.MemberOf(r.Team) && (r.Owner.ID == u.ID || u.Roles[r.Team] == RoleLead)))
}

// CanLead reports whether the user may set the team's rules, name deputies and ask for more quota.
func (u User) CanLead(team string) bool {
	return u.TokenID == 0 && !u.Disabled && (u.Admin || u.Roles[team] == RoleLead)
}

// CanAdmin reports whether the user may change teams, people and quota.
func (u User) CanAdmin() bool { return u.Admin && u.TokenID == 0 && !u.Disabled }

// MayDecide returns nil when the user may approve, return or reject the request, else a KindForbidden that says why not.
// Nobody decides their own request, admins included, and no token decides at all (gravitational/teleport#7663,
// self-evolving/repo#224).
func (u User) MayDecide(r Request) error {
	switch {
	case u.TokenID != 0:
		return Forbidden("decide_by_token")
	case r.Owner.ID == u.ID:
		return Forbidden("decide_own")
	case !u.CanLead(r.Team):
		return Forbidden("decide_not_lead")
	}
	return nil
}

// Within reports whether the scope is there: a person has every one, a token those it was made with.
func (u User) Within(s Scope) bool { return u.TokenID == 0 || slices.Contains(u.Scopes, s) }

// MayDecideRaise returns nil when the user may grant or deny the raise, else a KindForbidden that says why not. Nobody
// decides their own, admins included.
func (u User) MayDecideRaise(r Raise) error {
	switch {
	case !u.CanAdmin():
		return Forbidden("raise_not_admin")
	case r.By.ID == u.ID:
		return Forbidden("raise_own")
	}
	return nil
}

// Source says where somebody's role comes from. Each source changes only its own grants (DefGuard/defguard#3516).
type Source string

// The sources of a role.
const (
	SourceSeed   Source = "seed"   // the file of teams and people
	SourceManual Source = "manual" // an admin
	SourceOIDC   Source = "oidc"   // a group at the identity provider
	SourceConfig Source = "config" // the portal's own settings, RAYSLICE_OIDC_ADMINS
	SourceDeputy Source = "deputy" // a lead who is away
)

// A RoleGrant is one reason why somebody has a role.
type RoleGrant struct {
	UserID int64     `json:"user_id"`
	Team   string    `json:"team"` // "" for an admin, who is one everywhere
	Role   Role      `json:"role"`
	Source Source    `json:"source"`
	Until  time.Time `json:"until"` // it ends by itself; zero = it does not
	By     string    `json:"by"`    // who gave it; "" = nobody in person
}

// Team is a group of people with one quota and one Kubernetes namespace.
type Team struct {
	Name      string `json:"name"`      // "vision"; DNS label
	Namespace string `json:"namespace"` // where its clusters run
}
