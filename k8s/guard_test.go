package k8s_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// policies returns the NetworkPolicies of the team's namespace by name.
func (w *world) policies() map[string]networkingv1.NetworkPolicy {
	w.Helper()
	list, err := w.core.NetworkingV1().NetworkPolicies(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	found := map[string]networkingv1.NetworkPolicy{}
	for _, p := range list.Items {
		found[p.Name] = p
	}
	return found
}

// otherNamespace makes one more namespace; it goes with the test.
func (w *world) otherNamespace() string {
	w.Helper()
	name := "t-" + rayslice.NewRequestID()
	_, err := w.core.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		_ = w.core.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return name
}

// TestOtherTeamsCannotReachACluster takes everything from the real API server: policies, namespaces, and KubeRay's pods with
// the labels it gave them.
func TestOtherTeamsCannotReachACluster(t *testing.T) { // B130, B131
	w := newWorld(t)
	portal, operator, stranger := w.otherNamespace(), w.otherNamespace(), w.otherNamespace()
	w.start(func(c *k8s.Config) { c.Namespace, c.KubeRayNamespace = portal, operator })
	id, second := w.ask(1, 8), w.ask(1, 4)
	w.untilState(id, rayslice.StateReady)
	w.untilState(second, rayslice.StateReady)
	head, worker := w.podOf(id, "head"), w.podOf(id, "worker")
	namespaces := map[string]corev1.Namespace{}
	for _, name := range []string{w.namespace, portal, operator, stranger} {
		n, err := w.core.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		w.must(err)
		namespaces[name] = *n
	}
	var policies []networkingv1.NetworkPolicy
	for _, p := range w.policies() {
		policies = append(policies, p)
	}
	in := func(namespace string, labels map[string]string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels}}
	}
	impostor := in(stranger, head.Labels) // labels of a pod are its owner's to choose
	cases := map[string]struct {
		from corev1.Pod
		to   corev1.Pod
		open string // of the ports below
	}{
		"another team's pod":                               {in(stranger, nil), head, ""},
		"another team's pod, to a worker":                  {in(stranger, nil), worker, ""},
		"another team's pod with the cluster's own labels": {impostor, head, ""},
		"a pod of a namespace without labels":              {in("unlabelled", nil), head, ""},
		"a notebook of the team":                           {in(w.namespace, map[string]string{"app": "notebook"}), head, "8000 8080 8265 10001"},
		"another cluster of the team":                      {w.podOf(second, "worker"), head, "8000 8080 8265 10001"},
		"its own worker":                                   {worker, head, "22 6379 8000 8080 8265 10001 52365"},
		"its head, to a worker":                            {head, worker, "22 6379 8000 8080 8265 10001 52365"},
		"the portal":                                       {in(portal, nil), head, "8265"},
		"the operator":                                     {in(operator, nil), head, "8265"},
		"the portal, to a bare pod of the team":            {in(portal, nil), in(w.namespace, nil), "22 6379 8000 8080 8265 10001 52365"}, // not ours to close
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var open []string
			for _, port := range []int{22, 6379, 8000, 8080, 8265, 10001, 52365} {
				if reachable(t, policies, namespaces, tc.from, tc.to, port) {
					open = append(open, fmt.Sprint(port))
				}
			}
			if diff := cmp.Diff(tc.open, strings.Join(open, " ")); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
	ingresses, err := w.core.NetworkingV1().Ingresses(w.namespace).List(t.Context(), metav1.ListOptions{})
	w.must(err)
	if len(ingresses.Items) > 0 {
		t.Errorf("%d ingresses", len(ingresses.Items))
	}
	services, err := w.core.CoreV1().Services(w.namespace).List(t.Context(), metav1.ListOptions{})
	w.must(err)
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeNodePort {
			t.Errorf("service %s is a %s", s.Name, s.Spec.Type)
		}
	}
	w.stopRequest(id)
	w.untilState(id, rayslice.StateStopped)
	w.until("the cluster's policy goes with it", func() bool { _, there := w.policies()["rs-"+id]; return !there })
	if _, there := w.policies()["rayslice"]; !there {
		t.Error("the namespace's policy is gone, too")
	}
}

// podOf returns a pod as KubeRay made it.
func (w *world) podOf(id, kind string) corev1.Pod {
	w.Helper()
	for _, p := range w.pods(id) {
		if p.Labels["ray.io/node-type"] == kind {
			return p
		}
	}
	w.Fatalf("no %s pod", kind)
	return corev1.Pod{}
}

