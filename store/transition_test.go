package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestLifeOfARequest walks through a whole life and looks at times, reasons and the audit log.
func TestLifeOfARequest(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	draft := storetest.Draft(2, 8)
	draft.Env = map[string]string{"A": "1"}
	created := mustCreate(t, s, people.Ada, draft)
	if got := created.EndsAt.Sub(created.DecidedAt); got != created.Lifetime() || created.DecidedAt.IsZero() {
		t.Errorf("lives %v from %v, want %v", got, created.DecidedAt, created.Lifetime())
	}
	if diff := cmp.Diff(draft, created.Draft); diff != "" {
		t.Errorf("draft changed on its way (-sent +stored):\n%s", diff)
	}
	attention := rayslice.Reason{Code: rayslice.ReasonWorkersLost, Args: map[string]any{"have": 1, "want": 2}}
	worse := rayslice.Reason{Code: rayslice.ReasonHeadLost}
	for _, step := range []struct {
		from, to rayslice.State
		reason   rayslice.Reason
		uid      string
	}{
		{rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, "uid-1"},
		{rayslice.StateProvisioning, rayslice.StateReady, rayslice.Reason{}, ""},
		{rayslice.StateReady, rayslice.StateAttention, attention, ""},
		{rayslice.StateAttention, rayslice.StateAttention, worse, ""},
	} {
		if err := s.Move(t.Context(), rayslice.System, created.ID, step.from, step.to, step.reason, step.uid); err != nil {
			t.Fatal(err)
		}
	}
	again, err := s.Request(t.Context(), people.Bob, created.ID)
	if err != nil || again.State != rayslice.StateAttention || !cmp.Equal(again.Reason, worse) || again.ClusterUID != "uid-1" || again.ReadyAt.IsZero() {
		t.Errorf("got %+v, %v", again, err)
	}
	since, firstReady := again.StateSince, again.ReadyAt
	mustMove(t, s, created.ID, rayslice.StateAttention, rayslice.StateReady)
	stopping, err := s.StopRequest(t.Context(), people.Lea, created.ID)
	if err != nil || stopping.State != rayslice.StateStopping || stopping.StoppingAt.IsZero() || stopping.Released ||
		!stopping.ReadyAt.Equal(firstReady) || !stopping.StateSince.After(since) {
		t.Errorf("got %+v, %v", stopping, err)
	}
	mustMove(t, s, created.ID, rayslice.StateStopping, rayslice.StateStopped)
	stopped, err := s.Work(t.Context(), rayslice.System, created.ID)
	wantReason := rayslice.Reason{Code: rayslice.ReasonStopped, Args: map[string]any{"who": "Lea"}}
	if err != nil || stopped.State != rayslice.StateStopped || !stopped.Released || stopped.StoppedAt.IsZero() || !cmp.Equal(stopped.Reason, wantReason) {
		t.Errorf("got %+v, %v; want it stopped, released, with the reason it was stopped for", stopped, err)
	}
	wantAudit(t, s, created.ID, []rayslice.AuditEntry{
		{Actor: "Ada", Action: "create", To: rayslice.StatePending},
		{Actor: "rayslice", Action: "approve", From: rayslice.StatePending, To: rayslice.StateApproved, Reason: rayslice.Reason{Code: rayslice.ReasonAutoApproved}},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateApproved, To: rayslice.StateProvisioning},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateProvisioning, To: rayslice.StateReady},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateReady, To: rayslice.StateAttention, Reason: attention},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateAttention, To: rayslice.StateAttention, Reason: worse},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateAttention, To: rayslice.StateReady},
		{Actor: "Lea", Action: "stop", From: rayslice.StateReady, To: rayslice.StateStopping, Reason: wantReason},
		{Actor: "rayslice", Action: "transition", From: rayslice.StateStopping, To: rayslice.StateStopped},
	})
}

func wantAudit(t *testing.T, s *store.Store, id string, want []rayslice.AuditEntry) {
	t.Helper()
	got, err := s.Audit(t.Context(), rayslice.System, id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].RequestID, want[i].Team = id, "vision"
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(rayslice.AuditEntry{}, "At", "ID")); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	for _, e := range got {
		if time.Since(e.At).Abs() > time.Hour {
			t.Errorf("entry at %v", e.At)
		}
	}
}

// TestEveryMove tries every pair of states and expects what the state table says, and nothing changed otherwise.
func TestEveryMove(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	for _, from := range rayslice.States() {
		for _, to := range rayslice.States() {
			storetest.Exec(t, `UPDATE requests SET state = $2 WHERE id = $1`, r.ID, from)
			err := s.Move(t.Context(), rayslice.System, r.ID, from, to, rayslice.Reason{}, "")
			now, readErr := s.Work(t.Context(), rayslice.System, r.ID)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if legal := from.CanBecome(to) || (from == to && !from.Final()); legal && (err != nil || now.State != to) {
				t.Errorf("%s → %s: %v, now %s", from, to, err, now.State)
			} else if !legal && (rayslice.KindOf(err) != rayslice.KindConflict || now.State != from) {
				t.Errorf("%s → %s: %v, now %s; want a conflict", from, to, err, now.State)
			}
		}
	}
	e := refusal(t, s.Move(t.Context(), rayslice.System, r.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, ""), rayslice.KindConflict)
	if e.Code != "state_changed" || e.Args["state"] != rayslice.StateCancelled {
		t.Errorf("got %v, want it to name the present state", e)
	}
	wantKind(t, s.Move(t.Context(), rayslice.System, "aaaaaaaaaaaa", rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, ""), rayslice.KindNotFound)
}

