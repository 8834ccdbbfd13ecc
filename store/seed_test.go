package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestSeedTwice seeds other limits and roles over what exists, from two replicas at once.
func TestSeedTwice(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20, Cards: 2})
	mustCreate(t, stores[0], people.Ada, storetest.Draft(1, 8))
	other := store.Seed{
		Teams: []store.SeedTeam{
			{Name: "vision", Namespace: "team-vision", LimitGiB: 999, LimitCards: 0},
			{Name: "new", Namespace: "team-new", LimitGiB: 5},
		},
		Users: []store.SeedUser{{Name: "Someone", Email: "ADA@example.org", Admin: true,
			Roles: map[string]rayslice.Role{"vision": rayslice.RoleLead, "new": rayslice.RoleMember}}},
	}
	inParallel(8, func(i int) {
		if err := stores[i%2].Seed(t.Context(), rayslice.System, other); err != nil {
			t.Error(err)
		}
	})
	want := people.Ada
	want.Roles = map[string]rayslice.Role{"vision": rayslice.RoleMember, "new": rayslice.RoleMember}
	ada, err := stores[0].User(t.Context(), rayslice.System, people.Ada.ID)
	if diff := cmp.Diff(want, ada); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	q, err := stores[0].Quota(t.Context(), ada, "vision")
	if wantLimit := (rayslice.Charge{GiB: 20, Cards: 2}); err != nil || q.Limit != wantLimit || q.Used.GiB != 8 {
		t.Errorf("got %v, %v; want limit %v", q, err, wantLimit)
	}
}

func TestSeedNamesWhatIsWrong(t *testing.T) {
	s := storetest.New(t)
	tests := map[string]struct {
		seed  store.Seed
		field string
		code  string
	}{
		"negative limit": {store.Seed{Teams: []store.SeedTeam{{Name: "a", Namespace: "a", LimitGiB: -1}}}, "teams[0].limit", rayslice.CodeRange},
		"namespace of two teams": {store.Seed{Teams: []store.SeedTeam{{Name: "a", Namespace: "n"}, {Name: "b", Namespace: "n"}}},
			"teams[1].namespace", rayslice.CodeDuplicate},
		"unknown team": {store.Seed{Users: []store.SeedUser{{Name: "x", Email: "x", Roles: map[string]rayslice.Role{"nowhere": rayslice.RoleLead}}}},
			"users[0].roles.nowhere", rayslice.CodeTeamUnknown},
		"unknown role": {store.Seed{Teams: []store.SeedTeam{{Name: "a", Namespace: "a"}},
			Users: []store.SeedUser{{Name: "x", Email: "x", Roles: map[string]rayslice.Role{"a": "boss"}}}}, "users[0].roles.a", rayslice.CodeType},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			wantField(t, s.Seed(t.Context(), rayslice.System, tc.seed), tc.field, tc.code)
			if teams, err := s.Teams(t.Context(), rayslice.System); err != nil || len(teams) != 0 {
				t.Errorf("left behind %v, %v", teams, err)
			}
		})
	}
}
