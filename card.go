package rayslice

import (
	"cmp"
	"slices"
)

// A Hold is what one live pod has of a node's cards, or waits for, whoever made the pod. A pod that is on its way out still
// has what it had; one that has ended has nothing (domain facts A.5).
type Hold struct {
	RequestID  string      `json:"request_id"` // of one of our pods; "" = not ours, or not to be seen
	Team       string      `json:"team"`       // of one of our pods; "" as above
	Foreign    bool        `json:"foreign"`    // not ours
	Namespace  string      `json:"namespace"`  // "" = not to be seen
	Pod        string      `json:"pod"`        // "" = not to be seen; an untrusted name
	Node       string      `json:"node"`       // "" = waits for one
	Slice      Slice       `json:"slice"`      // what it asks for; of a foreign pod the pool is not known
	Placements []Placement `json:"placements"` // on which cards it is; empty = nobody has recorded it
	Deleting   bool        `json:"deleting"`   // on its way out
}

// For returns the fleet as the actor may see it: other teams' clusters and foreign pods keep their size and lose their names.
// Admins see all.
func (f Fleet) For(actor User) Fleet {
	if actor.System || actor.CanAdmin() {
		return f
	}
	f.Holds = slices.Clone(f.Holds)
	for i := range f.Holds {
		if h := &f.Holds[i]; h.Foreign || !actor.CanSee(h.Team) {
			h.RequestID, h.Team, h.Namespace, h.Pod = "", "", "", ""
		}
	}
	f.Orphans, f.Unmanaged, f.Guards = nil, nil, nil
	return f
}

// A Card is one physical card, and what live pods leave free of it (domain facts A.4).
type Card struct {
	Pool     string
	Node     string
	Index    int  // of the card on its node; on nodes of whole cards nobody records which a pod has, so there it only counts
	Mode     Mode // how its node shares it
	GiB      int  // it offers; a whole card's memory, for people
	FreeGiB  int  // GiB that nobody has by what is recorded; 0 on nodes of whole cards
	FreeCore int  // percent of its compute that slices have not reserved
	Empty    bool // nobody has anything of it
	MaxPods  int  // most pods on it; 0 = not limited
	Parts    []Part

	Loose Loose // what pods of its node have whose card nobody recorded: any of it may lie on this card
}

// A Part is what one pod has of a card.
type Part struct {
	Hold        Hold
	GiB         int // 0 = the whole card
	CorePercent int
}

// Loose is what the pods of a node have of cards that nobody has recorded. What a card has free is an upper bound then.
type Loose struct {
	Pods        int
	GiB         int // together, and what is recorded on a card beyond what it offers
	CorePercent int // together
}

// NodeCards is one node with its cards.
type NodeCards struct {
	Node
	Cards []Card
	Loose []Hold // pods of the node of which the card, or part of it, is not recorded
}

// Usable reports whether the scheduler puts slices on the node.
func (n Node) Usable() bool { return n.Pool != "" && n.Ready && len(n.Problems) == 0 }

// ByNode joins the nodes, in their order, with what the live pods have of their cards.
func (f Fleet) ByNode() []NodeCards {
	holds := map[string][]Hold{}
	for _, h := range f.Holds {
		if h.Node != "" {
			holds[h.Node] = append(holds[h.Node], h)
		}
	}
	nodes := make([]NodeCards, 0, len(f.Nodes))
	for _, n := range f.Nodes {
		nodes = append(nodes, nodeCards(n, holds[n.Name]))
	}
	return nodes
}

func nodeCards(n Node, holds []Hold) NodeCards {
	node := NodeCards{Node: n, Cards: make([]Card, n.Cards)}
	for i := range node.Cards {
		node.Cards[i] = Card{Pool: n.Pool, Node: n.Name, Index: i, Mode: n.Mode, GiB: n.CardGiB, FreeCore: 100, Empty: true, MaxPods: n.MaxPods}
		if n.Mode.Sliced() {
			node.Cards[i].FreeGiB = n.CardGiB
		}
	}
	slices.SortStableFunc(holds, func(a, b Hold) int { // what is recorded first, so that the rest finds what is left
		return cmp.Compare(min(1, len(b.Placements)), min(1, len(a.Placements)))
	})
	var loose Loose
	for _, h := range holds {
		if left := node.place(h); left != (Loose{}) {
			node.Loose = append(node.Loose, h)
			loose = Loose{loose.Pods + left.Pods, loose.GiB + left.GiB, loose.CorePercent + left.CorePercent}
		}
	}
	for i := range node.Cards { // what is too much on one card counts in the node's sum, so it may be missing on any
		c := &node.Cards[i]
		loose.GiB, loose.CorePercent = loose.GiB+max(0, -c.FreeGiB), loose.CorePercent+max(0, -c.FreeCore)
		c.FreeGiB, c.FreeCore = max(0, c.FreeGiB), max(0, c.FreeCore)
	}
	for i := range node.Cards {
		node.Cards[i].Loose = loose
	}
	return node
}

