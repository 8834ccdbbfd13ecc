package handlers

import (
	"net/http"
	"sync"

	"github.com/rayslice/rayslice/store"
)

// maxStreams is how many event streams one session or token may have open.
const maxStreams = 8

// hub passes the changes of the one listener on to the open event streams.
type hub struct {
	metrics *metrics
	mu      sync.Mutex
	open    map[*subscription]struct{}
	perKey  map[string]int
}

// subscription is one stream's interest. Its buffer is a single mark: a stream always draws what is true now, so any
// number of missed changes is one change, and a reader that does not read costs no memory.
type subscription struct {
	key   string
	wants func(store.Change) bool
	wake  chan struct{}
}

func newHub(m *metrics) *hub {
	return &hub{metrics: m, open: map[*subscription]struct{}{}, perKey: map[string]int{}}
}

// subscribe opens a subscription, or refuses when the session has too many.
func (h *hub) subscribe(key string, wants func(store.Change) bool) (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.perKey[key] >= maxStreams {
		return nil, refuse(http.StatusTooManyRequests, "too_many_streams", map[string]any{"max": maxStreams}, nil)
	}
	sub := &subscription{key: key, wants: wants, wake: make(chan struct{}, 1)}
	h.open[sub] = struct{}{}
	h.perKey[key]++
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
	h.metrics.streams.Dec()
}

// notify wakes the streams that want to know. It never waits for one.
func (h *hub) notify(change store.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.open {
		if change.Resync || sub.wants(change) {
			sub.mark()
		}
	}
}

// mark notes that there is something new to draw.
func (sub *subscription) mark() {
	select {
	case sub.wake <- struct{}{}:
	default: // it is noted already
	}
}
