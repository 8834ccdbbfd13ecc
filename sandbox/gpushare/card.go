package gpushare

import (
	"cmp"
	"slices"
)

// Card is one physical GPU of a node and what its pods leave free on it.
type Card struct {
	Index int
	Free  Share
	Pods  int // pods that hold a part of it
}

// Fits reports whether the card can take a part of the size ask beside the pods it has.
func (c Card) Fits(ask Share, maxPods int) bool {
	return c.Free.Memory >= ask.Memory && c.Free.Core >= ask.Core && c.Pods < maxPods
}

// Pick chooses count different cards that each have room for ask: the smallest sufficient ones, or the emptiest ones when
// spread is set, and the lowest index among equals. It returns nil when fewer than count cards have room.
func Pick(cards []Card, ask Share, count, maxPods int, spread bool) []int {
	var fit []Card
	for _, card := range cards {
		if card.Fits(ask, maxPods) {
			fit = append(fit, card)
		}
	}
	if count < 1 || len(fit) < count {
		return nil
	}
	slices.SortStableFunc(fit, func(a, b Card) int {
		if spread {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(a.Free.Memory, b.Free.Memory), cmp.Compare(a.Free.Core, b.Free.Core))
	})
	var picked []int
	for _, card := range fit[:count] {
		picked = append(picked, card.Index)
	}
	slices.Sort(picked)
	return picked
}
