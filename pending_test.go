package rayslice

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var pendingNow = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// pendingRequest is approved for two slices of 8 GiB, ten minutes ago.
func pendingRequest(state State, change ...func(*Request)) Request {
	r := Request{
		ID: "abcdefghijkl", State: state, Charge: Charge{GiB: 16}, SentAt: pendingNow.Add(-20 * time.Minute), DecidedAt: pendingNow.Add(-10 * time.Minute),
		StateSince: pendingNow.Add(-9 * time.Minute), StoppingAt: pendingNow.Add(-8 * time.Minute),
		Draft: RequestDraft{Groups: []Group{{Name: "a10-8g", Slice: Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, MinWorkers: 2, MaxWorkers: 2}}},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

// pendingCluster has a head that runs, and two workers that wait for a node.
func pendingCluster(change ...func(*Cluster)) Cluster {
	waiting := func(name string) Worker {
		return Worker{Name: name, Group: "a10-8g", Phase: PodPending, CreatedAt: pendingNow.Add(-7 * time.Minute)}
	}
	c := Cluster{
		RequestID: "abcdefghijkl", ObservedAt: pendingNow, Exists: true, Ours: true, CreatedAt: pendingNow.Add(-8 * time.Minute), Touched: true,
		Head:    &Worker{Name: "h", Phase: PodRunning, Ready: true, CreatedAt: pendingNow.Add(-8 * time.Minute)},
		Workers: []Worker{waiting("w-1"), waiting("w-2")},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// unplaced gives every worker the scheduler's message.
func unplaced(message string) func(*Cluster) {
	return func(c *Cluster) {
		for i := range c.Workers {
			c.Workers[i].Problem = Reason{Code: ReasonUnschedulable, Args: map[string]any{"pod": c.Workers[i].Name}, Detail: message}
		}
		c.Problem = c.Workers[0].Problem
	}
}

// broken gives the first worker a problem, once it has a node.
func broken(reason Reason) func(*Cluster) {
	return func(c *Cluster) {
		reason.Args = map[string]any{"pod": "w-1"}
		c.Workers[0].Node, c.Workers[0].Problem, c.Problem = "gpu-1", reason, reason
		c.Workers[1].Ready = true
	}
}

func warned(object, reason, message string) func(*Cluster) {
	return func(c *Cluster) {
		c.Events = append(c.Events, Event{At: pendingNow.Add(-time.Minute), First: pendingNow.Add(-5 * time.Minute), Warning: true, Object: object, Reason: reason, Message: message, Count: 3})
	}
}

func noWorkers(c *Cluster) { c.Workers = nil }
func noPods(c *Cluster)    { c.Head, c.Workers = nil, nil }

func replicaFailure(message string) func(*Cluster) {
	return func(c *Cluster) {
		c.Conditions = append(c.Conditions, KubeRayCondition{Type: "ReplicaFailure", True: true, Reason: "FailedCreateWorkerPod", Message: message, At: pendingNow.Add(-5 * time.Minute)})
	}
}

// brief is a condition as the table below writes it: code, pods, who, next.
type brief struct {
	Code string
	Pods int
	Who  Party
	Next Next
}

func briefly(conditions []Condition) []brief {
	var out []brief
	for _, c := range conditions {
		out = append(out, brief{c.Reason.Code, c.Pods, c.Who, c.Next})
	}
	return out
}

// TestExplain is the table of what was recorded on clusters, and what it means.
func TestExplain(t *testing.T) {
	const (
		full    = "0/6 nodes are available: 1 Insufficient aliyun.com/gpu-mem, 2 Insufficient GPU Memory in one device, 2 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }. preemption: 0/6 nodes are available: 3 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
		quota   = `pods "rs-abcdefghijkl-a10-8g-worker-x" is forbidden: exceeded quota: gpu, requested: requests.aliyun.com/gpu-mem=8, used: requests.aliyun.com/gpu-mem=139, limited: requests.aliyun.com/gpu-mem=140`
		limits  = `pods "x" is forbidden: failed quota: compute: must specify limits.cpu for: autoscaler`
		noStamp = "invalid allocation requst: request GPU memory 8 can't be satisfied: no assume timestamp"
		noCard  = "failed to create shim task: unknown device id: no-gpu-has-8GiB-to-run"
	)
	cases := map[string]struct {
		request  Request
		cluster  Cluster
		problems []Reason
		stage    Stage
		since    time.Duration // ago
		want     []brief
	}{
		"a lead has to decide": {pendingRequest(StatePending, func(r *Request) { r.Reason = Reason{Code: ReasonNeedsLeadGiB} }), Cluster{}, nil,
			StageDecision, 20 * time.Minute, []brief{{ReasonNeedsLeadGiB, 0, PartyLead, NextDecide}}},
		"a lead asked back": {pendingRequest(StateReturned, func(r *Request) { r.Reason = Reason{Code: ReasonAskedBack} }), Cluster{}, nil,
			StageAnswer, 9 * time.Minute, []brief{{ReasonAskedBack, 0, PartyOwner, NextAnswer}}},
		"just approved":          {pendingRequest(StateApproved, func(r *Request) { r.Reason = Reason{Code: ReasonAutoApproved} }), Cluster{}, nil, StageCreate, 10 * time.Minute, nil},
		"KubeRay is not there":   {pendingRequest(StateApproved), Cluster{}, []Reason{{Code: ReasonKubeRayMissing}}, StageCreate, 10 * time.Minute, []brief{{ReasonKubeRayMissing, 0, PartyAdmin, NextKubeRay}}},
		"nothing was read yet":   {pendingRequest(StateProvisioning), Cluster{}, nil, StageUnseen, 9 * time.Minute, nil},
		"the API server refused": {pendingRequest(StateAttention, func(r *Request) { r.Reason = Reason{Code: ReasonNamespaceQuota} }), Cluster{}, nil, StageCreate, 10 * time.Minute, []brief{{ReasonNamespaceQuota, 0, PartyAdmin, NextQuota}}},
		"somebody's object has the name": {pendingRequest(StateAttention, func(r *Request) { r.Reason = Reason{Code: ReasonNameTaken} }), pendingCluster(func(c *Cluster) { c.Ours = false }, noPods), nil,
			StageCreate, 10 * time.Minute, []brief{{ReasonNameTaken, 0, PartyAdmin, NextRemove}}},
		"B098 the operator is busy": {pendingRequest(StateProvisioning), pendingCluster(noPods, func(c *Cluster) { c.Touched, c.OperatorAt = false, pendingNow.Add(-4*time.Second) }), nil,
			StageOperator, 8 * time.Minute, []brief{{ReasonOperatorBusy, 0, PartyNobody, NextWait}}},
		"B098 the operator is silent": {pendingRequest(StateProvisioning), pendingCluster(noPods, func(c *Cluster) { c.Touched, c.OperatorAt = false, pendingNow.Add(-30*time.Minute) }), nil,
			StageOperator, 8 * time.Minute, []brief{{ReasonOperatorSilent, 0, PartyAdmin, NextKubeRay}}},
		"B100 no workers after an update of KubeRay": {pendingRequest(StateProvisioning), pendingCluster(noPods, func(c *Cluster) { c.Touched = false }), []Reason{{Code: ReasonKubeRayVersion}},
			StageOperator, 8 * time.Minute, []brief{{ReasonOperatorSilent, 0, PartyAdmin, NextKubeRay}, {ReasonKubeRayVersion, 0, PartyAdmin, NextKubeRay}}},
		"B007 an event says why there are no workers": {pendingRequest(StateProvisioning), pendingCluster(noWorkers, warned("RayCluster/rs-abcdefghijkl", "FailedToCreateWorkerPod", "Failed to create worker Pod: odd")), nil,
			StageWorkers, 8 * time.Minute, []brief{{ReasonCreateFailed, 0, PartyAdmin, NextShow}}},
		"spec refused": {pendingRequest(StateAttention, func(r *Request) { r.Reason = Reason{Code: ReasonInvalidSpec} }), pendingCluster(noPods, warned("RayCluster/rs-abcdefghijkl", "InvalidRayClusterSpec", "The RayCluster spec is invalid")), nil,
			StageOperator, 8 * time.Minute, []brief{{ReasonInvalidSpec, 0, PartyOwner, NextAgain}}},
		"full cards, and nodes of others": {pendingRequest(StateProvisioning), pendingCluster(unplaced(full)), nil, StageWorkers, 7 * time.Minute, []brief{
			{ReasonRoomNode, 2, PartyOwner, NextRoom}, {ReasonRoomCard, 2, PartyOwner, NextRoom}, {ReasonNodesOther, 2, PartyNobody, NextWait}, {ReasonNodesTainted, 2, PartyAdmin, NextNodes}}},
		"no node of the pool": {pendingRequest(StateProvisioning), pendingCluster(unplaced("0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.")), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonNodesOther, 2, PartyAdmin, NextNodes}}},
		"B085 quota, and another pod waits": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers = c.Workers[:1] }, unplaced("0/1 nodes are available: 1 Insufficient cpu."), replicaFailure(quota)), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonNamespaceQuota, 0, PartyAdmin, NextQuota}, {ReasonRoomCPU, 1, PartyOwner, NextRoom}}},
		"the portal's own quota": {pendingRequest(StateProvisioning), pendingCluster(noWorkers, replicaFailure(strings.Replace(quota, "quota: gpu", "quota: rayslice", 1))), nil,
			StageWorkers, 8 * time.Minute, []brief{{ReasonTeamQuotaFull, 0, PartyLead, NextTeamQuota}}},
		"B083 a rule of the namespace": {pendingRequest(StateProvisioning), pendingCluster(noWorkers, replicaFailure(limits)), nil,
			StageWorkers, 8 * time.Minute, []brief{{ReasonNamespaceRule, 0, PartyAdmin, NextRule}}},
		"the same in an event only": {pendingRequest(StateProvisioning), pendingCluster(noWorkers, warned("RayCluster/rs-abcdefghijkl", "FailedToCreateWorkerPod", limits)), nil,
			StageWorkers, 8 * time.Minute, []brief{{ReasonNamespaceRule, 0, PartyAdmin, NextRule}}},
		"B028 the scheduler's stamp is missing": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[1].Ready = true }, warned("Pod/w-1", "UnexpectedAdmissionError", noStamp)), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonShareUnplaced, 1, PartyAdmin, NextScheduler}}},
		"B029 the race for a card was lost": {pendingRequest(StateProvisioning), pendingCluster(broken(Reason{Code: ReasonCardRace, Detail: noCard})), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonCardRace, 1, PartyOwner, NextAgain}}},
		"image": {pendingRequest(StateProvisioning), pendingCluster(broken(Reason{Code: ReasonImagePull, Detail: "ErrImagePull"}), warned("Pod/w-1", "Failed", `Failed to pull image "ray:none": not found`)), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonImagePull, 1, PartyOwner, NextImage}}},
		"B094 killed for memory": {pendingRequest(StateProvisioning), pendingCluster(broken(Reason{Code: ReasonOOMKilled})), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonOOMKilled, 1, PartyOwner, NextMemory}}},
		"B109 the head was evicted": {pendingRequest(StateAttention, func(r *Request) { r.ReadyAt, r.Reason = pendingNow.Add(-time.Hour), Reason{Code: ReasonEvicted} }),
			pendingCluster(func(c *Cluster) {
				c.Head.Ready, c.Head.Problem = false, Reason{Code: ReasonEvicted, Args: map[string]any{"pod": "h"}}
				c.Workers = nil
			}), nil, StageHead, 9 * time.Minute, []brief{{ReasonEvicted, 1, PartyNobody, NextWait}}},
		"a volume": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[0].Node, c.Workers[1].Ready = "gpu-1", true }, warned("Pod/w-1", "FailedMount", `MountVolume.SetUp failed for volume "data"`)), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonVolume, 1, PartyAdmin, NextVolume}}},
		"the driver is lost": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[0].Node, c.Workers[1].Ready = "gpu-1", true }, warned("Pod/w-1", "Unhealthy", "Failed to initialize NVML: Unknown Error")), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonNVMLLost, 1, PartyOwner, NextAgain}}},
		"no share scheduler": {pendingRequest(StateProvisioning), pendingCluster(), []Reason{{Code: ReasonNoShareScheduler}},
			StageWorkers, 7 * time.Minute, []brief{{ReasonNoShareScheduler, 0, PartyAdmin, NextScheduler}}},
		"KubeRay on the head": {pendingRequest(StateProvisioning), pendingCluster(noWorkers, func(c *Cluster) {
			c.Head.Ready = false
			c.Conditions = []KubeRayCondition{{Type: "HeadPodReady", Reason: "ContainersNotReady", Message: "containers with unready status: [ray-head]", At: pendingNow}}
		}), nil, StageHead, 8 * time.Minute, []brief{{ReasonHeadCondition, 0, PartyNobody, NextWait}}},
		"an event about a pod that is placed since": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[0].Node, c.Workers[1].Ready = "gpu-1", true }, warned("Pod/w-1", "FailedScheduling", full), warned("Pod/w-2", "FailedMount", "x")), nil,
			StageWorkers, 7 * time.Minute, nil},
		"what nobody knows": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[1].Ready = true }, warned("Pod/w-1", "Odd", "<script>alert(1)</script>")), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonWarning, 1, PartyAdmin, NextShow}}},
		"somebody changed it": {pendingRequest(StateProvisioning), pendingCluster(unplaced("0/1 nodes are available: 1 Insufficient cpu."), func(c *Cluster) { c.Drift = []Drift{{Field: "spec.suspend"}} }), nil,
			StageWorkers, 7 * time.Minute, []brief{{ReasonRoomCPU, 2, PartyOwner, NextRoom}, {ReasonDrifted, 0, PartyAdmin, NextShow}}},
		"Ray does not answer": {pendingRequest(StateProvisioning), pendingCluster(func(c *Cluster) { c.Workers[0].Ready, c.Workers[1].Ready = true, true }), nil, StageRay, 9 * time.Minute, nil},
		"B089 its deletion hangs": {pendingRequest(StateStopping), pendingCluster(func(c *Cluster) { c.Deleting, c.Problem = true, Reason{Code: ReasonDeletingSlow} }), nil,
			StageStopping, 8 * time.Minute, []brief{{ReasonDeletingSlow, 0, PartyAdmin, NextRemove}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Explain(tc.request, tc.cluster, tc.problems, pendingNow)
			if got.Stage != tc.stage || !got.Since.Equal(pendingNow.Add(-tc.since)) {
				t.Errorf("stage %s since %v ago, want %s since %v", got.Stage, pendingNow.Sub(got.Since), tc.stage, tc.since)
			}
			if diff := cmp.Diff(tc.want, briefly(got.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainNothing(t *testing.T) {
	for _, state := range []State{StateReady, StateStopped, StateRejected, StateCancelled} {
		if got := Explain(pendingRequest(state), pendingCluster(unplaced("x")), []Reason{{Code: ReasonKubeRayMissing}}, pendingNow); got.Stage != "" || len(got.Conditions) > 0 {
			t.Errorf("%s waits for %+v", state, got)
		}
	}
}

func TestReadUnschedulable(t *testing.T) {
	nodes := func(n int) map[string]any { return map[string]any{"nodes": n} }
	cases := map[string]struct {
		text string
		want []Reason
	}{
		"one group": {"0/6 nodes are available: 6 Insufficient aliyun.com/gpu-mem.", []Reason{{ReasonRoomNode, nodes(6), "6 Insufficient aliyun.com/gpu-mem"}}},
		"taints with commas": {"0/3 nodes are available: 2 node(s) had untolerated taint {a: b, c}, 1 Insufficient memory. preemption: not helpful", []Reason{
			{ReasonNodesTainted, nodes(2), "2 node(s) had untolerated taint {a: b, c}"}, {ReasonRoomMemory, nodes(1), "1 Insufficient memory"}}},
		"share scheduler": {"0/5 nodes are available: 1 Insufficient GPU Core in one device, 1 The number of pods per gpu device has reached the maximum allowed, 3 node(s) owns gpu resources are not matched that pod requests.", []Reason{
			{ReasonRoomCore, nodes(1), "1 Insufficient GPU Core in one device"}, {ReasonRoomPods, nodes(1), "1 The number of pods per gpu device has reached the maximum allowed"},
			{ReasonNodesKind, nodes(3), "3 node(s) owns gpu resources are not matched that pod requests"}}},
		"before any node":      {"The requested gpu resource types should be consistent for all containers", []Reason{{ReasonMixedKinds, map[string]any{}, "The requested gpu resource types should be consistent for all containers"}}},
		"another resource":     {"0/1 nodes are available: 1 Insufficient ephemeral-storage.", []Reason{{ReasonRoomOther, map[string]any{"nodes": 1, "resource": "ephemeral-storage"}, "1 Insufficient ephemeral-storage"}}},
		"whole cards":          {"0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", []Reason{{ReasonRoomCards, nodes(1), "1 Insufficient nvidia.com/gpu"}}},
		"gates":                {"Scheduling is blocked due to non-empty scheduling gates", []Reason{{ReasonGated, map[string]any{}, "Scheduling is blocked due to non-empty scheduling gates"}}},
		"none at all":          {"no nodes available to schedule pods", []Reason{{ReasonNoNodes, map[string]any{}, "no nodes available to schedule pods"}}},
		"a group nobody knows": {"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were <b>odd</b>.", []Reason{{ReasonRoomCPU, nodes(1), "1 Insufficient cpu"}, {ReasonNodesUnknown, nodes(1), "1 node(s) were <b>odd</b>"}}},
		"nothing legible":      {"running PreBind plugin: <script>", []Reason{{Code: ReasonUnschedulable, Detail: "running PreBind plugin: <script>"}}},
		"nothing":              {"", []Reason{{Code: ReasonUnschedulable}}},
		"B028 no stamp":        {"no assume timestamp", []Reason{{Code: ReasonShareUnplaced, Detail: "no assume timestamp"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ReadUnschedulable(tc.text)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttemptsAreTakenTogether(t *testing.T) {
	at := func(minutes int) time.Time { return pendingNow.Add(time.Duration(minutes) * time.Minute) }
	got := attempts([]Event{
		{At: at(-1), First: at(-9), Warning: true, Object: "Pod/w-1", Reason: "FailedScheduling", Message: "latest", Count: 4},
		{At: at(-2), Warning: true, Object: "Pod/w-2", Reason: "FailedScheduling", Message: "older", Count: 0},
		{At: at(-10), Object: "RayCluster/rs", Reason: "CreatedHeadPod", Message: "made", Count: 1},
	})
	want := []Attempt{
		{First: at(-10), Last: at(-10), Kind: "RayCluster", Objects: 1, Reason: "CreatedHeadPod", Message: "made", Count: 1},
		{First: at(-9), Last: at(-1), Warning: true, Kind: "Pod", Objects: 2, Reason: "FailedScheduling", Message: "latest", Count: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// FuzzReadUnschedulable: whatever a scheduler says, something is said, and no text is lost.
func FuzzReadUnschedulable(f *testing.F) {
	f.Add("0/6 nodes are available: 3 Insufficient aliyun.com/gpu-mem, 2 node(s) had untolerated taint {a: b}.")
	f.Add(", 1 , 2 x")
	f.Fuzz(func(t *testing.T, text string) {
		parts := ReadUnschedulable(text)
		if len(parts) == 0 {
			t.Fatal("nothing is said")
		}
		for _, p := range parts {
			if p.Code == "" || (p.Detail == "" && strings.TrimSpace(text) != "" && len(parts) == 1) {
				t.Errorf("%q became %+v", text, parts)
			}
		}
	})
}
