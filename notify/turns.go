package notify

import (
	"sync"
	"time"
)

// How long a job waits before it asks for its turn again.
const (
	turnWait    = 2 * time.Second // for each job that waits behind the same person's
	maxTurnWait = 5 * time.Minute
)

// turns let each person have one job at a time, so that a receiver which hangs keeps no worker from others' messages. They
// are those of one replica: a person can hold up one worker of each.
type turns struct {
	wait time.Duration // for each that waits
	mu   sync.Mutex
	of   map[int64]int // whose job is worked → how many have been put off meanwhile
}

func newTurns(wait time.Duration) *turns { return &turns{wait: wait, of: map[int64]int{}} }

// take returns 0 when it is the person's turn, which give ends; else how long the job should wait, each longer than the one
// before, so that they do not all come back at once.
func (t *turns) take(person int64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	behind, taken := t.of[person]
	if !taken {
		t.of[person] = 0
		return 0
	}
	t.of[person] = behind + 1
	return min(t.wait*time.Duration(behind+1), maxTurnWait)
}

// give ends the person's turn.
func (t *turns) give(person int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, person)
}
