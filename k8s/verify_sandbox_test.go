package k8s_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store/storetest"
)

// proving is a world with machines of its own, so that their faults are nobody else's: each is a pool of the catalogue.
type proving struct {
	*world
	pools  []rayslice.Pool
	groups []rayslice.Group
}

// machine is one of them: an A10 whose 22 GiB are shared, and how it misbehaves.
type machine struct {
	pool   string
	mode   rayslice.Mode     // default cgpu
	faults string            // "" = idle, so that slices can be verified at any time
	labels map[string]string // more
	gib    int               // of the slice that a worker asks for; default 4
	count  int               // workers; default 1
	beside int               // GiB that a pod which is not the portal's has on the card
}

func newProving(t *testing.T, machines ...machine) *proving {
	w := newWorld(t)
	storetest.Exec(t, `UPDATE quotas SET limit_gib = 200, limit_cards = 8`)
	p := &proving{world: w}
	for _, m := range machines {
		p.add(m)
	}
	return p
}

func (p *proving) add(m machine) {
	p.Helper()
	mode, model, name := "cgpu", "TEST-"+p.namespace+"-"+m.pool, p.namespace+"."+m.pool
	slice := rayslice.Slice{Pool: m.pool, GiB: max(m.gib, 4), Cards: 1}
	offer := map[string]string{"cpu": "256", "memory": "2Ti", "pods": "250", "aliyun.com/gpu-mem": "22", "aliyun.com/gpu-count": "1"}
	switch m.mode {
	case rayslice.ModeWhole:
		mode, slice.GiB = "default", 0
		offer = map[string]string{"cpu": "256", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": "1"}
	case rayslice.ModeShare:
		mode = "share"
	case "":
		m.mode = rayslice.ModeCGPU
	}
	labels := map[string]string{"type": "kwok", corev1.LabelHostname: name, corev1.LabelOSStable: "linux", k8s.LabelGPUMode: mode,
		"aliyun.accelerator/nvidia_name": model, "aliyun.accelerator/nvidia_mem": "23028MiB", "aliyun.accelerator/nvidia_count": "1"}
	for key, value := range m.labels {
		labels[key] = value
	}
	p.makeNode(name, labels, "idle,"+m.faults, offer)
	if m.beside > 0 {
		p.makeForeign(model, m.beside)
	}
	p.pools = append(p.pools, rayslice.Pool{Name: m.pool, Model: "NVIDIA A10", Mode: m.mode, CardGiB: 22, CardMiB: 23028, Sizes: []int{4, 8}, MaxCards: 1,
		AllowUnisolated: true, NodeSelector: map[string]string{"aliyun.accelerator/nvidia_name": model}})
	p.groups = append(p.groups, rayslice.Group{Slice: slice, Workers: max(m.count, 1), CPU: rayslice.DefaultWorkerCPU, MemoryGiB: rayslice.DefaultWorkerMemoryGiB})
}

func (p *proving) makeNode(name string, labels map[string]string, faults string, offer map[string]string) {
	p.Helper()
	nodes := p.core.CoreV1().Nodes()
	_, err := nodes.Create(p.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
		Annotations: map[string]string{"sandbox.rayslice.io/faults": faults}}}, metav1.CreateOptions{})
	p.must(err)
	p.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	status, err := json.Marshal(map[string]any{"status": map[string]any{"allocatable": offer, "capacity": offer}})
	p.must(err)
	_, err = nodes.Patch(p.Context(), name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	p.must(err)
}

// makeForeign has the scheduler put a pod that is not the portal's on the only card of that model.
func (p *proving) makeForeign(model string, gib int) {
	p.Helper()
	limits := corev1.ResourceList{k8s.ResourceGPUMem: *resource.NewQuantity(int64(gib), resource.DecimalSI)}
	pods, grace := p.core.CoreV1().Pods(p.namespace), int64(0)
	made, err := pods.Create(p.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "foreign-"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"aliyun.accelerator/nvidia_name": model}, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "main", Image: "elsewhere", Resources: corev1.ResourceRequirements{Limits: limits}}}}}, metav1.CreateOptions{})
	p.must(err)
	p.until("the foreign pod's place", func() bool {
		pod, err := pods.Get(p.Context(), made.Name, metav1.GetOptions{})
		p.must(err)
		return pod.Status.Phase == corev1.PodRunning
	})
}

