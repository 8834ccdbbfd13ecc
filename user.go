package rayslice

import "slices"

// Role is what a person may do in one team.
type Role string

// The roles per team; admin is global and stands on the User.
const (
	RoleMember Role = "member"
	RoleLead   Role = "lead"
)

// User is a person, or the portal itself (System).
type User struct {
	ID       int64           `json:"id"`
	Name     string          `json:"name"`
	Email    string          `json:"email"`
	Admin    bool            `json:"admin"`
	Roles    map[string]Role `json:"roles"` // team name → role
	System   bool            `json:"-"`     // the reconciler and other work of the portal itself
	Disabled bool            `json:"disabled"`
}

// System is the portal acting by itself: lifetime ends, state records. It may do what the reconciler needs and is
// named "rayslice" in the audit log.
var System = User{Name: "rayslice", System: true}

// Teams returns the names of the user's teams, sorted.
func (u User) Teams() []string {
	teams := make([]string, 0, len(u.Roles))
	for t := range u.Roles {
		teams = append(teams, t)
	}
	slices.Sort(teams)
	return teams
}

// MemberOf reports whether the user has any role in the team.
func (u User) MemberOf(team string) bool { _, ok := u.Roles[team]; return ok }

// CanSee reports whether the user may know that an object of the team exists.
func (u User) CanSee(team string) bool { return u.System || u.Admin || u.MemberOf(team) }

// CanAsk reports whether the user may ask for a cluster in the team's name.
func (u User) CanAsk(team string) bool { return !u.Disabled && u.MemberOf(team) }

// CanStop reports whether the user may stop the request: its owner, a lead of its team, an admin.
func (u User) CanStop(r Request) bool {
	return u.System || u.Admin || (u.MemberOf(r.Team) && (r.Owner.ID == u.ID || u.Roles[r.Team] == RoleLead))
}

// Team is a group of people with one quota and one Kubernetes namespace.
type Team struct {
	Name      string `json:"name"`      // "vision"; DNS label
	Namespace string `json:"namespace"` // where its clusters run
}
