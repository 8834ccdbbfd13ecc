package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// listen starts to listen and waits until that is under way.
func listen(t *testing.T, s *store.Store) <-chan store.Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan store.Change, 100), make(chan error)
	go func() { ended <- s.Listen(ctx, func(c store.Change) { changes <- c }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen ended with %v", err)
		}
	})
	wantChanges(t, changes, store.Change{Resync: true})
	return changes
}

func wantChanges(t *testing.T, changes <-chan store.Change, want ...store.Change) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-changes:
			if !cmp.Equal(got, w) {
				t.Errorf("heard %+v, want %+v", got, w)
			}
		case <-time.After(patience):
			t.Fatalf("never heard %+v", w)
		}
	}
}

func TestListenHearsWhatWasCommitted(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	changes := listen(t, storetest.New(t))
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(2, 8), "")
	wantKind(t, err, rayslice.KindOverQuota) // rolled back, so never heard of
	change := store.Change{Kind: store.KindRequest, ID: r.ID}
	wantChanges(t, changes, change)
	if _, err := s.StopRequest(t.Context(), people.Ada, r.ID); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, changes, change)
	mustMove(t, s, r.ID, rayslice.StateStopping, rayslice.StateStopped)
	wantChanges(t, changes, change)
	storetest.Exec(t, `NOTIFY rayslice_changes, 'not ours'`)
	wantChanges(t, changes, store.Change{Resync: true})
}

func TestListenConnectsAgainAndResyncs(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	changes := listen(t, s)
	for range 3 {
		if n := count(t, `
			SELECT count(pg_terminate_backend(pid))
			FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %'`); n != 1 {
			t.Fatalf("ended %d listening connections, want 1", n)
		}
		wantChanges(t, changes, store.Change{Resync: true})
	}
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	wantChanges(t, changes, store.Change{Kind: store.KindRequest, ID: r.ID})
}

// TestSavingTheSameIsSilent saves observations that differ in nothing but their time.
func TestSavingTheSameIsSilent(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	changes := listen(t, s)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	c := rayslice.Cluster{RequestID: r.ID, ObservedAt: at, Exists: true, Ours: true, UID: "uid", CreatedAt: at,
		Workers: []rayslice.Worker{{Name: "w", Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Placements: []rayslice.Placement{{Card: 1, GiB: 8}}}},
		Problem: rayslice.Reason{Code: rayslice.ReasonStuck, Args: map[string]any{"minutes": 10}}}
	f := rayslice.Fleet{ObservedAt: at, Nodes: []rayslice.Node{{Name: "n", Pool: "a10", Cards: 4, CardGiB: 22}}}
	if got, err := s.Fleet(t.Context(), rayslice.System); err != nil || !cmp.Equal(got, rayslice.Fleet{}) {
		t.Errorf("fleet before the first: %v, %v", got, err)
	}
	if got, err := s.Cluster(t.Context(), people.Ada, r.ID); err != nil || !cmp.Equal(got, rayslice.Cluster{RequestID: r.ID}) {
		t.Errorf("cluster before the first: %v, %v", got, err)
	}
	save := func() {
		t.Helper()
		if err := errors.Join(s.SaveCluster(t.Context(), rayslice.System, c), s.SaveFleet(t.Context(), rayslice.System, f)); err != nil {
			t.Fatal(err)
		}
		gotCluster, err := s.Cluster(t.Context(), people.Ada, r.ID)
		if diff := cmp.Diff(c, gotCluster); err != nil || diff != "" {
			t.Errorf("%v (-saved +read):\n%s", err, diff)
		}
		gotFleet, err := s.Fleet(t.Context(), rayslice.System)
		if diff := cmp.Diff(f, gotFleet); err != nil || diff != "" {
			t.Errorf("%v (-saved +read):\n%s", err, diff)
		}
	}
	cluster, fleet := store.Change{Kind: store.KindCluster, ID: r.ID}, store.Change{Kind: store.KindFleet}
	save()
	wantChanges(t, changes, cluster, fleet)
	c.ObservedAt, f.ObservedAt = at.Add(time.Minute), at.Add(time.Minute)
	save()
	c.HeadAnswers, f.Nodes[0].Ready = true, true
	save()
	wantChanges(t, changes, cluster, fleet)
	mustStop(t, s, people.Ada, r.ID)
	wantChanges(t, changes, store.Change{Kind: store.KindRequest, ID: r.ID}) // so nothing came in between
	wantKind(t, s.SaveCluster(t.Context(), rayslice.System, rayslice.Cluster{RequestID: "aaaaaaaaaaaa"}), rayslice.KindNotFound)
}
