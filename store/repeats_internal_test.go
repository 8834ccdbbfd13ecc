package store

import (
	"testing"
	"time"
)

// TestRepeats records the same refusal once a minute, each other one by itself, and one that could not be written again.
func TestRepeats(t *testing.T) {
	r, began := newRepeats(), time.Now()
	one := repeat{actor: 1, code: "admin_only", subject: "GET /admin"}
	other := one
	other.subject = "GET /admin/teams"
	for i, tc := range []struct {
		x     repeat
		after time.Duration
		want  bool
	}{
		{one, 0, true},
		{one, time.Second, false},
		{other, time.Second, true},
		{repeat{actor: 2, code: one.code, subject: one.subject}, time.Second, true},
		{repeat{actor: 1, token: 7, code: one.code, subject: one.subject}, time.Second, true},
		{one, repeatAfter - 1, false},
		{one, repeatAfter, true}, // what was refused meanwhile has not put it off
		{one, repeatAfter + time.Second, false},
	} {
		if got := r.first(tc.x, began.Add(tc.after)); got != tc.want {
			t.Errorf("%d: %+v after %s: %t", i, tc.x, tc.after, got)
		}
	}
	r.forget(one)
	if !r.first(one, began.Add(repeatAfter+2*time.Second)) {
		t.Error("what could not be written is not tried again")
	}
	for n := range 2 * maxRepeats {
		r.first(repeat{actor: int64(n)}, began)
	}
	if r.last.Len() > maxRepeats {
		t.Errorf("%d are remembered", r.last.Len())
	}
}
