package rayslice

import (
	"cmp"
	"slices"
)

// Room is what live pods leave free of the cards that take slices now.
type Room struct {
	Known   bool    // nodes and pods were read; false = nothing can be said
	Cards   []Card  // of usable nodes; those of one node stand together
	Waiting []Slice // of our pods that no node has taken yet, and that may take room before anybody else
}

// A FitResult says whether a draft finds room. It is about cards alone: a node may lack CPU or memory all the same.
type FitResult struct {
	Known   bool // the fleet was looked at; false = nothing can be said
	Fits    bool // every worker finds a card, at the most workers that the draft may have, in whatever order the scheduler takes them
	Maybe   bool // it fits when the scheduler is lucky, or when pods whose card nobody recorded lie well; Fits is false then
	OnCards int  // cards with room for at least one worker of the draft's largest slice
	Missing int  // workers that surely find none
}

// Room returns what is free now: never a sum over a node, because a slice lies on one card.
func (f Fleet) Room() Room {
	if f.ObservedAt.IsZero() || f.PodsUnread {
		return Room{}
	}
	room := Room{Known: true}
	for _, n := range f.ByNode() {
		if n.Usable() {
			room.Cards = append(room.Cards, n.Cards...)
		}
	}
	for _, h := range f.Holds {
		if h.Node == "" && !h.Foreign {
			room.Waiting = append(room.Waiting, h.Slice)
		}
	}
	return room
}

// Fit says whether the draft finds room, with all its groups at once and at their most workers. When Fits is set, the scheduler
// places every worker, as long as nobody else takes the room: it is held against the worst order and the worst choice of
// cards. Maybe is weaker: there is a way to place them all.
func Fit(draft RequestDraft, room Room) FitResult {
	if !room.Known {
		return FitResult{}
	}
	groups := hardestFirst(draft.Groups)
	result := FitResult{Known: true}
	if len(groups) > 0 {
		for _, c := range room.Cards {
			if c.slots(groups[0].Slice, true) > 0 {
				result.OnCards++
			}
		}
	}
	waiting := room.pressing()
	if result.Fits = promised(groups, waiting, room.Cards); result.Fits {
		return result
	}
	if result.Missing = pack(groups, waiting, room.Cards, true); result.Missing > 0 {
		result.Maybe = pack(groups, waiting, room.Cards, false) == 0
	} else {
		result.Maybe = true
	}
	return result
}

// pressing returns the waiting slices that have room now. The others wait for something else, and take nothing meanwhile.
func (r Room) pressing() []Slice {
	return slices.DeleteFunc(slices.Clone(r.Waiting), func(s Slice) bool {
		return !slices.ContainsFunc(r.Cards, func(c Card) bool { return c.slots(s, false) > 0 })
	})
}

// hardestFirst returns the groups that ask for GPUs, those first that find the least room.
func hardestFirst(all []Group) []Group {
	groups := slices.DeleteFunc(slices.Clone(all), func(g Group) bool { return g.IsZero() || g.MaxWorkers < 1 })
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Slice.Cards, a.Slice.Cards), cmp.Compare(b.GiB, a.GiB), cmp.Compare(b.CorePercent, a.CorePercent),
			cmp.Compare(spreadFirst(a), spreadFirst(b)), cmp.Compare(b.MaxWorkers, a.MaxWorkers))
	})
	return groups
}

func spreadFirst(g Group) int {
	if g.Spread {
		return 0
	}
	return 1
}

// promised reports whether every worker is placed whatever the scheduler does. In each pool all workers are taken to be as
// large as the largest. Then a worker finds no room only when all room of that size is taken, so it is enough to count it.
func promised(groups []Group, waiting []Slice, cards []Card) bool {
	for _, pool := range poolsOf(groups) {
		worst, workers, spread := Slice{Pool: pool, Cards: 1}, 0, false
		grow := func(s Slice, n int) {
			worst.GiB, worst.CorePercent = max(worst.GiB, s.GiB), max(worst.CorePercent, s.CorePercent)
			worst.Cards, workers = max(worst.Cards, s.Cards), workers+n
		}
		for _, g := range groups {
			if g.Pool == pool {
				grow(g.Slice, g.MaxWorkers)
				spread = spread || g.Spread
			}
		}
		for _, s := range waiting {
			if s.Pool == pool {
				grow(s, 1)
			}
		}
		slots, nodes := 0, 0
		for node := range byNode(cards) {
			if n := surelyTakes(node, worst); n > 0 {
				slots, nodes = slots+n, nodes+1
			}
		}
		if slots < workers || spread && nodes < workers { // each other worker may spoil one node for a spread one
			return false
		}
	}
	return true
}

