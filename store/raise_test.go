package store_test

import (
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func mustAsk(t *testing.T, s *store.Store, lead rayslice.User, c rayslice.Charge, until time.Time) rayslice.Raise {
	t.Helper()
	r, err := s.AskRaise(t.Context(), lead, rayslice.RaiseDraft{Team: "vision", Charge: c, Until: until, Purpose: "The March paper"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRaiseIsDecidedOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	week := time.Now().AddDate(0, 0, 7)
	_, err := s.AskRaise(t.Context(), people.Ada, rayslice.RaiseDraft{Team: "vision", Charge: rayslice.Charge{GiB: 8}, Purpose: "more"})
	wantKind(t, err, rayslice.KindForbidden)
	_, err = s.AskRaise(t.Context(), people.Lea, rayslice.RaiseDraft{Team: "speech", Charge: rayslice.Charge{GiB: 8}, Purpose: "more"})
	wantKind(t, err, rayslice.KindNotFound)

	r := mustAsk(t, s, people.Lea, rayslice.Charge{GiB: 16}, week)
	grant := rayslice.RaiseDecision{Grant: true, Charge: rayslice.Charge{GiB: 8}, Until: week.AddDate(0, 0, -1), Answer: "half of it"}
	for who, code := range map[*rayslice.User]string{&people.Lea: "raise_not_admin", &people.Ada: "raise_not_admin"} {
		_, err := s.DecideRaise(t.Context(), *who, r.ID, grant)
		if e := refusal(t, err, rayslice.KindForbidden); e.Code != code {
			t.Errorf("%s: %s, want %s", who.Name, e.Code, code)
		}
	}
	_, err = s.DecideRaise(t.Context(), people.Sam, r.ID, grant)
	wantKind(t, err, rayslice.KindNotFound)
	more := grant
	more.Charge.GiB = 17
	_, err = s.DecideRaise(t.Context(), people.Root, r.ID, more)
	wantField(t, err, "gib", rayslice.CodeRange)

	decided, err := s.DecideRaise(t.Context(), people.Root, r.ID, grant)
	if err != nil || decided.State != rayslice.RaiseGranted || decided.Grant == nil || decided.Grant.Charge.GiB != 8 || decided.DecidedBy != "Root" {
		t.Fatalf("%+v, %v", decided, err)
	}
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 32})
	for _, again := range []rayslice.RaiseDecision{grant, {Answer: "no"}} {
		_, err = s.DecideRaise(t.Context(), people.Root, r.ID, again)
		if e := refusal(t, err, rayslice.KindConflict); e.Code != "raise_decided" || e.Args["who"] != "Root" {
			t.Errorf("second decision: %v", e)
		}
	}
	wantKind(t, s.WithdrawRaise(t.Context(), people.Lea, r.ID), rayslice.KindConflict)
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 32})
	for action, n := range map[string]int{"ask_raise": 1, "grant_raise": 1, "deny_raise": 0, "withdraw_raise": 0, "refuse": 3} {
		wantLogged(t, s, people.Root, action, n)
	}
}

func TestNobodyGrantsTheirOwnRaise(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	r := mustAsk(t, s, people.Root, rayslice.Charge{GiB: 16}, time.Time{})
	_, err := s.DecideRaise(t.Context(), people.Root, r.ID, rayslice.RaiseDecision{Grant: true, Charge: r.Charge})
	if e := refusal(t, err, rayslice.KindForbidden); e.Code != "raise_own" {
		t.Errorf("code %s", e.Code)
	}
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 24})
	if err := s.WithdrawRaise(t.Context(), people.Lea, r.ID); err != nil {
		t.Fatal(err)
	}
	page, err := s.Raises(t.Context(), people.Lea, store.RaiseFilter{Team: "vision", State: rayslice.RaiseWithdrawn})
	if err != nil || len(page.Raises) != 1 || page.Raises[0].By.Name != "Root" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestRaisesArePagedAndKeptApart(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	for i := range 3 {
		first := mustAsk(t, s, people.Lea, rayslice.Charge{GiB: i + 1}, time.Time{})
		if again := mustAsk(t, s, people.Lea, rayslice.Charge{GiB: i + 1}, time.Time{}); again.ID != first.ID {
			t.Error("a form that was sent twice asked twice")
		}
	}
	wantLogged(t, s, people.Root, "ask_raise", 3)
	first, err := s.Raises(t.Context(), people.Root, store.RaiseFilter{State: rayslice.RaisePending, Limit: 2})
	if err != nil || len(first.Raises) != 2 || first.Next == 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	rest, err := s.Raises(t.Context(), people.Root, store.RaiseFilter{State: rayslice.RaisePending, Limit: 2, After: first.Next})
	if err != nil || len(rest.Raises) != 1 || rest.Next != 0 {
		t.Errorf("%+v, %v", rest, err)
	}
	theirs, err := s.Raises(t.Context(), people.Sam, store.RaiseFilter{})
	if err != nil || len(theirs.Raises) != 0 {
		t.Errorf("another team sees %+v, %v", theirs, err)
	}
	_, err = s.Raises(t.Context(), people.Sam, store.RaiseFilter{Team: "vision"})
	wantKind(t, err, rayslice.KindNotFound)
	_, err = s.Raise(t.Context(), people.Sam, first.Raises[0].ID)
	wantKind(t, err, rayslice.KindNotFound)
}

