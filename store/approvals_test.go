package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// needLead lets nothing of the teams, of "vision" when none is named, start without a lead.
func needLead(t testing.TB, s *store.Store, people storetest.People, teams ...string) {
	t.Helper()
	if len(teams) == 0 {
		teams = []string{"vision"}
	}
	for _, team := range teams {
		if err := s.SetRules(t.Context(), people.Root, team, rayslice.Rules{}); err != nil {
			t.Fatal(err)
		}
	}
}

func approve(r rayslice.Request) rayslice.Decision {
	return rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: r.Revision}
}

// deputy makes somebody a second lead of vision.
func deputy(t testing.TB, s *store.Store, who rayslice.User) rayslice.User {
	t.Helper()
	storetest.Exec(t, `INSERT INTO roles (user_id, team, role, source) VALUES ($1, 'vision', 'lead', 'manual')`, who.ID)
	u, err := s.User(t.Context(), rayslice.System, who.ID)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestT02TwoLeadsAtOnce has two leads decide the same request at the same time through two replicas: one decision counts,
// and the other hears who was first.
func TestT02TwoLeadsAtOnce(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	needLead(t, stores[0], people, "vision")
	leads := [2]rayslice.User{people.Lea, deputy(t, stores[0], people.Bob)}
	for round := range 100 {
		r := mustCreate(t, stores[0], people.Ada, storetest.Draft(1, 8))
		verdicts := [2]rayslice.Decision{approve(r), approve(r)}
		if round%2 == 1 {
			verdicts[1] = rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: r.Revision, Answer: "not now"}
		}
		var errs [2]error
		inParallel(2, func(i int) { _, errs[i] = stores[i].DecideRequest(t.Context(), leads[i], r.ID, verdicts[i]) })
		won := 0
		if errs[0] != nil {
			won = 1
		}
		if errs[won] != nil {
			t.Fatalf("both were refused: %v", errs)
		}
		e := refusal(t, errs[1-won], rayslice.KindConflict)
		if e.Code != "decided_already" || e.Args["who"] != leads[won].Name {
			t.Fatalf("the second hears %v, want who decided", e)
		}
		now, err := stores[0].Request(t.Context(), people.Ada, r.ID)
		if err != nil || now.State != verdicts[won].Verdict.State() || now.DecidedBy != leads[won].Name {
			t.Fatalf("%s by %q (%v), want %s by %s", now.State, now.DecidedBy, err, verdicts[won].Verdict.State(), leads[won].Name)
		}
		if n := count(t, `SELECT count(*) FROM audit WHERE request_id = $1 AND action IN ('approve', 'reject')`, r.ID); n != 1 {
			t.Fatalf("%d decisions in the audit log, want 1", n)
		}
		if now.State == rayslice.StateApproved {
			mustStop(t, stores[0], people.Ada, r.ID)
		}
	}
	wantUsed(t, stores[0], rayslice.Charge{})
}

// TestT03DecisionAgainstCancel races a lead's decision with the owner taking the request back, on two replicas.
func TestT03DecisionAgainstCancel(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	needLead(t, stores[0], people, "vision")
	for range 1000 {
		r := mustCreate(t, stores[0], people.Ada, storetest.Draft(2, 8))
		d := approve(r)
		d.Terms = &rayslice.Terms{Hours: 4, Groups: []rayslice.GroupTerms{{Workers: 1, GiB: 8}}}
		var decideErr, stopErr error
		inParallel(2, func(i int) {
			if i == 0 {
				_, decideErr = stores[0].DecideRequest(t.Context(), people.Lea, r.ID, d)
				return
			}
			_, stopErr = stores[1].StopRequest(t.Context(), people.Ada, r.ID)
		})
		now, err := stores[0].Work(t.Context(), rayslice.System, r.ID)
		switch {
		case err != nil || stopErr != nil:
			t.Fatal(err, stopErr)
		case now.State == rayslice.StateCancelled && now.Released && rayslice.KindOf(decideErr) == rayslice.KindConflict && now.Charge.GiB == 16:
		case now.State == rayslice.StateStopping && !now.Released && decideErr == nil && now.Charge.GiB == 8:
			mustMove(t, stores[0], r.ID, rayslice.StateStopping, rayslice.StateStopped)
		default:
			t.Fatalf("%s, released %v, charged %v, the decision said %v", now.State, now.Released, now.Charge, decideErr)
		}
	}
	wantUsed(t, stores[0], rayslice.Charge{})
	wantAuditChains(t)
}

