package k8s_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store/storetest"
)

// clusterURL is a path that names a RayCluster.
var clusterURL = &url.URL{Path: "/apis/ray.io/v1/namespaces/n/rayclusters/rs-x"}

var wholeLife = []rayslice.State{rayslice.StateApproved, rayslice.StateProvisioning, rayslice.StateReady, rayslice.StateStopping, rayslice.StateStopped}

// decided drops the first entry when it is the creation's, so that histories compare by what happened since.
func decided(states []rayslice.State) []rayslice.State {
	i := slices.Index(states, rayslice.StateApproved)
	return states[max(0, i):]
}

func TestFromApprovalToStopped(t *testing.T) {
	w := newWorld(t)
	c, _ := w.start()
	id := w.ask(2, 8)
	request := w.untilState(id, rayslice.StateReady)
	cluster := w.cluster(id)
	if object := w.object(id); object == nil || request.ClusterUID != string(object.UID) || cluster.UID != request.ClusterUID {
		t.Errorf("UIDs differ: request %s, cluster %s", request.ClusterUID, cluster.UID)
	}
	if !cluster.HeadAnswers || cluster.RayVersion == "" {
		t.Errorf("ready without the head's answer: %+v", cluster)
	}
	for _, worker := range cluster.Workers {
		if worker.Slice.GiB != 8 || len(worker.Placements) != 1 || worker.Placements[0].GiB != 8 || worker.Node == "" {
			t.Errorf("worker %+v: want 8 GiB placed on one card", worker)
		}
	}
	if len(cluster.Workers) != 2 || !cluster.Problem.IsZero() || len(cluster.Drift) != 0 || len(cluster.Events) == 0 {
		t.Errorf("workers %d, problem %+v, drift %+v, events %d", len(cluster.Workers), cluster.Problem, cluster.Drift, len(cluster.Events))
	}
	if h := c.Health(); !h.Synced || !h.Leader || h.LastError != "" {
		t.Errorf("health %+v", h)
	}
	w.checkLedger(16)

	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	if pods := w.pods(id); len(pods) != 0 {
		t.Errorf("stopped with %d pods left", len(pods))
	}
	if w.object(id) != nil {
		t.Error("stopped, the object is still there")
	}
	w.checkLedger(0)
	if diff := cmp.Diff(wholeLife, decided(w.history(id))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestQuotaStaysChargedWhilePodsRun(t *testing.T) { // B034, B067
	w := newWorld(t)
	w.start()
	id := w.ask(2, 8)
	w.untilState(id, rayslice.StateReady)
	w.stopRequest(id)
	w.until("quota given back", func() bool {
		pods := len(w.pods(id))
		released := w.used() == 0 // read after the pods: they only become fewer
		if released && pods > 0 && len(w.pods(id)) > 0 {
			t.Fatalf("quota given back with %d pods left", pods)
		}
		return released
	})
}

func TestDeletedByHand(t *testing.T) { // T14
	w := newWorld(t)
	w.start(func(c *k8s.Config) { c.Resync = time.Minute }) // seen by the watch, not by the sweep
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	w.must(w.ray.RayV1().RayClusters(w.namespace).Delete(w.Context(), "rs-"+id, metav1.DeleteOptions{}))
	w.within(5*time.Second, "deletion seen", func() bool { return w.request(id).Reason.Code == rayslice.ReasonGoneOutside })
	w.untilState(id, rayslice.StateStopped)
	if code := w.request(id).Reason.Code; code != rayslice.ReasonGoneOutside {
		t.Errorf("reason %q after the end", code)
	}
	w.checkLedger(0)
}

func TestEditedByHand(t *testing.T) { // T15, T11, B091
	w := newWorld(t)
	w.start()
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	const mem = "/spec/workerGroupSpecs/0/template/spec/containers/0/resources/"
	w.edit(id,
		map[string]any{"op": "replace", "path": mem + "limits/aliyun.com~1gpu-mem", "value": "16"},
		map[string]any{"op": "replace", "path": mem + "requests/aliyun.com~1gpu-mem", "value": "16"})
	generation := w.object(id).Generation
	w.until("drift shown", func() bool { return len(w.cluster(id).Drift) == 2 })
	drift := w.cluster(id).Drift[0]
	if drift.Approved != "8" || drift.Observed != "16" || drift.Manager != "kubectl-edit" {
		t.Errorf("drift %+v: want 8 → 16 by kubectl-edit", drift)
	}
	w.holds(5*time.Second, "nobody fights over it, nothing is charged", func() bool {
		return w.object(id).Generation == generation && w.used() == 8
	})
	if size := w.cluster(id).Workers[0].Slice.GiB; size != 8 {
		t.Errorf("running pod shows %d GiB, want the 8 it has", size)
	}
}

func TestLabelTakenOffByHand(t *testing.T) {
	w := newWorld(t)
	w.start()
	id := w.ask(1, 4)
	w.untilState(id, rayslice.StateReady)
	w.edit(id, map[string]any{"op": "remove", "path": "/metadata/labels/rayslice.io~1request"})
	w.until("drift shown", func() bool { return len(w.cluster(id).Drift) > 0 })
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	if w.object(id) != nil {
		t.Error("our object without its label was left behind")
	}
	if diff := cmp.Diff(wholeLife, decided(w.history(id))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestForeignObjectHasTheName(t *testing.T) { // T10
	w := newWorld(t)
	id := w.ask(1, 8)
	w.makeForeign(id)
	w.start()
	request := w.untilState(id, rayslice.StateAttention)
	if request.Reason.Code != rayslice.ReasonNameTaken || request.ClusterUID != "" {
		t.Errorf("reason %q, uid %q", request.Reason.Code, request.ClusterUID)
	}
	untouched := func() bool {
		object := w.object(id)
		return object != nil && object.Generation == 1 && object.Labels[k8s.LabelRequest] == "" && object.Annotations["owner"] == "somebody"
	}
	w.holds(3*time.Second, "the object is left alone, the charge is kept", func() bool { return untouched() && w.used() == 8 })
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	w.checkLedger(0)
	if !untouched() {
		t.Error("somebody else's object was touched")
	}
}

func TestNameIsFreeAgain(t *testing.T) {
	w := newWorld(t)
	id := w.ask(1, 8)
	w.makeForeign(id)
	w.start(func(c *k8s.Config) { c.Resync = time.Minute }) // the watch tells
	w.untilState(id, rayslice.StateAttention)
	w.must(w.ray.RayV1().RayClusters(w.namespace).Delete(w.Context(), "rs-"+id, metav1.DeleteOptions{}))
	w.untilState(id, rayslice.StateReady)
}

// makeForeign makes somebody else's object with the request's name.
func (w *world) makeForeign(id string) {
	w.Helper()
	foreign := &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: "rs-" + id, Annotations: map[string]string{"owner": "somebody"}}}
	foreign.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{{Name: "x", Image: "x"}}
	foreign.Spec.Suspend = new(true)
	_, err := w.ray.RayV1().RayClusters(w.namespace).Create(w.Context(), foreign, metav1.CreateOptions{})
	w.must(err)
}

func TestReplyOfTheApplyIsCut(t *testing.T) { // T09
	w := newWorld(t)
	var applies atomic.Int32
	w.start(func(c *k8s.Config) {
		c.Rest = through(w.config, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if aboutCluster(r, http.MethodPatch) && applies.Add(1) == 1 {
				return lose(next, r)
			}
			return next.RoundTrip(r)
		})
	})
	id := w.ask(1, 8)
	request := w.untilState(id, rayslice.StateReady)
	if object := w.object(id); string(object.UID) != request.ClusterUID {
		t.Errorf("adopted %s, object is %s", request.ClusterUID, object.UID)
	}
	if n := applies.Load(); n != 1 {
		t.Errorf("applied %d times, want once and adopted", n)
	}
	if diff := cmp.Diff(wholeLife[:3], decided(w.history(id))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestServerAway(t *testing.T) { // T07
	w := newWorld(t)
	proxy, config := newGateway(w)
	c, _ := w.start(func(cfg *k8s.Config) { cfg.Rest, cfg.Workers = config, 1 })
	w.until("synced", func() bool { h := c.Health(); return h.Synced && h.Leader })
	proxy.cut()
	var ids []string
	for range 5 {
		ids = append(ids, w.ask(1, 1))
	}
	w.until("health says so", func() bool { return c.Health().LastError != "" })
	w.holds(3*time.Second, "requests wait", func() bool { return w.request(ids[0]).State == rayslice.StateApproved })
	proxy.restore()
	for _, id := range ids {
		w.untilState(id, rayslice.StateReady)
	}
	w.until("health is well again", func() bool { return c.Health().LastError == "" })
	checkOrder(w, ids)
	w.checkLedger(5)
}

// checkOrder fails when the requests did not leave "approved" in the given order.
func checkOrder(w *world, ids []string) {
	w.Helper()
	var last time.Time
	for _, id := range ids {
		entries, err := w.store.Audit(w.Context(), w.people.Root, id)
		w.must(err)
		for _, e := range entries {
			if e.To != rayslice.StateProvisioning {
				continue
			}
			if e.At.Before(last) {
				w.Errorf("request %s was applied before one approved earlier", id)
			}
			last = e.At
		}
	}
}

func TestKilledAnywhere(t *testing.T) { // T06, K2–K8
	dies := map[string]struct {
		call   func(*http.Request) bool // the process dies at this call to the API server …
		sent   bool                     // … after it was sent
		before string                   // or ahead of this call to the store
	}{
		"K2 before the work is picked up":         {before: "start"},
		"K3 before the apply":                     {call: func(r *http.Request) bool { return aboutCluster(r, http.MethodPatch) }},
		"K4 apply sent, reply lost":               {call: func(r *http.Request) bool { return aboutCluster(r, http.MethodPatch) }, sent: true},
		"before the namespace is closed":          {call: func(r *http.Request) bool { return aboutPolicy(r, "rayslice") }},
		"namespace closed, reply lost":            {call: func(r *http.Request) bool { return aboutPolicy(r, "rayslice") }, sent: true},
		"applied, nobody let in":                  {call: func(r *http.Request) bool { return aboutPolicy(r, "rs-") }},
		"applied and let in, reply lost":          {call: func(r *http.Request) bool { return aboutPolicy(r, "rs-") }, sent: true},
		"K5 applied, UID not written":             {before: "move to provisioning"},
		"K6 before the delete":                    {call: func(r *http.Request) bool { return aboutCluster(r, http.MethodDelete) }},
		"K6 delete sent, reply lost":              {call: func(r *http.Request) bool { return aboutCluster(r, http.MethodDelete) }, sent: true},
		"K7 object gone, charge not yet released": {before: "move to stopped"},
		"K8 observed, not yet saved":              {before: "save"},
		"K8 ready, not yet recorded":              {before: "move to ready"},
	}
	for name, at := range dies {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, kill := context.WithCancel(context.Background())
			die := func() error { kill(); return context.Canceled }
			if at.before != "start" {
				_, stop := w.start(func(c *k8s.Config) {
					c.Store = killed{w.store, func(call string) error {
						if ctx.Err() != nil || call == at.before {
							return die()
						}
						return nil
					}}
					c.Rest = dyingAt(w.config, ctx, at.call, at.sent, kill)
				})
				go func() { <-ctx.Done(); stop() }()
			} else {
				kill()
			}
			id := w.ask(1, 8)
			stopping := at.before == "move to stopped" || at.call != nil && at.call(&http.Request{Method: http.MethodDelete, URL: clusterURL})
			if stopping {
				w.untilState(id, rayslice.StateReady)
				w.stopRequest(id)
			}
			w.until("killed", func() bool { return ctx.Err() != nil })
			w.start()
			if !stopping {
				w.untilState(id, rayslice.StateReady)
				if w.object(id) == nil {
					t.Error("no object")
				}
				w.until("guarded", func() bool { return len(w.policies()) == 2 })
				w.checkLedger(8)
				w.stopRequest(id)
			}
			w.untilState(id, rayslice.StateStopped)
			if w.object(id) != nil || len(w.pods(id)) > 0 {
				t.Error("something was left behind")
			}
			w.checkLedger(0)
			if diff := cmp.Diff(wholeLife, decided(w.history(id))); diff != "" {
				t.Errorf("one audit entry per transition (-want +got):\n%s", diff)
			}
		})
	}
}

// dyingAt returns a config whose calls all fail once the process has died, and with which it dies at the given call.
func dyingAt(config *rest.Config, dead context.Context, call func(*http.Request) bool, sent bool, kill func()) *rest.Config {
	return through(config, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		switch {
		case dead.Err() != nil && r.Method != http.MethodGet:
			return nil, errCut
		case call == nil || !call(r):
			return next.RoundTrip(r)
		case sent:
			defer kill()
			return lose(next, r)
		}
		kill()
		return nil, errCut
	})
}

