package rayslice

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fitFleet is two nodes with two 22 GiB cards each, and one with two whole cards.
func fitFleet() Fleet {
	return Fleet{ObservedAt: time.Unix(1, 0), Nodes: []Node{
		{Name: "n1", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 2, CardGiB: 22},
		{Name: "n2", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 2, CardGiB: 22},
		{Name: "n3", Pool: "a100", Mode: ModeWhole, Ready: true, Cards: 2},
		{Name: "n4", Pool: "a10", Mode: ModeCGPU, Cards: 8, CardGiB: 22},
		{Name: "n5", Pool: "a10", Mode: ModeCGPU, Ready: true, Cards: 8, CardGiB: 22, Problems: []Reason{{Code: "node_cordoned"}}},
		{Name: "n6", Mode: ModeCGPU, Ready: true, Cards: 8, CardGiB: 22},
	}}
}

func fitGroup(pool string, gib, workers int) Group {
	return Group{Slice: Slice{Pool: pool, GiB: gib, Cards: 1}, Workers: workers, MinWorkers: workers, MaxWorkers: workers}
}

func fitDraft(groups ...Group) RequestDraft { return RequestDraft{Groups: groups} }

func TestFit(t *testing.T) {
	running := func(node string, gib int, cards ...int) Cluster {
		w := Worker{Node: node, Phase: PodRunning, Slice: Slice{Pool: "a10", GiB: gib, Cards: 1}}
		for _, c := range cards {
			w.Placements = append(w.Placements, Placement{Card: c, GiB: gib})
		}
		return Cluster{Workers: []Worker{w}}
	}
	spread := fitGroup("a10", 4, 3)
	spread.Spread = true
	pair := Group{Slice: Slice{Pool: "a100", Cards: 2}, MaxWorkers: 1}
	ended := running("n1", 22, 0)
	ended.Workers[0].Phase = PodSucceeded
	for name, tc := range map[string]struct {
		draft    RequestDraft
		clusters []Cluster
		want     FitResult
	}{
		"an empty fleet has room on every card":        {fitDraft(fitGroup("a10", 8, 8)), nil, FitResult{Known: true, Fits: true, OnCards: 4}},
		"two slices of 8 fill a card of 22":            {fitDraft(fitGroup("a10", 8, 9)), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"what is free on two cards is no room for one": {fitDraft(fitGroup("a10", 16, 1)), []Cluster{running("n1", 8, 0), running("n1", 8, 1), running("n2", 8, 0), running("n2", 8, 1)}, FitResult{Known: true, Missing: 1}},
		"a card that is not known counts on each":      {fitDraft(fitGroup("a10", 16, 3)), []Cluster{running("n1", 8)}, FitResult{Known: true, OnCards: 2, Missing: 1}},
		"a pod that waits counts where it would go":    {fitDraft(fitGroup("a10", 22, 4)), []Cluster{running("", 8)}, FitResult{Known: true, OnCards: 3, Missing: 1}},
		"a pod that has ended takes nothing":           {fitDraft(fitGroup("a10", 22, 4)), []Cluster{ended}, FitResult{Known: true, Fits: true, OnCards: 4}},
		"spread workers want different nodes":          {fitDraft(spread), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"groups share the cards":                       {fitDraft(fitGroup("a10", 22, 3), fitGroup("a10", 8, 3)), nil, FitResult{Known: true, OnCards: 4, Missing: 1}},
		"two whole cards of one node":                  {fitDraft(pair), nil, FitResult{Known: true, Fits: true, OnCards: 2}},
		"a whole card must be empty":                   {fitDraft(pair), []Cluster{{Workers: []Worker{{Node: "n3", Slice: Slice{Pool: "a100", Cards: 1}}}}}, FitResult{Known: true, OnCards: 1, Missing: 1}},
		"another pool is no room":                      {fitDraft(fitGroup("t4", 4, 1)), nil, FitResult{Known: true, Missing: 1}},
		"without a GPU everything fits":                {fitDraft(Group{MaxWorkers: 3}), nil, FitResult{Known: true, Fits: true}},
	} {
		t.Run(name, func(t *testing.T) {
			cards := Cards(fitFleet(), tc.clusters)
			before := fmt.Sprint(cards)
			if diff := cmp.Diff(tc.want, Fit(tc.draft, cards)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if after := fmt.Sprint(cards); after != before {
				t.Errorf("Fit changed the cards from %s to %s", before, after)
			}
		})
	}
	if got := Fit(fitDraft(fitGroup("a10", 8, 1)), Cards(Fleet{}, nil)); got != (FitResult{}) {
		t.Errorf("an unknown fleet says %+v, want nothing known", got)
	}
	if got := Fit(fitDraft(fitGroup("a10", 8, 1)), Cards(Fleet{ObservedAt: time.Unix(1, 0)}, nil)); !got.Known || got.Fits {
		t.Errorf("a fleet without cards says %+v, want no room", got)
	}
}

// TestFitKeepsItsPromise packs random drafts on random cards: every worker has cards of its own pool, on one node, each
// with room, and spread workers are on different nodes.
func TestFitKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := drawCards(t)
		var groups []Group
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			g := Group{Slice: Slice{Pool: "a10", GiB: rapid.IntRange(1, 22).Draw(t, "gib"), Cards: rapid.IntRange(1, 2).Draw(t, "cards"),
				CorePercent: rapid.SampledFrom([]int{0, 0, 25, 60}).Draw(t, "core")},
				MaxWorkers: rapid.IntRange(1, 5).Draw(t, "workers"), Spread: rapid.Bool().Draw(t, "spread")}
			if rapid.Bool().Draw(t, "whole") {
				g.Slice = Slice{Pool: "a100", Cards: g.Cards}
			}
			groups = append(groups, g)
		}
		free := append([]Card(nil), cards...)
		placed, missing := pack(groups, free)
		n := 0
		left := append([]Card(nil), cards...)
		for _, g := range groups {
			nodes := map[string]bool{}
			for range g.MaxWorkers {
				if n == len(placed) {
					break
				}
				if missing > 0 {
					return // which worker got none is not told; a promise was not made
				}
				at := placed[n]
				n++
				if len(at) != g.Cards || g.Spread && nodes[left[at[0]].Node] {
					t.Fatalf("%v for %+v, nodes so far %v", at, g, nodes)
				}
				nodes[left[at[0]].Node] = true
				seen := map[int]bool{}
				for _, i := range at {
					if seen[i] || left[i].Node != left[at[0]].Node || !left[i].holds(g.Slice) {
						t.Fatalf("%v for %+v on %+v", at, g, left)
					}
					seen[i] = true
					left[i].take(g.GiB, g.CorePercent)
				}
			}
		}
		if missing == 0 && n != len(placed) {
			t.Fatalf("%d placed, %d wanted", len(placed), n)
		}
	})
}

