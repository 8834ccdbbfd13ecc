package handlers

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/rayslice/rayslice/store"
)

// How many event streams may be open at a time.
const (
	maxStreams     = 8  // of one session or token
	maxUserStreams = 40 // of one person, whatever sessions and tokens they have
)

// hub passes the changes of the one listener on to the open event streams.
type hub struct {
	metrics *metrics
	mu      sync.Mutex
	open    map[*subscription]struct{}
	perKey  map[string]int
	perUser map[int64]int
}

// marks say which parts of what a stream shows are to be drawn again.
type marks uint32

const (
	markState marks = 1 << iota // what a request is, and what Kubernetes says of it
	markUse                     // what its slices are used for
	markAll   = markState | markUse
)

// subscription is one stream's interest. Its buffer is a few marks: a stream always draws what is true now, so any
// number of missed changes is one change, and a reader that does not read costs no memory.
type subscription struct {
	key    string
	user   int64
	wants  func(store.Change) marks
	marked atomic.Uint32
	wake   chan struct{}
}

func newHub(m *metrics) *hub {
	return &hub{metrics: m, open: map[*subscription]struct{}{}, perKey: map[string]int{}, perUser: map[int64]int{}}
}

// subscribe opens a subscription, or refuses when the session or the person has too many.
func (h *hub) subscribe(id identity, wants func(store.Change) marks) (*subscription, error) {
	key, user := id.key(), id.user.ID
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.perKey[key] >= maxStreams {
		return nil, refuse(http.StatusTooManyRequests, "too_many_streams", map[string]any{"max": maxStreams}, nil)
	}
	if h.perUser[user] >= maxUserStreams {
		return nil, refuse(http.StatusTooManyRequests, "too_many_streams", map[string]any{"max": maxUserStreams}, nil)
	}
	sub := &subscription{key: key, user: user, wants: wants, wake: make(chan struct{}, 1)}
	h.open[sub] = struct{}{}
	h.perKey[key]++
	h.perUser[user]++
	h.metrics.streams.Inc()
	return sub, nil
}

// unsubscribe closes a subscription.
func (h *hub) unsubscribe(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, sub)
	if h.perKey[sub.key]--; h.perKey[sub.key] == 0 {
		delete(h.perKey, sub.key)
	}
	if h.perUser[sub.user]--; h.perUser[sub.user] == 0 {
		delete(h.perUser, sub.user)
	}
	h.metrics.streams.Dec()
}

// notify wakes the streams that want to know. It never waits for one.
func (h *hub) notify(change store.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.open {
		wanted := markAll
		if !change.Resync {
			wanted = sub.wants(change)
		}
		if wanted != 0 {
			sub.mark(wanted)
		}
	}
}

// take returns what is marked, and clears it.
func (sub *subscription) take() marks { return marks(sub.marked.Swap(0)) }

// mark notes that there is something new to draw.
func (sub *subscription) mark(m marks) {
	sub.marked.Or(uint32(m))
	select {
	case sub.wake <- struct{}{}:
	default: // it is noted already
	}
}
