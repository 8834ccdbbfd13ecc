package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestRulesDecideWhatStartsAtOnce sends one request after the other to a team that has set rules.
func TestRulesDecideWhatStartsAtOnce(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
	rules := rayslice.Rules{Auto: rayslice.Charge{GiB: 16}, AutoHours: 8, Member: &rayslice.Charge{GiB: 24}, MaxHours: 48}
	if err := s.SetRules(t.Context(), people.Lea, "vision", rules); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what    string
		actor   rayslice.User
		workers int
		hours   int
		want    string
		args    map[string]any
	}{
		{"small enough", people.Ada, 2, 8, rayslice.ReasonAutoApproved, nil},
		{"too large", people.Bob, 3, 8, rayslice.ReasonNeedsLeadGiB, map[string]any{"asked": 24, "most": 16}},
		{"too long", people.Bob, 1, 9, rayslice.ReasonNeedsLeadHours, map[string]any{"asked": 9, "most": 8}},
		{"exactly the member's share", people.Ada, 1, 8, rayslice.ReasonAutoApproved, nil},
		{"over the member's share", people.Ada, 1, 8, rayslice.ReasonNeedsLeadShare, map[string]any{"asked": 8, "held": 24, "most": 24, "unit": "gib"}},
		{"a lead by the same rules", people.Lea, 3, 8, rayslice.ReasonNeedsLeadGiB, map[string]any{"asked": 24, "most": 16}},
	} {
		draft := storetest.Draft(step.workers, 8)
		draft.Hours = step.hours
		foreseen, err := s.WouldDecide(t.Context(), step.actor, draft)
		if want := (rayslice.Reason{Code: step.want, Args: step.args}); err != nil || !cmp.Equal(foreseen, want) {
			t.Errorf("%s: foreseen %v, %v; want %v", step.what, foreseen, err, want)
		}
		r := mustCreate(t, s, step.actor, draft)
		state := rayslice.StatePending
		if step.want == rayslice.ReasonAutoApproved {
			state = rayslice.StateApproved
		}
		if r.State != state || !cmp.Equal(r.Reason, foreseen) {
			t.Errorf("%s: %s %v; want %s %v", step.what, r.State, r.Reason, state, foreseen)
		}
	}
	wantUsed(t, s, rayslice.Charge{GiB: 16 + 24 + 8 + 8 + 8 + 24})
	long := storetest.Draft(1, 1)
	long.Hours = 49
	_, err := s.CreateRequest(t.Context(), people.Ada, long, "")
	wantField(t, err, "hours", rayslice.CodeRange)
}

// TestShareHoldsInParallel sends ten requests of one member at once: the share is theirs once.
func TestShareHoldsInParallel(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 100})
	rules := rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 8, Member: &rayslice.Charge{GiB: 16}}
	if err := stores[0].SetRules(t.Context(), people.Lea, "vision", rules); err != nil {
		t.Fatal(err)
	}
	inParallel(10, func(i int) {
		if _, err := stores[i%2].CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), ""); err != nil {
			t.Error(err)
		}
	})
	if n := count(t, `SELECT count(*) FROM requests WHERE state = 'approved'`); n != 2 {
		t.Errorf("%d started at once, want 2", n)
	}
	wantUsed(t, stores[0], rayslice.Charge{GiB: 80})
}

// TestALeadGrantsLess walks from a question over a change to a smaller grant.
func TestALeadGrantsLess(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	needLead(t, s, people)
	r := mustCreate(t, s, people.Ada, storetest.Draft(4, 8))
	asked := mustDecide(t, s, people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: 1, Answer: "Why so many?"})
	if asked.State != rayslice.StateReturned || asked.Answer != "Why so many?" || asked.DecidedBy != "Lea" || !asked.DecidedAt.IsZero() {
		t.Errorf("got %+v, want it asked back and undecided", asked)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 32})

	smaller := storetest.Draft(3, 8)
	sent, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 1, smaller, "Three will do.")
	if err != nil || sent.State != rayslice.StatePending || sent.Revision != 2 || sent.Draft.Groups[0].Workers != 3 || sent.Reason.Code != rayslice.ReasonNeedsLeadGiB {
		t.Fatalf("got %+v, %v", sent, err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 24})
	again, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 1, smaller, "Three will do.")
	if err != nil || again.Revision != 2 {
		t.Errorf("sent twice: revision %d, %v; want 2", again.Revision, err)
	}

	_, err = s.DecideRequest(t.Context(), people.Lea, r.ID, approveRevision(1))
	if e := refusal(t, err, rayslice.KindConflict); e.Code != "revision_changed" {
		t.Errorf("a decision about what was asked before: %v", err)
	}
	terms := sent.Draft.AsAsked()
	terms.Hours, terms.Groups[0].Workers, terms.Groups[0].GiB = 2, 2, 4
	granted := mustDecide(t, s, people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 2, Terms: &terms})
	group := granted.Draft.Groups[0]
	if granted.State != rayslice.StateApproved || group.Workers != 2 || group.GiB != 4 || granted.Asked == nil || !cmp.Equal(*granted.Asked, smaller) {
		t.Errorf("got %+v, asked %+v", granted, granted.Asked)
	}
	if lives := granted.EndsAt.Sub(granted.DecidedAt); lives.Hours() != 2 {
		t.Errorf("lives %v, want 2 h", lives)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	twice := mustDecide(t, s, people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 2, Terms: &terms})
	if twice.State != rayslice.StateApproved {
		t.Errorf("decided twice by the same lead: %s", twice.State)
	}
	wantAuditChains(t)
	if n := count(t, `SELECT count(*) FROM audit WHERE request_id = $1`, r.ID); n != 4 {
		t.Errorf("%d entries, want create, return, resend and approve", n)
	}
}

