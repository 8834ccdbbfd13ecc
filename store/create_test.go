package store_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

func TestT04IdempotencyKey(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	draft := storetest.Draft(1, 8)
	first, err := s.CreateRequest(t.Context(), people.Ada, draft, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.CreateRequest(t.Context(), people.Ada, draft, "key-1")
	if err != nil || !cmp.Equal(first, again) {
		t.Errorf("same body: %v, %v; want %v", again, err, first)
	}
	_, err = s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 4), "key-1")
	if e := refusal(t, err, rayslice.KindInvalid); e.Code != "idempotency_key_reused" {
		t.Errorf("other body: %v", err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	bobs, err := s.CreateRequest(t.Context(), people.Bob, draft, "key-1")
	if err != nil || bobs.ID == first.ID || bobs.Owner.ID != people.Bob.ID {
		t.Errorf("another user's key: %v, %v", bobs, err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 16})
	_, err = s.CreateRequest(t.Context(), people.Ada, draft, strings.Repeat("k", 256))
	wantField(t, err, "Idempotency-Key", rayslice.CodeTooLong)
}

// TestT04RefusedKeyIsFree asks again with the same key when there is room.
func TestT04RefusedKeyIsFree(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), "key")
	wantKind(t, err, rayslice.KindOverQuota)
	mustStop(t, s, people.Ada, r.ID)
	if _, err = s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), "key"); err != nil {
		t.Errorf("after there was room: %v", err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
}

// TestT04SameKeyAtOnce sends the same request many times in parallel through two replicas.
func TestT04SameKeyAtOnce(t *testing.T) {
	stores := replicas(t)
	people := storetest.Fill(t, stores[0], rayslice.Charge{GiB: 20})
	var mu sync.Mutex
	ids := map[string]int{}
	inParallel(20, func(i int) {
		r, err := stores[i%2].CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), "key")
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		ids[r.ID]++
	})
	if len(ids) != 1 {
		t.Errorf("%d requests, want one: %v", len(ids), ids)
	}
	wantUsed(t, stores[0], rayslice.Charge{GiB: 8})
}

func TestTeamRemovedMeanwhile(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	storetest.Exec(t, `DELETE FROM teams WHERE name = 'vision'`)
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 1), "")
	wantField(t, err, "team", rayslice.CodeTeamUnknown)
}
