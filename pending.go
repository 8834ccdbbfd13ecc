package rayslice

import (
	"slices"
	"strings"
	"time"
)

// Stage is how far a request has come that is not ready.
type Stage string

// The stages of a request that is not ready; the sentences stand in the catalogues as stage_<stage>.
const (
	StageDecision Stage = "decision" // a lead has to decide
	StageAnswer   Stage = "answer"   // its owner has to answer a lead
	StageCreate   Stage = "create"   // approved; the RayCluster is not there yet
	StageUnseen   Stage = "unseen"   // applied; nothing was read about it yet
	StageOperator Stage = "operator" // the RayCluster is there; KubeRay has to make its pods
	StageHead     Stage = "head"     // the head pod is not ready
	StageWorkers  Stage = "workers"  // the head runs, workers are missing
	StageRay      Stage = "ray"      // all pods are ready; Ray does not answer yet
	StageVerify   Stage = "verify"   // Ray answers; the slices are being verified
	StageStopping Stage = "stopping" // it is being deleted
)

// Stages returns every stage in the order of a request's life.
func Stages() []Stage {
	return []Stage{StageDecision, StageAnswer, StageCreate, StageUnseen, StageOperator, StageHead, StageWorkers, StageRay, StageVerify, StageStopping}
}

// A Pending says what a request that is not ready waits for.
type Pending struct {
	Stage      Stage     // "" = it waits for nothing: it is ready, or over
	Since      time.Time // when the stage began, as far as is known; zero = not known
	Have, Want int       // workers that are ready, and that must be
	Conditions []Condition
	Attempts   []Attempt // oldest first
}

// A Condition is one thing that has to change before a request goes on.
type Condition struct {
	Reason Reason
	Pods   int   // pods that it holds up; 0 = it is not about single pods
	Next   Next  // what to do about it
	Who    Party // who can
}

// An Attempt is what Kubernetes tried again and again: events of the same kind taken together. Message is untrusted text.
type Attempt struct {
	First, Last time.Time
	Warning     bool
	Kind        string // of what it was about, "Pod" or "RayCluster"
	Objects     int    // how many of them
	Reason      string // Kubernetes' word, e.g. "FailedScheduling"
	Message     string // the latest
	Count       int    // how often it happened
}

// maxConditions is how many conditions are told apart; the rest are beyond reading.
const maxConditions = 12

// Explain says what a request waits for, and what each unmet condition asks of whom: from the request's state and reason,
// what Kubernetes reports of the cluster, and what is wrong with Kubernetes as a whole. It is pure.
func Explain(request Request, have Cluster, problems []Reason, now time.Time) Pending {
	p := Pending{Stage: stageOf(request, have), Have: have.ReadyWorkers(), Want: request.Draft.MinWorkers()}
	if p.Stage == "" {
		return Pending{}
	}
	p.Since = stageSince(p.Stage, request, have)
	var found unmet
	if request.State.Open() || request.State == StateAttention {
		found.add(request.Reason)
	}
	if request.State.Live() {
		found.addCluster(request, have, now)
		found.addWhole(request, p.Stage, problems)
		p.Attempts = attempts(have.Events)
	}
	p.Conditions = found.sorted()
	return p
}

func stageOf(request Request, have Cluster) Stage {
	switch request.State {
	case StatePending:
		return StageDecision
	case StateReturned:
		return StageAnswer
	case StateApproved:
		return StageCreate
	case StateStopping:
		return StageStopping
	case StateProvisioning, StateAttention:
		return clusterStage(request, have)
	}
	return ""
}

func clusterStage(request Request, have Cluster) Stage {
	switch {
	case have.ObservedAt.IsZero() && request.State == StateAttention:
		return StageCreate
	case have.ObservedAt.IsZero():
		return StageUnseen
	case !have.Exists || !have.Ours:
		return StageCreate
	case have.Head == nil:
		return StageOperator
	case !have.Head.Ready:
		return StageHead
	case have.ReadyWorkers() < request.Draft.MinWorkers():
		return StageWorkers
	case have.HeadAnswers && have.Verification == VerificationDue:
		return StageVerify
	}
	return StageRay
}

