package rayslice

// Access is what somebody may do with the dashboard and the jobs of a cluster.
type Access string

// The kinds of access.
const (
	AccessNone Access = ""     // it is not theirs to know of
	AccessView Access = "view" // look at the dashboard, jobs and logs
	AccessFull Access = "full" // also send and stop jobs, which is running code
)

// Access returns what the user may do with the request's cluster: its owner and the team's leads everything, the rest of the
// team and admins look. A token acts for its owner as a member; without the scope to request it only looks.
func (u User) Access(r Request) Access {
	switch {
	case u.Disabled || u.System || !u.CanSee(r.Team):
		return AccessNone
	case u.CanAsk(r.Team) && (r.Owner.ID == u.ID || u.Roles[r.Team] == RoleLead):
		return AccessFull
	}
	return AccessView
}
