package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// waiting makes a request that waits for a lead.
func waiting(t *testing.T, s *store.Store, people storetest.People) rayslice.Request {
	t.Helper()
	if err := s.SetRules(t.Context(), people.Lea, "vision", rayslice.Rules{EscalateMinutes: 60}); err != nil {
		t.Fatal(err)
	}
	return mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
}

func mustSweep(t *testing.T, s *store.Store) store.Swept {
	t.Helper()
	swept, err := s.Sweep(t.Context(), rayslice.System)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func TestSweepIsForThePortal(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	_, err := s.Sweep(t.Context(), rayslice.User{ID: 1, Admin: true})
	wantKind(t, err, rayslice.KindForbidden)
}

func TestUnansweredRequestsEscalateOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	r := waiting(t, s, people)
	if swept := mustSweep(t, s); swept != (store.Swept{}) {
		t.Errorf("too early: %+v", swept)
	}
	storetest.Exec(t, `UPDATE requests SET sent_at = sent_at - interval '61 minutes'`)
	if swept := mustSweep(t, s); swept.Escalated != 1 {
		t.Errorf("swept %+v", swept)
	}
	now, err := s.Request(t.Context(), people.Ada, r.ID)
	if err != nil || now.EscalatedAt.IsZero() || now.State != rayslice.StatePending {
		t.Errorf("%+v, %v", now, err)
	}
	if swept := mustSweep(t, s); swept != (store.Swept{}) {
		t.Errorf("again: %+v", swept)
	}
	wantLogged(t, s, people.Root, "escalate", 1)
	wantAuditChains(t)
}

func TestRulesMayForbidEscalation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	waiting(t, s, people)
	if err := s.SetRules(t.Context(), people.Lea, "vision", rayslice.Rules{}); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, `UPDATE requests SET sent_at = sent_at - interval '9 days'`)
	if swept := mustSweep(t, s); swept.Escalated != 0 {
		t.Errorf("swept %+v", swept)
	}
}

func TestUnansweredQuestionsGiveTheQuotaBack(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	r := waiting(t, s, people)
	if _, err := s.DecideRequest(t.Context(), people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: 1, Answer: "Why 8?"}); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, `UPDATE requests SET state_since = state_since - interval '71 hours'`)
	if swept := mustSweep(t, s); swept.Cancelled != 0 {
		t.Errorf("too early: %+v", swept)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	storetest.Exec(t, `UPDATE requests SET state_since = state_since - interval '1 hour'`)
	if swept := mustSweep(t, s); swept.Cancelled != 1 {
		t.Errorf("swept %+v", swept)
	}
	now, err := s.Request(t.Context(), people.Ada, r.ID)
	if err != nil || now.State != rayslice.StateCancelled || now.Reason.Code != rayslice.ReasonUnanswered || now.Reason.Args["hours"] != 72 {
		t.Errorf("%s %+v, %v", now.State, now.Reason, err)
	}
	wantUsed(t, s, rayslice.Charge{})
	wantAuditChains(t)
}

func TestOldKeysAndSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	for _, key := range []string{"old", "fresh"} {
		if _, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 4), key); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Exec(t, `UPDATE idempotency_keys SET created_at = created_at - interval '49 hours' WHERE key = 'old'`)
	storetest.Exec(t, `INSERT INTO sessions SELECT i::text, '', now() + make_interval(secs => CASE WHEN i <= 250 THEN -1 ELSE 60 END) FROM generate_series(1, 251) i`)
	if swept := mustSweep(t, s); swept != (store.Swept{Keys: 1, Sessions: 250}) {
		t.Errorf("swept %+v", swept)
	}
}

// TestSweepsInParallel lets several replicas sweep at once, beside people who charge and admins who end grants: everything
// is done once and nobody fails.
func TestSweepsInParallel(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 400})
	for range 3 {
		grantUntil(t, s, people, time.Now().AddDate(0, 0, 1))
	}
	waiting(t, s, people)
	for range 119 {
		mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	}
	shiftGrants(t)
	storetest.Exec(t, `UPDATE requests SET sent_at = sent_at - interval '61 minutes'`)
	total := make(chan store.Swept, 4)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 4 {
		replica := storetest.New(t)
		group.Go(func() error { return sweepAndCharge(ctx, replica, people.Ada, fmt.Sprint(i), total) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	close(total)
	var sum store.Swept
	for swept := range total {
		sum.Grants, sum.Escalated = sum.Grants+swept.Grants, sum.Escalated+swept.Escalated
	}
	sum.Grants += mustSweep(t, s).Grants // a team that was held is left to the next
	if sum.Grants != 3 || sum.Escalated != 120 {
		t.Errorf("swept %+v in all, want 3 grants and 120 requests", sum)
	}
	wantLimit(t, s, "vision", rayslice.Charge{GiB: 400})
	wantUsed(t, s, rayslice.Charge{GiB: 8 + 119 + 4})
	wantLogged(t, s, people.Root, "grant_ended", 3)
}

func sweepAndCharge(ctx context.Context, s *store.Store, ada rayslice.User, key string, total chan<- store.Swept) error {
	swept, err := s.Sweep(ctx, rayslice.System)
	total <- swept
	if err == nil {
		_, err = s.CreateRequest(ctx, ada, storetest.Draft(1, 1), key)
	}
	return err
}
