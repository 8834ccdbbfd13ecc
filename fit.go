package rayslice

import (
	"cmp"
	"slices"
)

// A Card is one physical card, and what rayslice's own clusters leave free of it. Pods of others are not known, so "free"
// always means: by rayslice's own clusters.
type Card struct {
	Pool     string
	Node     string
	Index    int // of the card on its node
	FreeGiB  int // GiB that slices may still take; 0 in pools of whole cards
	FreeCore int // percent of its compute that slices have not reserved
	Empty    bool
}

// A FitResult says whether a draft finds room.
type FitResult struct {
	Known   bool // the fleet was looked at; false = nothing can be said
	Fits    bool // every worker finds a card, at the most workers that the draft may have
	OnCards int  // cards with room for at least one worker of the draft's largest slice
	Missing int  // workers that find none
}

// Cards returns the cards that can be used now, and what the given clusters leave free of them: never a sum over a node,
// because a slice lies on one card. Nodes that are not ready, or have something wrong, have none. Pods that are not placed
// yet are counted where they would go. nil when nothing was read about the fleet.
func Cards(fleet Fleet, clusters []Cluster) []Card {
	if fleet.ObservedAt.IsZero() {
		return nil
	}
	cards := []Card{}
	for _, n := range fleet.Nodes {
		if n.Pool == "" || !n.Ready || len(n.Problems) > 0 {
			continue
		}
		for i := range n.Cards {
			c := Card{Pool: n.Pool, Node: n.Name, Index: i, FreeCore: 100, Empty: true}
			if n.Mode.Sliced() {
				c.FreeGiB = n.CardGiB
			}
			cards = append(cards, c)
		}
	}
	var unplaced []Slice
	for _, c := range clusters {
		for _, w := range c.Workers {
			switch {
			case w.Slice.IsZero() || w.Phase == PodSucceeded || w.Phase == PodFailed:
			case w.Node == "":
				unplaced = append(unplaced, w.Slice)
			default:
				occupy(cards, w)
			}
		}
	}
	for _, s := range unplaced {
		takeRoom(cards, s, roomFor(cards, s, false, nil))
	}
	return cards
}

// occupy takes what a placed worker has. Where its cards are not known, a slice counts on every card of the node, so that
// nothing is promised that may not be there.
func occupy(cards []Card, w Worker) {
	if len(w.Placements) == 0 && w.Slice.Whole() {
		left := w.Slice.Cards
		for i := range cards {
			if cards[i].Node == w.Node && cards[i].Empty && left > 0 {
				cards[i].Empty, left = false, left-1
			}
		}
		return
	}
	for i := range cards {
		if cards[i].Node != w.Node {
			continue
		}
		at := slices.IndexFunc(w.Placements, func(p Placement) bool { return p.Card == cards[i].Index })
		switch {
		case at >= 0:
			cards[i].take(w.Placements[at].GiB, w.Slice.CorePercent)
		case len(w.Placements) == 0:
			cards[i].take(w.Slice.GiB, w.Slice.CorePercent)
		}
	}
}

func (c *Card) take(gib, core int) {
	c.FreeGiB, c.FreeCore, c.Empty = max(0, c.FreeGiB-gib), max(0, c.FreeCore-core), false
}

// holds reports whether one part of the slice has room on the card.
func (c Card) holds(s Slice) bool {
	if c.Pool != s.Pool {
		return false
	}
	if s.Whole() {
		return c.Empty
	}
	return c.FreeGiB >= s.GiB && c.FreeCore >= s.CorePercent
}

// Fit says whether the draft finds room on the cards, with all its groups at once and at their most workers; cards is not
// changed. What fits can really be packed. The other way round it is exact where all slices on a pool are alike, and else
// may miss a packing that somebody cleverer would find. nil cards = nothing is known.
func Fit(draft RequestDraft, cards []Card) FitResult {
	if cards == nil {
		return FitResult{}
	}
	groups := slices.DeleteFunc(slices.Clone(draft.Groups), func(g Group) bool { return g.IsZero() })
	slices.SortStableFunc(groups, func(a, b Group) int { // the hard ones first
		return cmp.Or(cmp.Compare(b.Slice.Cards, a.Slice.Cards), cmp.Compare(b.GiB, a.GiB), cmp.Compare(b.CorePercent, a.CorePercent),
			cmp.Compare(spreadFirst(a), spreadFirst(b)), cmp.Compare(b.MaxWorkers, a.MaxWorkers))
	})
	result := FitResult{Known: true}
	if len(groups) > 0 {
		for _, c := range cards {
			if c.holds(groups[0].Slice) {
				result.OnCards++
			}
		}
	}
	_, result.Missing = pack(groups, slices.Clone(cards))
	result.Fits = result.Missing == 0
	return result
}

func spreadFirst(g Group) int {
	if g.Spread {
		return 0
	}
	return 1
}

// pack gives every worker of the groups its cards, taking them from cards, and counts those who get none.
func pack(groups []Group, cards []Card) (placed [][]int, missing int) {
	for _, g := range groups {
		var used []string // nodes that have a worker of a group that must be spread
		for range g.MaxWorkers {
			at := roomFor(cards, g.Slice, g.Spread, used)
			if at == nil {
				missing++
				continue
			}
			takeRoom(cards, g.Slice, at)
			placed = append(placed, at)
			if g.Spread {
				used = append(used, cards[at[0]].Node)
			}
		}
	}
	return placed, missing
}

// roomFor returns the cards of one node for one worker, nil when there are none. Spread workers go where most room is left,
// so that the next group finds different nodes as well; the others go where they fill up what is begun. A worker with
// several cards takes the emptiest of a node, which leaves partners for the next.
func roomFor(cards []Card, s Slice, spread bool, without []string) []int {
	var nodes []string // in the order of the cards, so that the same input gives the same packing
	room := map[string][]int{}
	for i, c := range cards {
		if !c.holds(s) || slices.Contains(without, c.Node) {
			continue
		}
		if room[c.Node] == nil {
			nodes = append(nodes, c.Node)
		}
		room[c.Node] = append(room[c.Node], i)
	}
	need := max(1, s.Cards)
	var best []int
	least := 0
	for _, node := range nodes {
		at := room[node]
		if len(at) < need {
			continue
		}
		slices.SortStableFunc(at, func(a, b int) int {
			if need > 1 {
				a, b = b, a
			}
			return cmp.Compare(cards[a].slots(s), cards[b].slots(s))
		})
		cost := cards[at[0]].FreeGiB
		if spread {
			cost = 0
			for _, i := range at {
				cost -= cards[i].slots(s)
			}
		}
		if best == nil || cost < least {
			best, least = at[:need], cost
		}
	}
	return best
}

// slots returns how many parts of the slice have room on the card.
func (c Card) slots(s Slice) int {
	if s.Whole() {
		return 1
	}
	n := c.FreeGiB / max(1, s.GiB)
	if s.CorePercent > 0 {
		n = min(n, c.FreeCore/s.CorePercent)
	}
	return n
}

func takeRoom(cards []Card, s Slice, at []int) {
	for _, i := range at {
		cards[i].take(s.GiB, s.CorePercent)
	}
}
