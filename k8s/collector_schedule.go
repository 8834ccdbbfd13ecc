package k8s

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/rayslice/rayslice"
)

// useMisses is how many questions in a row a source leaves unanswered until it is asked less often.
const useMisses = 3

// schedule says which clusters are asked when. It knows no clock and takes no lock.
type schedule struct {
	every   time.Duration // between two questions to a cluster nobody looks at
	watched time.Duration // and to one that somebody looks at
	entries map[string]*entry
}

// entry is one cluster of the schedule.
type entry struct {
	target rayslice.UseTarget
	next   time.Time // when it is asked again
	asked  time.Time // when it was asked last
	asking bool
	misses int // questions without an answer, in a row
}

func newSchedule(every, watched time.Duration) *schedule {
	return &schedule{every: every, watched: watched, entries: map[string]*entry{}}
}

// set makes the targets those to ask. One that somebody has begun to look at is asked at once.
func (s *schedule) set(targets []rayslice.UseTarget, now time.Time) {
	keep := make(map[string]bool, len(targets))
	for _, t := range targets {
		keep[t.RequestID] = true
		e := s.entries[t.RequestID]
		if e == nil {
			e = &entry{}
			s.entries[t.RequestID] = e
			e.target = t
			e.next = s.after(e, now)
		}
		looking := !e.target.WatchedUntil.After(now) && t.WatchedUntil.After(now) || e.asked.IsZero() && t.WatchedUntil.After(now)
		e.target = t
		if looking && e.misses < useMisses && now.Sub(e.asked) >= s.watched {
			e.next = now
		}
	}
	for id := range s.entries {
		if !keep[id] {
			delete(s.entries, id)
		}
	}
}

// due returns up to n clusters whose time has come, the longest waiting first, and takes them for being asked.
func (s *schedule) due(now time.Time, n int) []*entry {
	var ready []*entry
	for _, e := range s.entries {
		if !e.asking && !e.next.After(now) {
			ready = append(ready, e)
		}
	}
	slices.SortFunc(ready, func(a, b *entry) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.target.RequestID, b.target.RequestID))
	})
	ready = ready[:min(n, len(ready))]
	for _, e := range ready {
		e.asking, e.asked = true, now
	}
	return ready
}

// done says that a question is over.
func (s *schedule) done(e *entry, answered bool, now time.Time) {
	e.asking = false
	e.misses++
	if answered {
		e.misses = 0
	}
	e.next = s.after(e, now)
}

// interval is the time between two questions to a cluster. What has not answered for a while is asked as often as what
// nobody looks at, and then less and less often.
func (s *schedule) interval(e *entry, now time.Time) time.Duration {
	watched := e.target.WatchedUntil.After(now)
	switch {
	case e.misses < useMisses && watched:
		return s.watched
	case e.misses < useMisses || watched:
		return s.every
	}
	return s.every << min(e.misses-useMisses+1, 2)
}

// after returns when the cluster is to be asked next: on a beat of its own, so that clusters spread over the interval and no
// two replicas need to agree on it.
func (s *schedule) after(e *entry, now time.Time) time.Time {
	interval := s.interval(e, now)
	beat := time.Duration(hashOf(e.target.RequestID) % uint64(interval))
	next := now.Truncate(interval).Add(beat)
	if !next.After(now) {
		next = next.Add(interval)
	}
	return next
}

// share returns the targets that are this replica's: each cluster goes to the one that scores highest for it, so that a
// replica that comes or goes moves only its own share. Two replicas that for a moment do not agree ask twice, which does
// no harm.
func share(targets []rayslice.UseTarget, alive []string, self string) []rayslice.UseTarget {
	if !slices.Contains(alive, self) {
		alive = append(slices.Clone(alive), self)
	}
	return slices.DeleteFunc(slices.Clone(targets), func(t rayslice.UseTarget) bool {
		winner := slices.MaxFunc(alive, func(a, b string) int {
			return cmp.Or(cmp.Compare(hashOf(t.RequestID, a), hashOf(t.RequestID, b)), cmp.Compare(a, b))
		})
		return winner != self
	})
}

// hashOf is the same in every process.
func hashOf(parts ...string) uint64 {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}
