package k8s

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func TestSilentWatchIsListedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pulse{name: "pods", silence: 5 * time.Minute}
		server := watch.NewFake()
		out := p.guard(server)
		defer out.Stop()
		for range 3 { // life, however slow, keeps it open
			time.Sleep(4 * time.Minute) //nolint:forbidigo // the bubble's clock, not the wall's
			server.Add(&corev1.Pod{})
			if event := <-out.ResultChan(); event.Type != watch.Added {
				t.Fatalf("event %s", event.Type)
			}
		}
		event := <-out.ResultChan()
		if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Errorf("event %s, %v; want expired", event.Type, err)
		}
		if p.relists.Load() != 1 {
			t.Errorf("%d relists counted", p.relists.Load())
		}
	})
}

func TestPulse(t *testing.T) {
	lives := 0
	p := &pulse{name: "pods", silence: time.Minute, onLife: func() { lives++ }}
	fails := errors.New("connection refused\n")
	var answer error
	lw := p.listWatch(
		func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, answer },
		func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if !options.AllowWatchBookmarks || options.LabelSelector != "x" {
				t.Errorf("options %+v", options)
			}
			return watch.NewFake(), answer
		},
		func(o *metav1.ListOptions) { o.LabelSelector = "x" })
	started := time.Now().Add(-time.Hour)
	if age := p.age(time.Now(), started); age < time.Hour {
		t.Errorf("age %v before the first sign of life", age)
	}
	answer = fails
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err == nil || *p.failed.Load() != "pods: connection refused" {
		t.Errorf("failure %v, %v", err, p.failed.Load())
	}
	answer = nil
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil || p.failed.Load() != nil || lives != 1 || p.age(time.Now(), started) > time.Minute {
		t.Errorf("after life: %v, %v, %d", err, p.failed.Load(), lives)
	}
	w.Stop()
}