// run starts a controller that verifies by itself, and a cluster with the workers of all machines.
func (p *proving) run(change ...func(*k8s.Config)) string {
	p.Helper()
	p.start(append([]func(*k8s.Config){func(c *k8s.Config) {
		c.Unverified, c.Catalogue.Pools = false, p.pools
	}}, change...)...)
	draft := storetest.Draft(1, 4)
	draft.Groups = slices.Clone(p.groups)
	draft.Normalize(rayslice.Catalogue{Pools: p.pools, Limits: rayslice.DefaultLimits()})
	request, err := p.store.CreateRequest(p.Context(), p.people.Ada, draft, "")
	p.must(err)
	if request.State != rayslice.StateApproved {
		p.Fatalf("request is %s, want approved", request.State)
	}
	return request.ID
}

// verdicts are the latest certificates of the cluster's workers, by pool.
func (p *proving) verdicts(id string) map[string]rayslice.Certificate {
	p.Helper()
	all, err := p.store.Certificates(p.Context(), p.people.Ada, id)
	p.must(err)
	latest := map[string]rayslice.Certificate{}
	for _, c := range all {
		if _, known := latest[c.Target.Slice.Pool]; !known {
			latest[c.Target.Slice.Pool] = c
		}
	}
	return latest
}

// again asks for a verification and returns the certificates by pool.
func (p *proving) again(id string) map[string]rayslice.Certificate {
	p.Helper()
	asked, err := p.store.AskVerification(p.Context(), p.people.Ada, id)
	p.must(err)
	p.within(2*patience, "the end of the verification", func() bool {
		runs, err := p.store.Verifications(p.Context(), p.people.Ada, id)
		p.must(err)
		return runs[0].Run == asked.Run && !runs[0].Open()
	})
	return p.verdicts(id)
}

func (p *proving) patchHead(id, faults string) {
	p.Helper()
	patch := `{"metadata": {"annotations": {"sandbox.rayslice.io/faults": "` + faults + `"}}}`
	for _, pod := range p.pods(id) {
		if pod.Labels["ray.io/node-type"] == "head" {
			_, err := p.core.CoreV1().Pods(p.namespace).Patch(p.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			p.must(err)
		}
	}
}

type verdictWant struct {
	verdict rayslice.Enforcement
	why     string
}

func (p *proving) check(got map[string]rayslice.Certificate, want map[string]verdictWant) {
	p.Helper()
	for pool, w := range want {
		c, ok := got[pool]
		if !ok || c.Judgement.Enforcement != w.verdict || c.Judgement.Reason.Code != w.why {
			text, _ := json.MarshalIndent(c.Judgement, "", " ")
			p.Errorf("%s: want %s %q: %s", pool, w.verdict, w.why, text)
		}
	}
}

// TestVerdictsOnTheSandbox holds a cluster back until each of its workers, on machines that are well and on broken ones, has its
// verdict from a job that really ran.
func TestVerdictsOnTheSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		machines []machine
		want     map[string]verdictWant
	}{
		"limits": {
			[]machine{{pool: "well", count: 2}, {pool: "lost", faults: "limit-lost"}, {pool: "environment", faults: "limit-in-environment"},
				{pool: "full", gib: 8, beside: 14}, {pool: "broken", faults: "driver-broken"}},
			map[string]verdictWant{"well": {rayslice.Enforced, ""}, "lost": {rayslice.NotEnforced, rayslice.WhyServed},
				"environment": {rayslice.NotEnforced, rayslice.WhyEnvironment}, "full": {rayslice.Inconclusive, rayslice.WhyCardFull},
				"broken": {rayslice.Inconclusive, rayslice.WhyGPULost}},
		},
		"modes": {
			[]machine{{pool: "noisy", faults: "noisy-driver"}, {pool: "share", mode: rayslice.ModeShare}, {pool: "whole", mode: rayslice.ModeWhole},
				{pool: "off", labels: map[string]string{"cgpu.disable.isolation": "true"}}, {pool: "hangs", faults: "driver-hangs"}},
			map[string]verdictWant{"noisy": {rayslice.Enforced, ""}, "share": {rayslice.NotEnforced, rayslice.WhyShareMode},
				"whole": {rayslice.Inconclusive, rayslice.WhyWholeCard}, "off": {rayslice.NotEnforced, rayslice.WhyServed},
				"hangs": {rayslice.Inconclusive, rayslice.WhyStuck}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProving(t, tc.machines...)
			id := p.run()
			p.within(2*patience, "ready", func() bool {
				state := p.request(id).State // read first: certificates are there before it is ready
				if state == rayslice.StateReady && len(p.verdicts(id)) < len(tc.machines) {
					p.Fatalf("ready with %d verdicts of %d", len(p.verdicts(id)), len(tc.machines))
				}
				return state == rayslice.StateReady
			})
			p.check(p.verdicts(id), tc.want)
		})
	}
}