func TestExpiry(t *testing.T) {
	w := newWorld(t)
	w.start()
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	storetest.Exec(t, `UPDATE requests SET ends_at = now() WHERE id = $1`, id)
	request := w.untilState(id, rayslice.StateStopped)
	if request.Reason.Code != rayslice.ReasonExpired {
		t.Errorf("reason %q, want expired", request.Reason.Code)
	}
	w.checkLedger(0)
}

func TestHeadEvicted(t *testing.T) { // B109
	w := newWorld(t)
	w.start()
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	head := w.cluster(id).Head.Name
	w.patchPod(head, `{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`)
	w.until("owner is told", func() bool { return slices.Contains(w.history(id), rayslice.StateAttention) })
}

func TestNamespaceQuotaStopsPods(t *testing.T) { // B085
	w := newWorld(t)
	w.limit(corev1.ResourceList{"requests.aliyun.com/gpu-mem": resource.MustParse("10")})
	w.start()
	id := w.ask(2, 8)
	w.until("quota is named", func() bool { return w.cluster(id).Problem.Code == rayslice.ReasonNamespaceQuota })
	want := map[string]any{"quota": "limit", "resource": "requests.aliyun.com/gpu-mem", "requested": "8", "used": "8", "limited": "10"}
	if diff := cmp.Diff(want, w.cluster(id).Problem.Args); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
}

