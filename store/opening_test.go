package store_test

import (
	"sync"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestOpeningIsTakenOnce lets one of many at the same time have a code, keeps the latest of a session, and ends with it.
func TestOpeningIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	request := mustCreate(t, s, p.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `INSERT INTO sessions (token, data, expiry) VALUES ('session', '', now() + interval '1 hour')`)
	open := func(code string) {
		t.Helper()
		o := store.Opening{RequestID: request.ID, Session: "session", Code: []byte(code), Sealed: []byte("sealed")}
		if access, err := s.OpenCluster(t.Context(), p.Ada, o); err != nil || access != rayslice.AccessFull {
			t.Fatalf("%q, %v", access, err)
		}
	}
	open("code")
	var mu sync.Mutex
	var taken []store.Opening
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			o, err := s.TakeOpening(t.Context(), rayslice.System, request.ID, []byte("code"))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, o)
			} else if rayslice.KindOf(err) != rayslice.KindNotFound {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(taken) != 1 || taken[0].Session != "session" || string(taken[0].Sealed) != "sealed" {
		t.Fatalf("taken %+v, want it once", taken)
	}
	if err := s.KeepOpening(t.Context(), rayslice.System, taken[0].ID, []byte("cookie"), []byte("again")); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepOpening(t.Context(), rayslice.System, taken[0].ID, []byte("second"), nil); rayslice.KindOf(err) != rayslice.KindNotFound {
		t.Errorf("a second cookie for one code: %v", err)
	}
	if o, err := s.Opening(t.Context(), rayslice.System, request.ID, []byte("cookie")); err != nil || string(o.Sealed) != "again" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, code := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		open(code)
	}
	var n int
	if storetest.Query(t, &n, `SELECT count(*) FROM openings`); n != 8 {
		t.Errorf("%d are kept, want the latest 8", n)
	}
	storetest.Exec(t, `DELETE FROM sessions`)
	if storetest.Query(t, &n, `SELECT count(*) FROM openings`); n != 0 {
		t.Errorf("%d outlive their session", n)
	}
	o := store.Opening{RequestID: request.ID, Session: "session", Code: []byte("late"), Sealed: []byte("x")}
	if _, err := s.OpenCluster(t.Context(), p.Ada, o); rayslice.KindOf(err) != rayslice.KindNotFound {
		t.Errorf("after the session: %v", err)
	}
}