// stageSince returns when the stage began: when what it waits for was made, or else when the state began. A cluster that was
// ready before waits since it is not.
func stageSince(stage Stage, request Request, have Cluster) time.Time {
	switch {
	case stage == StageDecision:
		return request.SentAt
	case stage == StageStopping:
		return request.StoppingAt
	case request.State == StateAttention && !request.ReadyAt.IsZero():
		return request.StateSince
	case stage == StageCreate && !request.DecidedAt.IsZero():
		return request.DecidedAt
	case stage == StageOperator:
		return have.CreatedAt
	case stage == StageHead:
		return have.Head.CreatedAt
	case stage == StageWorkers:
		return oldestWaiting(have)
	}
	return request.StateSince
}

// oldestWaiting returns when the oldest worker that is not ready was made; without any, when the RayCluster was.
func oldestWaiting(have Cluster) time.Time {
	since := time.Time{}
	for _, w := range have.Workers {
		if !w.Ready && !w.Deleting && (since.IsZero() || w.CreatedAt.Before(since)) {
			since = w.CreatedAt
		}
	}
	if since.IsZero() {
		return have.CreatedAt
	}
	return since
}

// unmet collects conditions; the same one of several pods is one.
type unmet struct{ all []Condition }

// add notes a condition that is not about single pods.
func (u *unmet) add(reason Reason) { u.count(reason, 0) }

func (u *unmet) count(reason Reason, pods int) {
	if reason.IsZero() {
		return
	}
	for i := range u.all {
		if sameCause(u.all[i].Reason, reason) {
			u.all[i].Pods += pods
			return
		}
	}
	next, who := advice(reason)
	u.all = append(u.all, Condition{Reason: reason, Pods: pods, Next: next, Who: who})
}

// sameCause reports whether two reasons say the same thing of perhaps different pods. What is unknown is the same when its
// text is.
func sameCause(a, b Reason) bool {
	if a.Code != b.Code {
		return false
	}
	switch a.Code {
	case ReasonWarning:
		return a.Args["event"] == b.Args["event"]
	case ReasonNodesUnknown, ReasonCreateFailed, ReasonNamespaceRule:
		return a.Detail == b.Detail
	case ReasonRoomOther, ReasonNamespaceQuota, ReasonTeamQuotaFull:
		return a.Args["resource"] == b.Args["resource"]
	case ReasonImagePull:
		return a.Args["image"] == b.Args["image"]
	}
	return true
}

// addCluster notes what the cluster's own report says, the most telling thing first.
func (u *unmet) addCluster(request Request, have Cluster, now time.Time) {
	switch code := have.Problem.Code; {
	case podArg(have.Problem) != "", code == ReasonOperatorSilent, code == ReasonOperatorBusy: // below, as they are now
	case code == ReasonWarning && len(have.Events) > 0: // below, from the events; lists come without
	default:
		u.add(have.Problem)
	}
	if have.Deleting || request.State == StateStopping {
		return
	}
	for _, c := range have.Conditions {
		if c.Type == "ReplicaFailure" && c.True {
			u.add(ReadRefusal(c.Message, ReasonCreateFailed))
		}
	}
	if have.Head != nil {
		u.addPod(*have.Head)
	}
	for _, w := range have.Workers {
		u.addPod(w)
	}
	u.addEvents(request, have)
	u.addHeadCondition(have)
	if len(u.all) == 0 {
		u.add(OperatorProblem(request, have, now))
	}
	if len(have.Drift) > 0 {
		u.add(Reason{Code: ReasonDrifted, Args: map[string]any{"field": have.Drift[0].Field}})
	}
}

func (u *unmet) addPod(w Worker) {
	if w.Problem.Code == ReasonUnschedulable {
		for _, part := range ReadUnschedulable(w.Problem.Detail) {
			u.count(part, 1)
		}
		return
	}
	u.count(w.Problem, 1)
}