func TestNamespaceQuotaRefusesTheObject(t *testing.T) {
	w := newWorld(t)
	w.limit(corev1.ResourceList{"count/rayclusters.ray.io": resource.MustParse("0")})
	w.start()
	id := w.ask(1, 8)
	request := w.untilState(id, rayslice.StateAttention)
	if request.Reason.Code != rayslice.ReasonNamespaceQuota || request.Reason.Detail != "" {
		t.Errorf("reason %+v", request.Reason)
	}
	w.must(w.core.CoreV1().ResourceQuotas(w.namespace).Delete(w.Context(), "limit", metav1.DeleteOptions{}))
	w.untilState(id, rayslice.StateReady)
}

// limit puts a ResourceQuota on the namespace and waits until it counts.
func (w *world) limit(hard corev1.ResourceList) {
	w.Helper()
	quotas := w.core.CoreV1().ResourceQuotas(w.namespace)
	_, err := quotas.Create(w.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	w.must(err)
	w.until("quota counts", func() bool {
		q, err := quotas.Get(w.Context(), "limit", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) == len(hard)
	})
}

func TestNamespaceMissing(t *testing.T) {
	w := newWorld(t)
	storetest.Exec(t, `UPDATE teams SET namespace = $1 WHERE name = 'vision'`, w.namespace+"-not-there")
	_, stop := w.start()
	id := w.ask(1, 8)
	request := w.untilState(id, rayslice.StateAttention)
	want := rayslice.Reason{Code: rayslice.ReasonNamespaceMissing, Args: map[string]any{"namespace": w.namespace + "-not-there"}}
	if diff := cmp.Diff(want, request.Reason); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
	stop()
	w.start(func(c *k8s.Config) { c.CreateNamespaces = true })
	w.namespace += "-not-there"
	t.Cleanup(func() {
		_ = w.core.CoreV1().Namespaces().Delete(context.Background(), w.namespace, metav1.DeleteOptions{})
	})
	w.untilState(id, rayslice.StateReady)
}

func TestOrphanIsListedAndLeftAlone(t *testing.T) { // T18
	w := newWorld(t)
	orphan := &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: "rs-orphanorphan", Labels: map[string]string{k8s.LabelRequest: "orphanorphan"}}}
	orphan.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{{Name: "x", Image: "x"}}
	orphan.Spec.Suspend = new(true)
	_, err := w.ray.RayV1().RayClusters(w.namespace).Create(w.Context(), orphan, metav1.CreateOptions{})
	w.must(err)
	w.start()
	w.until("orphan listed", func() bool {
		fleet, err := w.store.Fleet(w.Context(), rayslice.System)
		w.must(err)
		return slices.ContainsFunc(fleet.Orphans, func(o rayslice.Orphan) bool { return o.Namespace == w.namespace && o.RequestID == "orphanorphan" })
	})
	w.holds(5*time.Second, "it is left alone", func() bool {
		object, err := w.ray.RayV1().RayClusters(w.namespace).Get(w.Context(), "rs-orphanorphan", metav1.GetOptions{})
		return !apierrors.IsNotFound(err) && object.DeletionTimestamp == nil
	})
}

