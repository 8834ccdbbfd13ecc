package k8s

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// twoWorkers is the request that most cases look at: two slices of 8 GiB.
func twoWorkers() rayslice.Request {
	return rayslice.Request{
		ID: "abcdefghijkl", Team: "vision", Namespace: "team-vision",
		Draft: rayslice.RequestDraft{Groups: []rayslice.Group{{
			Name: "a10-8g", Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, MinWorkers: 2, MaxWorkers: 2,
		}}},
	}
}

func rayCluster(change ...func(*rayv1.RayCluster)) *rayv1.RayCluster {
	c := &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "rs-abcdefghijkl", Namespace: "team-vision", UID: "uid-1",
		Labels:            map[string]string{LabelRequest: "abcdefghijkl"},
		CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

// pod returns a running, ready pod of 8 GiB on card 1, or of the head's kind.
func pod(name, kind string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team-vision", UID: "uid-" + "x",
			Labels:            map[string]string{LabelRequest: "abcdefghijkl", LabelPool: "a10", labelNodeType: kind, labelGroup: "a10-8g"},
			CreationTimestamp: metav1.NewTime(noon.Add(-30 * time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: "gpu-1", Containers: []corev1.Container{{Name: "ray-" + kind, Image: "ray:1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Gi")},
		}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.7",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "ray-" + kind, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	if kind == typeWorker {
		p.Spec.Containers[0].Resources.Limits[ResourceGPUMem] = resource.MustParse("8")
		p.Annotations = map[string]string{annotationAllocation: `{"0":{"1":8}}`}
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// views turns pods into what the cache makes of them.
func views(pods ...*corev1.Pod) []*podView {
	out := make([]*podView, 0, len(pods))
	for _, p := range pods {
		out = append(out, viewPod(p))
	}
	return out
}

// unready turns a pod into one that is not up, with the given state of its container.
func unready(phase corev1.PodPhase, state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		p.Status.ContainerStatuses[0].Ready = false
		p.Status.ContainerStatuses[0].State = state
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(reason string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
}

func warning(object, reason, message string) rayslice.Event {
	return rayslice.Event{At: noon, Warning: true, Object: object, Reason: reason, Message: message, Count: 1}
}

func TestObserveHealthyCluster(t *testing.T) {
	seen := sighting{cluster: rayCluster(), pods: views(pod("w-2", typeWorker), pod("h", typeHead), pod("w-1", typeWorker))}
	have := observe(twoWorkers(), seen, noon)
	want := rayslice.Cluster{
		RequestID: "abcdefghijkl", ObservedAt: noon, Exists: true, Ours: true, UID: "uid-1", CreatedAt: noon.Add(-time.Minute),
		Service: "rs-abcdefghijkl-head-svc.team-vision.svc",
	}
	worker := rayslice.Worker{
		Name: "w-1", UID: "uid-x", Group: "a10-8g", Phase: rayslice.PodRunning, Ready: true, Node: "gpu-1", IP: "10.0.0.7",
		Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Placements: []rayslice.Placement{{Card: 1, GiB: 8}},
		CreatedAt: noon.Add(-30 * time.Second),
	}
	second, head := worker, worker
	second.Name, head.Name = "w-2", "h"
	head.Slice, head.Placements = rayslice.Slice{}, nil
	want.Workers, want.Head = []rayslice.Worker{worker, second}, &head
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestObserveWhoseItIs(t *testing.T) {
	unlabelled := rayCluster(func(c *rayv1.RayCluster) { c.Labels = nil })
	known := twoWorkers()
	known.ClusterUID = "uid-1"
	cases := map[string]struct {
		request    rayslice.Request
		cluster    *rayv1.RayCluster
		wantExists bool
		wantOurs   bool
	}{
		"nothing there":                         {twoWorkers(), nil, false, false},
		"our label":                             {twoWorkers(), rayCluster(), true, true},
		"no label, never seen":                  {twoWorkers(), unlabelled, true, false},
		"label taken off, known by its UID":     {known, unlabelled, true, true},
		"another request's label":               {twoWorkers(), rayCluster(func(c *rayv1.RayCluster) { c.Labels[LabelRequest] = "zzzzzzzzzzzz" }), true, false},
		"another object after ours was deleted": {known, rayCluster(func(c *rayv1.RayCluster) { c.Labels, c.UID = nil, "uid-2" }), true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			have := observe(tc.request, sighting{cluster: tc.cluster}, noon)
			if have.Exists != tc.wantExists || have.Ours != tc.wantOurs {
				t.Errorf("exists %v, ours %v; want %v, %v", have.Exists, have.Ours, tc.wantExists, tc.wantOurs)
			}
		})
	}
}

func TestPlacements(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		want        []rayslice.Placement
	}{
		"none yet is unknown (B032)":          {nil, nil},
		"scheduler's":                         {map[string]string{annotationAllocation: `{"0":{"3":8}}`}, []rayslice.Placement{{Card: 3, GiB: 8}}},
		"over two cards":                      {map[string]string{annotationAllocation: `{"0":{"1":4,"0":4}}`}, []rayslice.Placement{{Card: 0, GiB: 4}, {Card: 1, GiB: 4}}},
		"two containers on one card":          {map[string]string{annotationAllocation: `{"0":{"1":4},"1":{"1":2}}`}, []rayslice.Placement{{Card: 1, GiB: 6}}},
		"old plugin's":                        {map[string]string{annotationCardIndex: "0", annotationCardUnits: "8"}, []rayslice.Placement{{Card: 0, GiB: 8}}},
		"scheduler's wins over the plugin's":  {map[string]string{annotationAllocation: `{"0":{"2":8}}`, annotationCardIndex: "0", annotationCardUnits: "8"}, []rayslice.Placement{{Card: 2, GiB: 8}}},
		"failed allocation":                   {map[string]string{annotationCardIndex: "-1", annotationCardUnits: "8"}, nil},
		"not JSON":                            {map[string]string{annotationAllocation: `{"0":`}, nil},
		"card is no number":                   {map[string]string{annotationAllocation: `{"0":{"one":8}}`}, nil},
		"negative units":                      {map[string]string{annotationAllocation: `{"0":{"1":-8}}`}, nil},
		"more units than any machine has":     {map[string]string{annotationAllocation: `{"0":{"1":17592186044134}}`}, nil},
		"index without units":                 {map[string]string{annotationCardIndex: "0"}, nil},
		"empty allocation":                    {map[string]string{annotationAllocation: `{}`}, nil},
		"user's nonsense as container's card": {map[string]string{annotationAllocation: `{"0":8}`}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod("w", typeWorker, func(p *corev1.Pod) { p.Annotations = tc.annotations })
			if diff := cmp.Diff(tc.want, placements(p)); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodSlice(t *testing.T) {
	limits := func(list corev1.ResourceList) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list }
	}
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   rayslice.Slice
	}{
		"slice":           {limits(corev1.ResourceList{ResourceGPUMem: resource.MustParse("8")}), rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}},
		"slice with core": {limits(corev1.ResourceList{ResourceGPUMem: resource.MustParse("8"), ResourceGPUCore: resource.MustParse("50")}), rayslice.Slice{Pool: "a10", GiB: 8, CorePercent: 50, Cards: 1}},
		"over two cards": {func(p *corev1.Pod) {
			limits(corev1.ResourceList{ResourceGPUMem: resource.MustParse("16")})(p)
			p.Labels[LabelGPUCount] = "2"
		}, rayslice.Slice{Pool: "a10", GiB: 8, Cards: 2}},
		"count that is no number": {func(p *corev1.Pod) {
			limits(corev1.ResourceList{ResourceGPUMem: resource.MustParse("16")})(p)
			p.Labels[LabelGPUCount] = "0"
		}, rayslice.Slice{Pool: "a10", GiB: 16, Cards: 1}},
		"whole cards":                    {limits(corev1.ResourceList{ResourceGPU: resource.MustParse("2")}), rayslice.Slice{Pool: "a10", Cards: 2}},
		"no GPU, nothing carried (B086)": {limits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}), rayslice.Slice{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := podSlice(pod("w", typeWorker, tc.change)); got != tc.want {
				t.Errorf("slice %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPodProblem(t *testing.T) {
	unplaced := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			unready(corev1.PodPending, corev1.ContainerState{})(p)
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message})
		}
	}
	cases := map[string]struct {
		change func(*corev1.Pod)
		events []rayslice.Event
		want   rayslice.Reason
	}{
		"runs":       {func(*corev1.Pod) {}, nil, rayslice.Reason{}},
		"on its way": {unready(corev1.PodPending, waiting("ContainerCreating", "")), nil, rayslice.Reason{}},
		"being taken": {func(p *corev1.Pod) {
			unready(corev1.PodFailed, ended("Error", 1))(p)
			p.DeletionTimestamp = new(metav1.NewTime(noon))
		}, nil, rayslice.Reason{}},
		"no node has room": {unplaced("0/9 nodes are available: 4 Insufficient\naliyun.com/gpu-mem."), nil,
			rayslice.Reason{Code: rayslice.ReasonUnschedulable, Args: map[string]any{"pod": "w"}, Detail: "0/9 nodes are available: 4 Insufficient aliyun.com/gpu-mem."}},
		"B028 scheduler's stamp is missing": {unready(corev1.PodPending, waiting("RunContainerError", "")),
			[]rayslice.Event{warning("Pod/w", "UnexpectedAdmissionError", "invalid allocation requst: request GPU memory 8 can't be satisfied: no assume timestamp")},
			rayslice.Reason{Code: rayslice.ReasonShareUnplaced, Args: map[string]any{"pod": "w"}, Detail: "invalid allocation requst: request GPU memory 8 can't be satisfied: no assume timestamp"}},
		"B029 lost the race for the card": {unready(corev1.PodPending, waiting("RunContainerError", "failed to create: unknown device id: no-gpu-has-8MiB-to-run\x1b[31m")), nil,
			rayslice.Reason{Code: rayslice.ReasonCardRace, Args: map[string]any{"pod": "w"}, Detail: "failed to create: unknown device id: no-gpu-has-8MiB-to-run[31m"}},
		"B029 the same after a restart": {func(p *corev1.Pod) {
			unready(corev1.PodRunning, waiting("CrashLoopBackOff", "back-off"))(p)
			p.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Message: "no-gpu-has-8GiB-to-run"}}
		}, nil, rayslice.Reason{Code: rayslice.ReasonCardRace, Args: map[string]any{"pod": "w"}, Detail: "no-gpu-has-8GiB-to-run"}},
		"image cannot be pulled": {unready(corev1.PodPending, waiting("ImagePullBackOff", "not found")), nil,
			rayslice.Reason{Code: rayslice.ReasonImagePull, Args: map[string]any{"pod": "w", "image": "ray:1", "container": "ray-worker"}, Detail: "not found"}},
		"B094 killed for memory": {unready(corev1.PodRunning, ended("OOMKilled", 137)), nil,
			rayslice.Reason{Code: rayslice.ReasonOOMKilled, Args: map[string]any{"pod": "w", "container": "ray-worker", "memory": "16Gi"}}},
		"B094 killed for memory, looping": {func(p *corev1.Pod) {
			unready(corev1.PodRunning, waiting("CrashLoopBackOff", "back-off"))(p)
			p.Status.ContainerStatuses[0].LastTerminationState = ended("OOMKilled", 137)
		}, nil, rayslice.Reason{Code: rayslice.ReasonOOMKilled, Args: map[string]any{"pod": "w", "container": "ray-worker", "memory": "16Gi"}}},
		"crash loop": {func(p *corev1.Pod) {
			unready(corev1.PodRunning, waiting("CrashLoopBackOff", "back-off"))(p)
			p.Status.ContainerStatuses[0].RestartCount = 4
			p.Status.ContainerStatuses[0].LastTerminationState = ended("Error", 2)
		}, nil, rayslice.Reason{Code: rayslice.ReasonCrashLoop, Args: map[string]any{"pod": "w", "container": "ray-worker", "restarts": 4, "exit_code": 2}}},
		"cannot start": {unready(corev1.PodPending, waiting("CreateContainerConfigError", "secret \"x\" not found")), nil,
			rayslice.Reason{Code: rayslice.ReasonContainerFailed, Args: map[string]any{"pod": "w", "container": "ray-worker", "what": "CreateContainerConfigError"}, Detail: `secret "x" not found`}},
		"ended": {unready(corev1.PodFailed, ended("Error", 3)), nil,
			rayslice.Reason{Code: rayslice.ReasonContainerExited, Args: map[string]any{"pod": "w", "container": "ray-worker", "exit_code": 3}}},
		"B109 evicted": {func(p *corev1.Pod) {
			unready(corev1.PodFailed, ended("Error", 137))(p)
			p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource: memory."
		}, nil, rayslice.Reason{Code: rayslice.ReasonEvicted, Args: map[string]any{"pod": "w"}, Detail: "The node was low on resource: memory."}},
		"failed without saying more": {func(p *corev1.Pod) {
			unready(corev1.PodFailed, corev1.ContainerState{})(p)
			p.Status.Reason = "NodeLost"
		}, nil, rayslice.Reason{Code: rayslice.ReasonPodFailed, Args: map[string]any{"pod": "w", "what": "NodeLost"}}},
		"init container waits for an image": {func(p *corev1.Pod) {
			unready(corev1.PodPending, waiting("PodInitializing", ""))(p)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "wait-gcs-ready", State: waiting("ErrImagePull", "denied")}}
		}, nil, rayslice.Reason{Code: rayslice.ReasonImagePull, Args: map[string]any{"pod": "w", "image": "?", "container": "wait-gcs-ready"}, Detail: "denied"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, workers := observePods(sighting{pods: views(pod("w", typeWorker, tc.change)), events: tc.events})
			worker := workers[0]
			if diff := cmp.Diff(tc.want, worker.Problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if worker.Ready && !tc.want.IsZero() {
				t.Error("a pod with a problem counts as ready")
			}
		})
	}
}