func TestPolicyStandsBeforeTheCluster(t *testing.T) { // B131
	w := newWorld(t)
	var open atomic.Int32
	w.start(func(c *k8s.Config) {
		c.Rest = through(w.config, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if aboutCluster(r, http.MethodPatch) {
				if _, there := w.policies()["rayslice"]; !there {
					open.Add(1)
				}
			}
			return next.RoundTrip(r)
		})
	})
	w.untilState(w.ask(1, 8), rayslice.StateReady)
	if open.Load() > 0 {
		t.Error("the RayCluster was applied to a namespace that was open")
	}
}

func TestPolicyIsPutBack(t *testing.T) {
	w := newWorld(t)
	w.start(func(c *k8s.Config) { c.Resync = 10 * time.Minute }) // the watch tells
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	netpols := w.core.NetworkingV1().NetworkPolicies(w.namespace)
	w.until("both stand", func() bool { return len(w.policies()) == 2 })
	first := w.policies()
	spoilt := map[string]func(name string) error{
		"deleted": func(name string) error { return netpols.Delete(t.Context(), name, metav1.DeleteOptions{}) },
		"opened to all": func(name string) error {
			_, err := netpols.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"ingress":[{}]}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		},
		"selects nothing": func(name string) error {
			_, err := netpols.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		},
		"label taken off": func(name string) error {
			_, err := netpols.Patch(t.Context(), name, "application/json-patch+json", []byte(`[{"op":"remove","path":"/metadata/labels/rayslice.io~1team"}]`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		},
		"without its owner": func(name string) error {
			_, err := netpols.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		},
	}
	for what, spoil := range spoilt {
		for name, want := range first {
			w.must(spoil(name))
			w.within(patience/3, name+" "+what+": put back", func() bool {
				got := w.policies()[name]
				return cmp.Equal(want.Spec, got.Spec) && cmp.Equal(want.Labels, got.Labels) && cmp.Equal(want.OwnerReferences, got.OwnerReferences)
			})
		}
	}
}

func TestForeignPolicyHasTheName(t *testing.T) {
	w := newWorld(t)
	foreign := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "rayslice"}}
	foreign.Spec.PodSelector.MatchLabels = map[string]string{"app": "db"}
	_, err := w.core.NetworkingV1().NetworkPolicies(w.namespace).Create(t.Context(), foreign, metav1.CreateOptions{})
	w.must(err)
	w.start()
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	w.until("said", func() bool { return w.cluster(id).Unguarded.Code == k8s.ReasonUnguardedTaken })
	if diff := cmp.Diff(foreign.Spec.PodSelector, w.policies()["rayslice"].Spec.PodSelector); diff != "" {
		t.Errorf("somebody else's policy was touched (-was +is):\n%s", diff)
	}
}

// TestWithoutTheRightToPolicies runs with the rights of the version before: clusters start, and say what is missing.
func TestWithoutTheRightToPolicies(t *testing.T) {
	w := newWorld(t)
	var calls atomic.Int32
	c, stop := w.start(func(cfg *k8s.Config) { cfg.Rest = forbidden(w, "networkpolicies", &calls) })
	id := w.ask(1, 8)
	w.untilState(id, rayslice.StateReady)
	w.until("the cluster says so", func() bool { return w.cluster(id).Unguarded.Code == k8s.ReasonUnguardedRights })
	w.until("the fleet's report says so", func() bool {
		fleet, err := w.store.Fleet(t.Context(), rayslice.System)
		w.must(err)
		return len(fleet.Guards) == 1 && fleet.Guards[0].Code == k8s.ReasonUnguardedRights && fleet.Guards[0].Args["namespaces"] == w.namespace
	})
	if h := c.Health(); h.LastError != "" || !h.Synced {
		t.Errorf("health %+v: the portal is not cut off", h)
	}
	if n := calls.Load(); n > 4 {
		t.Errorf("asked %d times for what is refused", n)
	}
	stop()
	w.start()
	w.until("mended", func() bool { return w.cluster(id).Unguarded.IsZero() && len(w.policies()) == 2 })
}

// forbidden returns a config for which the API server refuses everything about a resource; calls counts the applies.
func forbidden(w *world, resource string, calls *atomic.Int32) *rest.Config {
	return through(w.config, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "/"+resource) {
			return next.RoundTrip(r)
		}
		if r.Method == http.MethodPatch {
			calls.Add(1)
		}
		nobody := rest.CopyConfig(w.config)
		nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
		transport, err := rest.TransportFor(nobody) // the real refusal
		if err != nil {
			return nil, err
		}
		return transport.RoundTrip(r)
	})
}
