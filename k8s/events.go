package k8s

import (
	"regexp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
)

const (
	maxEvents  = 20 // shown per request
	keptEvents = 40 // kept per request; the rest is forgotten, oldest first
)

// objectName matches what belongs to a request by its name alone: rs-<id>, rs-<id>-head-…, rs-<id>-a10-8g-worker-….
var objectName = regexp.MustCompile(`^rs-([a-z2-7]{12})(?:-|$)`)

// requestNamed returns the id of the request whose object or pod has the name; "" when it is not one of our names.
func requestNamed(name string) string {
	if match := objectName.FindStringSubmatch(name); match != nil {
		return match[1]
	}
	return ""
}

// eventStore keeps the latest Kubernetes events of our RayClusters and pods. Events cannot be selected by label, so
// those of other people's objects pass by here and are dropped at once.
type eventStore struct {
	wake func(id string)

	mu sync.RWMutex
	by map[eventKey]map[types.UID]keptEvent
}

type eventKey struct{ namespace, request string }

type keptEvent struct {
	kind string
	rayslice.Event
}

func newEventStore(wake func(id string)) *eventStore {
	return &eventStore{wake: wake, by: map[eventKey]map[types.UID]keptEvent{}}
}

// about returns the request's events, latest first.
func (s *eventStore) about(namespace, request string) []rayslice.Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []rayslice.Event
	for _, e := range s.by[eventKey{namespace, request}] {
		out = append(out, e.Event)
	}
	slices.SortFunc(out, laterFirst)
	return out[:min(len(out), maxEvents)]
}

func laterFirst(a, b rayslice.Event) int {
	if c := b.At.Compare(a.At); c != 0 {
		return c
	}
	if a.Object+a.Reason < b.Object+b.Reason {
		return -1
	}
	return 1
}

func (s *eventStore) put(kind string, event *corev1.Event) {
	key, ok := keyOf(event)
	if !ok {
		return
	}
	s.mu.Lock()
	if s.by[key] == nil {
		s.by[key] = map[types.UID]keptEvent{}
	}
	s.by[key][event.UID] = keptEvent{kind: kind, Event: toEvent(event)}
	if len(s.by[key]) > keptEvents {
		s.dropOldest(key)
	}
	s.mu.Unlock()
	s.wake(key.request)
}

func (s *eventStore) dropOldest(key eventKey) {
	var oldest types.UID
	for uid, e := range s.by[key] {
		if oldest == "" || e.At.Before(s.by[key][oldest].At) {
			oldest = uid
		}
	}
	delete(s.by[key], oldest)
}

func (s *eventStore) remove(event *corev1.Event) {
	key, ok := keyOf(event)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by[key], event.UID)
	if len(s.by[key]) == 0 {
		delete(s.by, key)
	}
}

// replace forgets all events of the kind and takes the given ones instead.
func (s *eventStore) replace(kind string, events []any) {
	s.mu.Lock()
	for key, kept := range s.by {
		for uid, e := range kept {
			if e.kind == kind {
				delete(kept, uid)
			}
		}
		if len(kept) == 0 {
			delete(s.by, key)
		}
	}
	s.mu.Unlock()
	for _, obj := range events {
		s.put(kind, obj.(*corev1.Event))
	}
}

func keyOf(event *corev1.Event) (eventKey, bool) {
	id := requestNamed(event.InvolvedObject.Name)
	return eventKey{event.InvolvedObject.Namespace, id}, id != ""
}

func toEvent(event *corev1.Event) rayslice.Event {
	count := max(1, int(event.Count))
	if event.Series != nil {
		count = int(event.Series.Count)
	}
	return rayslice.Event{
		At:      eventTime(event),
		First:   firstTime(event),
		Warning: event.Type == corev1.EventTypeWarning,
		Object:  event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name,
		Reason:  clean(event.Reason),
		Message: clean(event.Message),
		Count:   count,
	}
}

// eventTime returns when it last happened; the two generations of the API fill different fields.
func eventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.UTC()
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.UTC()
	case !event.EventTime.IsZero():
		return event.EventTime.UTC()
	}
	return event.CreationTimestamp.UTC()
}

// firstTime returns when it first happened; zero when the event does not say.
func firstTime(event *corev1.Event) time.Time {
	switch {
	case !event.FirstTimestamp.IsZero():
		return event.FirstTimestamp.UTC()
	case !event.EventTime.IsZero():
		return event.EventTime.UTC()
	}
	return time.Time{}
}

// eventFeed is the end a client-go reflector writes to: the events of one kind of object.
type eventFeed struct {
	kind string
	to   *eventStore
}

func (s *eventStore) of(kind string) eventFeed { return eventFeed{kind, s} }

// Add takes an event.
func (f eventFeed) Add(obj any) error { f.to.put(f.kind, obj.(*corev1.Event)); return nil }

// Update takes an event that happened again.
func (f eventFeed) Update(obj any) error { return f.Add(obj) }

// Delete forgets an event.
func (f eventFeed) Delete(obj any) error { f.to.remove(obj.(*corev1.Event)); return nil }

// Replace takes a whole list.
func (f eventFeed) Replace(list []any, _ string) error { f.to.replace(f.kind, list); return nil }

// Resync has nothing to do.
func (f eventFeed) Resync() error { return nil }
