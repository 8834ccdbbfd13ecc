package k8s_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// The tests below run on the sandbox's real control plane, KubeRay and Postgres.

// patience is how long a test waits for what must come; nothing waits that long when all is well.
const patience = 90 * time.Second

var catalogue = rayslice.Catalogue{
	Pools: []rayslice.Pool{{
		Name: "a10", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, CardMiB: 23028, Sizes: []int{1, 2, 4, 8, 16, 22}, MaxCards: 1,
		NodeSelector: map[string]string{"ack.node.gpu.schedule": "cgpu", "aliyun.accelerator/nvidia_name": "NVIDIA-A10"},
	}},
	Images: []rayslice.Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0"}},
	Limits: rayslice.DefaultLimits(),
}

// world is one test's team, namespace and database on the shared sandbox.
type world struct {
	*testing.T
	config    *rest.Config
	core      kubernetes.Interface
	ray       rayclient.Interface
	store     *store.Store
	people    storetest.People
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path := os.Getenv("SANDBOX_KUBECONFIG")
	switch {
	case path != "":
	case os.Getenv("CI") == "true":
		t.Fatal("SANDBOX_KUBECONFIG is not set: CI needs the sandbox")
	default:
		t.Skip("SANDBOX_KUBECONFIG is not set: no sandbox to test on")
	}
	t.Parallel()
	config, err := k8s.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	w := &world{T: t, config: config, store: storetest.New(t), namespace: "t-" + rayslice.NewRequestID()}
	w.core, w.ray = kubernetes.NewForConfigOrDie(config), rayclient.NewForConfigOrDie(config)
	w.people = storetest.Fill(t, w.store, rayslice.Charge{GiB: 40})
	storetest.Exec(t, `UPDATE teams SET namespace = $1 WHERE name = 'vision'`, w.namespace)
	w.makeNamespace()
	t.Cleanup(func() {
		_ = w.core.CoreV1().Namespaces().Delete(context.Background(), w.namespace, metav1.DeleteOptions{})
	})
	return w
}

func (w *world) makeNamespace() {
	w.Helper()
	_, err := w.core.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start runs a Controller and wakes it as cmd does. stop returns when it has stopped.
func (w *world) start(change ...func(*k8s.Config)) (c *k8s.Controller, stop func()) {
	w.Helper()
	cfg := k8s.Config{
		Rest: w.config, Store: w.store, Catalogue: catalogue, Resync: 2 * time.Second, Namespace: w.namespace, Unverified: true,
		Identity: w.Name() + rayslice.NewRequestID(), Logger: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := k8s.New(cfg)
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			w.Errorf("Run: %v", err)
		}
	})
	running.Go(func() {
		_ = w.store.Listen(ctx, func(change store.Change) { // ends with ctx
			switch {
			case change.Resync:
				c.WakeAll()
			case change.Kind == store.KindRequest:
				c.Wake(change.ID)
				c.WakeQuotas()
			case change.Kind == store.KindTeam:
				c.WakeQuotas()
			}
		})
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.Cleanup(stop)
	return c, stop
}

// ask asks for workers of gib GiB each; within quota that approves itself.
func (w *world) ask(workers, gib int) string {
	w.Helper()
	request, err := w.store.CreateRequest(w.Context(), w.people.Ada, storetest.Draft(workers, gib), "")
	w.must(err)
	if request.State != rayslice.StateApproved {
		w.Fatalf("request is %s, want approved", request.State)
	}
	return request.ID
}

func (w *world) stopRequest(id string) {
	w.Helper()
	_, err := w.store.StopRequest(w.Context(), w.people.Ada, id)
	w.must(err)
}

// until polls until ok, and fails the test when that takes too long.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	w.within(patience, what, ok)
}

func (w *world) within(limit time.Duration, what string, ok func() bool) {
	w.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// holds checks that ok stays true for a while.
func (w *world) holds(during time.Duration, what string, ok func() bool) {
	w.Helper()
	end := time.After(during)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !ok() {
			w.Fatalf("does not hold: %s", what)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

func (w *world) request(id string) rayslice.Request {
	w.Helper()
	request, err := w.store.Work(w.Context(), rayslice.System, id)
	w.must(err)
	return request
}

func (w *world) cluster(id string) rayslice.Cluster {
	w.Helper()
	cluster, err := w.store.Cluster(w.Context(), rayslice.System, id)
	w.must(err)
	return cluster
}

func (w *world) untilState(id string, want rayslice.State) rayslice.Request {
	w.Helper()
	var request rayslice.Request
	w.until("state "+string(want), func() bool {
		request = w.request(id)
		return request.State == want
	})
	return request
}

// object returns the request's RayCluster, or nil.
func (w *world) object(id string) *rayv1.RayCluster {
	w.Helper()
	list, err := w.ray.RayV1().RayClusters(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	var found *rayv1.RayCluster
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "rs-"+id) {
			if found != nil {
				w.Fatalf("two objects for request %s", id)
			}
			found = &list.Items[i]
		}
	}
	return found
}

func (w *world) pods(id string) []corev1.Pod {
	w.Helper()
	list, err := w.core.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: k8s.LabelRequest + "=" + id})
	w.must(err)
	return list.Items
}

func (w *world) used() int {
	w.Helper()
	quota, err := w.store.Quota(w.Context(), w.people.Ada, "vision")
	w.must(err)
	return quota.Used.GiB
}

// checkLedger fails when the quota row is not what the ledger adds up to.
func (w *world) checkLedger(wantUsed int) {
	w.Helper()
	if used := w.used(); used != wantUsed {
		w.Errorf("used %d GiB, want %d", used, wantUsed)
	}
	drift, err := w.store.QuotaDrift(w.Context(), w.people.Root)
	w.must(err)
	if len(drift) > 0 {
		w.Errorf("ledger does not add up: %+v", drift)
	}
}

// history returns the states a request went through, and fails when a transition was recorded twice.
func (w *world) history(id string) []rayslice.State {
	w.Helper()
	entries, err := w.store.Audit(w.Context(), w.people.Root, id)
	w.must(err)
	var states []rayslice.State
	for _, e := range entries {
		if e.To != "" && e.To != e.From {
			states = append(states, e.To)
		}
	}
	return states
}

func (w *world) patchPod(name, patch string) {
	w.Helper()
	_, err := w.core.CoreV1().Pods(w.namespace).Patch(w.Context(), name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
	w.must(err)
}

// edit applies a JSON patch to a RayCluster as somebody with kubectl would.
func (w *world) edit(id string, operations ...map[string]any) {
	w.Helper()
	patch, err := json.Marshal(operations)
	w.must(err)
	_, err = w.ray.RayV1().RayClusters(w.namespace).Patch(w.Context(), "rs-"+id, "application/json-patch+json", patch, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	w.must(err)
}

var errCut = errors.New("cut by the test")