// addEvents notes what only events tell. An event about a pod that is ready or gone is over, and so is one about the
// RayCluster when no pod is missing.
func (u *unmet) addEvents(request Request, have Cluster) {
	waiting := waitingPods(have)
	told := map[string]bool{}
	for _, e := range have.Events { // latest first
		key := e.Object + " " + e.Reason
		if !e.Warning || told[key] {
			continue
		}
		told[key] = true
		kind, name, _ := strings.Cut(e.Object, "/")
		w, waits := waiting[name]
		switch {
		case kind == "RayCluster" && podsMissing(request, have):
			if !strings.HasPrefix(e.Reason, "InvalidRayCluster") || have.Head == nil {
				u.add(ReadEvent(e))
			}
		case kind != "Pod" || !waits || w.Node != "" && e.Reason == "FailedScheduling":
		case w.Problem.IsZero() || w.Problem.Code == ReasonWarning:
			u.addPod(Worker{Problem: ReadEvent(e)})
		}
	}
}

// waitingPods returns the pods that are not ready, by name.
func waitingPods(have Cluster) map[string]Worker {
	waiting := map[string]Worker{}
	all := have.Workers
	if have.Head != nil {
		all = append([]Worker{*have.Head}, all...)
	}
	for _, w := range all {
		if !w.Ready && !w.Deleting {
			waiting[w.Name] = w
		}
	}
	return waiting
}

// addHeadCondition quotes KubeRay on a head that is not ready when nothing else says why.
func (u *unmet) addHeadCondition(have Cluster) {
	if len(u.all) > 0 || have.Head == nil || have.Head.Ready {
		return
	}
	for _, c := range have.Conditions {
		if c.Type == "HeadPodReady" && !c.True && c.Message != "" {
			u.add(Reason{Code: ReasonHeadCondition, Args: map[string]any{"what": c.Reason}, Detail: c.Message})
		}
	}
}

// addWhole notes what is wrong with Kubernetes as a whole, as far as it can hold this request up.
func (u *unmet) addWhole(request Request, stage Stage, problems []Reason) {
	for _, p := range problems {
		switch p.Code {
		case ReasonKubeRayMissing, ReasonKubeRayVersion:
			if stage != StageRay {
				u.add(p)
			}
		case ReasonNoShareScheduler:
			if stage == StageWorkers && request.Charge.GiB > 0 {
				u.add(p)
			}
		}
	}
}

// sorted puts what somebody can do something about first, and cuts what is beyond reading.
func (u *unmet) sorted() []Condition {
	lacksNode := !slices.ContainsFunc(u.all, func(c Condition) bool { return rank(c) < 2 })
	for i := range u.all {
		if lacksNode && u.all[i].Reason.Code == ReasonNodesOther { // not the other pools' nodes, but all there are
			u.all[i].Next, u.all[i].Who = NextNodes, PartyAdmin
		}
	}
	slices.SortStableFunc(u.all, func(a, b Condition) int { return rank(a) - rank(b) })
	return u.all[:min(len(u.all), maxConditions)]
}

// rank tells what holds a request up from what only may, and from nodes that are not meant for it.
func rank(c Condition) int {
	switch c.Reason.Code {
	case ReasonNodesOther, ReasonNodesTainted, ReasonNodesClosed:
		return 2
	case ReasonStuck, ReasonHeadLost, ReasonWorkersLost, ReasonWarning, ReasonDrifted:
		return 1
	}
	return 0
}

func podArg(r Reason) string {
	name, _ := r.Args["pod"].(string)
	return name
}

func podsMissing(request Request, have Cluster) bool {
	return have.Head == nil || len(have.Workers) < request.Draft.MinWorkers()
}

// attempts takes events of the same kind together, in the order in which they first happened.
func attempts(events []Event) []Attempt {
	var out []Attempt
	at, objects := map[string]int{}, map[string]map[string]bool{}
	for _, e := range events { // latest first
		kind, _, _ := strings.Cut(e.Object, "/")
		key := kind + " " + e.Reason
		i, known := at[key]
		if !known {
			i = len(out)
			at[key], objects[key] = i, map[string]bool{}
			out = append(out, Attempt{First: e.At, Last: e.At, Kind: kind, Reason: e.Reason, Message: e.Message})
		}
		objects[key][e.Object] = true
		a := &out[i]
		a.Objects, a.Count, a.Warning = len(objects[key]), a.Count+max(1, e.Count), a.Warning || e.Warning
		for _, t := range []time.Time{e.At, e.First} {
			if !t.IsZero() && t.Before(a.First) {
				a.First = t
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Attempt) int { return a.First.Compare(b.First) })
	return out
}