// TestResendChargesTheDifference also when the limit has shrunk below what is used.
func TestResendChargesTheDifference(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	needLead(t, s, people)
	r := mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	_, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 1, storetest.Draft(3, 8), "")
	if e := refusal(t, err, rayslice.KindOverQuota); e.Args["asked_gib"] != 8 || e.Args["left_gib"] != 4 {
		t.Errorf("got %v, want 8 more asked and 4 left", err)
	}
	storetest.Exec(t, `UPDATE quotas SET limit_gib = 10 WHERE team = 'vision'`)
	if _, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 1, storetest.Draft(1, 12), ""); err != nil {
		t.Error(err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 12})
	_, err = s.ResendRequest(t.Context(), people.Bob, r.ID, 2, storetest.Draft(1, 1), "")
	if e := refusal(t, err, rayslice.KindForbidden); e.Code != "change_not_owner" {
		t.Errorf("another member: %v", err)
	}
	other := storetest.Draft(1, 1)
	other.Team = "speech"
	_, err = s.ResendRequest(t.Context(), people.Ada, r.ID, 2, other, "")
	wantField(t, err, "team", rayslice.CodeTeamUnknown)
	auto := rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 24}
	if err := s.SetRules(t.Context(), people.Lea, "vision", auto); err != nil {
		t.Fatal(err)
	}
	now, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 2, storetest.Draft(1, 8), "")
	if err != nil || now.State != rayslice.StateApproved || now.Reason.Code != rayslice.ReasonAutoApproved {
		t.Errorf("%s %v, %v; want it to start at once", now.State, now.Reason, err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	wantAuditChains(t)
}

// TestALimitThatIsDueShrinksByItself charges against a raise that has ended and that nobody has swept yet.
func TestALimitThatIsDueShrinksByItself(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	storetest.Exec(t, `
		INSERT INTO grants (team, gib, cards, base, until_at, granted_by) VALUES ('vision', 8, 0, false, now() + interval '1 hour', 'Root')`)
	storetest.Exec(t, `UPDATE quotas SET limit_gib = 16, limit_until = now() + interval '1 hour' WHERE team = 'vision'`)
	first := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `UPDATE grants SET until_at = now() WHERE NOT base`)
	storetest.Exec(t, `UPDATE quotas SET limit_until = now() WHERE team = 'vision'`)
	_, err := s.CreateRequest(t.Context(), people.Bob, storetest.Draft(1, 1), "")
	if e := refusal(t, err, rayslice.KindOverQuota); e.Args["limit_gib"] != 8 {
		t.Errorf("got %v, want the limit back at 8", err)
	}
	mustStop(t, s, people.Ada, first.ID)
	if _, err := s.CreateRequest(t.Context(), people.Bob, storetest.Draft(1, 8), ""); err != nil {
		t.Error(err)
	}
}

func TestSetRulesNeedsALead(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	for who, tc := range map[string]struct {
		actor rayslice.User
		want  rayslice.Kind
	}{
		"a member":            {people.Ada, rayslice.KindForbidden},
		"a stranger":          {people.Sam, rayslice.KindNotFound},
		"a token of the lead": {people.Lea.ByToken(1, "", rayslice.Scopes()), rayslice.KindForbidden},
		"the lead":            {people.Lea, ""},
		"an admin":            {people.Root, ""},
	} {
		if err := s.SetRules(t.Context(), tc.actor, "vision", rayslice.Rules{AutoHours: 3}); rayslice.KindOf(err) != tc.want {
			t.Errorf("%s: %v, want %q", who, err, tc.want)
		}
	}
	got, err := s.Rules(t.Context(), people.Ada, "vision")
	if err != nil || got.AutoHours != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.Rules(t.Context(), people.Sam, "vision"); rayslice.KindOf(err) != rayslice.KindNotFound {
		t.Errorf("a stranger reads rules: %v", err)
	}
}

