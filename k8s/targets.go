package k8s

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayslice/rayslice"
)

// sharer is a pod that has, or may have, a part of a card.
type sharer struct {
	uid        string // of the portal's own pods only
	node       string
	placements []rayslice.Placement // empty = nobody knows where on the node
}

// sharersOf returns all pods that have, or may have, parts of cards.
func sharersOf(ours []*podView, foreign []*foreignPod) []sharer {
	var all []sharer
	for _, pod := range ours {
		if w := pod.worker; !w.Slice.IsZero() && w.Phase != rayslice.PodSucceeded && w.Phase != rayslice.PodFailed {
			all = append(all, sharer{w.UID, w.Node, w.Placements})
		}
	}
	for _, pod := range foreign {
		all = append(all, sharer{node: pod.hold.Node, placements: pod.hold.Placements})
	}
	return all
}

// gpus is how many GPUs Ray counts on the workers once they have joined.
func gpus(workers []rayslice.Worker, counts func(rayslice.Worker) bool) int {
	sum := 0
	for _, w := range workers {
		if counts(w) {
			sum += w.Slice.Cards
		}
	}
	return sum
}

func joined(w rayslice.Worker) bool        { return w.Verifiable() }
func mayHaveJoined(w rayslice.Worker) bool { return true }

// settle says how many GPUs Ray should have counted: at least those of the workers that had joined before, at most those of all
// pods there were before or afterwards. Workers that join or go meanwhile say nothing about the others.
func settle(targets []rayslice.Target, evidence rayslice.Evidence, before, after rayslice.Cluster) {
	if evidence.Ray == nil {
		return
	}
	most := max(gpus(before.Workers, mayHaveJoined), gpus(after.Workers, mayHaveJoined))
	for i := range targets {
		targets[i].GPUWorkers = min(max(targets[i].GPUWorkers, int(evidence.Ray.GPUs)), max(targets[i].GPUWorkers, most))
	}
}

// targetsOf returns the workers of the given pods that can be verified now, with what Kubernetes knows of their cards.
func targetsOf(have rayslice.Cluster, pods []string, catalogue rayslice.Catalogue, nodes []*corev1.Node, others []sharer) []rayslice.Target {
	var targets []rayslice.Target
	for _, w := range have.Workers {
		if !w.Verifiable() || !slices.Contains(pods, w.UID) {
			continue
		}
		pool, _ := catalogue.Pool(w.Slice.Pool)
		t := rayslice.Target{Pod: w.Name, PodUID: w.UID, IP: w.IP, Node: w.Node, Mode: pool.Mode, Slice: w.Slice,
			CardGiB: pool.CardGiB, CardMiB: pool.CardMiB, GPUWorkers: gpus(have.Workers, joined)}
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
func neighbours(w rayslice.Worker, t rayslice.Target, others []sharer) *int {
	if len(w.Placements) == 0 || t.CardGiB == 0 {
		return nil
	}
	most := 0
	for _, place := range w.Placements {
		units := 0
		for _, other := range others {
			if other.node != w.Node || other.uid == w.UID {
				continue
			}
			if len(other.placements) == 0 {
				return nil
			}
			for _, p := range other.placements {
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
