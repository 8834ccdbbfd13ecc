package k8s

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// TestSeenAtIsAsOldAsTheWatches is T12, T13 and B107 for the page: what is reported is as old as the watch that fails or has
// fallen silent, so that the page's banner can tell; the minute between two bookmarks is no silence.
func TestSeenAtIsAsOldAsTheWatches(t *testing.T) {
	at := func(ago time.Duration) int64 { return noon.Add(-ago).UnixNano() }
	cases := map[string]struct {
		ago    time.Duration
		failed bool
		mute   bool
		want   time.Duration
	}{
		"between two bookmarks": {time.Minute, false, false, 0},
		"refused with 410":      {40 * time.Second, true, false, 40 * time.Second},
		"silent":                {4 * time.Minute, false, false, 4 * time.Minute},
		"no events for a while": {4 * time.Minute, false, true, 0},
		"events refused":        {4 * time.Minute, true, true, 4 * time.Minute},
		"events never again":    {8 * time.Minute, false, true, 8 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, well := &pulse{name: "pods", silence: 5 * time.Minute, mute: tc.mute}, &pulse{name: "nodes"}
			p.last.Store(at(tc.ago))
			well.last.Store(at(time.Second))
			if tc.failed {
				p.fail(apierrors.FromObject(gone))
			}
			c := &Controller{caches: &caches{pulses: []*pulse{well, p}}, started: noon.Add(-time.Hour)}
			if got := noon.Sub(c.seenAt(noon)); got != tc.want {
				t.Errorf("reported as %v old, want %v", got, tc.want)
			}
		})
	}
}

var gone = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"}

// TestGoneOnEveryWatch is T12: whether the server refuses every watch with 410 or ends each with it, client-go's own reflector
// lists anew at most six times in any minute, and the data is never older than that.
func TestGoneOnEveryWatch(t *testing.T) {
	cases := map[string]watchFunc{
		"refused": func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, apierrors.FromObject(gone)
		},
		"ended at once": func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
			w.Error(gone)
			return w, nil
		},
	}
	for name, open := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lists []time.Time
				p := &pulse{name: "pods", silence: 5 * time.Minute}
				lw := p.listWatch(func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists = append(lists, time.Now())
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				}, open, func(*metav1.ListOptions) {})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					cache.NewNamedReflector("pods", lw, &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0).RunWithContext(ctx)
				}()
				started := time.Now()
				time.Sleep(5 * time.Minute) //nolint:forbidigo // the bubble's clock, not the wall's
				if age := p.age(time.Now(), started); age > time.Minute {
					t.Errorf("the data is %v old", age)
				}
				stop()
				<-ended
				for i := 7; i < len(lists); i++ { // the first list is no retry
					if within := lists[i].Sub(lists[i-6]); within < time.Minute {
						t.Errorf("seven lists within %v", within)
					}
				}
				if len(lists) < 6 {
					t.Errorf("only %d lists in five minutes: it has given up", len(lists))
				}
			})
		})
	}
}
