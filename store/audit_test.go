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
