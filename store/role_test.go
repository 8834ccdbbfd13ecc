package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// again returns the person as they are now.
func again(t testing.TB, s *store.Store, u rayslice.User) rayslice.User {
	t.Helper()
	now, err := s.User(t.Context(), rayslice.System, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func inDays(n int) time.Time { return time.Now().AddDate(0, 0, n).Add(-time.Minute) }

// TestDeputies lets a member stand in for a lead until a day, and nobody give more than they have.
func TestDeputies(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	wantKind(t, s.NameDeputy(ctx, p.Ada, "vision", p.Bob.ID, inDays(7)), rayslice.KindForbidden)
	wantKind(t, s.NameDeputy(ctx, p.Sam, "vision", p.Bob.ID, inDays(7)), rayslice.KindNotFound)
	wantKind(t, s.NameDeputy(ctx, p.Lea.ByToken(1, "", rayslice.Scopes()), "vision", p.Bob.ID, inDays(7)), rayslice.KindForbidden)
	wantField(t, s.NameDeputy(ctx, p.Lea, "vision", p.Lea.ID, inDays(7)), "user", "deputy_self")
	wantField(t, s.NameDeputy(ctx, p.Lea, "vision", p.Sam.ID, inDays(7)), "user", "not_member")
	wantField(t, s.NameDeputy(ctx, p.Lea, "vision", p.Bob.ID, inDays(62)), "until", "until_days")
	wantField(t, s.NameDeputy(ctx, p.Lea, "vision", p.Bob.ID, inDays(-1)), "until", "until_days")

	for range 2 { // the second only moves the end
		if err := s.NameDeputy(ctx, p.Lea, "vision", p.Bob.ID, inDays(7)); err != nil {
			t.Fatal(err)
		}
	}
	bob := again(t, s, p.Bob)
	if !bob.CanLead("vision") {
		t.Error("the deputy does not lead")
	}
	wantKind(t, s.NameDeputy(ctx, bob, "vision", p.Ada.ID, inDays(7)), rayslice.KindForbidden)

	members, err := s.Members(ctx, p.Ada, "vision")
	if err != nil || len(members) != 3 || members[1].User.Name != "Bob" || len(members[1].Grants) != 2 {
		t.Fatalf("members %+v, %v", members, err)
	}
	if g := members[1].Grants[0]; g.Source != rayslice.SourceDeputy || g.By != "Lea" || g.Until.IsZero() {
		t.Errorf("grant %+v", g)
	}
	_, err = s.Members(ctx, p.Sam, "vision")
	wantKind(t, err, rayslice.KindNotFound)

	storetest.Exec(t, `UPDATE roles SET until_at = now() WHERE source = 'deputy'`)
	if again(t, s, p.Bob).CanLead("vision") {
		t.Error("a deputy leads on after the end")
	}
	if err := s.NameDeputy(ctx, p.Root, "vision", p.Bob.ID, inDays(60)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.EndDeputy(ctx, p.Ada, "vision", p.Bob.ID), rayslice.KindForbidden)
	for range 2 {
		if err := s.EndDeputy(ctx, p.Lea, "vision", p.Bob.ID); err != nil {
			t.Fatal(err)
		}
	}
	if again(t, s, p.Bob).CanLead("vision") {
		t.Error("a deputy leads on after being ended")
	}
}

// TestADeputyMustBeInTheTeam lets nobody lead a team that they have left, however they left it.
func TestADeputyMustBeInTheTeam(t *testing.T) {
	t.Parallel()
	member := []rayslice.RoleGrant{{Team: "vision", Role: rayslice.RoleMember}}
	inGroups := func(roles []rayslice.RoleGrant) rayslice.Identity {
		return rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Zoe", Roles: roles}
	}
	for name, leave := range map[string]func(t *testing.T, s *store.Store, root, zoe rayslice.User){
		"their group at the provider": func(t *testing.T, s *store.Store, _, _ rayslice.User) {
			mustSignIn(t, s, inGroups([]rayslice.RoleGrant{}))
		},
		"an admin takes the role": func(t *testing.T, s *store.Store, root, zoe rayslice.User) {
			if err := s.GrantRole(t.Context(), root, zoe.ID, "vision", rayslice.RoleLead); err != nil {
				t.Fatal(err)
			}
			mustSignIn(t, s, inGroups([]rayslice.RoleGrant{}))
			if err := s.RevokeRole(t.Context(), root, rayslice.RoleGrant{UserID: zoe.ID, Team: "vision", Role: rayslice.RoleLead, Source: rayslice.SourceManual}); err != nil {
				t.Fatal(err)
			}
		},
		"the role ends by itself": func(t *testing.T, _ *store.Store, _, zoe rayslice.User) {
			storetest.Exec(t, `UPDATE roles SET until_at = now() WHERE user_id = $1 AND source = 'oidc'`, zoe.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
			strict(t, s, p.Lea)
			zoe := mustSignIn(t, s, inGroups(member))
			if err := s.NameDeputy(t.Context(), p.Lea, "vision", zoe.ID, inDays(50)); err != nil {
				t.Fatal(err)
			}
			if !again(t, s, zoe).CanLead("vision") {
				t.Fatal("the deputy does not lead")
			}
			leave(t, s, p.Root, zoe)
			wantNoLead(t, s, p, again(t, s, zoe))
			if mustSignIn(t, s, inGroups(nil)); again(t, s, zoe).MemberOf("vision") {
				t.Error("is back without a reason")
			}
			if back := mustSignIn(t, s, inGroups(member)); name == "their group at the provider" && !back.CanLead("vision") {
				t.Error("who is back within the deputy's time does not lead")
			}
		})
	}
}

// wantNoLead expects that nothing takes somebody who left the team for its lead.
func wantNoLead(t *testing.T, s *store.Store, p storetest.People, left rayslice.User) {
	t.Helper()
	if len(left.Roles) != 0 {
		t.Errorf("still has the roles %v", left.Roles)
	}
	r := mustCreate(t, s, p.Ada, storetest.Draft(1, 8))
	_, err := s.DecideRequest(t.Context(), left, r.ID, approveRevision(1))
	wantKind(t, err, rayslice.KindNotFound)
	if _, err := s.Spread(t.Context(), rayslice.System, 1, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", RequestID: r.ID, By: p.Ada.ID}); err != nil {
		t.Fatal(err)
	}
	if ids := told(t, 1); !slices.Equal(ids, []int64{p.Lea.ID}) {
		t.Errorf("told %v, want %d only", ids, p.Lea.ID)
	}
	if names, err := s.Deciders(t.Context(), p.Ada, "vision", p.Ada.ID); err != nil || !slices.Equal(names, []string{"Lea"}) {
		t.Errorf("deciders %v, %v", names, err)
	}
	members, err := s.Members(t.Context(), p.Ada, "vision")
	if err != nil || len(members) != 3 {
		t.Errorf("members %+v, %v", members, err)
	}
}

// TestPeopleHearWhatTheyAreNow: not what changed, as they may be it for another reason too.
func TestPeopleHearWhatTheyAreNow(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	grant := func(team string, role rayslice.Role) func() error {
		return func() error { return s.GrantRole(ctx, p.Root, p.Bob.ID, team, role) }
	}
	revoke := func(team string, role rayslice.Role, source rayslice.Source) func() error {
		return func() error {
			return s.RevokeRole(ctx, p.Root, rayslice.RoleGrant{UserID: p.Bob.ID, Team: team, Role: role, Source: source})
		}
	}
	endAs := func(actor rayslice.User) func() error {
		return func() error { return s.EndDeputy(ctx, actor, "vision", p.Bob.ID) }
	}
	name := func() error { return s.NameDeputy(ctx, p.Lea, "vision", p.Bob.ID, inDays(5)) }
	for i, step := range []struct {
		do   func() error
		team string
		role []any // nil = nothing is told
	}{
		{name, "vision", []any{"lead"}},
		{endAs(p.Lea), "vision", []any{"member"}},
		{endAs(p.Lea), "vision", nil}, // it is over
		{name, "vision", []any{"lead"}},
		{func() error { return s.EndDeputy(ctx, again(t, s, p.Bob), "vision", p.Bob.ID) }, "vision", nil}, // their own doing
		{grant("vision", rayslice.RoleLead), "vision", []any{"lead"}},
		{grant("vision", rayslice.RoleMember), "vision", []any{"lead"}},
		{revoke("vision", rayslice.RoleLead, rayslice.SourceManual), "vision", []any{"member"}},
		{revoke("vision", rayslice.RoleMember, rayslice.SourceManual), "vision", []any{"member"}},
		{revoke("vision", rayslice.RoleMember, rayslice.SourceSeed), "vision", []any{""}},
		{grant("", rayslice.RoleAdmin), "", []any{"admin"}},
		{revoke("", rayslice.RoleAdmin, rayslice.SourceManual), "", []any{""}},
	} {
		outbox(t)
		if err := step.do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		var got []any
		for _, n := range outbox(t) {
			if n.Code != rayslice.NewsRole || n.For != p.Bob.ID || n.Team != step.team {
				t.Errorf("step %d: told %+v", i, n)
			}
			got = append(got, n.Args["role"])
		}
		if !slices.Equal(got, step.role) {
			t.Errorf("step %d: told of the role %q, want %q", i, got, step.role)
		}
	}
}
