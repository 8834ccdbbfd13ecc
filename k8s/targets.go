package k8s

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayslice/rayslice"
)

// targetsOf returns the workers of the given pods that can be verified now, with what Kubernetes knows of their cards.
func targetsOf(have rayslice.Cluster, pods []string, catalogue rayslice.Catalogue, nodes []*corev1.Node, others []*podView) []rayslice.Target {
	gpus := 0
	for _, w := range have.Workers {
		if !w.Deleting {
			gpus += w.Slice.Cards
		}
	}
	var targets []rayslice.Target
	for _, w := range have.Workers {
		if !w.Verifiable() || !slices.Contains(pods, w.UID) {
			continue
		}
		pool, _ := catalogue.Pool(w.Slice.Pool)
		t := rayslice.Target{Pod: w.Name, PodUID: w.UID, IP: w.IP, Node: w.Node, Mode: pool.Mode, Slice: w.Slice,
			CardGiB: pool.CardGiB, CardMiB: pool.CardMiB, GPUWorkers: gpus}
		at := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == w.Node })
		if at >= 0 {
			t.CardMiB = cmp.Or(cardMiB(nodes[at]), t.CardMiB)
		}
		t.NeighboursMiB = neighbours(w, t, others)
		targets = append(targets, t)
	}
	return targets
}

// neighbours returns the most MiB that others may hold on the worker's cards by what the scheduler gave them; nil when it
// is not known where somebody on the node is.
func neighbours(w rayslice.Worker, t rayslice.Target, others []*podView) *int {
	if len(w.Placements) == 0 || t.CardGiB == 0 {
		return nil
	}
	most := 0
	for _, place := range w.Placements {
		units := 0
		for _, other := range others {
			o := other.worker
			if o.Node != w.Node || o.UID == w.UID || o.Slice.IsZero() || o.Phase == rayslice.PodSucceeded || o.Phase == rayslice.PodFailed {
				continue
			}
			if len(o.Placements) == 0 {
				return nil
			}
			for _, p := range o.Placements {
				if p.Card == place.Card {
					units += p.GiB
				}
			}
		}
		most = max(most, units)
	}
	mib := most * 1024
	if t.CardMiB > 0 {
		mib = (most*t.CardMiB + t.CardGiB - 1) / t.CardGiB // a slice is a little larger than its GiB (domain facts A.6)
	}
	return &mib
}