// TestT03DecisionAgainstResend races a decision with a change of what is asked for: a lead never grants what they have not
// seen.
func TestT03DecisionAgainstResend(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	needLead(t, stores[0], people, "vision")
	for range 200 {
		r := mustCreate(t, stores[0], people.Ada, storetest.Draft(1, 8))
		var decideErr, sendErr error
		inParallel(2, func(i int) {
			if i == 0 {
				_, decideErr = stores[0].DecideRequest(t.Context(), people.Lea, r.ID, approve(r))
				return
			}
			_, sendErr = stores[1].ResendRequest(t.Context(), people.Ada, r.ID, r.Revision, storetest.Draft(2, 8), "")
		})
		now, err := stores[0].Request(t.Context(), people.Ada, r.ID)
		switch {
		case err != nil:
			t.Fatal(err)
		case now.State == rayslice.StateApproved && now.Charge.GiB == 8 && decideErr == nil && refusal(t, sendErr, rayslice.KindConflict).Code == "decided_already":
			mustStop(t, stores[0], people.Ada, r.ID)
		case now.State == rayslice.StatePending && now.Charge.GiB == 16 && sendErr == nil && refusal(t, decideErr, rayslice.KindConflict).Code == "revision_changed":
			if _, err := stores[0].StopRequest(t.Context(), people.Ada, r.ID); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("%s, charged %v, decision %v, resend %v", now.State, now.Charge, decideErr, sendErr)
		}
	}
	wantUsed(t, stores[0], rayslice.Charge{})
}

// TestWhoMayDecide is B113, B115 and B116 where every door leads: in the store, with an audit row for each refusal.
func TestWhoMayDecide(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	needLead(t, s, people, "vision")
	nobody := rayslice.User{ID: people.Sam.ID, Name: "Sam"}
	leadWithToken := people.Lea.ByToken(1, "", rayslice.Scopes())
	formerLead := people.Lea
	formerLead.Roles = map[string]rayslice.Role{"vision": rayslice.RoleMember}
	own := mustCreate(t, s, people.Lea, storetest.Draft(1, 8))
	adas := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `INSERT INTO roles (user_id, team, role, source) VALUES ($1, 'vision', 'member', 'manual')`, people.Root.ID)
	root, err := s.User(t.Context(), rayslice.System, people.Root.ID)
	if err != nil {
		t.Fatal(err)
	}
	admins := mustCreate(t, s, root, storetest.Draft(1, 8))
	for name, tc := range map[string]struct {
		who  rayslice.User
		what rayslice.Request
		kind rayslice.Kind
		code string
	}{
		"a lead's own":                  {people.Lea, own, rayslice.KindForbidden, "decide_own"},
		"an admin's own":                {root, admins, rayslice.KindForbidden, "decide_own"},
		"a member":                      {people.Bob, adas, rayslice.KindForbidden, "decide_not_lead"},
		"who asked":                     {people.Ada, adas, rayslice.KindForbidden, "decide_own"},
		"a token of the lead":           {leadWithToken, adas, rayslice.KindForbidden, "decide_by_token"},
		"a token of who asked":          {people.Ada.ByToken(1, "", rayslice.Scopes()), adas, rayslice.KindForbidden, "decide_by_token"},
		"somebody who led the team":     {formerLead, adas, rayslice.KindForbidden, "decide_not_lead"},
		"another team's member":         {people.Sam, adas, rayslice.KindNotFound, "not_found"},
		"somebody without any role":     {nobody, adas, rayslice.KindNotFound, "not_found"},
		"a request that does not exist": {people.Lea, rayslice.Request{ID: "aaaaaaaaaaaa"}, rayslice.KindNotFound, "not_found"},
	} {
		refusals := func() int {
			return count(t, `SELECT count(*) FROM audit WHERE action = 'refuse' AND actor = $1 AND reason ->> 'code' = $2 AND request_id = $3`, tc.who.Name, tc.code, tc.what.ID)
		}
		want := refusals()
		_, err := s.DecideRequest(t.Context(), tc.who, tc.what.ID, approve(tc.what))
		if e := refusal(t, err, tc.kind); e.Code != tc.code {
			t.Errorf("%s: refused with %s, want %s", name, e.Code, tc.code)
		}
		if tc.kind == rayslice.KindForbidden {
			want++
		}
		if got := refusals(); got != want {
			t.Errorf("%s: %d refusals in the audit log, want %d", name, got, want)
		}
	}
	for _, r := range []rayslice.Request{own, adas, admins} {
		if now, err := s.Request(t.Context(), people.Root, r.ID); err != nil || now.State != rayslice.StatePending {
			t.Errorf("%s is %s (%v), want it pending", r.ID, now.State, err)
		}
	}
}

