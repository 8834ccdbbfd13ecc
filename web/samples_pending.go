package web

import (
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// workerWarns adds a warning about the second worker, which happened so often over the last quarter of an hour.
func workerWarns(p *RequestPage, reason, message string, count int) {
	p.Cluster.Events = append(p.Cluster.Events, rayslice.Event{At: p.Now.Add(-20 * time.Second), First: p.Now.Add(-15 * time.Minute), Warning: true,
		Object: "Pod/" + p.Cluster.Workers[1].Name, Reason: reason, Message: message, Count: count})
}

func startedWorker(p *RequestPage) {
	p.Cluster.Events = append(p.Cluster.Events, rayslice.Event{At: p.Now.Add(-16 * time.Minute), Object: "RayCluster/" + p.Request.ObjectName(),
		Reason: "CreatedWorkerPod", Message: "Created worker Pod team-vision/" + p.Cluster.Workers[1].Name, Count: 2})
	p.Cluster.Workers[1].CreatedAt = p.Now.Add(-16 * time.Minute)
}

func waitingForImage(p *RequestPage) {
	const message = "Failed to pull image \"registry.example.com/team/ray:2.52-cu12\": manifest unknown"
	p.Cluster.Workers[1].Node = "cn-hangzhou.10.0.12.35"
	p.Cluster.Workers[1].Problem = rayslice.Reason{Code: rayslice.ReasonImagePull, Detail: message,
		Args: Args{"pod": p.Cluster.Workers[1].Name, "image": "registry.example.com/team/ray:2.52-cu12", "container": "ray-worker"}}
	p.Cluster.Problem = p.Cluster.Workers[1].Problem
	workerWarns(p, "Failed", message, 6)
	startedWorker(p)
}

// waitingForMany has conditions for whoever asked, for a lead and for an administrator.
func waitingForMany(p *RequestPage) {
	const message = "0/9 nodes are available: 1 Insufficient cpu, 2 Insufficient GPU Memory in one device, 1 The number of pods per gpu device has reached the maximum allowed, 4 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable. preemption: 0/9 nodes are available."
	p.Cluster.Workers[1].Problem = rayslice.Reason{Code: rayslice.ReasonUnschedulable, Args: Args{"pod": p.Cluster.Workers[1].Name}, Detail: message}
	second := p.Cluster.Workers[1]
	second.Name += "2"
	p.Cluster.Workers = append(p.Cluster.Workers, second)
	group := &p.Request.Draft.Groups[0]
	group.Workers, group.MinWorkers, group.MaxWorkers = 4, 4, 4
	p.Cluster.Conditions = []rayslice.KubeRayCondition{{Type: "ReplicaFailure", True: true, Reason: "FailedCreateWorkerPod", At: p.Now.Add(-9 * time.Minute),
		Message: `pods "rs-k5d2m7qxw3ab-a10-8g-worker-9xk2p" is forbidden: exceeded quota: rayslice, requested: requests.aliyun.com/gpu-mem=8, used: requests.aliyun.com/gpu-mem=72, limited: requests.aliyun.com/gpu-mem=72`}}
	workerWarns(p, "FailedScheduling", message, 31)
	p.Cluster.Events = append(p.Cluster.Events, rayslice.Event{At: p.Now.Add(-time.Minute), First: p.Now.Add(-9 * time.Minute), Warning: true,
		Object: "RayCluster/" + p.Request.ObjectName(), Reason: "FailedToCreateWorkerPod", Message: p.Cluster.Conditions[0].Message, Count: 12})
	startedWorker(p)
}

func waitingHostile(p *RequestPage) {
	workerWarns(p, "<img src=x>", "<script>alert(1)</script> \u202egnp.exe & \"quotes\"", 1)
	p.Cluster.Workers[1].Node = "cn-hangzhou.10.0.12.35"
}

func waitingLong(p *RequestPage) {
	p.Cluster.Workers[1].Node = "cn-hangzhou.10.0.12.35"
	workerWarns(p, "FailedMount", strings.Repeat("MountVolume.SetUp_failed_for_volume_that_has_a_very_long_name_", 40), 1200)
}

// waitingForOperator is a cluster that KubeRay has not come to, as it works on another.
func waitingForOperator(p *RequestPage) {
	p.Cluster.Head, p.Cluster.Workers, p.Cluster.Events = nil, nil, nil
	p.Cluster.CreatedAt, p.Cluster.OperatorAt = p.Now.Add(-4*time.Minute), p.Now.Add(-3*time.Second)
}
