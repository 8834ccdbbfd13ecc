package k8s

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// A pulse knows when a watch last showed life, and ends a watch that has been silent for too long, so that it is listed
// anew. Without it a watch that stays open but says nothing would be believed for ever (jupyterhub/kubespawner#209).
type pulse struct {
	name    string
	silence time.Duration
	mute    bool                   // it gets no bookmarks: the API server keeps no watch cache of events
	last    atomic.Int64           // unix nanoseconds of the last sign of life; 0 = none yet
	failed  atomic.Pointer[string] // why the last attempt failed; nil = it did not
	relists atomic.Int64           // how often silence forced a list
	onLife  func()                 // called after each sign of life that follows a failure
}

// age returns how long ago the watch last showed life; from since when it never did.
func (p *pulse) age(now, since time.Time) time.Duration {
	if last := p.last.Load(); last != 0 {
		since = time.Unix(0, last)
	}
	return max(0, now.Sub(since))
}

// well reports whether nothing speaks against what the watch has brought, when it last showed life so long ago.
func (p *pulse) well(age time.Duration) bool {
	patience := quiet
	if p.mute {
		patience += p.silence // then it is listed anew
	}
	return p.failed.Load() == nil && age <= patience
}

func (p *pulse) beat() {
	p.last.Store(time.Now().UnixNano())
	if p.failed.Swap(nil) != nil && p.onLife != nil {
		p.onLife()
	}
}

func (p *pulse) fail(err error) {
	text := p.name + ": " + clean(err.Error())
	p.failed.Store(&text)
}

type (
	listFunc  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// listWatch wraps list and watch so that every answer is a sign of life.
func (p *pulse) listWatch(list listFunc, open watchFunc, tweak func(*metav1.ListOptions)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			tweak(&options)
			found, err := list(ctx, options)
			if err != nil {
				p.fail(err)
				return nil, err
			}
			p.beat()
			return found, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			tweak(&options)
			options.AllowWatchBookmarks = true // a sign of life about every minute, even when nothing changes
			opened, err := open(ctx, options)
			if err != nil {
				p.fail(err)
				return nil, err
			}
			p.beat()
			return p.guard(opened), nil
		},
	}
}

// guard passes events on until the watch ends, or until it has been silent for too long: then it says "expired", which
// makes client-go list anew.
func (p *pulse) guard(in watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer in.Stop()
		timer := time.NewTimer(p.silence)
		defer timer.Stop()
		for {
			event, more := watch.Event{}, true
			select {
			case event, more = <-in.ResultChan():
			case <-timer.C:
				p.relists.Add(1)
				event = watch.Event{Type: watch.Error, Object: silent}
			case <-out.StopChan():
				return
			}
			if !more {
				return
			}
			if event.Type != watch.Error {
				p.beat()
			}
			timer.Reset(p.silence)
			select {
			case events <- event:
			case <-out.StopChan():
				return
			}
		}
	}()
	return out
}

var silent = &metav1.Status{
	Status:  metav1.StatusFailure,
	Code:    http.StatusGone,
	Reason:  metav1.StatusReasonExpired,
	Message: "the watch was silent for too long",
}
