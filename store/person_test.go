package store_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestPeople lets admins find people and change what they may do.
func TestPeople(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	_, err := s.Users(ctx, p.Lea, store.PersonFilter{})
	wantKind(t, err, rayslice.KindForbidden)
	_, err = s.Users(ctx, p.Root.ByToken(1, "", rayslice.Scopes()), store.PersonFilter{})
	wantKind(t, err, rayslice.KindForbidden)

	var names []string
	f := store.PersonFilter{Limit: 2}
	for {
		page, err := s.Users(ctx, p.Root, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, person := range page.People {
			names = append(names, person.User.Name)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if len(names) != 5 || names[0] != "Ada" || names[4] != "Sam" {
		t.Errorf("people %v", names)
	}
	for _, tc := range []struct {
		filter store.PersonFilter
		want   int
	}{
		{store.PersonFilter{Search: "LEA@"}, 1}, {store.PersonFilter{Team: "vision"}, 3}, {store.PersonFilter{Role: rayslice.RoleAdmin}, 1},
		{store.PersonFilter{Team: "vision", Role: rayslice.RoleLead}, 1}, {store.PersonFilter{Disabled: true}, 0}, {store.PersonFilter{Search: "100%_"}, 0},
	} {
		if page, err := s.Users(ctx, p.Root, tc.filter); err != nil || len(page.People) != tc.want {
			t.Errorf("%+v: %d people, %v", tc.filter, len(page.People), err)
		}
	}

	if err := s.GrantRole(ctx, p.Root, p.Ada.ID, "speech", rayslice.RoleLead); err != nil {
		t.Fatal(err)
	}
	wantField(t, s.GrantRole(ctx, p.Root, p.Ada.ID, "no-such", rayslice.RoleLead), "team", "team_missing")
	wantField(t, s.GrantRole(ctx, p.Root, p.Ada.ID, "vision", "king"), "role", rayslice.CodeRequired)
	wantKind(t, s.GrantRole(ctx, p.Root, 99999, "vision", rayslice.RoleLead), rayslice.KindNotFound)
	wantKind(t, s.GrantRole(ctx, p.Ada, p.Ada.ID, "vision", rayslice.RoleLead), rayslice.KindForbidden)
	if !again(t, s, p.Ada).CanLead("speech") {
		t.Error("the new role does not hold")
	}
	seeded := rayslice.RoleGrant{UserID: p.Ada.ID, Team: "vision", Role: rayslice.RoleMember, Source: rayslice.SourceSeed}
	if err := s.RevokeRole(ctx, p.Root, seeded); err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, s, rayslice.Charge{GiB: 24}) // the next start seeds again
	if again(t, s, p.Ada).MemberOf("vision") {
		t.Error("a role that was taken back is seeded again")
	}
}

// TestEndingSessions counts up what sessions are held against.
func TestEndingSessions(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	wantKind(t, s.EndSessions(ctx, p.Lea, p.Ada.ID), rayslice.KindForbidden)
	for _, actor := range []rayslice.User{p.Ada, p.Root} {
		before := again(t, s, p.Ada).Epoch
		if err := s.EndSessions(ctx, actor, p.Ada.ID); err != nil || again(t, s, p.Ada).Epoch == before {
			t.Errorf("%s: %v", actor.Name, err)
		}
	}
	if err := s.SetDisabled(ctx, p.Root, p.Ada.ID, true); err != nil {
		t.Fatal(err)
	}
	_, err := s.User(ctx, rayslice.System, p.Ada.ID)
	wantKind(t, err, rayslice.KindForbidden)
	if err := s.SetDisabled(ctx, p.Root, p.Ada.ID, false); err != nil {
		t.Fatal(err)
	}
	again(t, s, p.Ada)
}

// TestLastAdmin keeps at least one, also when two admins remove each other at the same time.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	own := rayslice.RoleGrant{UserID: p.Root.ID, Role: rayslice.RoleAdmin, Source: rayslice.SourceSeed}
	wantKind(t, s.RevokeRole(ctx, p.Root, own), rayslice.KindConflict)
	wantKind(t, s.SetDisabled(ctx, p.Root, p.Root.ID, true), rayslice.KindConflict)
	mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Boss", Admin: true})
	wantKind(t, s.RevokeRole(ctx, p.Root, own), rayslice.KindConflict) // the other one signs in elsewhere

	if err := s.GrantRole(ctx, p.Root, p.Lea.ID, "", rayslice.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	lea := again(t, s, p.Lea)
	var both sync.WaitGroup
	errs := make([]error, 2)
	both.Go(func() { errs[0] = s.SetDisabled(ctx, p.Root, lea.ID, true) })
	both.Go(func() {
		errs[1] = s.RevokeRole(ctx, lea, own)
	})
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("got %v and %v, want exactly one refused", errs[0], errs[1])
	}
}

// TestPersonasCountOnlyWhereTheyCanSignIn keeps who was seeded for trying out from standing in for people.
func TestPersonasCountOnlyWhereTheyCanSignIn(t *testing.T) {
	t.Parallel()
	tryout := storetest.New(t)
	p := storetest.Fill(t, tryout, rayslice.Charge{GiB: 24})
	strict(t, tryout, p.Lea)
	s, err := store.Open(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	boss := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Boss", Roles: []rayslice.RoleGrant{{Role: rayslice.RoleAdmin}}})
	zoe := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "2", Name: "Zoe", Roles: []rayslice.RoleGrant{{Team: "vision", Role: rayslice.RoleMember}}})
	for i, tc := range []struct {
		what   string
		news   rayslice.News
		tryout []int64
		want   []int64
	}{
		{"a request that waits", rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: zoe.ID}, []int64{p.Lea.ID}, []int64{boss.ID}},
		{"what is for admins", rayslice.News{Code: rayslice.NewsEscalated, Team: "vision"}, []int64{p.Root.ID, boss.ID}, []int64{boss.ID}},
		{"what is for a persona", rayslice.News{Code: rayslice.NewsReady, For: p.Ada.ID}, []int64{p.Ada.ID}, nil},
	} {
		for j, of := range []struct {
			store *store.Store
			want  []int64
		}{{s, tc.want}, {tryout, tc.tryout}} {
			id := int64(2*i + j + 1)
			if _, err := of.store.Spread(t.Context(), rayslice.System, id, tc.news); err != nil {
				t.Fatal(err)
			}
			if got := told(t, id); !slices.Equal(got, of.want) {
				t.Errorf("%s, personas %v: told %v, want %v", tc.what, j == 1, got, of.want)
			}
		}
	}
	if names, err := s.Deciders(t.Context(), zoe, "vision", zoe.ID); err != nil || !slices.Equal(names, []string{"Boss"}) {
		t.Errorf("deciders %v, %v", names, err)
	}
	wantField(t, s.NameDeputy(t.Context(), boss, "vision", p.Ada.ID, inDays(3)), "user", "not_member")
	wantKind(t, s.SetDisabled(t.Context(), boss, boss.ID, true), rayslice.KindConflict) // Root cannot sign in
	for _, persona := range []rayslice.User{p.Ada, p.Root} {
		if err := s.SetDisabled(t.Context(), boss, persona.ID, true); err != nil {
			t.Errorf("%s cannot be disabled: %v", persona.Name, err)
		}
	}
}
