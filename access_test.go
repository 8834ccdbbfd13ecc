package rayslice

import "testing"

func TestAccess(t *testing.T) {
	t.Parallel()
	request := Request{Team: "vision", Owner: User{ID: 1}}
	member := func(id int64, role Role) User { return User{ID: id, Roles: map[string]Role{"vision": role}} }
	owner, lead := member(1, RoleMember), member(2, RoleLead)
	disabled := owner
	disabled.Disabled = true
	for name, tc := range map[string]struct {
		user User
		want Access
	}{
		"the owner":                         {owner, AccessFull},
		"a lead of the team":                {lead, AccessFull},
		"another member":                    {member(3, RoleMember), AccessView},
		"an admin":                          {User{ID: 4, Admin: true}, AccessView},
		"an owner who is disabled":          {disabled, AccessNone},
		"an owner who has left the team":    {User{ID: 1}, AccessNone},
		"a member of another team":          {User{ID: 5, Roles: map[string]Role{"speech": RoleLead}}, AccessNone},
		"nobody":                            {User{}, AccessNone},
		"the portal itself":                 {System, AccessNone},
		"the owner's token to request":      {owner.ByToken(7, "", []Scope{ScopeRead, ScopeRequest}), AccessFull},
		"the owner's token to read":         {owner.ByToken(7, "", []Scope{ScopeRead}), AccessView},
		"the owner's token to read and end": {owner.ByToken(7, "", []Scope{ScopeRead, ScopeStop}), AccessView},
		"the owner's token, of other teams": {owner.ByToken(7, "speech", Scopes()), AccessNone},
		"a lead's token":                    {lead.ByToken(7, "", Scopes()), AccessView},
		"an admin's token":                  {User{ID: 4, Admin: true}.ByToken(7, "", Scopes()), AccessNone},
	} {
		if got := tc.user.Access(request); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
