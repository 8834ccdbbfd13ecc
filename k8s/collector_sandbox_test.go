package k8s_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// book is what a collector is told to ask and what it has saved last.
type book struct {
	mu     sync.Mutex
	target rayslice.UseTarget
	use    rayslice.Use
}

func (b *book) UseTargets(context.Context, rayslice.User) ([]rayslice.UseTarget, error) {
	return []rayslice.UseTarget{b.target}, nil
}

func (b *book) SaveUse(_ context.Context, _ rayslice.User, uses []rayslice.Use) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.use = uses[len(uses)-1]
	return nil
}

func (b *book) Attend(_ context.Context, _ rayslice.User, replica string) ([]string, error) {
	return []string{replica}, nil
}

func (b *book) last() rayslice.Use {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.use
}

// TestCollectThroughTheAPIServer reads the use of a running cluster by port-forward: samples are of the worker pods, by
// their UID, each with its card.
func TestCollectThroughTheAPIServer(t *testing.T) {
	w := newWorld(t)
	controller, _ := w.start(func(c *k8s.Config) { c.Access = k8s.HeadAccessPortForward })
	id := w.ask(2, 8)
	request := w.untilState(id, rayslice.StateReady)
	b := &book{target: rayslice.UseTarget{RequestID: id, Namespace: request.Namespace, WatchedUntil: time.Now().Add(time.Hour)}}
	collector, err := k8s.NewCollector(k8s.CollectorConfig{
		Store: b, Heads: controller.Heads(), Running: controller.Running, Catalogue: catalogue, Watched: time.Second,
		Logger: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = collector.Run(ctx) }) // ends with ctx
	w.Cleanup(func() { cancel(); running.Wait() })

	workers := map[string]corev1.Pod{}
	for _, pod := range w.pods(id) {
		if pod.Labels["ray.io/node-type"] == "worker" {
			workers[string(pod.UID)] = pod
		}
	}
	w.until("use of both workers", func() bool { return len(b.last().Samples) == 2 })
	use := b.last()
	for _, s := range use.Samples {
		pod, ok := workers[s.PodUID]
		delete(workers, s.PodUID)
		// 8 of 22 GiB of a card of 23028 MiB
		if !ok || s.Pod != pod.Name || s.RequestID != id || s.GPU == "" || s.UsedMiB == nil || s.LimitMiB == nil || *s.LimitMiB != 8373 ||
			s.MemoryGrade != rayslice.GradeSlice || s.Grade != rayslice.GradeCard || s.Percent == nil {
			t.Errorf("sample %+v of pod %s", s, pod.Name)
		}
	}
	if use.Dropped != 0 || !use.Problem.IsZero() || time.Since(use.DataAt) > patience {
		t.Errorf("use %+v", use)
	}
	w.until("the next reading", func() bool { return b.last().DataAt.After(use.DataAt) })
	w.breakHead(id, "wrong-numbers", b)
}

// breakHead gives the machine of a worker a fault and expects the use of its slices to become unknown.
func (w *world) breakHead(id, fault string, b *book) {
	w.Helper()
	var node string
	for _, pod := range w.pods(id) {
		if pod.Labels["ray.io/node-type"] == "worker" {
			node = pod.Spec.NodeName
		}
	}
	w.annotate(node, fault)
	w.Cleanup(func() { w.annotate(node, "") })
	w.until("impossible figures are dropped", func() bool {
		use := b.last()
		return use.Dropped > 0 && len(use.Samples) == 2 && use.Problem.IsZero()
	})
	for _, s := range b.last().Samples {
		if s.UsedMiB != nil && *s.UsedMiB > 8373 {
			w.Errorf("sample %+v", s)
		}
	}
}

func (w *world) annotate(node, fault string) {
	w.Helper()
	patch := `{"metadata": {"annotations": {"sandbox.rayslice.io/faults": "` + fault + `"}}}`
	_, err := w.core.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}
