package store_test

import (
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// wantLogged checks how often the audit log has an action, by what an admin reads.
func wantLogged(t *testing.T, s *store.Store, admin rayslice.User, action string, want int) {
	t.Helper()
	page, err := s.AuditLog(t.Context(), admin, store.AuditFilter{Action: action})
	if err != nil || len(page.Entries) != want {
		t.Errorf("%d entries of %s (%v), want %d: %v", len(page.Entries), action, err, want, page.Entries)
	}
}

func wantLimit(t *testing.T, s *store.Store, team string, want rayslice.Charge) {
	t.Helper()
	q, err := s.Quota(t.Context(), rayslice.System, team)
	if err != nil || q.Limit != want {
		t.Errorf("limit %v (%v), want %v", q.Limit, err, want)
	}
}

func TestCreateTeam(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	draft := rayslice.TeamDraft{Name: "robotics", Namespace: "team-robotics", Limit: rayslice.Charge{GiB: 64, Cards: 2}}
	for _, nobody := range []rayslice.User{people.Ada, people.Lea, people.Root.ByToken(1, "", rayslice.Scopes())} {
		wantKind(t, s.CreateTeam(t.Context(), nobody, draft), rayslice.KindForbidden)
	}
	wantLogged(t, s, people.Root, "refuse", 3)
	if err := s.CreateTeam(t.Context(), people.Root, draft); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, s, "robotics", draft.Limit)
	wantLogged(t, s, people.Root, "create_team", 1)
	wantField(t, s.CreateTeam(t.Context(), people.Root, draft), "name", rayslice.CodeTaken)
	draft.Name = "robots"
	wantField(t, s.CreateTeam(t.Context(), people.Root, draft), "namespace", rayslice.CodeTaken)
	wantLogged(t, s, people.Root, "create_team", 1)
}

// TestOnceAlsoWhenTheCommitWasLost aborts the COMMIT of work that must not be done twice.
func TestOnceAlsoWhenTheCommitWasLost(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	storetest.Exec(t, injector)
	inject(t, atCommit, "40001", 2)
	draft := rayslice.TeamDraft{Name: "robotics", Namespace: "team-robotics", Limit: rayslice.Charge{GiB: 8}}
	if err := s.CreateTeam(t.Context(), people.Root, draft); err != nil {
		t.Fatal(err)
	}
	wantLogged(t, s, people.Root, "create_team", 1)
}

func TestSetLimit(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	wantKind(t, s.SetLimit(t.Context(), people.Lea, "vision", rayslice.Charge{GiB: 99}, ""), rayslice.KindForbidden)
	wantKind(t, s.SetLimit(t.Context(), people.Lea, "speech", rayslice.Charge{GiB: 99}, ""), rayslice.KindNotFound)
	wantKind(t, s.SetLimit(t.Context(), people.Root, "no-such", rayslice.Charge{GiB: 99}, ""), rayslice.KindNotFound)
	if err := s.SetLimit(t.Context(), people.Root, "vision", rayslice.Charge{GiB: 8}, "half for the summer"); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 8})
	wantUsed(t, s, rayslice.Charge{GiB: 16}) // what runs, runs on
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 4), "")
	wantKind(t, err, rayslice.KindOverQuota)
	history, err := s.GrantHistory(t.Context(), people.Ada, "vision", 0, 0)
	if err != nil || len(history.Grants) != 2 || history.Grants[0].Note != "half for the summer" || history.Grants[0].By != "Root" || history.Grants[1].Ended.IsZero() {
		t.Errorf("history %+v, %v", history, err)
	}
	first, err := s.GrantHistory(t.Context(), people.Ada, "vision", 0, 1)
	if err != nil || len(first.Grants) != 1 || first.Next == 0 {
		t.Fatalf("first page %+v, %v", first, err)
	}
	second, err := s.GrantHistory(t.Context(), people.Ada, "vision", first.Next, 1)
	if err != nil || len(second.Grants) != 1 || second.Next != 0 || second.Grants[0].ID >= first.Grants[0].ID {
		t.Errorf("second page %+v, %v", second, err)
	}
	_, err = s.GrantHistory(t.Context(), people.Sam, "vision", 0, 0)
	wantKind(t, err, rayslice.KindNotFound)
}
