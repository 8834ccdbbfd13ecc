package k8s

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

func TestNeighboursOnACard(t *testing.T) {
	on := func(card, gib int) []rayslice.Placement { return []rayslice.Placement{{Card: card, GiB: gib}} }
	ours := func(uid, node string, placements []rayslice.Placement) *podView {
		return &podView{worker: rayslice.Worker{UID: uid, Node: node, Placements: placements, Phase: rayslice.PodRunning, Slice: rayslice.Slice{Pool: "a10", GiB: 4, Cards: 1}}}
	}
	foreign := func(node string, placements []rayslice.Placement) *foreignPod {
		return &foreignPod{hold: rayslice.Hold{Foreign: true, Node: node, Placements: placements}}
	}
	ended := ours("d", "n1", on(0, 8))
	ended.worker.Phase = rayslice.PodSucceeded
	worker := rayslice.Worker{UID: "a", Node: "n1", Placements: on(0, 8)}
	cases := map[string]struct {
		ours    []*podView
		foreign []*foreignPod
		want    *int
	}{
		"alone":                          {[]*podView{ours("a", "n1", on(0, 8))}, nil, new(0)},
		"elsewhere":                      {[]*podView{ours("b", "n2", nil), ours("c", "n1", on(1, 4)), ended}, []*foreignPod{foreign("n2", nil), foreign("n1", on(1, 4))}, new(0)},
		"one of ours":                    {[]*podView{ours("b", "n1", on(0, 4))}, nil, new(4187)},
		"one that is not ours":           {nil, []*foreignPod{foreign("n1", on(0, 14))}, new(14655)},
		"both":                           {[]*podView{ours("b", "n1", on(0, 4))}, []*foreignPod{foreign("n1", on(0, 2))}, new(6281)},
		"one of ours somewhere":          {[]*podView{ours("b", "n1", nil)}, nil, nil},
		"one that is not ours, likewise": {[]*podView{ours("b", "n1", on(0, 4))}, []*foreignPod{foreign("n1", nil)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := neighbours(worker, rayslice.Target{CardGiB: 22, CardMiB: 23028}, sharersOf(tc.ours, tc.foreign))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Workers that join or go while a cluster is verified are no reason to call the others' count wrong.
func TestExpectedGPUs(t *testing.T) {
	worker := func(ready, deleting bool) rayslice.Worker {
		return rayslice.Worker{Ready: ready, Deleting: deleting, Slice: rayslice.Slice{Pool: "a10", GiB: 4, Cards: 1}}
	}
	cluster := func(workers ...rayslice.Worker) rayslice.Cluster { return rayslice.Cluster{Workers: workers} }
	for name, tc := range map[string]struct {
		before, after rayslice.Cluster
		seen          float64
		want          int
	}{
		"as many as there are":     {cluster(worker(true, false)), cluster(worker(true, false)), 1, 1},
		"one joins":                {cluster(worker(true, false), worker(false, false)), cluster(worker(true, false), worker(true, false)), 2, 2},
		"one has not joined":       {cluster(worker(true, false), worker(false, false)), cluster(worker(true, false), worker(false, false)), 1, 1},
		"one came and joined":      {cluster(worker(true, false)), cluster(worker(true, false), worker(true, false)), 2, 2},
		"one goes":                 {cluster(worker(true, false), worker(true, true)), cluster(worker(true, false)), 2, 2},
		"fewer than had joined":    {cluster(worker(true, false), worker(true, false)), cluster(worker(true, false), worker(true, false)), 1, 2},
		"more than there are pods": {cluster(worker(true, false)), cluster(worker(true, false)), 40, 1},
	} {
		t.Run(name, func(t *testing.T) {
			targets := []rayslice.Target{{GPUWorkers: gpus(tc.before.Workers, joined)}}
			settle(targets, rayslice.Evidence{Ray: &rayslice.RayEvidence{GPUs: tc.seen}}, tc.before, tc.after)
			if targets[0].GPUWorkers != tc.want {
				t.Errorf("expects %d, want %d", targets[0].GPUWorkers, tc.want)
			}
		})
	}
}