// TestPurposeIsNeededForALead refuses a draft that somebody has to decide about and that does not say what it is for.
func TestPurposeIsNeededForALead(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	rules := rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 24}
	for _, share := range []*rayslice.Charge{nil, {GiB: 8}} {
		rules.Member = share
		if err := s.SetRules(t.Context(), people.Lea, "vision", rules); err != nil {
			t.Fatal(err)
		}
		draft := storetest.Draft(2, 8)
		draft.Purpose = ""
		_, err := s.CreateRequest(t.Context(), people.Ada, draft, "")
		wantField(t, err, "purpose", rayslice.CodePurposeNeeded)
		if why, err := s.WouldDecide(t.Context(), people.Ada, draft); err != nil || why.Code != rayslice.ReasonNeedsLeadGiB {
			t.Errorf("the preview says %v, %v", why, err)
		}
		wantUsed(t, s, rayslice.Charge{})
		small := storetest.Draft(1, 8)
		small.Purpose = ""
		r := mustCreate(t, s, people.Ada, small)
		if r.State != rayslice.StateApproved {
			t.Errorf("%s, want what starts at once to need no purpose", r.State)
		}
		mustStop(t, s, people.Ada, r.ID)
	}
	r := mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	draft := storetest.Draft(3, 8)
	draft.Purpose = ""
	_, err := s.ResendRequest(t.Context(), people.Ada, r.ID, r.Revision, draft, "")
	wantField(t, err, "purpose", rayslice.CodePurposeNeeded)
	why, err := s.WouldDecideAgain(t.Context(), people.Ada, storetest.Draft(1, 8), r.ID)
	if err != nil || why.Code != rayslice.ReasonAutoApproved {
		t.Errorf("in its own place it would be %v (%v), want it to start at once", why, err)
	}
}

