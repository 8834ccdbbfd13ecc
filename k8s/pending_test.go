package k8s_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// waitsFor returns the condition with the code that the request waits for now; false when it does not.
func (w *world) waitsFor(id, code string) (rayslice.Condition, bool) {
	w.Helper()
	pending := rayslice.Explain(w.request(id), w.cluster(id), nil, time.Now())
	i := slices.IndexFunc(pending.Conditions, func(c rayslice.Condition) bool { return c.Reason.Code == code })
	if i < 0 {
		return rayslice.Condition{}, false
	}
	return pending.Conditions[i], true
}

// untilWaitsFor returns the condition once it is unmet.
func (w *world) untilWaitsFor(id, code string) (condition rayslice.Condition) {
	w.Helper()
	w.until("waits for "+code, func() (ok bool) {
		condition, ok = w.waitsFor(id, code)
		return ok
	})
	return condition
}

func (w *world) untilWaitsNoMore(id string) {
	w.Helper()
	w.untilState(id, rayslice.StateReady)
	if pending := rayslice.Explain(w.request(id), w.cluster(id), nil, time.Now()); pending.Stage != "" {
		w.Errorf("ready, and waits for %+v", pending)
	}
}

// TestWaitsForTheNamespaceQuota: the sentence comes with the quota and goes with it (B085).
func TestWaitsForTheNamespaceQuota(t *testing.T) {
	w := newWorld(t)
	w.limit(corev1.ResourceList{"requests.aliyun.com/gpu-mem": resource.MustParse("2")})
	w.start()
	id := w.ask(1, 4)
	got := w.untilWaitsFor(id, rayslice.ReasonNamespaceQuota)
	if got.Who != rayslice.PartyAdmin || got.Reason.Args["requested"] != "4" || got.Reason.Args["limited"] != "2" {
		t.Errorf("condition %+v", got)
	}
	w.must(w.core.CoreV1().ResourceQuotas(w.namespace).Delete(w.Context(), "limit", metav1.DeleteOptions{}))
	w.must(w.core.CoreV1().Pods(w.namespace).Delete(w.Context(), w.cluster(id).Head.Name, metav1.DeleteOptions{})) // KubeRay looks again when a pod changes, else after minutes
	w.untilWaitsNoMore(id)
}

// TestWaitsForRoomOnANode: a selector of the catalogue that fits no node, until one is labelled so. What the scheduler says of
// every node is told apart, and its attempts are counted.
func TestWaitsForRoomOnANode(t *testing.T) {
	w := newWorld(t)
	label := "example.com/" + rayslice.NewRequestID()
	picky := catalogue
	picky.Pools = slices.Clone(catalogue.Pools)
	picky.Pools[0].NodeSelector = map[string]string{"aliyun.accelerator/nvidia_name": "NVIDIA-A10", label: "yes"}
	w.start(func(c *k8s.Config) { c.Catalogue = picky })
	id := w.ask(1, 1)
	if got := w.untilWaitsFor(id, rayslice.ReasonNodesOther); got.Who != rayslice.PartyAdmin || got.Pods != 1 {
		t.Errorf("no node of the pool: %+v", got)
	}
	pending := rayslice.Explain(w.request(id), w.cluster(id), nil, time.Now())
	if !slices.ContainsFunc(pending.Attempts, func(a rayslice.Attempt) bool { return a.Reason == "FailedScheduling" && a.Count >= 1 }) {
		t.Errorf("attempts %+v", pending.Attempts)
	}
	nodes, err := w.core.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{LabelSelector: "ack.node.gpu.schedule=cgpu,aliyun.accelerator/nvidia_name=NVIDIA-A10"})
	w.must(err)
	w.labelNode(nodes.Items[0].Name, label, `"yes"`)
	t.Cleanup(func() { w.labelNode(nodes.Items[0].Name, label, "null") })
	w.untilWaitsNoMore(id)
}

func (w *world) labelNode(name, label, value string) {
	patch := []byte(`{"metadata":{"labels":{"` + label + `":` + value + `}}}`)
	if _, err := w.core.CoreV1().Nodes().Patch(context.Background(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		w.Errorf("labelling %s: %v", name, err)
	}
}

// TestWaitsForRoomOnACard is B034's other half: the cards of one node are full, and the request waits until one is not.
func TestWaitsForRoomOnACard(t *testing.T) {
	w := newWorld(t)
	label := "example.com/" + rayslice.NewRequestID()
	small := catalogue
	small.Pools = slices.Clone(catalogue.Pools)
	small.Pools[0].NodeSelector = map[string]string{"aliyun.accelerator/nvidia_name": "Tesla-T4", label: "yes"}
	nodes, err := w.core.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{LabelSelector: "ack.node.gpu.schedule=cgpu,aliyun.accelerator/nvidia_name=Tesla-T4"})
	w.must(err)
	if len(nodes.Items) == 0 {
		t.Fatal("the sandbox's fleet has no T4")
	}
	w.labelNode(nodes.Items[0].Name, label, `"yes"`)
	t.Cleanup(func() { w.labelNode(nodes.Items[0].Name, label, "null") })
	w.start(func(c *k8s.Config) { c.Catalogue = small })
	id := w.ask(1, 16) // a T4 offers 15, and the node 30
	got := w.untilWaitsFor(id, rayslice.ReasonRoomCard)
	if got.Who != rayslice.PartyOwner || got.Reason.Args["nodes"] != 1 {
		t.Errorf("condition %+v", got)
	}
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
}

// TestWaitsForAnImage: a name that cannot be pulled, as a node says it, until it can.
func TestWaitsForAnImage(t *testing.T) {
	w := newWorld(t)
	w.start()
	id := w.ask(1, 1)
	w.untilState(id, rayslice.StateReady)
	worker := w.cluster(id).Workers[0].Name
	w.patchPod(worker, `{"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"ray-worker","image":"x","imageID":"","ready":false,"restartCount":0,"state":{"running":null,"waiting":{"reason":"ImagePullBackOff","message":"manifest <b>unknown</b>"}}}]}}`)
	got := w.untilWaitsFor(id, rayslice.ReasonImagePull)
	if got.Who != rayslice.PartyOwner || got.Pods != 1 || got.Reason.Detail != "manifest <b>unknown</b>" {
		t.Errorf("condition %+v", got)
	}
	w.must(w.core.CoreV1().Pods(w.namespace).Delete(w.Context(), worker, metav1.DeleteOptions{}))
	w.untilWaitsNoMore(id)
}
