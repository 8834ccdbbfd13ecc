package rayslice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fitFleet is two nodes with two 22 GiB cards each, one with two whole cards, one that reserves compute, and some that take
// nothing.
func fitFleet(holds ...Hold) Fleet {
	return Fleet{ObservedAt: time.Unix(1, 0), Holds: holds, Nodes: []Node{
		{Name: "n1", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 2, CardGiB: 22, MaxPods: 3},
		{Name: "n2", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 2, CardGiB: 22, MaxPods: 3},
		{Name: "n3", Pool: "a100", Mode: ModeWhole, Ready: true, Cards: 2, CardGiB: 80},
		{Name: "n4", Pool: "a10", Mode: ModeCGPU, Cards: 8, CardGiB: 22},
		{Name: "n5", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 8, CardGiB: 22, Problems: []Reason{{Code: "node_cordoned"}}},
		{Name: "n6", Mode: ModeCGPU, Ready: true, Cards: 8, CardGiB: 22},
		{Name: "n7", Pool: "core", Mode: ModeCoreMem, Ready: true, Cards: 1, CardGiB: 22},
	}, Pools: []PoolStatus{{Pool: "a10"}, {Pool: "shut", Blocked: Reason{Code: "pool_unit"}}}}
}

func fitGroup(pool string, gib, workers int) Group {
	return Group{Slice: Slice{Pool: pool, GiB: gib, Cards: 1}, Workers: workers, MinWorkers: workers, MaxWorkers: workers}
}

func fitDraft(groups ...Group) RequestDraft { return RequestDraft{Groups: groups} }

// heldBy is a pod of the request with one slice; without cards nobody recorded where it is.
func heldBy(request, node string, gib int, cards ...int) Hold {
	h := Hold{RequestID: request, Team: "vision", Node: node, Slice: Slice{Pool: "a10", GiB: gib, Cards: 1}}
	for _, c := range cards {
		h.Placements = append(h.Placements, Placement{Card: c, GiB: gib})
	}
	return h
}

func foreign(node string, gib int, cards ...int) Hold {
	h := heldBy("", node, gib, cards...)
	h.Foreign, h.Team, h.Slice.Pool, h.Namespace, h.Pod = true, "", "", "default", "trainer"
	return h
}

