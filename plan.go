package rayslice

import "time"

// Action is the one thing the reconciler does next.
type Action string

// The actions of a Step.
const (
	ActionNone    Action = "none"    // nothing to do now
	ActionConfirm Action = "confirm" // the caches say the object is absent: read it live, then plan again
	ActionApply   Action = "apply"   // apply the RayCluster, then move to To
	ActionDelete  Action = "delete"  // delete the RayCluster
	ActionMove    Action = "move"    // only the request's state changes, to To
)

// A Step is what Plan decides.
type Step struct {
	Action Action
	To     State         // for apply and move
	Reason Reason        // recorded with the move
	After  time.Duration // look again after this time even when nothing happens; 0 = no need
}

// ProvisioningLimit is how long a cluster may provision before it needs attention.
const ProvisioningLimit = 10 * time.Minute

// Codes of reasons that Plan gives; the sentences stand in the catalogues as reason_<code>.
const (
	ReasonExpired      = "expired"       // its end has come
	ReasonGoneOutside  = "gone_outside"  // somebody deleted the RayCluster by hand
	ReasonNameTaken    = "name_taken"    // an object that is not ours has the name
	ReasonStuck        = "stuck"         // not ready within ProvisioningLimit
	ReasonHeadMute     = "head_mute"     // every pod is ready, but the head never answered
	ReasonHeadLost     = "head_lost"     // was ready, the head pod is gone or not ready
	ReasonHeadSilent   = "head_silent"   // was ready, the head no longer answers
	ReasonWorkersLost  = "workers_lost"  // was ready, has fewer workers now
	ReasonMoreWorkers  = "more_workers"  // more pods than approved (ray-project/kuberay#560)
	ReasonInvalidSpec  = "invalid_spec"  // KubeRay refuses the spec
	ReasonStopped      = "stopped_by"    // a person stopped it; Args: who
	ReasonAutoApproved = "auto_approved" // within quota and rules
)

// Plan decides the next step of one request from what is wanted, what exists and the time. It is pure: the same
// input gives the same step, and doing a step twice is harmless.
func Plan(request Request, have Cluster, now time.Time) Step {
	switch {
	case request.State.Open():
		return Step{Action: ActionNone}
	case request.State.Final():
		return planGone(have)
	case request.State == StateStopping:
		return planStopping(have)
	case !now.Before(request.EndsAt):
		return Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonExpired}}
	}
	step := planLive(request, have, now)
	if left := request.EndsAt.Sub(now); step.After == 0 || step.After > left {
		step.After = left
	}
	return step
}

// planGone removes what a cancelled or stopped request may still have left behind.
func planGone(have Cluster) Step {
	if have.Exists && have.Ours && !have.Deleting {
		return Step{Action: ActionDelete}
	}
	return Step{Action: ActionNone}
}

// planStopping deletes, and calls it stopped only when the object and its pods are confirmed gone.
func planStopping(have Cluster) Step {
	switch {
	case have.Exists && have.Ours && !have.Deleting:
		return Step{Action: ActionDelete}
	case have.Exists && have.Ours, have.Pods() > 0:
		return Step{Action: ActionNone}
	case !have.Confirmed:
		return Step{Action: ActionConfirm}
	}
	return Step{Action: ActionMove, To: StateStopped}
}

func planLive(request Request, have Cluster, now time.Time) Step {
	switch {
	case have.Exists && !have.Ours:
		return attention(request, Reason{Code: ReasonNameTaken})
	case !have.Exists && !have.Confirmed:
		return Step{Action: ActionConfirm}
	case !have.Exists && wasSeen(request):
		return Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonGoneOutside}}
	case !have.Exists:
		return Step{Action: ActionApply, To: StateProvisioning}
	case have.Deleting:
		return Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonGoneOutside}}
	case request.State == StateApproved:
		return Step{Action: ActionMove, To: StateProvisioning} // applied before, the reply was lost: adopt
	}
	return planHealth(request, have, now)
}

// wasSeen reports whether the RayCluster has stood there before, so that its absence means that somebody deleted it.
func wasSeen(request Request) bool {
	return request.ClusterUID != "" || request.State == StateProvisioning || request.State == StateReady
}

// planHealth compares an existing cluster with what was approved.
func planHealth(request Request, have Cluster, now time.Time) Step {
	if have.Problem.Code == ReasonInvalidSpec {
		return attention(request, have.Problem)
	}
	if most := request.Draft.MaxWorkers(); len(have.Workers) > most && liveWorkers(have) > most {
		return attention(request, Reason{Code: ReasonMoreWorkers, Args: map[string]any{"have": liveWorkers(have), "approved": most}})
	}
	if healthy(request, have) {
		switch {
		case request.State == StateReady:
			return Step{Action: ActionNone}
		case request.ReadyAt.IsZero() && have.Verification == VerificationDue:
			return Step{Action: ActionNone} // the verification has an end of its own, and wakes us
		}
		return Step{Action: ActionMove, To: StateReady}
	}
	switch {
	case request.State == StateProvisioning:
		return planProvisioning(request, have, now)
	case request.ReadyAt.IsZero() && have.Problem.IsZero():
		return Step{Action: ActionNone} // it never was ready, and the reason given still holds
	}
	return attention(request, trouble(request, have))
}

// planProvisioning waits until the limit, and only then asks for attention.
func planProvisioning(request Request, have Cluster, now time.Time) Step {
	waited := now.Sub(request.StateSince)
	if waited < ProvisioningLimit {
		return Step{Action: ActionNone, After: ProvisioningLimit - waited}
	}
	args := map[string]any{"minutes": int(waited.Minutes())}
	switch {
	case have.Problem.Code == ReasonOperatorBusy:
		return Step{Action: ActionNone, After: operatorLimit} // its turn comes; nothing has failed
	case !have.Problem.IsZero():
		return attention(request, have.Problem)
	case podsReady(request, have):
		return attention(request, Reason{Code: ReasonHeadMute, Args: args})
	}
	return attention(request, Reason{Code: ReasonStuck, Args: args})
}

func healthy(request Request, have Cluster) bool {
	return podsReady(request, have) && have.HeadAnswers
}

func podsReady(request Request, have Cluster) bool {
	return have.Head != nil && have.Head.Ready && have.ReadyWorkers() >= request.Draft.MinWorkers()
}

// trouble names what is wrong with a cluster that was ready before, the most telling thing first.
func trouble(request Request, have Cluster) Reason {
	switch {
	case !have.Problem.IsZero():
		return have.Problem
	case have.Head == nil || !have.Head.Ready:
		return Reason{Code: ReasonHeadLost}
	case have.ReadyWorkers() < request.Draft.MinWorkers():
		return Reason{Code: ReasonWorkersLost, Args: map[string]any{"have": have.ReadyWorkers(), "want": request.Draft.MinWorkers()}}
	}
	return Reason{Code: ReasonHeadSilent}
}

// attention moves to attention, or rewrites its reason when it has changed.
func attention(request Request, reason Reason) Step {
	if request.State == StateAttention && request.Reason.Code == reason.Code {
		return Step{Action: ActionNone}
	}
	return Step{Action: ActionMove, To: StateAttention, Reason: reason}
}

func liveWorkers(have Cluster) int {
	n := 0
	for _, w := range have.Workers {
		if !w.Deleting && w.Phase != PodSucceeded && w.Phase != PodFailed {
			n++
		}
	}
	return n
}
