package k8s

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

func useTargets(n int) []rayslice.UseTarget {
	targets := make([]rayslice.UseTarget, n)
	for i := range targets {
		targets[i] = rayslice.UseTarget{RequestID: fmt.Sprintf("request-%d", i), Namespace: "team"}
	}
	return targets
}

// play runs a schedule through a stretch of time, in steps of 100 ms, and returns when each cluster was asked.
func play(s *schedule, from time.Time, during time.Duration, answers bool) map[string][]time.Time {
	asked := map[string][]time.Time{}
	for now := from; now.Before(from.Add(during)); now = now.Add(100 * time.Millisecond) {
		for _, e := range s.due(now, 1000) {
			asked[e.target.RequestID] = append(asked[e.target.RequestID], now)
			s.done(e, answers, now)
		}
	}
	return asked
}

func TestScheduleAsksOncePerInterval(t *testing.T) {
	s := newSchedule(30*time.Second, 5*time.Second)
	targets := useTargets(300)
	targets[0].WatchedUntil = noon.Add(time.Hour)
	s.set(targets, noon)
	asked := play(s, noon, 2*time.Minute, true)
	for _, target := range targets[1:] {
		if n := len(asked[target.RequestID]); n != 4 {
			t.Errorf("%s was asked %d times in 2 minutes, want 4", target.RequestID, n)
		}
	}
	if n := len(asked[targets[0].RequestID]); n < 24 || n > 25 {
		t.Errorf("the watched one was asked %d times in 2 minutes, want 24 and once at the beginning", n)
	}
	perSecond := map[time.Time]int{}
	for _, times := range asked {
		for _, at := range times {
			perSecond[at.Truncate(time.Second)]++
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(perSecond))); most > 30 {
		t.Errorf("%d questions in one second; 300 clusters over 30 seconds are 10", most)
	}
}

func TestScheduleFollowsWhoLooks(t *testing.T) {
	s := newSchedule(30*time.Second, 5*time.Second)
	targets := useTargets(1)
	s.set(targets, noon)
	play(s, noon, time.Minute, true)
	looked := noon.Add(time.Minute + 7*time.Second)
	s.entries["request-0"].asked = looked.Add(-6 * time.Second)
	targets[0].WatchedUntil = looked.Add(10 * time.Second)
	s.set(targets, looked)
	if got := s.due(looked, 1); len(got) != 1 {
		t.Fatal("not asked when somebody begins to look")
	}
	s.done(s.entries["request-0"], true, looked)
	s.set(targets, looked) // still looking: no more than one per interval
	if got := s.due(looked, 1); len(got) != 0 {
		t.Error("asked again at once")
	}
	asked := play(s, looked, 2*time.Minute, true)["request-0"]
	if n := len(asked); n < 5 || n > 7 { // 2 in 10 s, then 4 in 110 s
		t.Errorf("asked %d times: %v", n, asked)
	}
	s.set(nil, looked)
	if got := play(s, looked, 2*time.Minute, true); len(got) != 0 {
		t.Errorf("goes on asking for what is over: %v", got)
	}
}

func TestScheduleAsksTheSilentLess(t *testing.T) {
	s := newSchedule(30*time.Second, 5*time.Second)
	targets := useTargets(2)
	targets[0].WatchedUntil = noon.Add(time.Hour)
	s.set(targets, noon)
	asked := play(s, noon, 10*time.Minute, false)
	if n := len(asked["request-0"]); n > 24 {
		t.Errorf("asked a silent head that somebody looks at %d times in 10 minutes", n)
	}
	if n := len(asked["request-1"]); n > 9 {
		t.Errorf("asked a silent head %d times in 10 minutes", n)
	}
	e := s.entries["request-1"]
	s.done(e, true, noon.Add(10*time.Minute))
	if wait := e.next.Sub(noon.Add(10 * time.Minute)); wait > 30*time.Second {
		t.Errorf("asked again only after %v when it has answered", wait)
	}
}

func TestScheduleTakesTheLongestWaitingFirst(t *testing.T) {
	s := newSchedule(30*time.Second, 5*time.Second)
	s.set(useTargets(50), noon)
	now := noon.Add(time.Minute)
	var last time.Time
	for range 50 {
		due := s.due(now, 1)
		if len(due) != 1 || due[0].next.Before(last) {
			t.Fatalf("%d due, not the longest waiting", len(due))
		}
		last = due[0].next
	}
	if due := s.due(now, 1); len(due) != 0 {
		t.Error("takes one that is being asked")
	}
}

func TestShare(t *testing.T) {
	targets := useTargets(3000)
	ids := func(of []rayslice.UseTarget) map[string]bool {
		set := map[string]bool{}
		for _, t := range of {
			set[t.RequestID] = true
		}
		return set
	}
	three := []string{"a-1", "b-1", "c-1"}
	owner := map[string]string{}
	for _, self := range three {
		own := ids(share(targets, three, self))
		if len(own) < 850 || len(own) > 1150 {
			t.Errorf("%s has %d of 3000", self, len(own))
		}
		for id := range own {
			if owner[id] != "" {
				t.Errorf("%s belongs to %s and %s", id, owner[id], self)
			}
			owner[id] = self
		}
	}
	if len(owner) != 3000 {
		t.Errorf("%d of 3000 belong to somebody", len(owner))
	}
	for _, self := range []string{"a-1", "b-1"} { // c goes
		for id := range ids(share(targets, []string{"a-1", "b-1"}, self)) {
			if owner[id] != self && owner[id] != "c-1" {
				t.Errorf("%s moved from %s to %s when c-1 went", id, owner[id], self)
			}
		}
	}
	if own := share(targets, nil, "d-1"); len(own) != 3000 {
		t.Errorf("alone it asks %d of 3000", len(own))
	}
	if own := share(targets, three, "d-1"); len(own) < 600 || len(own) > 900 {
		t.Errorf("a replica that is not listed yet asks %d of 3000", len(own))
	}
}
