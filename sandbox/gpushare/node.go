package gpushare

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// defaultMaxPods is ACK's documented limit of pods per card under cGPU.
const defaultMaxPods = 20

// Node is what a node offers to slices.
type Node struct {
	Cards   int   // physical GPUs
	Size    Share // of each card; its Core is 0 where compute is not shared
	MaxPods int   // most pods per card
	Spread  bool  // emptiest card first, instead of the smallest sufficient one
}

// The refusals that keep a pod off a node, in the words people see in its events.
var (
	errNoMemory    = fmt.Errorf("Insufficient %s", Memory) //nolint:staticcheck // Kubernetes' own text
	errKindsDiffer = errors.New("node(s) owns gpu resources are not matched that pod requests")
	errCardMemory  = errors.New("Insufficient GPU Memory in one device")                             //nolint:staticcheck // the share scheduler's own text
	errCardCore    = errors.New("Insufficient GPU Core in one device")                               //nolint:staticcheck // in the same words
	errMaxPods     = errors.New("The number of pods per gpu device has reached the maximum allowed") //nolint:staticcheck // ACK's own text
)

// NodeOf reads a node's allocatable sums and labels. Per-card sizes are the sums divided by the card count, rounded down,
// as ACK computes them; no cards means no size. The error names a label that cannot be read.
func NodeOf(node *corev1.Node) (Node, error) {
	offer := Node{
		Cards:   max(0, whole(node.Status.Allocatable, Count)),
		MaxPods: defaultMaxPods,
		Spread:  node.Labels[PlacementLabel] == "spread",
	}
	if offer.Cards > 0 && shared(node.Labels[ModeLabel]) {
		offer.Size.Memory = whole(node.Status.Allocatable, Memory) / offer.Cards
		offer.Size.Core = whole(node.Status.Allocatable, Core) / offer.Cards
	}
	if value, ok := node.Labels[MaxPodLabel]; ok {
		limit, err := strconv.Atoi(value)
		if err != nil || limit < 0 {
			return offer, fmt.Errorf("node label %s must be a whole number, got %q", MaxPodLabel, value)
		}
		offer.MaxPods = limit
	}
	return offer, nil
}

// shared reports whether a scheduling mode offers slices at all. Nodes of the old labels have no mode.
func shared(mode string) bool {
	switch mode {
	case "default", "topology", "mig":
		return false
	}
	return true
}

// Admits refuses a request that the node could not take even when empty; nil means that it could.
func (n Node) Admits(request Request) error {
	ask := request.PerCard()
	switch {
	case n.Size.Memory == 0:
		return errNoMemory
	case (n.Size.Core > 0) != (ask.Core > 0):
		return errKindsDiffer
	case ask.Memory > n.Size.Memory || request.Cards > n.Cards:
		return errCardMemory
	case ask.Core > n.Size.Core:
		return errCardCore
	}
	return nil
}

// Place picks the cards for a request beside what the node's pods hold. The error is the reason why no cards have room.
func (n Node) Place(request Request, held []Allocation) ([]int, error) {
	if err := n.Admits(request); err != nil {
		return nil, err
	}
	cards, ask := n.free(held), request.PerCard()
	if picked := Pick(cards, ask, request.Cards, n.MaxPods, n.Spread); picked != nil {
		return picked, nil
	}
	const unlimited = 1 << 30
	if Pick(cards, ask, request.Cards, unlimited, n.Spread) != nil {
		return nil, errMaxPods
	}
	if Pick(cards, Share{Memory: ask.Memory}, request.Cards, n.MaxPods, n.Spread) != nil {
		return nil, errCardCore
	}
	return nil, errCardMemory
}

// free lists the node's cards less what is held on them. Cards that an allocation names but the node does not have are
// ignored, as on ACK.
func (n Node) free(held []Allocation) []Card {
	cards := make([]Card, n.Cards)
	for i := range cards {
		cards[i] = Card{Index: i, Free: n.Size}
	}
	for _, allocation := range held {
		for i, share := range allocation.PerCard() {
			if i < 0 || i >= n.Cards {
				continue
			}
			cards[i].Free.Memory -= share.Memory
			cards[i].Free.Core -= share.Core
			cards[i].Pods++
		}
	}
	return cards
}