// TestARaiseReturnsByItself looks at the limit through the charge, the quota and the sweep, each before anybody else has.
func TestARaiseReturnsByItself(t *testing.T) {
	for what, look := range map[string]func(*testing.T, *store.Store, storetest.People){
		"by a read": func(t *testing.T, s *store.Store, _ storetest.People) {
			wantLimit(t, s, "vision", rayslice.Charge{GiB: 8})
		},
		"by a charge": func(t *testing.T, s *store.Store, people storetest.People) {
			_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 16), "")
			if e := refusal(t, err, rayslice.KindOverQuota); e.Args["limit_gib"] != 8 {
				t.Errorf("refused with %v", e.Args)
			}
			mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
		},
		"by a sweep": func(t *testing.T, s *store.Store, people storetest.People) {
			swept, err := s.Sweep(t.Context(), rayslice.System)
			if err != nil || swept.Grants != 1 {
				t.Errorf("swept %+v, %v", swept, err)
			}
			wantLogged(t, s, people.Root, "grant_ended", 1)
			wantLimit(t, s, "vision", rayslice.Charge{GiB: 8})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
			grantUntil(t, s, people, time.Now().AddDate(0, 0, 1))
			wantLimit(t, s, "vision", rayslice.Charge{GiB: 24})
			shiftGrants(t)
			look(t, s, people)
		})
	}
}

func grantUntil(t *testing.T, s *store.Store, people storetest.People, until time.Time) rayslice.Raise {
	t.Helper()
	r := mustAsk(t, s, people.Lea, rayslice.Charge{GiB: 16}, until)
	decided, err := s.DecideRaise(t.Context(), people.Root, r.ID, rayslice.RaiseDecision{Grant: true, Charge: r.Charge, Until: r.Until})
	if err != nil {
		t.Fatal(err)
	}
	return decided
}

// shiftGrants lets two days pass for every grant.
func shiftGrants(t *testing.T) {
	t.Helper()
	storetest.Exec(t, `UPDATE grants SET until_at = until_at - interval '2 days', since = since - interval '2 days'`)
	storetest.Exec(t, `UPDATE quotas SET limit_until = limit_until - interval '2 days'`)
}

// TestARaiseEndsWithinTheSecond has a real end, a second away, and no shifted time.
func TestARaiseEndsWithinTheSecond(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	grantUntil(t, s, people, time.Now().Add(time.Second))
	mustCreate(t, s, people.Ada, storetest.Draft(2, 8)) // 16 of 24
	storetest.Exec(t, `SELECT pg_sleep_until(max(until_at)) FROM grants`)
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 8})
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 4), "")
	wantKind(t, err, rayslice.KindOverQuota)
	wantUsed(t, s, rayslice.Charge{GiB: 16}) // more than the limit, and it runs on
}

func TestARaiseIsTakenBackEarly(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	grant := grantUntil(t, s, people, time.Now().AddDate(0, 0, 9)).Grant.ID
	wantKind(t, s.EndGrant(t.Context(), people.Sam, "vision", grant), rayslice.KindNotFound)
	wantKind(t, s.EndGrant(t.Context(), people.Lea, "vision", grant), rayslice.KindForbidden)
	wantKind(t, s.EndGrant(t.Context(), people.Root, "vision", grant+100), rayslice.KindNotFound)
	wantKind(t, s.EndGrant(t.Context(), people.Root, "speech", grant), rayslice.KindNotFound)
	if err := s.EndGrant(t.Context(), people.Root, "vision", grant); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 8})
	if e := refusal(t, s.EndGrant(t.Context(), people.Root, "vision", grant), rayslice.KindConflict); e.Code != "grant_over" {
		t.Errorf("code %s", e.Code)
	}
	base, err := s.Grants(t.Context(), people.Ada, "vision")
	if err != nil || len(base) != 1 {
		t.Fatal(base, err)
	}
	if e := refusal(t, s.EndGrant(t.Context(), people.Root, "vision", base[0].ID), rayslice.KindConflict); e.Code != "grant_is_base" {
		t.Errorf("code %s", e.Code)
	}
	wantLogged(t, s, people.Root, "end_grant", 1)
}