// place puts a pod on the cards that are recorded for it, and returns what of it lies nobody knows where.
func (n *NodeCards) place(h Hold) Loose {
	if !n.Mode.Sliced() {
		return n.placeWhole(h)
	}
	for _, p := range h.Placements {
		if n.has(p) {
			n.Cards[p.Card].take(p.GiB, h.Slice.CorePercent)
			n.Cards[p.Card].Parts = append(n.Cards[p.Card].Parts, Part{Hold: h, GiB: p.GiB, CorePercent: h.Slice.CorePercent})
		}
	}
	if left := n.unrecorded(h); left > 0 {
		return Loose{Pods: 1, GiB: left, CorePercent: h.Slice.CorePercent}
	}
	return Loose{}
}

func (n *NodeCards) has(p Placement) bool { return p.Card >= 0 && p.Card < len(n.Cards) }

// unrecorded returns how many GiB of a pod lie on cards that are not recorded, or that the node does not have.
func (n *NodeCards) unrecorded(h Hold) int {
	switch {
	case !n.Mode.Sliced():
		return 0
	case h.Slice.GiB == 0: // a pod of whole cards, from before the node was shared
		return n.CardGiB * max(1, h.Slice.Cards)
	}
	left := h.Slice.GiB * max(1, h.Slice.Cards)
	for _, p := range h.Placements {
		if n.has(p) {
			left -= p.GiB
		}
	}
	return max(0, left)
}

// placeWhole counts cards: a pod with whole cards has them alone, and which they are makes no difference. A slice on such a
// node spoils a card.
func (n *NodeCards) placeWhole(h Hold) Loose {
	left := max(1, h.Slice.Cards)
	for i := range n.Cards {
		if c := &n.Cards[i]; c.Empty && left > 0 {
			c.Empty, c.Parts = false, append(c.Parts, Part{Hold: h, GiB: h.Slice.GiB, CorePercent: h.Slice.CorePercent})
			left--
		}
	}
	if left == 0 {
		return Loose{}
	}
	return Loose{Pods: 1}
}

func (c *Card) take(gib, core int) {
	c.FreeGiB, c.FreeCore, c.Empty = c.FreeGiB-gib, c.FreeCore-core, false
}

// slots returns how many parts of the slice have room on the card: surely, wherever what is not recorded lies, or as far as
// is recorded. Memory-only slices and those that reserve compute do not mix (domain facts A.2).
func (c Card) slots(s Slice, surely bool) int {
	if c.Pool != s.Pool {
		return 0
	}
	if s.Whole() {
		if c.Empty && !c.Mode.Sliced() {
			return 1
		}
		return 0
	}
	if !c.Mode.Sliced() || s.GiB < 1 || (c.Mode == ModeCoreMem) != (s.CorePercent > 0) {
		return 0
	}
	gib, core, pods := c.FreeGiB, c.FreeCore, len(c.Parts)
	if surely {
		gib, core, pods = gib-c.Loose.GiB, core-c.Loose.CorePercent, pods+c.Loose.Pods
	}
	n := max(0, gib) / s.GiB
	if s.CorePercent > 0 {
		n = min(n, max(0, core)/s.CorePercent)
	}
	if c.MaxPods > 0 {
		n = min(n, max(0, c.MaxPods-pods))
	}
	return n
}

// A PoolSum adds up the cards of one pool's nodes. GiB are of nodes that hand out slices.
type PoolSum struct {
	Nodes    int `json:"nodes"`
	Cards    int `json:"cards"`
	GiB      int `json:"gib"`       // offered
	GivenGiB int `json:"given_gib"` // what live pods have of it
	FreeGiB  int `json:"free_gib"`  // surely free on nodes that take slices; it lies on many cards, so a slice may find no room all the same
	Free     int `json:"free"`      // whole cards that nobody has, on nodes that take pods
	Largest  int `json:"largest"`   // GiB of the largest slice that surely finds room now
	Troubled int `json:"troubled"`  // nodes that take no slices, or about which something does not add up
}

// SumPool adds up the nodes of one pool; pool "" = those that no pool picks.
func SumPool(pool string, nodes []NodeCards) PoolSum {
	var sum PoolSum
	for _, n := range nodes {
		if n.Pool != pool {
			continue
		}
		sum.Nodes, sum.Cards = sum.Nodes+1, sum.Cards+len(n.Cards)
		if n.Troubled() {
			sum.Troubled++
		}
		for _, c := range n.Cards {
			sum.addCard(n, c)
		}
		for _, h := range n.Loose {
			sum.GivenGiB += n.unrecorded(h)
		}
	}
	return sum
}

func (s *PoolSum) addCard(n NodeCards, c Card) {
	if !c.Mode.Sliced() {
		if c.Empty && n.Usable() {
			s.Free++
		}
		return
	}
	s.GiB, s.GivenGiB = s.GiB+c.GiB, s.GivenGiB+c.GivenGiB()
	if n.Usable() {
		free := max(0, c.FreeGiB-c.Loose.GiB)
		s.FreeGiB += free
		if c.MaxPods == 0 || len(c.Parts)+c.Loose.Pods < c.MaxPods {
			s.Largest = max(s.Largest, free)
		}
	}
}

// GivenGiB returns how many GiB of the card pods have, by what is recorded.
func (c Card) GivenGiB() int {
	given := 0
	for _, p := range c.Parts {
		given += p.GiB
	}
	return given
}

// Troubled reports whether something about the node needs a look.
func (n Node) Troubled() bool { return !n.Ready || len(n.Problems)+len(n.Doubts) > 0 }
