package web

import (
	"fmt"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// SampleRow returns a request of two 8 GiB slices in the given state, with the cluster that goes with it.
func SampleRow(now time.Time, state rayslice.State) ClusterRow {
	draft := rayslice.RequestDraft{
		Team: "vision", Name: "ablation-7", Purpose: "Ablation of the new loss for the March paper", Hours: 8,
		Head:   rayslice.Head{CPU: 2, MemoryGiB: 8},
		Groups: []rayslice.Group{{Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, CPU: 4, MemoryGiB: 16}},
	}
	draft.Normalize(SampleCatalogue())
	r := rayslice.Request{
		ID: "k5d2m7qxw3ab", Draft: draft, Team: "vision", Namespace: "team-vision", Owner: sampleUser, State: state,
		Charge: draft.Charge(), CreatedAt: now.Add(-2*time.Hour - 12*time.Minute), SentAt: now.Add(-2*time.Hour - 12*time.Minute), StateSince: now.Add(-2 * time.Hour),
	}
	if state == rayslice.StatePending {
		return ClusterRow{Request: r}
	}
	r.DecidedAt = r.CreatedAt.Add(8 * time.Minute)
	if state == rayslice.StateRejected || state == rayslice.StateCancelled {
		return ClusterRow{Request: r}
	}
	r.EndsAt = r.DecidedAt.Add(r.Lifetime())
	r.ClusterUID = "1f2c0d5e"
	return ClusterRow{Request: withTimes(r, now), Cluster: sampleCluster(r, now)}
}

// withTimes fills in when the request was ready and when it stopped, as its state tells.
func withTimes(r rayslice.Request, now time.Time) rayslice.Request {
	switch r.State {
	case rayslice.StateReady, rayslice.StateAttention, rayslice.StateStopping, rayslice.StateStopped:
		r.ReadyAt = r.DecidedAt.Add(41 * time.Second)
	}
	switch r.State {
	case rayslice.StateAttention:
		r.Reason = rayslice.Reason{Code: rayslice.ReasonWorkersLost, Args: Args{"have": 1, "want": 2}}
	case rayslice.StateStopping:
		r.StoppingAt, r.Reason = now.Add(-20*time.Second), rayslice.Reason{Code: rayslice.ReasonStopped, Args: Args{"who": "Lin Wei"}}
	case rayslice.StateStopped:
		r.StoppingAt, r.StoppedAt, r.Reason = now.Add(-40*time.Minute), now.Add(-39*time.Minute), rayslice.Reason{Code: rayslice.ReasonExpired}
	}
	return r
}

func sampleCluster(r rayslice.Request, now time.Time) rayslice.Cluster {
	c := rayslice.Cluster{RequestID: r.ID, ObservedAt: now.Add(-3 * time.Second)}
	if r.State == rayslice.StateApproved || r.State == rayslice.StateStopped {
		return c
	}
	slice := r.Draft.Groups[0].Slice
	c.Exists, c.Ours, c.UID, c.CreatedAt = true, true, "1f2c0d5e", r.DecidedAt
	c.Service = r.ObjectName() + "-head-svc.team-vision.svc"
	c.Head = &rayslice.Worker{Name: r.ObjectName() + "-head-4k2lp", Phase: rayslice.PodRunning, Ready: true, Node: "cn-hangzhou.10.0.1.21"}
	c.Workers = []rayslice.Worker{
		{Name: r.ObjectName() + "-a10-8g-worker-8q9rc", Group: "a10-8g", Phase: rayslice.PodRunning, Ready: true, Node: "cn-hangzhou.10.0.12.34",
			Slice: slice, Placements: []rayslice.Placement{{Card: 0, GiB: 8}}},
		{Name: r.ObjectName() + "-a10-8g-worker-rlmbg", Group: "a10-8g", Phase: rayslice.PodRunning, Ready: true, Node: "cn-hangzhou.10.0.12.35",
			Slice: slice, Placements: []rayslice.Placement{{Card: 3, GiB: 8}}},
	}
	switch r.State {
	case rayslice.StateReady:
		c.HeadAnswers, c.RayVersion = true, "2.52.0"
	case rayslice.StateProvisioning:
		c.Workers[1] = rayslice.Worker{Name: c.Workers[1].Name, Group: "a10-8g", Phase: rayslice.PodPending, Slice: slice}
	case rayslice.StateAttention:
		c.Workers, c.HeadAnswers = c.Workers[:1], true
	case rayslice.StateStopping:
		c.Deleting, c.Head.Deleting, c.Workers[0].Deleting, c.Workers[1].Deleting = true, true, true, true
	}
	return c
}

// requestSample draws a request's page in the given state, changed as the sample wants.
func requestSample(name string, state rayslice.State, change func(*RequestPage)) Sample {
	return Sample{name, func(f Frame) templ.Component {
		row := SampleRow(f.Now, state)
		f.Path = "/clusters/" + row.Request.ID
		p := RequestPage{Frame: f, Request: row.Request, Cluster: row.Cluster, Catalogue: SampleCatalogue(), YAML: sampleYAML, CanStop: state.Stoppable(), Audit: sampleAudit(row.Request)}
		p.Cluster.Events = sampleEvents(f.Now, state)
		p.Way = Way{Host: "https://" + row.Request.ID + ".clusters.example", Portal: "https://rayslice.example", Access: rayslice.AccessFull}
		if change != nil {
			change(&p)
		}
		return RequestView(p)
	}}
}

func sampleAudit(r rayslice.Request) []rayslice.AuditEntry {
	entries := []rayslice.AuditEntry{{At: r.CreatedAt, Actor: "Lin Wei", Action: "create", To: rayslice.StatePending}}
	if !r.DecidedAt.IsZero() && r.State.Live() {
		entries = append([]rayslice.AuditEntry{{At: r.DecidedAt, Actor: "rayslice", Action: "approve", From: rayslice.StatePending,
			To: rayslice.StateApproved, Reason: rayslice.Reason{Code: rayslice.ReasonAutoApproved}}}, entries...)
	}
	if !r.ReadyAt.IsZero() {
		entries = append([]rayslice.AuditEntry{{At: r.ReadyAt, Actor: "rayslice", Action: "transition", From: rayslice.StateProvisioning, To: rayslice.StateReady}}, entries...)
	}
	return entries
}

func sampleEvents(now time.Time, state rayslice.State) []rayslice.Event {
	if state != rayslice.StateReady {
		return nil
	}
	return []rayslice.Event{
		{At: now.Add(-2 * time.Hour), Object: "Pod/rs-k5d2m7qxw3ab-a10-8g-worker-8q9rc", Reason: "Scheduled", Message: "Successfully assigned team-vision/rs-k5d2m7qxw3ab-a10-8g-worker-8q9rc to cn-hangzhou.10.0.12.34", Count: 1},
		{At: now.Add(-2 * time.Hour), Object: "RayCluster/rs-k5d2m7qxw3ab", Reason: "CreatedWorkerPod", Message: "Created worker Pod team-vision/rs-k5d2m7qxw3ab-a10-8g-worker-rlmbg", Count: 2},
	}
}

const unschedulableText = "0/9 nodes are available: 3 Insufficient GPU memory on one device (<b>asked 16</b>), 3 node(s) didn't match Pod's node affinity/selector, 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }. preemption: 0/9 nodes are available."

func requestSamples() []Sample {
	return []Sample{
		requestSample("request-pending", rayslice.StatePending, func(p *RequestPage) {
			p.Request.Reason = rayslice.Reason{Code: rayslice.ReasonNeedsLeadGiB, Args: Args{"asked": 16, "most": 8}}
			p.Deciders, p.CanChange = []string{"Maya Okafor", "Sam Rivera"}, true
		}),
		requestSample("request-approved", rayslice.StateApproved, nil),
		requestSample("request-provisioning", rayslice.StateProvisioning, nil),
		requestSample("request-unschedulable", rayslice.StateProvisioning, unschedulable),
		requestSample("request-waiting-one", rayslice.StateProvisioning, waitingForImage),
		requestSample("request-waiting-many", rayslice.StateProvisioning, waitingForMany),
		requestSample("request-waiting-hostile", rayslice.StateProvisioning, waitingHostile),
		requestSample("request-waiting-long", rayslice.StateProvisioning, waitingLong),
		requestSample("request-waiting-operator", rayslice.StateProvisioning, waitingForOperator),
		requestSample("request-unseen", rayslice.StateProvisioning, func(p *RequestPage) {
			p.Cluster, p.DataUnknown = rayslice.Cluster{}, true
		}),
		requestSample("request-ready", rayslice.StateReady, nil),
		requestSample("request-view-only", rayslice.StateReady, func(p *RequestPage) { p.Way.Access, p.CanStop = rayslice.AccessView, false }),
		requestSample("request-this-machine", rayslice.StateReady, func(p *RequestPage) {
			p.Way.Host, p.Way.Portal = "http://"+p.Request.ID+".clusters.localhost:8080", "http://127.0.0.1:8080"
		}),
		requestSample("request-no-way", rayslice.StateReady, func(p *RequestPage) { p.Way = Way{} }),
		requestSample("request-mixed", rayslice.StateReady, mixed),
		requestSample("request-names", rayslice.StateReady, func(p *RequestPage) {
			p.Request.Draft.Name, p.Request.Owner.Name = "🚀 تجربة <script>alert(1)</script> 消融实验 "+manyRows(p.Now)[1].Request.Draft.Name[:30], "نور الهدى"
			p.Request.Draft.Purpose = "مقارنة دالة الخسارة الجديدة"
		}),
		requestSample("request-many-workers", rayslice.StateProvisioning, manyWorkers),
		requestSample("request-attention", rayslice.StateAttention, nil),
		requestSample("request-invalid-spec", rayslice.StateAttention, invalidSpec),
		requestSample("request-drift", rayslice.StateReady, drifted),
		requestSample("request-unguarded", rayslice.StateReady, unguarded),
		requestSample("request-confirm-stop", rayslice.StateReady, func(p *RequestPage) { p.ConfirmStop = true }),
		requestSample("request-stopping", rayslice.StateStopping, nil),
		requestSample("request-stopping-stuck", rayslice.StateStopping, stuck),
		requestSample("request-stopped", rayslice.StateStopped, func(p *RequestPage) { p.YAML = "" }),
		requestSample("request-rejected", rayslice.StateRejected, nil),
		requestSample("request-cancelled", rayslice.StateCancelled, nil),
		requestSample("request-stale", rayslice.StateReady, func(p *RequestPage) {
			p.DataAge, p.Cluster.ObservedAt = 12*time.Minute, p.Now.Add(-12*time.Minute)
			p.Problems = []rayslice.Reason{{Code: "kuberay_missing"}}
			p.CanStop = false
		}),
	}
}

func unschedulable(p *RequestPage) {
	reason := rayslice.Reason{Code: "unschedulable", Args: Args{"pod": p.Cluster.Workers[1].Name}, Detail: unschedulableText}
	p.Cluster.Problem, p.Cluster.Workers[1].Problem = reason, reason
	p.Cluster.Events = []rayslice.Event{{At: p.Now.Add(-time.Minute), Warning: true, Object: "Pod/" + p.Cluster.Workers[1].Name,
		Reason: "FailedScheduling", Message: unschedulableText, Count: 7}}
}

// mixed has slices, whole cards, CPU workers, a card nobody knows and a pod that was restarted.
func mixed(p *RequestPage) {
	p.Request.Draft.Groups = append(p.Request.Draft.Groups,
		rayslice.Group{Name: "a100-x2", Slice: rayslice.Slice{Pool: "a100", Cards: 2}, Workers: 1, MinWorkers: 1, MaxWorkers: 1},
		rayslice.Group{Name: "a10c-8g", Slice: rayslice.Slice{Pool: "a10c", GiB: 8, CorePercent: 50, Cards: 1}, Workers: 1, MinWorkers: 0, MaxWorkers: 4},
		rayslice.Group{Name: "cpu", Workers: 1, MinWorkers: 1, MaxWorkers: 1})
	p.Request.Charge = p.Request.Draft.Charge()
	p.Cluster.Workers[1].Placements = nil
	p.Cluster.Workers[1].Restarts = 2
	node := "cn-hangzhou.10.0.12.40"
	p.Cluster.Workers = append(p.Cluster.Workers,
		rayslice.Worker{Name: "rs-k5d2m7qxw3ab-a100-x2-worker-zzk2p", Group: "a100-x2", Phase: rayslice.PodRunning, Ready: true, Node: node,
			Slice: rayslice.Slice{Pool: "a100", Cards: 2}, Placements: []rayslice.Placement{{Card: 1}, {Card: 6}}},
		rayslice.Worker{Name: "rs-k5d2m7qxw3ab-a10c-8g-worker-m4x9d", Group: "a10c-8g", Phase: rayslice.PodFailed, Node: node,
			Slice: rayslice.Slice{Pool: "a10c", GiB: 8, CorePercent: 50, Cards: 1}, Problem: rayslice.Reason{Code: "oom_killed", Args: Args{"memory": "16Gi"}}},
		rayslice.Worker{Name: "rs-k5d2m7qxw3ab-cpu-worker-p2v7n", Group: "cpu", Phase: rayslice.PodRunning, Ready: true, Node: "cn-hangzhou.10.0.1.22"})
}

func manyWorkers(p *RequestPage) {
	group := &p.Request.Draft.Groups[0]
	group.Workers, group.MinWorkers, group.MaxWorkers = 200, 200, 200
	one := p.Cluster.Workers[0]
	p.Cluster.Workers = nil
	for i := range 200 {
		w := one
		w.Name = fmt.Sprintf("%s-%03d", one.Name, i)
		w.Ready = i%50 != 49
		p.Cluster.Workers = append(p.Cluster.Workers, w)
	}
}

func invalidSpec(p *RequestPage) {
	p.Request.Reason = rayslice.Reason{Code: rayslice.ReasonInvalidSpec, Detail: "The RayCluster spec is invalid: workerGroupSpec[0] <img src=x onerror=alert(1)> should have at least one container"}
	p.Request.ReadyAt = time.Time{}
	p.Cluster.Head, p.Cluster.Workers, p.Cluster.Service = nil, nil, ""
}

func drifted(p *RequestPage) {
	p.Cluster.Drift = []rayslice.Drift{
		{Field: "spec.workerGroupSpecs[0].template.spec.containers[0].resources.limits[aliyun.com/gpu-mem]", Approved: "8", Observed: "16", Manager: "kubectl-edit"},
		{Field: "spec.workerGroupSpecs[0].maxReplicas", Approved: "2", Observed: "8"},
	}
	p.Cluster.Workers[1].Slice.GiB = 16
}

func unguarded(p *RequestPage) {
	p.Cluster.Unguarded = rayslice.Reason{Code: "unguarded_rights"}
}

func stuck(p *RequestPage) {
	p.Request.StoppingAt = p.Now.Add(-26 * time.Minute)
	p.Cluster.Head = nil
	p.Cluster.Workers = p.Cluster.Workers[:1]
	p.Request.Reason = rayslice.Reason{Code: rayslice.ReasonExpired}
}