// TestFitFindsWhatThereIs compares alike slices with the number of slots there are.
func TestFitFindsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := drawCards(t)
		s := Slice{Pool: "a10", GiB: rapid.IntRange(1, 22).Draw(t, "gib"), Cards: 1}
		slots := 0
		for _, c := range cards {
			if c.Pool == s.Pool {
				slots += c.FreeGiB / s.GiB
			}
		}
		workers := rapid.IntRange(1, 12).Draw(t, "workers")
		got := Fit(fitDraft(Group{Slice: s, MaxWorkers: workers}), cards)
		if want := max(0, workers-slots); got.Missing != want {
			t.Fatalf("%d missing, want %d of %d in %d slots", got.Missing, want, workers, slots)
		}
	})
}

func drawCards(t *rapid.T) []Card {
	cards := []Card{}
	for n := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		whole := rapid.Bool().Draw(t, "whole node")
		for i := range rapid.IntRange(1, 3).Draw(t, "cards of the node") {
			c := Card{Pool: "a10", Node: fmt.Sprintf("n%d", n), Index: i, FreeGiB: rapid.IntRange(0, 22).Draw(t, "free"), FreeCore: 5 * rapid.IntRange(0, 20).Draw(t, "free core")}
			if whole {
				c = Card{Pool: "a100", Node: c.Node, Index: i, FreeCore: 100, Empty: rapid.Bool().Draw(t, "empty")}
			}
			cards = append(cards, c)
		}
	}
	return cards
}
