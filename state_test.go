package rayslice

import "testing"

// TestEveryStateIsReachable walks the table from pending, so that no state stands in it unused.
func TestEveryStateIsReachable(t *testing.T) {
	seen := map[State]bool{}
	queue := []State{StatePending}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if seen[s] {
			continue
		}
		seen[s] = true
		queue = append(queue, transitions[s]...)
	}
	for _, s := range States() {
		if !seen[s] {
			t.Errorf("%s cannot be reached from pending", s)
		}
	}
	if len(seen) != len(transitions) || len(States()) != len(transitions) {
		t.Errorf("%d reachable, %d listed, %d in the table", len(seen), len(States()), len(transitions))
	}
}

// TestEveryLifeEnds checks that a state is final or leads to a final one, and that only live states keep a cluster.
func TestEveryLifeEnds(t *testing.T) {
	for _, s := range States() {
		if !s.Final() && !s.Stoppable() && s != StateStopping {
			t.Errorf("%s is neither final nor stoppable", s)
		}
		if s.Final() && s.Live() {
			t.Errorf("%s is final and live", s)
		}
	}
}
