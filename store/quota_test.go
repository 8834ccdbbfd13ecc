package store_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// replicas returns two Stores with pools of their own, wide enough for real contention.
func replicas(t testing.TB) [2]*store.Store {
	t.Helper()
	url := storetest.URL(t)
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return [2]*store.Store{storetest.Open(t, url+sep+"pool_max_conns=12"), storetest.Open(t, url+sep+"pool_max_conns=12")}
}

// inParallel calls do for 0…n-1, all at once.
func inParallel(n int, do func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	group.Wait()
}

// TestT01ParallelRequestsNeverPassTheLimit is also B072.
func TestT01ParallelRequestsNeverPassTheLimit(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	const rounds = 100
	for range rounds {
		var mu sync.Mutex
		var charged []string
		var refused int
		inParallel(50, func(i int) {
			r, err := stores[i%2].CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 1), "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				charged = append(charged, r.ID)
			case rayslice.KindOf(err) == rayslice.KindOverQuota:
				refused++
			default:
				t.Error(err)
			}
		})
		if len(charged) != 20 || refused != 30 {
			t.Fatalf("%d charged, %d refused; want 20 and 30", len(charged), refused)
		}
		wantUsed(t, stores[0], rayslice.Charge{GiB: 20})
		inParallel(20, func(i int) {
			if err := stop(t.Context(), stores[i%2], people.Ada, charged[i]); err != nil {
				t.Error(err)
			}
		})
		wantUsed(t, stores[0], rayslice.Charge{})
	}
	if n := count(t, `SELECT count(*) FROM audit WHERE action = 'refuse' AND team = 'vision' AND actor = 'Ada'`); n != 30*rounds {
		t.Errorf("%d refusals in the audit log, want %d", n, 30*rounds)
	}
	if n := count(t, `SELECT count(*) FROM requests`); n != 20*rounds {
		t.Errorf("%d requests, want %d", n, 20*rounds)
	}
}