func TestFit(t *testing.T) {
	spread := fitGroup("a10", 4, 3)
	spread.Spread = true
	pair := Group{Slice: Slice{Pool: "a100", Cards: 2}, MaxWorkers: 1}
	whole := Hold{RequestID: "x", Node: "n3", Slice: Slice{Pool: "a100", Cards: 1}}
	core := Group{Slice: Slice{Pool: "core", GiB: 8, Cards: 1, CorePercent: 50}, MaxWorkers: 2}
	memoryOnly := core
	memoryOnly.CorePercent = 0
	halfCore := Hold{Foreign: true, Node: "n7", Slice: Slice{GiB: 4, Cards: 1, CorePercent: 30}, Placements: []Placement{{GiB: 4}}}
	for name, tc := range map[string]struct {
		draft RequestDraft
		holds []Hold
		want  FitResult
	}{
		"an empty fleet has room on every card":        {fitDraft(fitGroup("a10", 8, 8)), nil, FitResult{Known: true, Fits: true, OnCards: 4}},
		"two slices of 8 fill a card of 22":            {fitDraft(fitGroup("a10", 8, 9)), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"what is free on two cards is no room for one": {fitDraft(fitGroup("a10", 16, 1)), []Hold{heldBy("x", "n1", 8, 0), heldBy("x", "n1", 8, 1), foreign("n2", 8, 0), foreign("n2", 8, 1)}, FitResult{Known: true, Missing: 1}},
		"B061 free is what pods ask less the offer":    {fitDraft(fitGroup("a10", 6, 1)), []Hold{heldBy("x", "n1", 8, 0), foreign("n1", 8, 0), foreign("n1", 22, 1), foreign("n2", 22, 0), foreign("n2", 22, 1)}, FitResult{Known: true, Fits: true, OnCards: 1}},
		"B061 and not more":                            {fitDraft(fitGroup("a10", 7, 1)), []Hold{heldBy("x", "n1", 8, 0), foreign("n1", 8, 0), foreign("n1", 22, 1), foreign("n2", 22, 0), foreign("n2", 22, 1)}, FitResult{Known: true, Missing: 1}},
		"B064 foreign pods hold cards like ours":       {fitDraft(fitGroup("a10", 22, 3)), []Hold{foreign("n1", 1, 0), foreign("n1", 1, 1)}, FitResult{Known: true, OnCards: 2, Missing: 1}},
		"B032 a card nobody recorded may be any":       {fitDraft(fitGroup("a10", 16, 3)), []Hold{foreign("n1", 8)}, FitResult{Known: true, Maybe: true, OnCards: 2, Missing: 1}},
		"nor helps it where there is too little":       {fitDraft(fitGroup("a10", 16, 5)), []Hold{foreign("n1", 8)}, FitResult{Known: true, OnCards: 2, Missing: 3}},
		"a card that the node has not is not recorded": {fitDraft(fitGroup("a10", 22, 4)), []Hold{foreign("n1", 8, 7)}, FitResult{Known: true, Maybe: true, OnCards: 2, Missing: 2}},
		"what is too much on one card is missing":      {fitDraft(fitGroup("a10", 20, 1)), []Hold{foreign("n1", 22, 0), foreign("n1", 4, 0), foreign("n2", 22, 0), foreign("n2", 22, 1)}, FitResult{Known: true, Maybe: true, Missing: 1}},
		"a pod that waits counts where it would go":    {fitDraft(fitGroup("a10", 22, 4)), []Hold{heldBy("x", "", 8)}, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"one that has no room takes none":              {fitDraft(fitGroup("a10", 22, 4)), []Hold{heldBy("x", "", 23)}, FitResult{Known: true, Fits: true, OnCards: 4}},
		"a pod on its way out still has its card":      {fitDraft(fitGroup("a10", 22, 4)), []Hold{{RequestID: "x", Node: "n1", Deleting: true, Slice: Slice{Pool: "a10", GiB: 1, Cards: 1}, Placements: []Placement{{GiB: 1}}}}, FitResult{Known: true, OnCards: 3, Missing: 1}},
		"B055 spread workers want different nodes":     {fitDraft(spread), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"groups share the cards":                       {fitDraft(fitGroup("a10", 22, 3), fitGroup("a10", 8, 3)), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"groups that fit with luck":                    {fitDraft(fitGroup("a10", 22, 3), fitGroup("a10", 8, 2)), nil, FitResult{Known: true, Maybe: true, OnCards: 4}},
		"most pods on a card":                          {fitDraft(fitGroup("a10", 1, 12)), nil, FitResult{Known: true, Fits: true, OnCards: 4}},
		"and not one more":                             {fitDraft(fitGroup("a10", 1, 12)), []Hold{foreign("n2", 1, 1)}, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"two whole cards of one node":                  {fitDraft(pair), nil, FitResult{Known: true, Fits: true, OnCards: 2}},
		"a whole card must be empty":                   {fitDraft(pair), []Hold{whole}, FitResult{Known: true, OnCards: 1, Missing: 1}},
		"a whole card from before it was shared":       {fitDraft(fitGroup("a10", 4, 7)), []Hold{{Foreign: true, Node: "n1", Slice: Slice{Cards: 1}}}, FitResult{Known: true, Maybe: true, OnCards: 2, Missing: 1}},
		"compute beside memory":                        {fitDraft(core), nil, FitResult{Known: true, Fits: true, OnCards: 1}},
		"compute is taken":                             {fitDraft(core), []Hold{halfCore}, FitResult{Known: true, OnCards: 1, Missing: 1}},
		"memory alone never where compute is reserved": {fitDraft(memoryOnly), nil, FitResult{Known: true, Missing: 2}},
		"another pool is no room":                      {fitDraft(fitGroup("t4", 4, 1)), nil, FitResult{Known: true, Missing: 1}},
		"B065 without a GPU everything fits":           {fitDraft(Group{MaxWorkers: 3}), nil, FitResult{Known: true, Fits: true}},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := fitFleet(tc.holds...)
			before := fmt.Sprint(fleet)
			if diff := cmp.Diff(tc.want, Fit(tc.draft, fleet.Room())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if after := fmt.Sprint(fleet); after != before {
				t.Errorf("Fit changed the fleet from %s to %s", before, after)
			}
		})
	}
	unread := fitFleet()
	unread.PodsUnread = true
	for name, fleet := range map[string]Fleet{"no fleet": {}, "no pods": unread} {
		if got := Fit(fitDraft(fitGroup("a10", 8, 1)), fleet.Room()); got != (FitResult{}) {
			t.Errorf("%s: %+v, want nothing known", name, got)
		}
	}
	if got := Fit(fitDraft(fitGroup("a10", 8, 1)), Fleet{ObservedAt: time.Unix(1, 0)}.Room()); !got.Known || got.Fits {
		t.Errorf("a fleet without cards says %+v, want no room", got)
	}
}

// TestFitKeepsItsPromise lets a scheduler that takes the workers in any order and chooses badly place random drafts beside
// random pods: whenever Fit says that all fit, all are placed.
func TestFitKeepsItsPromise(t *testing.T) {
	promised := 0
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawFleet(t)
		draft := drawDraft(t)
		if !Fit(draft, fleet.Room()).Fits {
			return
		}
		promised++
		s := newScheduler(fleet)
		for _, pod := range rapid.Permutation(s.queue(draft)).Draw(t, "order") {
			if !s.place(t, pod) && !pod.waiting {
				t.Fatalf("%+v finds no card among %+v, of %+v", pod, s.cards, draft)
			}
		}
	})
	if promised == 0 {
		t.Error("nothing was ever promised")
	}
}

// scheduler is a model of the share scheduler: cards of one node with room, any of them.
type scheduler struct {
	fleet Fleet
	cards map[string][]modelCard // by node
}

type modelCard struct{ gib, core, pods int }

type modelPod struct {
	Slice
	group   int
	spread  bool
	waiting bool
}

func newScheduler(f Fleet) *scheduler {
	s := &scheduler{f, map[string][]modelCard{}}
	for _, n := range f.Nodes {
		for range n.Cards {
			s.cards[n.Name] = append(s.cards[n.Name], modelCard{gib: n.CardGiB, core: 100})
		}
	}
	for _, h := range f.Holds {
		for _, p := range h.Placements {
			c := &s.cards[h.Node][p.Card]
			c.gib, c.core, c.pods = c.gib-p.GiB, c.core-h.Slice.CorePercent, c.pods+1
		}
		if len(h.Placements) == 0 && h.Node != "" { // the scheduler knows nothing of it, but whole cards are counted
			s.takeWhole(h)
		}
	}
	return s
}

func (s *scheduler) takeWhole(h Hold) {
	for left, i := h.Slice.Cards, 0; h.Slice.GiB == 0 && left > 0 && i < len(s.cards[h.Node]); i++ {
		if c := &s.cards[h.Node][i]; c.pods == 0 {
			c.pods, left = 1, left-1
		}
	}
}

func (s *scheduler) queue(draft RequestDraft) (pods []modelPod) {
	for _, h := range s.fleet.Holds {
		if h.Node == "" {
			pods = append(pods, modelPod{Slice: h.Slice, group: -1, waiting: true})
		}
	}
	for i, g := range draft.Groups {
		for range g.MaxWorkers {
			pods = append(pods, modelPod{Slice: g.Slice, group: i, spread: g.Spread})
		}
	}
	return pods
}

func (s *scheduler) place(t *rapid.T, pod modelPod) bool {
	options := map[string][]int{}
	var nodes []string
	for _, n := range s.fleet.Nodes {
		if n.Pool != pod.Pool || pod.spread && s.usedBy(pod.group, n.Name) {
			continue
		}
		var at []int
		for i, c := range s.cards[n.Name] {
			whole := pod.Whole() && c.pods == 0
			if whole || !pod.Whole() && c.gib >= pod.GiB && c.core >= pod.CorePercent && (n.MaxPods == 0 || c.pods < n.MaxPods) {
				at = append(at, i)
			}
		}
		if len(at) >= pod.Cards {
			options[n.Name], nodes = at, append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		return false
	}
	node := rapid.SampledFrom(nodes).Draw(t, "node")
	for _, i := range rapid.Permutation(options[node]).Draw(t, "cards")[:pod.Cards] {
		c := &s.cards[node][i]
		c.gib, c.core, c.pods = c.gib-pod.GiB, c.core-pod.CorePercent, c.pods+1
	}
	if pod.spread {
		s.fleet.Orphans = append(s.fleet.Orphans, Orphan{Name: fmt.Sprint(pod.group), Namespace: node})
	}
	return true
}

func (s *scheduler) usedBy(group int, node string) bool {
	return slices.Contains(s.fleet.Orphans, Orphan{Name: fmt.Sprint(group), Namespace: node})
}

// TestFitFindsWhatThereIs compares alike slices with the number of slots there are.
func TestFitFindsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawFleet(t)
		s := Slice{Pool: "a10", GiB: rapid.IntRange(1, 22).Draw(t, "gib"), Cards: 1}
		fleet = fleet.without(func(h Hold) bool { return len(h.Placements) == 0 })
		slots := 0
		for _, n := range fleet.Nodes {
			for _, c := range newScheduler(fleet).cards[n.Name] {
				if n.Pool == s.Pool {
					slots += min(c.gib/s.GiB, n.MaxPods-c.pods)
				}
			}
		}
		workers := rapid.IntRange(1, 12).Draw(t, "workers")
		got := Fit(fitDraft(Group{Slice: s, MaxWorkers: workers}), fleet.Room())
		if want := max(0, workers-slots); got.Missing != want || got.Fits != (want == 0) {
			t.Fatalf("%+v, want %d missing of %d in %d slots", got, want, workers, slots)
		}
	})
}

