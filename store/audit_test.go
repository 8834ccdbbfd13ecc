package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func TestWhoReadsTheAuditLog(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	theirs := storetest.Draft(1, 8)
	theirs.Team = "speech"
	mustCreate(t, s, people.Sam, theirs)
	teams := func(actor rayslice.User, f store.AuditFilter) map[string]int {
		t.Helper()
		page, err := s.AuditLog(t.Context(), actor, f)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, e := range page.Entries {
			n[e.Team]++
		}
		return n
	}
	for what, tc := range map[string]struct{ got, want map[string]int }{
		"an admin reads all":                 {teams(people.Root, store.AuditFilter{}), map[string]int{"vision": 2, "speech": 2}},
		"a lead reads their own team's":      {teams(people.Lea, store.AuditFilter{}), map[string]int{"vision": 2}},
		"a lead by name":                     {teams(people.Lea, store.AuditFilter{Team: "vision"}), map[string]int{"vision": 2}},
		"a person's name, in any case":       {teams(people.Root, store.AuditFilter{Actor: "SAM"}), map[string]int{"speech": 1}},
		"an action":                          {teams(people.Root, store.AuditFilter{Action: "create"}), map[string]int{"vision": 1, "speech": 1}},
		"nothing before there was something": {teams(people.Root, store.AuditFilter{To: time.Now().Add(-time.Hour)}), map[string]int{}},
		"everything since then":              {teams(people.Root, store.AuditFilter{From: time.Now().Add(-time.Hour)}), map[string]int{"vision": 2, "speech": 2}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for what, tc := range map[string]struct {
		actor rayslice.User
		team  string
		want  rayslice.Kind
	}{
		"a member of the team":    {people.Ada, "vision", rayslice.KindForbidden},
		"a member, of everything": {people.Ada, "", rayslice.KindForbidden},
		"a stranger":              {people.Sam, "vision", rayslice.KindNotFound},
		"a lead, of another team": {people.Lea, "speech", rayslice.KindNotFound},
		"a lead's token":          {people.Lea.ByToken(1, "", rayslice.Scopes()), "vision", rayslice.KindForbidden},
		"an admin's token":        {people.Root.ByToken(1, "", rayslice.Scopes()), "", rayslice.KindForbidden},
	} {
		_, err := s.AuditLog(t.Context(), tc.actor, store.AuditFilter{Team: tc.team})
		if rayslice.KindOf(err) != tc.want {
			t.Errorf("%s: %v, want %s", what, err, tc.want)
		}
		_, err = s.AuditChunk(t.Context(), tc.actor, store.AuditFilter{Team: tc.team})
		if rayslice.KindOf(err) != tc.want {
			t.Errorf("%s exports: %v, want %s", what, err, tc.want)
		}
	}
}

// TestAuditPagesAndExport reads more than one chunk, page by page and as a whole, and finds the same once each.
func TestAuditPagesAndExport(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	storetest.Exec(t, `INSERT INTO audit (actor, action, team) SELECT 'Ada', 'test', 'vision' FROM generate_series(1, 2500)`)
	all := func(read func(context.Context, rayslice.User, store.AuditFilter) (store.AuditPage, error)) (ids []int64) {
		for f := (store.AuditFilter{Team: "vision", Limit: 200}); ; {
			page, err := read(t.Context(), people.Lea, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				ids = append(ids, e.ID)
			}
			if f.After = page.Next; f.After == 0 {
				return ids
			}
		}
	}
	paged, exported := all(s.AuditLog), all(s.AuditChunk)
	if len(paged) != 2500 || !cmp.Equal(paged, exported) {
		t.Errorf("%d paged, %d exported", len(paged), len(exported))
	}
	for i := 1; i < len(paged); i++ {
		if paged[i] >= paged[i-1] {
			t.Fatalf("not newest first: %d after %d", paged[i], paged[i-1])
		}
	}
}

// TestT43NamesStayOneRecord records names that break lines, terminals and quoting; each stays one entry, as it was written.
func TestT43NamesStayOneRecord(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	for i, name := range []string{"Eve\r\nRoot approved", "\x1b[31mEve\x1b[0m", `Eve","Root","approve`, "=HYPERLINK(\"x\")", "Eve\u2028Root"} {
		ada := people.Ada
		ada.Name = name
		draft := storetest.Draft(1, 1)
		draft.Name = fmt.Sprint("c", i)
		mustCreate(t, s, ada, draft)
		page, err := s.AuditLog(t.Context(), people.Root, store.AuditFilter{Action: "create", Limit: 1})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Actor != name {
			t.Errorf("%q became %+v, %v", name, page.Entries, err)
		}
	}
	wantLogged(t, s, people.Root, "create", 5)
}

// TestWhoseRoleCouldChangeAudit is what the portal warns of: the owner could, the role that Grant has set up could not.
func TestWhoseRoleCouldChangeAudit(t *testing.T) {
	owner := storetest.New(t)
	if open, err := owner.AuditIsOpen(t.Context()); err != nil || !open {
		t.Errorf("as the owner: %v, %v", open, err)
	}
	app := storetest.AsApp(t)
	if open, err := app.AuditIsOpen(t.Context()); err != nil || open {
		t.Errorf("as the portal's role: %v, %v", open, err)
	}
}

// TestT43EverythingWorksAsThePortalsRole goes through teams, requests, decisions, raises and the sweep as the role that
// cannot change the audit log.
func TestT43EverythingWorksAsThePortalsRole(t *testing.T) {
	s := storetest.AsApp(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	r := waiting(t, s, people)
	if _, err := s.DecideRequest(t.Context(), people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 1}); err != nil {
		t.Fatal(err)
	}
	mustStop(t, s, people.Ada, r.ID)
	grantUntil(t, s, people, time.Now().AddDate(0, 0, 1))
	if err := s.SetLimit(t.Context(), people.Root, "vision", rayslice.Charge{GiB: 8}, ""); err != nil {
		t.Fatal(err)
	}
	shiftGrants(t)
	if swept := mustSweep(t, s); swept.Grants != 1 {
		t.Errorf("swept %+v", swept)
	}
	wantLogged(t, s, people.Root, "grant_ended", 1)
}

// TestRefusalsSayWhatWasTried names the action and whom or what it was about, also where the reason is the same for many.
func TestRefusalsSayWhatWasTried(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	raise, err := s.AskRaise(ctx, p.Lea, rayslice.RaiseDraft{Team: "vision", Charge: rayslice.Charge{GiB: 8}, Purpose: "more"})
	if err != nil {
		t.Fatal(err)
	}
	admin := rayslice.RoleGrant{UserID: p.Root.ID, Role: rayslice.RoleAdmin, Source: rayslice.SourceSeed}
	for name, tc := range map[string]struct {
		do             func() error
		tried, subject string
	}{
		"to make oneself an admin":   {func() error { return s.GrantRole(ctx, p.Ada, p.Ada.ID, "", rayslice.RoleAdmin) }, "grant_role", "Ada"},
		"to take an admin's role":    {func() error { return s.RevokeRole(ctx, p.Lea, admin) }, "revoke_role", "Root"},
		"to keep an admin out":       {func() error { return s.SetDisabled(ctx, p.Ada, p.Root.ID, true) }, "disable_user", "Root"},
		"to let somebody in":         {func() error { return s.SetDisabled(ctx, p.Ada, p.Bob.ID, false) }, "enable_user", "Bob"},
		"to sign an admin out":       {func() error { return s.EndSessions(ctx, p.Ada, p.Root.ID) }, "end_sessions", "Root"},
		"to do it to nobody":         {func() error { return s.EndSessions(ctx, p.Ada, 99999) }, "end_sessions", ""},
		"to stand in":                {func() error { return s.NameDeputy(ctx, p.Ada, "vision", p.Bob.ID, inDays(3)) }, "name_deputy", "Bob"},
		"to end who stands in":       {func() error { return s.EndDeputy(ctx, p.Ada, "vision", p.Bob.ID) }, "end_deputy", "Bob"},
		"to add a team":              {func() error { return s.CreateTeam(ctx, p.Ada, rayslice.TeamDraft{Name: "mine"}) }, "create_team", "mine"},
		"to raise the limit":         {func() error { return s.SetLimit(ctx, p.Ada, "vision", rayslice.Charge{}, "") }, "set_limit", ""},
		"to ask for more":            {func() error { _, err := s.AskRaise(ctx, p.Ada, rayslice.RaiseDraft{Team: "vision"}); return err }, "ask_raise", ""},
		"to withdraw another's wish": {func() error { return s.WithdrawRaise(ctx, p.Ada, raise.ID) }, "withdraw_raise", "Lea"},
		"to grant one's own wish": {func() error {
			_, err := s.DecideRaise(ctx, p.Lea, raise.ID, rayslice.RaiseDecision{Grant: true, Charge: raise.Charge})
			return err
		}, "grant_raise", "Lea"},
	} {
		wantKind(t, tc.do(), rayslice.KindForbidden)
		page, err := s.AuditLog(ctx, p.Root, store.AuditFilter{Action: "refuse", Limit: 1})
		if err != nil || len(page.Entries) != 1 {
			t.Fatal(err)
		}
		if e := page.Entries[0]; e.Tried() != tc.tried || e.Subject != tc.subject {
			t.Errorf("%s: recorded as %q on %q, want %q on %q", name, e.Tried(), e.Subject, tc.tried, tc.subject)
		}
	}
}

// TestARevokedTokenNamesItsOwner where an admin revokes it.
func TestARevokedTokenNamesItsOwner(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	for actor, want := range map[*rayslice.User]any{&p.Ada: nil, &p.Root: "Ada"} {
		_, made := mustToken(t, s, p.Ada, rayslice.TokenDraft{Name: "of Ada for " + actor.Name, Scopes: []rayslice.Scope{rayslice.ScopeRead}, Days: 1})
		if err := s.RevokeToken(t.Context(), *actor, p.Ada.ID, made.ID); err != nil {
			t.Fatal(err)
		}
		page, err := s.AuditLog(t.Context(), p.Root, store.AuditFilter{Action: "revoke_token", Limit: 1})
		if err != nil || len(page.Entries) != 1 {
			t.Fatal(err)
		}
		if e := page.Entries[0]; e.Subject != made.Name || e.Reason.Args["owner"] != want {
			t.Errorf("%s's revoking is recorded as %+v", actor.Name, e)
		}
	}
}
