package store_test

import (
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