func TestApprovals(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 60})
	needLead(t, s, people, "vision", "speech")
	named := func(name, team string) rayslice.RequestDraft {
		d := storetest.Draft(1, 4)
		d.Name, d.Team = name, team
		return d
	}
	first := mustCreate(t, s, people.Ada, named("first", "vision"))
	second := mustCreate(t, s, people.Bob, named("second", "vision"))
	own := mustCreate(t, s, people.Lea, named("own", "vision"))
	speech := mustCreate(t, s, people.Sam, named("speech", "speech"))
	look := func(who rayslice.User, f store.ApprovalFilter) string {
		t.Helper()
		var names []string
		for {
			page, err := s.Approvals(t.Context(), who, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Approvals {
				names = append(names, a.Request.Draft.Name)
			}
			if f.After = page.Next; page.Next == "" {
				return strings.Join(names, " ")
			}
		}
	}
	for name, tc := range map[string]struct {
		who  rayslice.User
		f    store.ApprovalFilter
		want string
	}{
		"a lead sees the own team, the oldest first": {people.Lea, store.ApprovalFilter{}, "first second own"},
		"page by page":             {people.Lea, store.ApprovalFilter{Limit: 1}, "first second own"},
		"an admin sees every team": {people.Root, store.ApprovalFilter{}, "first second own speech"},
		"one team":                 {people.Root, store.ApprovalFilter{Team: "speech"}, "speech"},
		"by name":                  {people.Lea, store.ApprovalFilter{Search: "SEC"}, "second"},
		"by owner":                 {people.Lea, store.ApprovalFilter{Search: "ada"}, "first"},
		"nothing is decided":       {people.Root, store.ApprovalFilter{Decided: true}, ""},
	} {
		if got := look(tc.who, tc.f); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	waiting := func(who rayslice.User) int {
		n, err := s.Waiting(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := [3]int{waiting(people.Lea), waiting(people.Root), waiting(people.Ada)}; got != [3]int{2, 4, 0} {
		t.Errorf("waiting %v, want 2 for the lead without their own, 4 for the admin, none for a member", got)
	}
	for _, err := range []error{errorOf(s.Approvals(t.Context(), people.Ada, store.ApprovalFilter{})), errorOf(s.Approvals(t.Context(), people.Lea.ByToken(1, "", nil), store.ApprovalFilter{}))} {
		wantKind(t, err, rayslice.KindForbidden)
	}
	wantKind(t, errorOf(s.Approvals(t.Context(), people.Lea, store.ApprovalFilter{Team: "speech"})), rayslice.KindNotFound)
	wantKind(t, errorOf(s.Approvals(t.Context(), people.Lea, store.ApprovalFilter{After: "!"})), rayslice.KindInvalid)

	for _, d := range []struct {
		id string
		d  rayslice.Decision
	}{
		{first.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: 1, Answer: "why so many?"}},
		{second.ID, rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: 1, Answer: "no"}},
	} {
		if _, err := s.DecideRequest(t.Context(), people.Lea, d.id, d.d); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []rayslice.Request{own, speech} {
		if _, err := s.DecideRequest(t.Context(), people.Root, r.ID, approve(r)); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(people.Lea, store.ApprovalFilter{}) + "|" + look(people.Lea, store.ApprovalFilter{Decided: true, Limit: 1}) + "|" + look(people.Root, store.ApprovalFilter{Decided: true}); got != "first|own second|speech own second" {
		t.Errorf("after the decisions: %s", got)
	}
	if n := waiting(people.Lea); n != 0 {
		t.Errorf("%d wait for the lead, want none: the one asked back waits for its owner", n)
	}
	if _, err := s.ResendRequest(t.Context(), people.Ada, first.ID, 1, named("first", "vision"), "for the paper"); err != nil {
		t.Fatal(err)
	}
	a, err := s.Approval(t.Context(), people.Lea, first.ID)
	if err != nil || len(a.Talk) != 2 || a.Talk[0].Reason.Args["answer"] != "why so many?" || a.Talk[1].Reason.Args["answer"] != "for the paper" || a.Quota.Held.GiB != 4 || a.Refusal != nil {
		t.Errorf("got %+v, %v", a, err)
	}
	wantKind(t, errorOf(s.Approval(t.Context(), people.Sam, first.ID)), rayslice.KindNotFound)
}

func errorOf[T any](_ T, err error) error { return err }

// TestRecord counts what somebody was granted in a team and how long they held it.
func TestRecord(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 60})
	needLead(t, s, people, "speech")
	past := func(decided, ready, stopping, ends string) {
		r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
		mustStop(t, s, people.Ada, r.ID)
		storetest.Exec(t, fmt.Sprintf(`UPDATE requests SET decided_at = now() - interval '%s', ready_at = now() - interval '%s', stopping_at = now() - interval '%s', ends_at = now() - interval '%s' WHERE id = $1`,
			decided, ready, stopping, ends), r.ID)
	}
	past("10 h", "9 h", "6 h", "2 h")                // 8 h granted, 3 held
	past("31 days", "31 days", "30 days", "30 days") // too long ago
	running := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `UPDATE requests SET decided_at = now() - interval '2 h', ready_at = now() - interval '1 h' WHERE id = $1`, running.ID)
	draft := storetest.Draft(1, 4)
	if err := s.SetRules(t.Context(), people.Root, "vision", rayslice.Rules{}); err != nil {
		t.Fatal(err)
	}
	r := mustCreate(t, s, people.Ada, draft)
	a, err := s.Approval(t.Context(), people.Lea, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 0.1 && b-a < 0.1 })
	if diff := cmp.Diff(rayslice.Record{Grants: 2, Granted: rayslice.Hours{GiB: 80}, Held: rayslice.Hours{GiB: 32}}, a.Record, near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if percent, known := a.Record.Percent(); percent != 40 || !known {
		t.Errorf("%d %% (%v), want 40", percent, known)
	}
}

