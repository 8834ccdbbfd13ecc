package rayslice

import (
	"slices"
	"time"
)

// An Occupant is a live request, as far as its cards are concerned.
type Occupant struct {
	RequestID string
	Team      string
	Name      string
	EndsAt    time.Time // hard end; zero = none
	Stopping  bool      // it is being stopped, so its cards are free soon
}

// Codes of Forecast.Cannot; the sentences stand in the catalogues as reason_<code>.
const (
	ReasonFitNoNode    = "fit_no_node"    // no node of the pool can be used; Args: pool
	ReasonFitTooLarge  = "fit_too_large"  // larger than any card; Args: largest (GiB)
	ReasonFitFewCards  = "fit_few_cards"  // more cards for one worker than a node has; Args: cards
	ReasonFitTooMany   = "fit_too_many"   // more workers than even an empty fleet takes
	ReasonFitFewNodes  = "fit_few_nodes"  // more workers on different nodes than there are; Args: nodes
	ReasonFitNoCompute = "fit_no_compute" // its nodes reserve compute, and the draft asks for none, or the other way round
)

// A Forecast says whether a draft fits now, and if not, when at the latest.
type Forecast struct {
	FitResult
	Latest time.Time // when it fits at the latest, as our own clusters end; zero = it fits now, or no date is known
	Until  string    // id of the request whose end makes room then; "" as above
	Cannot Reason    // why it does not fit even when nobody else is there; zero = it does
}

// Forecast says when the draft fits. A date stands on the hard ends of our own clusters alone; pods of others have none, so
// where they hold what is needed no date is known.
func (f Fleet) Forecast(draft RequestDraft, occupants []Occupant, now time.Time) Forecast {
	f = f.narrow(draft)
	room := f.Room()
	result := Forecast{FitResult: Fit(draft, room)}
	if !result.Known || result.Fits {
		return result
	}
	if result.Cannot = f.blocked(draft); !result.Cannot.IsZero() {
		return result
	}
	if result.Cannot = f.without(func(Hold) bool { return true }).cannot(draft); !result.Cannot.IsZero() {
		return result
	}
	ends := f.ends(occupants, now)
	fits := func(n int) bool { // once the first n have ended
		gone := map[string]bool{}
		for _, o := range ends[:n] {
			gone[o.RequestID] = true
		}
		return Fit(draft, f.without(func(h Hold) bool { return !h.Foreign && gone[h.RequestID] }).Room()).Fits
	}
	if len(ends) == 0 || !fits(len(ends)) {
		return result
	}
	low, high := 0, len(ends) // not after low, but after high
	for high-low > 1 {
		if middle := (low + high) / 2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	result.Latest, result.Until = ends[high-1].EndsAt, ends[high-1].RequestID
	return result
}

// ends returns the requests that hold something here and have an end, soonest first.
func (f Fleet) ends(occupants []Occupant, now time.Time) []Occupant {
	here := map[string]bool{}
	for _, h := range f.Holds {
		if !h.Foreign {
			here[h.RequestID] = true
		}
	}
	var ends []Occupant
	for _, o := range occupants {
		if o.Stopping || !o.EndsAt.IsZero() && o.EndsAt.Before(now) {
			o.EndsAt = now
		}
		if here[o.RequestID] && !o.EndsAt.IsZero() {
			ends = append(ends, o)
		}
	}
	slices.SortStableFunc(ends, func(a, b Occupant) int { return a.EndsAt.Compare(b.EndsAt) })
	return ends
}

// narrow leaves only what concerns the pools of the draft.
func (f Fleet) narrow(draft RequestDraft) Fleet {
	wanted := map[string]bool{}
	for _, g := range draft.Groups {
		wanted[g.Pool] = g.Pool != ""
	}
	nodes := map[string]bool{}
	var kept []Node
	for _, n := range f.Nodes {
		if wanted[n.Pool] {
			kept, nodes[n.Name] = append(kept, n), true
		}
	}
	f.Nodes = kept
	return f.without(func(h Hold) bool { return !nodes[h.Node] && (h.Node != "" || !wanted[h.Slice.Pool]) })
}

// without returns the fleet as it would be without some of the holds.
func (f Fleet) without(gone func(Hold) bool) Fleet {
	f.Holds = slices.DeleteFunc(slices.Clone(f.Holds), gone)
	return f
}

// blocked returns why a pool of the draft is closed; zero = all are open.
func (f Fleet) blocked(draft RequestDraft) Reason {
	for _, g := range draft.Groups {
		for _, p := range f.Pools {
			if p.Pool == g.Pool && g.Pool != "" && !p.Blocked.IsZero() {
				return p.Blocked
			}
		}
	}
	return Reason{}
}

// cannot says what is wrong with the draft on a fleet where nobody is. Zero = it could run.
func (f Fleet) cannot(draft RequestDraft) Reason {
	room := f.Room()
	groups := hardestFirst(draft.Groups)
	for _, g := range groups {
		if reason := room.cannotHold(g); !reason.IsZero() {
			return reason
		}
	}
	if result := Fit(draft, room); !result.Fits && !result.Maybe {
		return Reason{Code: ReasonFitTooMany}
	}
	return Reason{}
}

// cannotHold says why even one worker of the group, or one on each node, has no place.
func (r Room) cannotHold(g Group) Reason {
	cards, nodes, largest, most, fitting := 0, 0, 0, 0, 0
	for node := range byNode(r.Cards) {
		if node[0].Pool != g.Pool {
			continue
		}
		cards, most = cards+len(node), max(most, len(node))
		holding := 0
		for _, c := range node {
			largest = max(largest, c.GiB)
			if c.slots(g.Slice, false) > 0 {
				holding++
			}
		}
		if holding > 0 {
			fitting = max(fitting, holding)
		}
		if holding >= max(1, g.Slice.Cards) {
			nodes++
		}
	}
	switch {
	case cards == 0:
		return Reason{Code: ReasonFitNoNode, Args: map[string]any{"pool": g.Pool}}
	case g.GiB > largest:
		return Reason{Code: ReasonFitTooLarge, Args: map[string]any{"largest": largest}}
	case fitting == 0:
		return Reason{Code: ReasonFitNoCompute}
	case nodes == 0:
		return Reason{Code: ReasonFitFewCards, Args: map[string]any{"cards": most}}
	case g.Spread && nodes < g.MaxWorkers:
		return Reason{Code: ReasonFitFewNodes, Args: map[string]any{"nodes": nodes}}
	}
	return Reason{}
}
