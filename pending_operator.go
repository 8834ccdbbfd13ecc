package rayslice

import "time"

const (
	operatorLimit = 30 * time.Second // KubeRay touches a new RayCluster within a second or two, unless it is busy or away
	operatorBusy  = 3 * time.Minute  // having made a pod so lately it is at work; reports may be a minute old
)

// OperatorProblem says that KubeRay has not gone on with a cluster whose pods are missing: because it makes pods of other
// clusters, as it does for minutes after one large scale-up (ray-project/kuberay#3909), or because nothing is heard of it at
// all. Zero when no pod is missing, when it has just done something, or when it has looked at the cluster and there is no sign
// of other work.
func OperatorProblem(request Request, have Cluster, now time.Time) Reason {
	if !have.Exists || have.Deleting || !podsMissing(request, have) {
		return Reason{}
	}
	progress := lastProgress(have)
	idle, since := now.Sub(progress), now.Sub(have.OperatorAt)
	switch {
	case idle < operatorLimit:
		return Reason{}
	case have.OperatorAt.After(progress) && since < operatorBusy:
		return Reason{Code: ReasonOperatorBusy, Args: map[string]any{"idle": int(idle.Seconds()), "seconds": int(max(0, since).Seconds())}}
	case have.Touched || have.Pods() > 0 || len(have.Events) > 0:
		return Reason{}
	}
	return Reason{Code: ReasonOperatorSilent, Args: map[string]any{"minutes": int(idle.Minutes())}}
}

// lastProgress returns when something last happened to the cluster.
func lastProgress(have Cluster) time.Time {
	last := have.CreatedAt
	note := func(t time.Time) {
		if t.After(last) {
			last = t
		}
	}
	if have.Head != nil {
		note(have.Head.CreatedAt)
	}
	for _, w := range have.Workers {
		note(w.CreatedAt)
	}
	for _, c := range have.Conditions {
		note(c.At)
	}
	for _, e := range have.Events {
		note(e.At)
	}
	return last
}