func TestClusterProblem(t *testing.T) {
	condition := func(message string) func(*rayv1.RayCluster) {
		return func(c *rayv1.RayCluster) {
			c.Status.Conditions = []metav1.Condition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreateWorkerPod", Message: message}}
		}
	}
	touched := func(c *rayv1.RayCluster) { c.Status.ObservedGeneration = 1 }
	head, worker := pod("h", typeHead), pod("w-1", typeWorker)
	quota := `pods "rs-abcdefghijkl-a10-8g-worker-x" is forbidden: exceeded quota: gpu, requested: requests.aliyun.com/gpu-mem=8,pods=1, used: requests.aliyun.com/gpu-mem=16,pods=9, limited: requests.aliyun.com/gpu-mem=20,pods=9`
	cases := map[string]struct {
		seen sighting
		want rayslice.Reason
	}{
		"all there": {sighting{cluster: rayCluster(touched), pods: views(head, worker, pod("w-2", typeWorker)),
			events: []rayslice.Event{warning("RayCluster/rs-abcdefghijkl", "FailedToCreateWorkerPod", "long ago")}}, rayslice.Reason{}},
		"spec refused by KubeRay, in an event only": {sighting{cluster: rayCluster(), events: []rayslice.Event{
			warning("RayCluster/rs-abcdefghijkl", "InvalidRayClusterSpec", "The RayCluster spec is invalid team-vision/rs-abcdefghijkl: headGroupSpec should have at least one container")}},
			rayslice.Reason{Code: rayslice.ReasonInvalidSpec, Detail: "The RayCluster spec is invalid team-vision/rs-abcdefghijkl: headGroupSpec should have at least one container"}},
		"metadata refused by KubeRay": {sighting{cluster: rayCluster(), events: []rayslice.Event{
			warning("RayCluster/rs-abcdefghijkl", "InvalidRayClusterMetadata", "name too long")}},
			rayslice.Reason{Code: rayslice.ReasonInvalidSpec, Detail: "name too long"}},
		"an old refusal, a head since": {sighting{cluster: rayCluster(touched), pods: views(head, worker, pod("w-2", typeWorker)), events: []rayslice.Event{
			warning("RayCluster/rs-abcdefghijkl", "InvalidRayClusterSpec", "old")}}, rayslice.Reason{}},
		"B085 namespace quota, with its numbers": {sighting{cluster: rayCluster(touched, condition(quota)), pods: views(head, worker)},
			rayslice.Reason{Code: rayslice.ReasonNamespaceQuota, Args: map[string]any{"quota": "gpu", "resource": "requests.aliyun.com/gpu-mem", "requested": "8", "used": "16", "limited": "20"}}},
		"B083 namespace rule": {sighting{cluster: rayCluster(touched, condition(`pods "x" is forbidden: failed quota: compute: must specify limits.cpu for: autoscaler`)), pods: views(head)},
			rayslice.Reason{Code: rayslice.ReasonNamespaceRule, Detail: "must specify limits.cpu for: autoscaler"}},
		"KubeRay's own right is missing": {sighting{cluster: rayCluster(touched, condition(`pods is forbidden: User "system:serviceaccount:kuberay:operator" cannot create resource "pods" in API group "" in the namespace "team-vision"`))},
			rayslice.Reason{Code: rayslice.ReasonNotPermitted}},
		"pod cannot be made for another reason": {sighting{cluster: rayCluster(touched, condition("etcdserver: request is too large"))},
			rayslice.Reason{Code: rayslice.ReasonCreateFailed, Detail: "etcdserver: request is too large"}},
		"B007 no worker, one warning": {sighting{cluster: rayCluster(touched), pods: views(head), events: []rayslice.Event{
			warning("RayCluster/rs-abcdefghijkl", "FailedToCreateWorkerPod", "<b>odd</b>\r\nthing")}},
			rayslice.Reason{Code: rayslice.ReasonCreateFailed, Detail: "<b>odd</b> thing"}},
		"B007 no worker, a warning of another kind": {sighting{cluster: rayCluster(touched), pods: views(head), events: []rayslice.Event{
			warning("RayCluster/rs-abcdefghijkl", "OddThing", "<b>odd</b>\r\nthing")}},
			rayslice.Reason{Code: rayslice.ReasonWarning, Args: map[string]any{"event": "OddThing"}, Detail: "<b>odd</b> thing"}},
		"KubeRay does not look at it": {sighting{cluster: rayCluster()},
			rayslice.Reason{Code: rayslice.ReasonOperatorSilent, Args: map[string]any{"minutes": 1}}},
		"B098 KubeRay makes pods of others": {sighting{cluster: rayCluster(), operator: noon.Add(-5 * time.Second)},
			rayslice.Reason{Code: rayslice.ReasonOperatorBusy, Args: map[string]any{"idle": 60, "seconds": 5}}},
		"B098 KubeRay made its last pod before this one came": {sighting{cluster: rayCluster(), operator: noon.Add(-2 * time.Minute)},
			rayslice.Reason{Code: rayslice.ReasonOperatorSilent, Args: map[string]any{"minutes": 1}}},
		"KubeRay has just been told": {sighting{cluster: rayCluster(func(c *rayv1.RayCluster) { c.CreationTimestamp = metav1.NewTime(noon) })}, rayslice.Reason{}},
		"suspended by hand":          {sighting{cluster: rayCluster(touched, func(c *rayv1.RayCluster) { c.Spec.Suspend = new(true) })}, rayslice.Reason{Code: rayslice.ReasonSuspended}},
		"B109 head evicted": {sighting{cluster: rayCluster(touched), pods: views(worker, pod("w-2", typeWorker), pod("h", typeHead, func(p *corev1.Pod) {
			unready(corev1.PodFailed, ended("Error", 137))(p)
			p.Status.Reason = "Evicted"
		}))}, rayslice.Reason{Code: rayslice.ReasonEvicted, Args: map[string]any{"pod": "h"}}},
		"B089 deletion hangs on a finalizer": {sighting{cluster: rayCluster(touched, func(c *rayv1.RayCluster) {
			c.DeletionTimestamp, c.Finalizers = new(metav1.NewTime(noon.Add(-7*time.Minute))), []string{"example.com/never"}
		}), pods: views(head)},
			rayslice.Reason{Code: rayslice.ReasonDeletingSlow, Args: map[string]any{"minutes": 7, "finalizers": "example.com/never"}}},
		"deletion has just begun":   {sighting{cluster: rayCluster(func(c *rayv1.RayCluster) { c.DeletionTimestamp = new(metav1.NewTime(noon)) })}, rayslice.Reason{}},
		"pods outlive the object":   {sighting{pods: views(head, worker)}, rayslice.Reason{Code: rayslice.ReasonPodsRemain, Args: map[string]any{"pods": 2}}},
		"somebody else's object":    {sighting{cluster: rayCluster(condition("x"), func(c *rayv1.RayCluster) { c.Labels = nil })}, rayslice.Reason{}},
		"nothing there, nothing to": {sighting{}, rayslice.Reason{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, observe(twoWorkers(), tc.seen, noon).Problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObservePrefersTheHeadThatStays(t *testing.T) {
	leaving := pod("h-1", typeHead, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) })
	for _, pods := range [][]*corev1.Pod{{leaving, pod("h-2", typeHead)}, {pod("h-2", typeHead), leaving}} {
		if have := observe(twoWorkers(), sighting{cluster: rayCluster(), pods: views(pods...)}, noon); have.Head.Name != "h-2" {
			t.Errorf("head %s, want h-2", have.Head.Name)
		}
	}
}

func TestClean(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain":              {"0/9 nodes are available", "0/9 nodes are available"},
		"lines become one":   {"a\r\n\tb  c\n", "a b c"},
		"escape sequences":   {"\x1b[31mred\x00", "[31mred"},
		"direction marks":    {"abc\u202e\u2066def", "abcdef"},
		"markup stays":       {"<script>", "<script>"},
		"invalid UTF-8":      {"a\xffb", "a\ufffdb"},
		"exactly the length": {strings.Repeat("é", maxText), strings.Repeat("é", maxText)},
		"too long":           {strings.Repeat("é", maxText+1), strings.Repeat("é", maxText) + "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := clean(tc.text); got != tc.want {
				t.Errorf("clean = %q, want %q", got, tc.want)
			}
		})
	}
}