func drawDraft(t *rapid.T) RequestDraft {
	var draft RequestDraft
	for range rapid.IntRange(1, 3).Draw(t, "groups") {
		g := Group{Slice: drawSlice(t), MaxWorkers: rapid.IntRange(1, 4).Draw(t, "workers"), Spread: rapid.Bool().Draw(t, "spread")}
		draft.Groups = append(draft.Groups, g)
	}
	return draft
}

func drawSlice(t *rapid.T) Slice {
	cards := rapid.IntRange(1, 2).Draw(t, "cards")
	switch rapid.SampledFrom([]string{"a10", "a10", "core", "a100"}).Draw(t, "pool") {
	case "core":
		return Slice{Pool: "core", GiB: rapid.IntRange(1, 12).Draw(t, "gib"), CorePercent: 5 * rapid.IntRange(1, 12).Draw(t, "core"), Cards: 1}
	case "a100":
		return Slice{Pool: "a100", Cards: cards}
	}
	return Slice{Pool: "a10", GiB: rapid.IntRange(1, 12).Draw(t, "gib"), Cards: cards}
}

// drawFleet draws nodes of three modes with pods that the model scheduler has put there, some of which nobody recorded.
func drawFleet(t *rapid.T) Fleet {
	fleet := Fleet{ObservedAt: time.Unix(1, 0)}
	for n := range rapid.IntRange(0, 5).Draw(t, "nodes") {
		node := Node{Name: fmt.Sprintf("n%d", n), Pool: "a10", Mode: ModeCGPU, Ready: true, CardGiB: 22, MaxPods: rapid.IntRange(1, 5).Draw(t, "max pods"),
			Cards: rapid.IntRange(1, 4).Draw(t, "cards of the node")}
		switch rapid.IntRange(0, 3).Draw(t, "kind of node") {
		case 0:
			node.Pool, node.Mode = "core", ModeCoreMem
		case 1:
			node.Pool, node.Mode, node.MaxPods = "a100", ModeWhole, 0
		}
		fleet.Nodes = append(fleet.Nodes, node)
		for i := range node.Cards {
			if gib := rapid.IntRange(0, 22).Draw(t, "held"); gib > 0 && node.Mode.Sliced() {
				h := foreign(node.Name, gib, i)
				if node.Mode == ModeCoreMem {
					h.Slice.CorePercent = 5 * rapid.IntRange(1, 20).Draw(t, "held core")
				}
				fleet.Holds = append(fleet.Holds, h)
			} else if gib > 11 {
				fleet.Holds = append(fleet.Holds, Hold{Foreign: true, Node: node.Name, Slice: Slice{Cards: 1}})
			}
		}
		if node.Mode.Sliced() && rapid.IntRange(0, 4).Draw(t, "unrecorded") == 0 {
			fleet.Holds = append(fleet.Holds, foreign(node.Name, rapid.IntRange(1, 8).Draw(t, "unrecorded GiB")))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "waiting") {
		fleet.Holds = append(fleet.Holds, Hold{RequestID: "w", Slice: drawSlice(t)})
	}
	return fleet
}
