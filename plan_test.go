package rayslice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var planNow = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// planRequest is two 8 GiB workers, approved an hour ago for eight hours.
func planRequest(state State, change ...func(*Request)) Request {
	r := Request{
		ID: "k3v9x2m7qaaa", State: state, StateSince: planNow.Add(-time.Minute), EndsAt: planNow.Add(7 * time.Hour), ClusterUID: "uid-1",
		Draft: RequestDraft{Hours: 8, Groups: []Group{{Workers: 2, MinWorkers: 2, MaxWorkers: 2, Slice: Slice{Pool: "a10", GiB: 8, Cards: 1}}}},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// planCluster is the healthy cluster of planRequest.
func planCluster(change ...func(*Cluster)) Cluster {
	c := Cluster{
		Exists: true, Ours: true, UID: "uid-1", HeadAnswers: true, Head: &Worker{Name: "head", Ready: true, Phase: PodRunning},
		Workers: []Worker{{Name: "w1", Ready: true, Phase: PodRunning}, {Name: "w2", Ready: true, Phase: PodRunning}},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func onceReady(r *Request)     { r.ReadyAt = planNow.Add(-time.Minute) }
func neverSeen(r *Request)     { r.ClusterUID = "" }
func absent(c *Cluster)        { *c = Cluster{} }
func absentForSure(c *Cluster) { *c = Cluster{Confirmed: true} }

func TestPlan(t *testing.T) {
	end := 7 * time.Hour
	tests := map[string]struct {
		request Request
		have    Cluster
		want    Step
	}{
		"pending waits":                        {planRequest(StatePending), planCluster(absent), Step{Action: ActionNone}},
		"approved, cache empty: look again":    {planRequest(StateApproved, neverSeen), planCluster(absent), Step{Action: ActionConfirm, After: end}},
		"approved, absent: apply":              {planRequest(StateApproved, neverSeen), planCluster(absentForSure), Step{Action: ActionApply, To: StateProvisioning, After: end}},
		"K4 applied, reply lost: adopt":        {planRequest(StateApproved, neverSeen), planCluster(), Step{Action: ActionMove, To: StateProvisioning, After: end}},
		"T10 foreign object has the name":      {planRequest(StateApproved, neverSeen), Cluster{Exists: true}, Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonNameTaken}, After: end}},
		"T10 foreign object went away":         {planRequest(StateAttention, neverSeen), planCluster(absentForSure), Step{Action: ActionApply, To: StateProvisioning, After: end}},
		"all joined and the head answers":      {planRequest(StateProvisioning), planCluster(), Step{Action: ActionMove, To: StateReady, After: end}},
		"B103 head does not answer yet":        {planRequest(StateProvisioning), planCluster(func(c *Cluster) { c.HeadAnswers = false }), Step{Action: ActionNone, After: 9 * time.Minute}},
		"a worker is missing":                  {planRequest(StateProvisioning), planCluster(func(c *Cluster) { c.Workers[0].Ready = false }), Step{Action: ActionNone, After: 9 * time.Minute}},
		"B007 stuck past the limit":            {planRequest(StateProvisioning, func(r *Request) { r.StateSince = planNow.Add(-11 * time.Minute) }), planCluster(func(c *Cluster) { c.Workers = nil }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonStuck, Args: map[string]any{"minutes": 11}}, After: end}},
		"B098 KubeRay is busy with others":     {planRequest(StateProvisioning, func(r *Request) { r.StateSince = planNow.Add(-11 * time.Minute) }), planCluster(func(c *Cluster) { c.Head, c.Workers, c.Problem = nil, nil, Reason{Code: ReasonOperatorBusy} }), Step{Action: ActionNone, After: 30 * time.Second}},
		"stuck with every pod ready":           {planRequest(StateProvisioning, func(r *Request) { r.StateSince = planNow.Add(-11 * time.Minute) }), planCluster(func(c *Cluster) { c.HeadAnswers = false }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonHeadMute, Args: map[string]any{"minutes": 11}}, After: end}},
		"stuck keeps its reason":               {planRequest(StateAttention, func(r *Request) { r.Reason = Reason{Code: ReasonStuck} }), planCluster(func(c *Cluster) { c.Head = nil }), Step{Action: ActionNone, After: end}},
		"KubeRay refuses the spec":             {planRequest(StateProvisioning), planCluster(func(c *Cluster) { c.Workers = nil; c.Problem = Reason{Code: ReasonInvalidSpec, Detail: "x"} }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonInvalidSpec, Detail: "x"}, After: end}},
		"ready stays ready":                    {planRequest(StateReady, onceReady), planCluster(), Step{Action: ActionNone, After: end}},
		"B109 the head is lost":                {planRequest(StateReady, onceReady), planCluster(func(c *Cluster) { c.Head = nil }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonHeadLost}, After: end}},
		"a worker is lost":                     {planRequest(StateReady, onceReady), planCluster(func(c *Cluster) { c.Workers = c.Workers[:1] }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonWorkersLost, Args: map[string]any{"have": 1, "want": 2}}, After: end}},
		"the head fell silent":                 {planRequest(StateReady, onceReady), planCluster(func(c *Cluster) { c.HeadAnswers = false }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonHeadSilent}, After: end}},
		"B079 more workers than approved":      {planRequest(StateReady, onceReady), planCluster(func(c *Cluster) { c.Workers = append(c.Workers, Worker{Phase: PodRunning}) }), Step{Action: ActionMove, To: StateAttention, Reason: Reason{Code: ReasonMoreWorkers, Args: map[string]any{"have": 3, "approved": 2}}, After: end}},
		"attention heals":                      {planRequest(StateAttention), planCluster(), Step{Action: ActionMove, To: StateReady, After: end}},
		"attention says it once":               {planRequest(StateAttention, func(r *Request) { r.Reason = Reason{Code: ReasonHeadLost} }), planCluster(func(c *Cluster) { c.Head = nil }), Step{Action: ActionNone, After: end}},
		"T14 deleted by hand, cache only":      {planRequest(StateReady, onceReady), planCluster(absent), Step{Action: ActionConfirm, After: end}},
		"T14 deleted by hand":                  {planRequest(StateReady, onceReady), planCluster(absentForSure), Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonGoneOutside}, After: end}},
		"being deleted by hand":                {planRequest(StateReady, onceReady), planCluster(func(c *Cluster) { c.Deleting = true }), Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonGoneOutside}, After: end}},
		"its end has come":                     {planRequest(StateReady, func(r *Request) { r.EndsAt = planNow }), planCluster(), Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonExpired}}},
		"expired before it was ever applied":   {planRequest(StateApproved, neverSeen, func(r *Request) { r.EndsAt = planNow }), planCluster(absent), Step{Action: ActionMove, To: StateStopping, Reason: Reason{Code: ReasonExpired}}},
		"stopping deletes":                     {planRequest(StateStopping), planCluster(), Step{Action: ActionDelete}},
		"B089 stopping waits for a finalizer":  {planRequest(StateStopping), planCluster(func(c *Cluster) { c.Deleting = true }), Step{Action: ActionNone}},
		"stopping waits for the pods":          {planRequest(StateStopping), planCluster(func(c *Cluster) { c.Exists, c.Confirmed = false, true }), Step{Action: ActionNone}},
		"stopping believes only a live read":   {planRequest(StateStopping), planCluster(absent), Step{Action: ActionConfirm}},
		"stopped when all is gone":             {planRequest(StateStopping), planCluster(absentForSure), Step{Action: ActionMove, To: StateStopped}},
		"stopping leaves a foreign object be":  {planRequest(StateStopping), Cluster{Exists: true, Confirmed: true}, Step{Action: ActionMove, To: StateStopped}},
		"T03 cancelled but applied: delete":    {planRequest(StateCancelled), planCluster(), Step{Action: ActionDelete}},
		"stopped, nothing left":                {planRequest(StateStopped), planCluster(absent), Step{Action: ActionNone}},
		"a foreign object of a cancelled name": {planRequest(StateCancelled), Cluster{Exists: true}, Step{Action: ActionNone}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.request, tc.have, planNow)); diff != "" {
				t.Errorf("Plan() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanStaysInTheTable checks, for any request and cluster, that Plan only moves along the table of states, never
// deletes what is not ours, and never calls a request stopped on the cache's word alone.
func TestPlanStaysInTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := planRequest(rapid.SampledFrom(States()).Draw(t, "state"))
		if rapid.Bool().Draw(t, "never seen") {
			request.ClusterUID = ""
		}
		request.StateSince = planNow.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds in state")) * time.Second)
		request.EndsAt = planNow.Add(time.Duration(rapid.IntRange(-10, 3600).Draw(t, "seconds left")) * time.Second)
		have := planCluster(func(c *Cluster) {
			c.Exists, c.Ours = rapid.Bool().Draw(t, "exists"), rapid.Bool().Draw(t, "ours")
			c.Confirmed, c.Deleting = rapid.Bool().Draw(t, "confirmed"), rapid.Bool().Draw(t, "deleting")
			c.HeadAnswers = rapid.Bool().Draw(t, "head answers")
			c.Workers = c.Workers[:rapid.IntRange(0, 2).Draw(t, "workers")]
			if rapid.Bool().Draw(t, "no head") {
				c.Head = nil
			}
		})
		step := Plan(request, have, planNow)
		if (step.Action == ActionMove || step.Action == ActionApply) && step.To != request.State && !request.State.CanBecome(step.To) {
			t.Fatalf("%s → %s is not in the table", request.State, step.To)
		}
		if step.Action == ActionDelete && (!have.Exists || !have.Ours) {
			t.Fatal("deletes what is not ours")
		}
		if step.Action == ActionApply && have.Exists {
			t.Fatal("applies over what exists")
		}
		if step.To == StateStopped && (!have.Confirmed || have.Exists && have.Ours || have.Pods() > 0) {
			t.Fatal("stopped although something may be left")
		}
	})
}