func TestWatchFallsSilent(t *testing.T) { // T13, B107
	w := newWorld(t)
	var muted atomic.Bool
	c, _ := w.start(func(cfg *k8s.Config) {
		cfg.Rest, cfg.Silence, cfg.Resync = muteWatches(w.config, &muted), 3*time.Second, time.Minute
	})
	w.until("leading", func() bool { return c.Health().Leader })
	muted.Store(true)
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady) // nothing but forced lists can tell
	if age := c.Health().WatchAge; age > 30*time.Second {
		t.Errorf("watch age %v", age)
	}
}

func TestFleetOfTheSandbox(t *testing.T) {
	w := newWorld(t)
	w.start()
	var fleet rayslice.Fleet
	w.until("fleet saved", func() bool {
		var err error
		fleet, err = w.store.Fleet(w.Context(), rayslice.System)
		w.must(err)
		return len(fleet.Pools) == 1 && fleet.Pools[0].Cards > 0
	})
	if pool := fleet.Pools[0]; pool.LargestGiB != 22 || pool.Nodes == 0 || pool.Looked < pool.Nodes || !pool.Blocked.IsZero() {
		t.Errorf("pool %+v", pool)
	}
	if len(fleet.Problems) != 0 {
		t.Errorf("problems %+v", fleet.Problems)
	}
}

func TestTwoReplicas(t *testing.T) {
	w := newWorld(t)
	first, stop := w.start()
	w.until("first leads", func() bool { return first.Health().Leader })
	second, _ := w.start()
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	if second.Health().Leader {
		t.Error("two lead")
	}
	stop()
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	if !second.Health().Leader {
		t.Error("nobody leads")
	}
	if diff := cmp.Diff(wholeLife, decided(w.history(id))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}
