package rayslice

import "slices"

// State is where a request stands.
type State string

// The states of a request.
const (
	StatePending      State = "pending"      // waits for a decision; quota held
	StateReturned     State = "returned"     // a lead asked back, waits for its owner; quota held
	StateApproved     State = "approved"     // decided, nothing in Kubernetes yet
	StateRejected     State = "rejected"     // a lead said no
	StateCancelled    State = "cancelled"    // taken back before the decision
	StateProvisioning State = "provisioning" // the RayCluster exists, pods are on their way
	StateReady        State = "ready"        // every worker joined and the head answers
	StateAttention    State = "attention"    // exists, but something is wrong; Reason says what
	StateStopping     State = "stopping"     // being deleted; quota still charged
	StateStopped      State = "stopped"      // pods confirmed gone, quota given back
)

// transitions is the whole life of a request: what may follow what.
var transitions = map[State][]State{
	StatePending:      {StateApproved, StateReturned, StateRejected, StateCancelled},
	StateReturned:     {StatePending, StateApproved, StateRejected, StateCancelled},
	StateApproved:     {StateProvisioning, StateAttention, StateStopping},
	StateProvisioning: {StateReady, StateAttention, StateStopping},
	StateReady:        {StateAttention, StateStopping},
	StateAttention:    {StateProvisioning, StateReady, StateStopping},
	StateStopping:     {StateStopped},
	StateRejected:     nil,
	StateCancelled:    nil,
	StateStopped:      nil,
}

// States returns every state in the order of a request's life.
func States() []State {
	return []State{StatePending, StateReturned, StateApproved, StateProvisioning, StateReady, StateAttention, StateStopping,
		StateStopped, StateRejected, StateCancelled}
}

// CanBecome reports whether a request may go from s to next.
func (s State) CanBecome(next State) bool { return slices.Contains(transitions[s], next) }

// Final reports whether nothing can follow.
func (s State) Final() bool { return len(transitions[s]) == 0 }

// Live reports whether the request has, or is about to have, something in Kubernetes.
func (s State) Live() bool {
	return s == StateApproved || s == StateProvisioning || s == StateReady || s == StateAttention || s == StateStopping
}

// Open reports whether the request waits for somebody: a lead, or its owner who was asked back.
func (s State) Open() bool { return s == StatePending || s == StateReturned }

// Stoppable reports whether a person can still stop it.
func (s State) Stoppable() bool { return s.CanBecome(StateStopping) || s.CanBecome(StateCancelled) }

// Reachable reports whether the request's cluster may have a head to reach.
func (s State) Reachable() bool {
	return s == StateProvisioning || s == StateReady || s == StateAttention
}
