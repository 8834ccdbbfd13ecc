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

// TestCollectThroughTheAPIServer reads the use of a running cluster by port-forward: samples are of the worker pods, by
// their UID, each with its card.
func TestCollectThroughTheAPIServer(t *testing.T) {
	w := newWorld(t)
	controller, _ := w.start(func(c *k8s.Config) { c.Access = k8s.HeadAccessPortForward })
	id := w.ask(2, 8)
	w.untilState(id, rayslice.StateReady)
	w.must(w.store.WatchUse(w.Context(), w.people.Ada, []string{id}, time.Now().Add(time.Hour)))
	collector, err := k8s.NewCollector(k8s.CollectorConfig{
		Store: w.store, Heads: controller.Heads(), Running: controller.Running, Catalogue: catalogue, Watched: time.Second,
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
	w.until("use of both workers", func() bool { return len(w.use(id).Samples) == 2 })
	use := w.use(id)
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
	w.until("the next reading", func() bool { return w.use(id).DataAt.After(use.DataAt) })
	w.breakWorker(id, "wrong-numbers")
}

// use returns what was last saved about the use of a cluster.
func (w *world) use(id string) rayslice.Use {
	w.Helper()
	use, err := w.store.Use(w.Context(), w.people.Ada, id)
	w.must(err)
	return use
}

// breakWorker gives the machine of a worker a fault and expects the use of its slices to become unknown.
func (w *world) breakWorker(id, fault string) {
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
		use := w.use(id)
		return use.Dropped > 0 && len(use.Samples) == 2 && use.Problem.IsZero()
	})
	for _, s := range w.use(id).Samples {
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