// TestVerificationOfBrokenHeads asks for verifications while the head's Jobs API misbehaves: each ends, and says why.
func TestVerificationOfBrokenHeads(t *testing.T) {
	p := newProving(t, machine{pool: "a10", gib: 8})
	id := p.run(func(c *k8s.Config) { c.Unverified, c.VerifyLimit = true, 20*time.Second })
	p.untilState(id, rayslice.StateReady)
	for _, tc := range []struct {
		faults string
		want   verdictWant
	}{
		{"jobs-down", verdictWant{rayslice.Inconclusive, rayslice.ReasonVerifyNoJobs}},
		{"jobs-half", verdictWant{rayslice.Inconclusive, rayslice.ReasonVerifyNoAnswer}},
		{"jobs-stuck", verdictWant{rayslice.Inconclusive, rayslice.ReasonVerifyLate}},
		{"jobs-noisy", verdictWant{rayslice.Enforced, ""}},
	} {
		p.patchHead(id, tc.faults)
		p.check(p.again(id), map[string]verdictWant{"a10": tc.want})
		if state := p.request(id).State; state != rayslice.StateReady {
			t.Errorf("%s: the cluster is %s", tc.faults, state)
		}
	}
}

// TestVerificationOfReplacedWorkers: the pod that comes for one that goes is verified by itself, and the old certificate says
// nothing about it.
func TestVerificationOfReplacedWorkers(t *testing.T) {
	p := newProving(t, machine{pool: "a10", gib: 8})
	id := p.run()
	p.untilState(id, rayslice.StateReady)
	before := p.verdicts(id)["a10"]
	p.check(p.verdicts(id), map[string]verdictWant{"a10": {rayslice.Enforced, ""}})
	p.must(p.core.CoreV1().Pods(p.namespace).Delete(p.Context(), before.Target.Pod, metav1.DeleteOptions{}))
	p.until("the next pod's certificate", func() bool { return p.verdicts(id)["a10"].Target.PodUID != before.Target.PodUID })
	after := p.verdicts(id)["a10"]
	p.check(p.verdicts(id), map[string]verdictWant{"a10": {rayslice.Enforced, ""}})
	if now := before.Now(after.Target.PodUID, after.Target.Node, ""); now != rayslice.OutOfDate {
		t.Errorf("the old certificate is %s", now)
	}
	runs, err := p.store.Verifications(p.Context(), p.people.Ada, id)
	if p.must(err); len(runs) != 2 || runs[0].By != "" || runs[1].By != "" {
		t.Errorf("runs %+v", runs)
	}
}

// TestVerificationInUse: on a worker that somebody works on only the passive checks are made, and the page says so.
func TestVerificationInUse(t *testing.T) {
	p := newProving(t, machine{pool: "a10", gib: 8})
	id := p.run(func(c *k8s.Config) { c.Unverified = true })
	p.untilState(id, rayslice.StateReady)
	p.annotate(p.namespace+".a10", "") // it works from now on
	var c rayslice.Certificate
	p.within(2*patience, "a look at a worker in use", func() bool {
		c = p.again(id)["a10"]
		return c.Judgement.InUse
	})
	p.check(map[string]rayslice.Certificate{"a10": c}, map[string]verdictWant{"a10": {rayslice.Inconclusive, rayslice.WhyInUse}})
	for _, row := range c.Judgement.Rows {
		if made := row.Result != rayslice.CheckSkipped; made != row.Check.Passive() && row.Reason.Code != rayslice.WhyNotMade {
			t.Errorf("%s is %s: %+v", row.Check, row.Result, row.Reason)
		}
	}
}

// TestStoppedWhileVerified: a run that is open when its cluster goes ends with it.
func TestStoppedWhileVerified(t *testing.T) {
	p := newProving(t, machine{pool: "a10", faults: "driver-hangs"})
	id := p.run()
	p.until("a run", func() bool {
		runs, err := p.store.Verifications(p.Context(), p.people.Ada, id)
		p.must(err)
		return len(runs) == 1 && runs[0].Open()
	})
	p.stopRequest(id)
	p.untilState(id, rayslice.StateStopped)
	runs, err := p.store.Verifications(p.Context(), p.people.Ada, id)
	if p.must(err); len(runs) != 1 || runs[0].Open() || runs[0].Reason.Code != rayslice.ReasonVerifyGone {
		t.Errorf("runs %+v", runs)
	}
}
