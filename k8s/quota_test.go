package k8s_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store/storetest"
)

// withQuotas keeps the team's quota in Kubernetes too. Only the sweep of a test that says so hides a change nobody told of.
func withQuotas(c *k8s.Config) { c.NamespaceQuota, c.Resync = true, time.Minute }

// startWithQuotas starts a Controller that minds this test's namespace and no other.
func (w *world) startWithQuotas(change ...func(*k8s.Config)) *k8s.Controller {
	w.Helper()
	storetest.Exec(w.T, `UPDATE teams SET namespace = $1 WHERE name = 'speech'`, w.namespace+"-none")
	c, _ := w.start(append([]func(*k8s.Config){withQuotas}, change...)...)
	return c
}

func (w *world) setLimit(gib int) {
	w.Helper()
	w.must(w.store.SetLimit(w.Context(), w.people.Root, "vision", rayslice.Charge{GiB: gib}, ""))
}

// hard returns what the team's ResourceQuota in Kubernetes counts by, GiB; -1 when there is none.
func (w *world) hard() int {
	w.Helper()
	q, err := w.core.CoreV1().ResourceQuotas(w.namespace).Get(w.Context(), "rayslice", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return -1
	}
	w.must(err)
	hard, counts := q.Status.Hard["requests.aliyun.com/gpu-mem"]
	if !counts {
		return -1
	}
	return int(hard.Value())
}

func (w *world) untilHard(gib int) {
	w.Helper()
	w.until(fmt.Sprintf("namespace limited to %d GiB", gib), func() bool { return w.hard() == gib })
}

// barePod makes a pod without the portal, as anybody with kubectl can.
func (w *world) barePod(name string, limits corev1.ResourceList) error {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "x", Image: "x", Resources: corev1.ResourceRequirements{Limits: limits}}}
	_, err := w.core.CoreV1().Pods(w.namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	return err
}

func gpuMem(gib string) corev1.ResourceList {
	return corev1.ResourceList{k8s.ResourceGPUMem: resource.MustParse(gib)}
}

func TestNamespaceQuotaBacksTheTeams(t *testing.T) { // B079, B082
	w := newWorld(t)
	w.setLimit(16)
	w.startWithQuotas()
	w.untilHard(16)
	id := w.ask(2, 8) // exactly the limit; KubeRay's pods pass real admission
	w.untilState(id, rayslice.StateReady)
	refused := map[string]corev1.ResourceList{
		"one GiB more": gpuMem("1"),
		"a whole card": {k8s.ResourceGPU: resource.MustParse("1")},
	}
	for what, limits := range refused {
		if err := w.barePod("more", limits); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: rayslice") {
			t.Errorf("%s with kubectl: %v, want refused by the team's quota", what, err)
		}
	}
	w.must(w.barePod("no-gpu", nil))

	// Lowered below what runs: a worker that dies still comes back, and the limit follows what is given back.
	w.setLimit(8)
	worker := w.podOf(id, "worker").Name
	w.must(w.core.CoreV1().Pods(w.namespace).Delete(t.Context(), worker, metav1.DeleteOptions{}))
	w.until("another worker", func() bool {
		_, err := w.core.CoreV1().Pods(w.namespace).Get(t.Context(), worker, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && w.cluster(id).ReadyWorkers() == 2
	})
	if hard := w.hard(); hard != 16 {
		t.Errorf("limited to %d GiB while 16 run", hard)
	}
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	w.untilHard(8)

	// Raised and asked for at once, then stopped and asked for at once: Kubernetes may count late, and it heals.
	w.setLimit(16)
	second := w.ask(2, 8)
	w.untilState(second, rayslice.StateReady)
	w.stopRequest(second)
	w.until("given back", func() bool { return w.used() == 0 })
	w.untilState(w.ask(2, 8), rayslice.StateReady)
}

func TestPodsMadeWithoutThePortalHoldQuota(t *testing.T) { // B082
	w := newWorld(t)
	w.setLimit(16)
	w.startWithQuotas(func(c *k8s.Config) { c.Resync = 2 * time.Second }) // such pods are looked for by the sweep
	w.untilHard(16)
	w.must(w.barePod("mine", gpuMem("8")))
	w.until("it is listed", func() bool {
		fleet, err := w.store.Fleet(w.Context(), rayslice.System)
		w.must(err)
		return len(fleet.Unmanaged) == 1 && fleet.Unmanaged[0].Object == "Pod/mine" && fleet.Unmanaged[0].Charge.GiB == 8 && fleet.Unmanaged[0].Team == "vision"
	})
	id := w.ask(2, 8)
	w.until("the reason is named", func() bool { return w.cluster(id).Problem.Code == rayslice.ReasonTeamQuotaFull })
	want := map[string]any{"quota": "rayslice", "resource": "requests.aliyun.com/gpu-mem", "requested": "8", "used": "16", "limited": "16"}
	if diff := cmp.Diff(want, w.cluster(id).Problem.Args); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	w.must(w.core.CoreV1().Pods(w.namespace).Delete(t.Context(), "mine", metav1.DeleteOptions{}))
	w.untilState(id, rayslice.StateReady)
}

func TestNamespaceQuotaIsPutBack(t *testing.T) {
	w := newWorld(t)
	w.startWithQuotas()
	w.untilHard(40)
	quotas := w.core.CoreV1().ResourceQuotas(w.namespace)
	_, err := quotas.Patch(t.Context(), "rayslice", "application/merge-patch+json",
		[]byte(`{"spec":{"hard":{"requests.aliyun.com/gpu-mem":"400","requests.cpu":"64"}}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	w.must(err)
	w.untilHard(40)
	q, err := quotas.Get(t.Context(), "rayslice", metav1.GetOptions{})
	w.must(err)
	if cpu := q.Spec.Hard["requests.cpu"]; cpu.Value() != 64 {
		t.Errorf("somebody's own limit of CPU is gone: %v", q.Spec.Hard)
	}
	w.must(quotas.Delete(t.Context(), "rayslice", metav1.DeleteOptions{}))
	w.untilHard(40)
}

func TestForeignQuotaHasTheName(t *testing.T) {
	w := newWorld(t)
	foreign := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "rayslice"}}
	foreign.Spec.Hard = corev1.ResourceList{"requests.aliyun.com/gpu-mem": resource.MustParse("99")}
	_, err := w.core.CoreV1().ResourceQuotas(w.namespace).Create(t.Context(), foreign, metav1.CreateOptions{})
	w.must(err)
	w.startWithQuotas()
	w.untilProblem(rayslice.Reason{Code: k8s.ReasonQuotaTaken, Args: map[string]any{"namespaces": w.namespace}})
	w.untilHard(99)
}

func TestWithoutTheRightToQuotas(t *testing.T) {
	w := newWorld(t)
	var calls atomic.Int32
	c := w.startWithQuotas(func(cfg *k8s.Config) { cfg.Rest = forbidden(w, "resourcequotas", &calls) })
	w.untilState(w.ask(1, 8), rayslice.StateReady)
	c.WakeQuotas()
	w.untilProblem(rayslice.Reason{Code: k8s.ReasonQuotaRights})
	if h := c.Health(); h.LastError != "" || !h.Synced {
		t.Errorf("health %+v: the portal is not cut off", h)
	}
}

// untilProblem waits for the fleet's report to name just this.
func (w *world) untilProblem(want rayslice.Reason) {
	w.Helper()
	w.until("report of "+want.Code, func() bool {
		fleet, err := w.store.Fleet(w.Context(), rayslice.System)
		w.must(err)
		return cmp.Equal([]rayslice.Reason{want}, fleet.Guards)
	})
}