func poolsOf(groups []Group) []string {
	var pools []string
	for _, g := range groups {
		if !slices.Contains(pools, g.Pool) {
			pools = append(pools, g.Pool)
		}
	}
	return pools
}

// byNode yields the cards of one node after the other.
func byNode(cards []Card) func(yield func([]Card) bool) {
	return func(yield func([]Card) bool) {
		for begin := 0; begin < len(cards); {
			end := begin + 1
			for end < len(cards) && cards[end].Node == cards[begin].Node {
				end++
			}
			if !yield(cards[begin:end]) {
				return
			}
			begin = end
		}
	}
}

// surelyTakes returns how many workers a node takes however they are put on its cards. A worker of n cards is refused when
// fewer than n have room, so as long as the emptiest n-1 are left over in vain; each worker takes at most n of the others.
func surelyTakes(node []Card, s Slice) int {
	need := max(1, s.Cards)
	if len(node) < need {
		return 0
	}
	slots := make([]int, len(node))
	for i, c := range node {
		slots[i] = c.slots(s, true)
	}
	slices.Sort(slots)
	rest, sum := slots[:len(slots)-need+1], 0
	for _, n := range rest {
		sum += n
	}
	per := min(need, len(rest))
	return (sum + per - 1) / per
}

// pack gives every waiting slice and then every worker of the groups its cards, and counts the workers who get none.
func pack(groups []Group, waiting []Slice, cards []Card, surely bool) (missing int) {
	left := slices.Clone(cards)
	for _, s := range waiting {
		takeRoom(left, s, roomFor(left, s, surely, nil, false))
	}
	for _, g := range groups {
		used := map[string]bool{} // nodes that have a worker of a group that must be spread
		for i := range g.MaxWorkers {
			at := roomFor(left, g.Slice, surely, used, g.Spread)
			if at == nil {
				missing += g.MaxWorkers - i // the next is as large, and finds no more
				break
			}
			takeRoom(left, g.Slice, at)
			if g.Spread {
				used[left[at[0]].Node] = true
			}
		}
	}
	return missing
}

// roomFor returns the cards of one node for one worker, nil when there are none. Spread workers go where most room is left,
// so that the next group finds different nodes as well; the others go where they fill up what is begun. A worker with
// several cards takes the emptiest of a node, which leaves partners for the next.
func roomFor(cards []Card, s Slice, surely bool, without map[string]bool, spread bool) []int {
	need := max(1, s.Cards)
	var best []int
	least, begin := 0, 0
	for node := range byNode(cards) {
		first := begin
		begin += len(node)
		if without[node[0].Node] {
			continue
		}
		var at []int
		total := 0
		for i, c := range node {
			if n := c.slots(s, surely); n > 0 {
				at, total = append(at, first+i), total+n
			}
		}
		if len(at) < need {
			continue
		}
		slices.SortStableFunc(at, func(a, b int) int {
			if need > 1 {
				a, b = b, a
			}
			return cmp.Compare(cards[a].slots(s, surely), cards[b].slots(s, surely))
		})
		cost := cards[at[0]].FreeGiB
		if spread {
			cost = -total
		}
		if best == nil || cost < least {
			best, least = at[:need], cost
		}
	}
	return best
}

func takeRoom(cards []Card, s Slice, at []int) {
	for _, i := range at {
		cards[i].take(s.GiB, s.CorePercent)
		cards[i].Parts = append(slices.Clip(cards[i].Parts), Part{GiB: s.GiB, CorePercent: s.CorePercent})
	}
}