// TestB071RepeatableReadByDefault releases and charges in parallel on a database whose default isolation is stricter.
func TestB071RepeatableReadByDefault(t *testing.T) {
	storetest.Exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$`)
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 50})
	inParallel(50, func(i int) {
		r, err := stores[i%2].CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 1), "")
		if err == nil {
			err = stop(t.Context(), stores[(i+1)%2], people.Ada, r.ID)
		}
		if err != nil {
			t.Error(err)
		}
	})
	wantUsed(t, stores[0], rayslice.Charge{})
}

func TestB074ExactlyUpToTheLimit(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	mustCreate(t, s, people.Ada, storetest.Draft(4, 8))
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 9), "")
	e := refusal(t, err, rayslice.KindOverQuota)
	for arg, want := range map[string]int{"limit_gib": 40, "used_gib": 32, "held_gib": 0, "asked_gib": 9, "left_gib": 8} {
		if e.Args[arg] != want {
			t.Errorf("%s is %v, want %d", arg, e.Args[arg], want)
		}
	}
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	_, err = s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 9), "")
	wantKind(t, err, rayslice.KindOverQuota)
	wantUsed(t, s, rayslice.Charge{GiB: 40})
}

func TestB067StoppedGivesQuotaBack(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	first := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	mustCreate(t, s, people.Bob, storetest.Draft(1, 8))
	if _, err := s.StopRequest(t.Context(), people.Ada, first.ID); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 24})
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), "")
	wantKind(t, err, rayslice.KindOverQuota) // pods may still hold the card
	mustMove(t, s, first.ID, rayslice.StateStopping, rayslice.StateStopped)
	wantUsed(t, s, rayslice.Charge{GiB: 16})
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	wantUsed(t, s, rayslice.Charge{GiB: 24})
}

// TestWhatADraftCharges is B065 (CPU only), B077 (workers × cards × size), B079 (the maximum) and whole cards.
func TestWhatADraftCharges(t *testing.T) {
	group := func(workers, most int, slice rayslice.Slice) rayslice.Group {
		return rayslice.Group{Slice: slice, Workers: workers, MinWorkers: workers, MaxWorkers: most, CPU: 1, MemoryGiB: 1}
	}
	tests := map[string]struct {
		groups []rayslice.Group
		want   rayslice.Charge
	}{
		"B065 CPU only":              {[]rayslice.Group{group(2, 2, rayslice.Slice{})}, rayslice.Charge{}},
		"B077 2 workers × 2 × 8 GiB": {[]rayslice.Group{group(2, 2, rayslice.Slice{Pool: "multi", GiB: 8, Cards: 2})}, rayslice.Charge{GiB: 32}},
		"B079 autoscaled to 10":      {[]rayslice.Group{group(1, 10, rayslice.Slice{Pool: "a10", GiB: 4, Cards: 1})}, rayslice.Charge{GiB: 40}},
		"whole cards and slices": {[]rayslice.Group{group(2, 2, rayslice.Slice{Pool: "a100", Cards: 3}), group(1, 1, rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1})},
			rayslice.Charge{GiB: 8, Cards: 6}},
	}
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40, Cards: 6})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			draft := storetest.Draft(1, 1)
			draft.Groups = tc.groups
			r := mustCreate(t, s, people.Ada, draft)
			if r.Charge != tc.want || r.Released {
				t.Errorf("charge %v, released %v; want %v held", r.Charge, r.Released, tc.want)
			}
			wantUsed(t, s, tc.want)
			mustStop(t, s, people.Ada, r.ID)
			wantUsed(t, s, rayslice.Charge{})
		})
	}
}

// TestLimitBelowUsed lowers a limit under what runs: nothing more of it fits, but what charges nothing of it does.
func TestLimitBelowUsed(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20, Cards: 1})
	r := mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	storetest.Exec(t, `UPDATE quotas SET limit_gib = 10 WHERE team = 'vision'`)
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 1), "")
	if e := refusal(t, err, rayslice.KindOverQuota); e.Args["left_gib"] != 0 {
		t.Errorf("left %v, want 0", e.Args["left_gib"])
	}
	cards := storetest.Draft(1, 1)
	cards.Groups[0].Slice = rayslice.Slice{Pool: "a100", Cards: 1}
	mustCreate(t, s, people.Ada, cards)
	mustStop(t, s, people.Ada, r.ID)
	wantUsed(t, s, rayslice.Charge{Cards: 1})
}

func TestTeamWithoutQuotaMayHoldNothing(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	storetest.Exec(t, `DELETE FROM quotas WHERE team = 'vision'`)
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 1), "")
	wantKind(t, err, rayslice.KindOverQuota)
}

// TestDriftIsReportedAndNeverBlocksARelease writes a wrong figure past the store.
func TestDriftIsReportedAndNeverBlocksARelease(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	storetest.Exec(t, `UPDATE quotas SET used_gib = 3 WHERE team = 'vision'`)
	drift, err := s.QuotaDrift(t.Context(), people.Ada)
	want := store.Drift{Team: "vision", Used: rayslice.Charge{GiB: 3}, Ledger: rayslice.Charge{GiB: 16}}
	if err != nil || len(drift) != 1 || drift[0] != want {
		t.Errorf("got %v, %v; want %v", drift, err, want)
	}
	if hidden, err := s.QuotaDrift(t.Context(), people.Sam); err != nil || len(hidden) != 0 {
		t.Errorf("another team sees %v, %v", hidden, err)
	}
	mustStop(t, s, people.Ada, r.ID)
	wantUsed(t, s, rayslice.Charge{})
}

func TestHeldIsThePendingPart(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	mustCreate(t, s, people.Ada, storetest.Draft(1, 4))
	needLead(t, s, people)
	id := mustCreate(t, s, people.Ada, storetest.Draft(1, 8)).ID
	q, err := s.Quota(t.Context(), people.Ada, "vision")
	if want := (rayslice.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 20}, Used: rayslice.Charge{GiB: 12}, Held: rayslice.Charge{GiB: 8}}); err != nil || q != want {
		t.Errorf("got %v, %v; want %v", q, err, want)
	}
	r, err := s.StopRequest(t.Context(), people.Ada, id)
	if err != nil || r.State != rayslice.StateCancelled || !r.Released || r.DecidedAt.IsZero() || !r.EndsAt.IsZero() {
		t.Errorf("got %+v, %v; want it cancelled and released", r, err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 4})
}

func TestNamespaceLimits(t *testing.T) { // B079
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 16, Cards: 1})
	look := func(want rayslice.Charge, when string) {
		t.Helper()
		limits, err := s.NamespaceLimits(t.Context(), rayslice.System)
		if err != nil {
			t.Fatal(err)
		}
		both := []rayslice.NamespaceLimit{
			{Team: "speech", Namespace: "team-speech", Charge: rayslice.Charge{GiB: 16, Cards: 1}},
			{Team: "vision", Namespace: "team-vision", Charge: want},
		}
		if diff := cmp.Diff(both, limits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	look(rayslice.Charge{GiB: 16, Cards: 1}, "nothing runs")
	r := mustCreate(t, s, p.Ada, storetest.Draft(2, 8))
	if err := s.SetLimit(t.Context(), p.Root, "vision", rayslice.Charge{GiB: 4}, ""); err != nil {
		t.Fatal(err)
	}
	look(rayslice.Charge{GiB: 16}, "lowered below what is held")
	mustStop(t, s, p.Ada, r.ID)
	look(rayslice.Charge{GiB: 4}, "given back")
	storetest.Exec(t, `INSERT INTO grants (team, gib, cards, base, until_at, granted_by) VALUES ('vision', 8, 0, false, now() - interval '1 minute', 'Root')`)
	storetest.Exec(t, `UPDATE quotas SET limit_gib = 12, limit_until = now() - interval '1 minute' WHERE team = 'vision'`)
	look(rayslice.Charge{GiB: 4}, "a raise is over, and nobody has written it down")
}