// TestRightsAtTheMomentOfDecision takes the lead's role, and then disables them, between the look-up and the decision (T34).
func TestRightsAtTheMomentOfDecision(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	needLead(t, s, people)
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `UPDATE users SET disabled = true WHERE id = $1`, people.Lea.ID)
	_, err := s.DecideRequest(t.Context(), people.Lea, r.ID, approveRevision(1))
	wantKind(t, err, rayslice.KindForbidden)
	storetest.Exec(t, `UPDATE users SET disabled = false WHERE id = $1`, people.Lea.ID)
	storetest.Exec(t, `DELETE FROM roles WHERE user_id = $1`, people.Lea.ID)
	_, err = s.DecideRequest(t.Context(), people.Lea, r.ID, approveRevision(1))
	wantKind(t, err, rayslice.KindNotFound)
	if now, err := s.Work(t.Context(), rayslice.System, r.ID); err != nil || now.State != rayslice.StatePending {
		t.Errorf("%s, %v; want it pending", now.State, err)
	}
}

// TestT04KeyWhateverChanged sends a key again after the rules have changed, the request was decided, and the quota is full:
// the first answer holds, and nobody is told twice.
func TestT04KeyWhateverChanged(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	needLead(t, s, people)
	draft := storetest.Draft(1, 8)
	first, err := s.CreateRequest(t.Context(), people.Ada, draft, "key")
	if err != nil {
		t.Fatal(err)
	}
	again := func(when string) {
		t.Helper()
		got, err := s.CreateRequest(t.Context(), people.Ada, draft, "key")
		if err != nil || got.ID != first.ID {
			t.Errorf("%s: %s, %v; want %s", when, got.ID, err, first.ID)
		}
	}
	again("the quota is full")
	if err := s.SetRules(t.Context(), people.Lea, "vision", rayslice.Rules{MaxHours: 1}); err != nil {
		t.Fatal(err)
	}
	again("the rules forbid it now")
	mustDecide(t, s, people.Lea, first.ID, approveRevision(1))
	again("it is approved")
	if n := count(t, `SELECT count(*) FROM river_job WHERE args ->> 'code' = 'waiting'`); n != 1 {
		t.Errorf("told %d times that it waits, want once", n)
	}
}

// TestRaiseEndsWhileACreateWaits lets a raise end while a create stands before the quota's lock: it does not count any more.
func TestRaiseEndsWhileACreateWaits(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	hold, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = hold.Exec(t.Context(), `
		WITH raise AS (
			INSERT INTO grants (team, gib, cards, base, until_at, granted_by) VALUES ('vision', 8, 0, false, clock_timestamp() + interval '300 ms', 'Root')
			RETURNING until_at
		)
		UPDATE quotas SET limit_gib = 16, limit_until = (SELECT until_at FROM raise) WHERE team = 'vision'`)
	if err != nil {
		t.Fatal(err)
	}
	created := make(chan error)
	go func() {
		_, err := s.CreateRequest(t.Context(), people.Bob, storetest.Draft(1, 8), "")
		created <- err
	}()
	if _, err := hold.Exec(t.Context(), `SELECT pg_sleep(0.5)`); err != nil {
		t.Fatal(err)
	}
	if err := hold.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := refusal(t, <-created, rayslice.KindOverQuota); e.Args["limit_gib"] != 8 {
		t.Errorf("got %v, want the limit of before the raise", e)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
}

// TestAskedAgain asks a second question about what was returned: its owner is told, and has the whole time again. A second,
// other reply is not taken for the first.
func TestAskedAgain(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	needLead(t, s, people)
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	ask := func(question string) rayslice.Request {
		return mustDecide(t, s, people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: 1, Answer: question})
	}
	first := ask("Why?")
	second := ask("And what for?")
	if !second.StateSince.After(first.StateSince) || second.Answer != "And what for?" {
		t.Errorf("since %v after %v, asked %q", second.StateSince, first.StateSince, second.Answer)
	}
	if n := count(t, `SELECT count(*) FROM river_job WHERE args ->> 'code' = 'returned'`); n != 2 {
		t.Errorf("told %d times, want twice", n)
	}
	resend := func(reply string) error {
		_, err := s.ResendRequest(t.Context(), people.Ada, r.ID, 1, storetest.Draft(1, 8), reply)
		return err
	}
	if err := resend("For the paper."); err != nil {
		t.Fatal(err)
	}
	if err := resend("For the paper."); err != nil {
		t.Errorf("the same reply twice: %v", err)
	}
	if e := refusal(t, resend("For fun."), rayslice.KindConflict); e.Code != "answered_already" {
		t.Errorf("another reply: %v", e)
	}
}

func TestWhatThePortalRejectedNobodyElseDid(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	needLead(t, s, people)
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	if err := s.Move(t.Context(), rayslice.System, r.ID, r.State, rayslice.StateRejected, rayslice.Reason{}, ""); err != nil {
		t.Fatal(err)
	}
	_, err := s.DecideRequest(t.Context(), people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: 1})
	if e := refusal(t, err, rayslice.KindConflict); e.Code != "decided_already" {
		t.Errorf("deciding once more: %v", e)
	}
}