func TestWhoMayStop(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	_, err := s.StopRequest(t.Context(), people.Bob, r.ID)
	if e := refusal(t, err, rayslice.KindForbidden); e.Code != "stop_not_allowed" {
		t.Errorf("got %v", e)
	}
	if n := count(t, `SELECT count(*) FROM audit WHERE action = 'refuse' AND actor = 'Bob' AND request_id = $1 AND team = 'vision'`, r.ID); n != 1 {
		t.Errorf("%d refusals in the audit log, want 1", n)
	}
	first, err := s.StopRequest(t.Context(), people.Root, r.ID)
	if err != nil || first.State != rayslice.StateStopping {
		t.Errorf("admin: %v, %v", first, err)
	}
	second, err := s.StopRequest(t.Context(), people.Ada, r.ID)
	if err != nil || !cmp.Equal(first, second) {
		t.Errorf("a second stop changed something: %v, %v", second, err)
	}
}

// TestT03StopAgainstTheReconciler races a person's stop with the moves of two reconcilers.
func TestT03StopAgainstTheReconciler(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	moves := []rayslice.State{rayslice.StateApproved, rayslice.StateProvisioning, rayslice.StateReady, rayslice.StateAttention}
	for range 200 {
		r := mustCreate(t, stores[0], people.Ada, storetest.Draft(1, 8))
		inParallel(4, func(i int) {
			if i == 0 {
				if _, err := stores[1].StopRequest(t.Context(), people.Ada, r.ID); err != nil {
					t.Error(err)
				}
				return
			}
			from, to := moves[i-1], moves[i]
			err := stores[i%2].Move(t.Context(), rayslice.System, r.ID, from, to, rayslice.Reason{}, "")
			if err != nil && rayslice.KindOf(err) != rayslice.KindConflict {
				t.Error(err)
			}
		})
		now, err := stores[0].Work(t.Context(), rayslice.System, r.ID)
		if err != nil || now.State != rayslice.StateStopping || now.Released {
			t.Fatalf("after the stop: %s, released %v, %v", now.State, now.Released, err)
		}
		inParallel(2, func(i int) {
			err := stores[i].Move(t.Context(), rayslice.System, r.ID, rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{}, "")
			if err != nil && rayslice.KindOf(err) != rayslice.KindConflict {
				t.Error(err)
			}
		})
	}
	wantUsed(t, stores[0], rayslice.Charge{})
	wantAuditChains(t)
}

// TestT03ApproveAgainstCancel races the decision with the owner taking the request back.
func TestT03ApproveAgainstCancel(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	for range 200 {
		id, err := stores[0].CreatePending(t.Context(), people.Ada, storetest.Draft(1, 8))
		if err != nil {
			t.Fatal(err)
		}
		var approveErr, stopErr error
		inParallel(2, func(i int) {
			if i == 0 {
				approveErr = stores[0].Move(t.Context(), rayslice.System, id, rayslice.StatePending, rayslice.StateApproved, rayslice.Reason{}, "")
				return
			}
			_, stopErr = stores[1].StopRequest(t.Context(), people.Ada, id)
		})
		now, err := stores[0].Work(t.Context(), rayslice.System, id)
		switch {
		case err != nil || stopErr != nil:
			t.Fatal(err, stopErr)
		case now.State == rayslice.StateCancelled && now.Released && rayslice.KindOf(approveErr) == rayslice.KindConflict:
		case now.State == rayslice.StateStopping && !now.Released && approveErr == nil:
			mustMove(t, stores[0], id, rayslice.StateStopping, rayslice.StateStopped)
		default:
			t.Fatalf("%s, released %v, approve said %v", now.State, now.Released, approveErr)
		}
	}
	wantUsed(t, stores[0], rayslice.Charge{})
}

// wantAuditChains checks that each request's entries join up: every state is left exactly once as it was entered.
func wantAuditChains(t *testing.T) {
	t.Helper()
	broken := count(t, `
		SELECT count(*)
		FROM (
			SELECT
				from_state,
				lag(to_state) OVER (PARTITION BY request_id ORDER BY id) AS before
			FROM audit
			WHERE request_id <> ''
		) entries
		WHERE before IS NOT NULL AND before <> from_state`)
	if broken > 0 {
		t.Errorf("%d audit entries do not follow from the one before", broken)
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	for _, sql := range []string{`UPDATE audit SET actor = 'nobody'`, `DELETE FROM audit`, `TRUNCATE audit`, `DELETE FROM audit WHERE false`} {
		if err := try(t, sql); err == nil {
			t.Errorf("%s was allowed", sql)
		}
	}
	if n := count(t, `SELECT count(*) FROM audit WHERE actor IN ('Ada', 'rayslice')`); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}