func TestDeciders(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 60})
	for name, tc := range map[string]struct {
		team  string
		asker int64
		want  []string
	}{
		"its leads":                           {"vision", people.Ada.ID, []string{"Lea"}},
		"the admin, where the only lead asks": {"vision", people.Lea.ID, []string{"Root"}},
		"the admin, where nobody leads":       {"speech", people.Sam.ID, []string{"Root"}},
	} {
		got, err := s.Deciders(t.Context(), people.Root, tc.team, tc.asker)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	wantKind(t, errorOf(s.Deciders(t.Context(), people.Sam, "vision", 0)), rayslice.KindNotFound)
}

// TestApprovalsPlans looks at the plans among 10,000 requests: every list is read along an index, page by page.
func TestApprovalsPlans(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 900_000})
	needLead(t, s, people, "vision")
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `
		INSERT INTO requests (id, team, owner_id, name, hours, draft, state, sent_at, decided_by, decided_at)
		SELECT translate(lpad(n::text, 12, 'a'), '0189', 'bcde'), r.team, r.owner_id, 'n' || n, 8, r.draft, CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'rejected' END,
			now() - n * interval '1 s', CASE WHEN n % 10 = 0 THEN '' ELSE 'Lea' END, CASE WHEN n % 10 = 0 THEN NULL ELSE now() - n * interval '1 s' END
		FROM requests r, generate_series(1, 10000) n WHERE r.id = $1`, r.ID)
	storetest.Exec(t, `INSERT INTO charges (request_id, team, gib, cards) SELECT id, team, 8, 0 FROM requests WHERE id <> $1`, r.ID)
	storetest.Exec(t, `ANALYZE requests, charges`)
	for _, who := range []rayslice.User{people.Lea, people.Root} {
		for _, decided := range []bool{false, true} {
			began := time.Now()
			page, err := s.Approvals(t.Context(), who, store.ApprovalFilter{Decided: decided})
			if err != nil || len(page.Approvals) != store.DefaultApprovals || page.Next == "" {
				t.Fatalf("%d approvals, %v", len(page.Approvals), err)
			}
			t.Logf("%s, decided %v: %v", who.Name, decided, time.Since(began))
		}
	}
	for name, sql := range map[string]string{
		"a team's waiting":    `SELECT id FROM requests WHERE state IN ('pending', 'returned') AND team = ANY ('{vision}') ORDER BY sent_at, id LIMIT 21`,
		"a team's decided":    `SELECT id FROM requests WHERE decided_by <> '' AND state NOT IN ('pending', 'returned') AND team = ANY ('{vision}') ORDER BY decided_at DESC, id DESC LIMIT 21`,
		"all that waits":      `SELECT id FROM requests WHERE state IN ('pending', 'returned') AND (sent_at, id) > (now() - interval '1 h', '') ORDER BY sent_at, id LIMIT 21`,
		"all that is decided": `SELECT id FROM requests WHERE decided_by <> '' AND state NOT IN ('pending', 'returned') ORDER BY decided_at DESC, id DESC LIMIT 21`,
	} {
		plan := explain(t, sql)
		if strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func explain(t *testing.T, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, _ := conn.Query(t.Context(), `EXPLAIN `+sql)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
