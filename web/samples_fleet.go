package web

import (
	"fmt"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// sampleFits has every kind of answer to when a size fits.
func sampleFits(now time.Time) map[string]RoomFit {
	known := func(f rayslice.Forecast) rayslice.Forecast { f.Known = true; return f }
	no := rayslice.FitResult{Missing: 1}
	return map[string]RoomFit{
		"a10:4":      {Forecast: known(rayslice.Forecast{FitResult: rayslice.FitResult{Fits: true, OnCards: 14}})},
		"a10:8":      {Forecast: known(rayslice.Forecast{FitResult: rayslice.FitResult{Fits: true, OnCards: 6}})},
		"a10:16":     {Forecast: known(rayslice.Forecast{FitResult: no, Latest: now.Add(80 * time.Minute), Until: "k5d2m7qxw3ab"}), Name: "ablation-6"},
		"a10c:8":     {Forecast: known(rayslice.Forecast{FitResult: rayslice.FitResult{Maybe: true}, Latest: now.Add(26 * time.Hour), Until: "x"})},
		"a10c:16":    {Forecast: known(rayslice.Forecast{FitResult: no})},
		"a100:whole": {Forecast: known(rayslice.Forecast{FitResult: no, Cannot: rayslice.Reason{Code: rayslice.ReasonFitFewCards, Args: Args{"cards": 8}}})},
	}
}

// sampleCards is a fleet with something of everything.
func sampleCards(now time.Time) rayslice.Fleet {
	hold := func(id, team, node string, gib int, cards ...int) rayslice.Hold {
		h := rayslice.Hold{RequestID: id, Team: team, Node: node, Namespace: "team-" + team, Pod: "rs-" + id + "-worker-x", Slice: rayslice.Slice{Pool: "a10", GiB: gib, Cards: 1}}
		for _, c := range cards {
			h.Placements = append(h.Placements, rayslice.Placement{Card: c, GiB: gib})
		}
		return h
	}
	foreign := func(node string, gib int, cards ...int) rayslice.Hold {
		h := hold("", "", node, gib, cards...)
		h.Foreign, h.Namespace, h.Pod = true, "jupyter", "notebook-<b>7</b>"
		return h
	}
	a, b, c := "cn-hangzhou.10.200.12.33", "cn-hangzhou.10.200.12.34", "cn-hangzhou.10.200.14.1"
	going := hold("aaaaaaaaaaaa", "vision", a, 8, 3)
	going.Deleting = true
	core := hold("bbbbbbbbbbbb", "vision", c, 8, 0)
	core.Slice.CorePercent = 50
	return rayslice.Fleet{
		ObservedAt: now.Add(-2 * time.Second), Strays: 3, Pools: sampleFleet().Pools,
		Nodes: []rayslice.Node{
			{Name: a, Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 4, CardGiB: 22, MaxPods: 20},
			{Name: b, Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 2, CardGiB: 22, MaxPods: 2,
				Doubts: []rayslice.Reason{{Code: "node_overfull", Args: Args{"node": b, "card": 1, "given_gib": 24, "card_gib": 22}}}},
			{Name: "cn-hangzhou.10.200.12.35", Pool: "a10", Mode: rayslice.ModeCGPU, Cards: 1, CardGiB: 22, Problems: []rayslice.Reason{{Code: "node_not_ready", Args: Args{"node": "cn-hangzhou.10.200.12.35"}}}},
			{Name: "cn-hangzhou.10.200.12.36", Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Problems: []rayslice.Reason{{Code: "node_offers_nothing", Args: Args{"node": "cn-hangzhou.10.200.12.36"}}}},
			{Name: c, Pool: "a10c", Mode: rayslice.ModeCoreMem, Ready: true, Cards: 2, CardGiB: 22},
			{Name: "cn-hangzhou.10.200.24.1", Pool: "a100", Mode: rayslice.ModeWhole, Ready: true, Cards: 8, CardGiB: 80},
			{Name: "cn-hangzhou.10.200.40.1", Mode: rayslice.ModeShare, Ready: true, Cards: 1, CardGiB: 22},
		},
		Holds: []rayslice.Hold{
			hold("aaaaaaaaaaaa", "vision", a, 8, 0), hold("bbbbbbbbbbbb", "vision", a, 8, 0), hold("cccccccccccc", "nlp", a, 16, 1),
			hold("dddddddddddd", "speech", a, 4, 2), foreign(a, 4, 2), going, hold("cccccccccccc", "nlp", a, 4, 3), hold("cccccccccccc", "nlp", a, 1, 3),
			foreign(b, 6), hold("aaaaaaaaaaaa", "vision", b, 2, 0), hold("cccccccccccc", "nlp", b, 2, 0), hold("cccccccccccc", "nlp", b, 12, 1), foreign(b, 12, 1), core,
			{RequestID: "eeeeeeeeeeee", Team: "vision", Node: "cn-hangzhou.10.200.24.1", Slice: rayslice.Slice{Pool: "a100", Cards: 2}},
			{Foreign: true, Namespace: "jupyter", Pod: "train", Node: "cn-hangzhou.10.200.24.1", Slice: rayslice.Slice{Cards: 1}},
			foreign("cn-hangzhou.10.200.40.1", 12, 0),
		},
	}
}

func sampleFleetPage(f Frame, fleet rayslice.Fleet) FleetPage {
	f.Path = "/fleet"
	fleet = fleet.For(f.User)
	p := FleetPage{Frame: f, Catalogue: SampleCatalogue(), ObservedAt: fleet.ObservedAt, Strays: fleet.Strays, Unread: fleet.PodsUnread, Nodes: fleet.ByNode(),
		Verdicts: map[string]rayslice.Enforcement{"cn-hangzhou.10.200.12.33": rayslice.Enforced, "cn-hangzhou.10.200.14.1": rayslice.NotEnforced},
		Names:    map[string]string{"aaaaaaaaaaaa": "ablation-7", "bbbbbbbbbbbb": "sweep", "dddddddddddd": "eval", "eeeeeeeeeeee": "消融实验"}}
	for i := range p.Catalogue.Pools {
		p.Catalogue.Pools[i].NodeSelector = map[string]string{"ack.node.gpu.schedule": string(p.Catalogue.Pools[i].Mode), "aliyun.accelerator/nvidia_name": "NVIDIA-A10"}
	}
	for _, pool := range append(p.Catalogue.Pools, rayslice.Pool{Mode: rayslice.ModeCGPU}) {
		one := FleetPool{Pool: pool, Sum: rayslice.SumPool(pool.Name, p.Nodes)}
		for _, s := range fleet.Pools {
			if s.Pool == pool.Name {
				one.Status = s
			}
		}
		if pool.Name != "" || one.Sum.Nodes > 0 {
			p.Pools = append(p.Pools, one)
		}
	}
	p.Matching = len(p.Nodes)
	return p
}

func fleetSamples() []Sample {
	return []Sample{
		{"fleet", func(f Frame) templ.Component { return FleetView(sampleFleetPage(f, sampleCards(f.Now))) }},
		{"fleet-table", func(f Frame) templ.Component {
			p := sampleFleetPage(f, sampleCards(f.Now))
			p.Filter.Table = true
			return FleetView(p)
		}},
		{"fleet-admin", func(f Frame) templ.Component {
			f.User = rayslice.User{ID: 4, Name: "Sam Rivera", Admin: true}
			p := sampleFleetPage(f, sampleCards(f.Now))
			p.Names["cccccccccccc"] = "pretrain-3"
			return FleetView(p)
		}},
		{"fleet-empty", func(f Frame) templ.Component {
			return FleetView(sampleFleetPage(f, rayslice.Fleet{ObservedAt: f.Now, Pools: []rayslice.PoolStatus{{Pool: "a10", Looked: 5}}}))
		}},
		{"fleet-nothing-matches", func(f Frame) templ.Component {
			p := sampleFleetPage(f, sampleCards(f.Now))
			p.Filter, p.Nodes, p.Matching = FleetFilter{Pool: "a10", Problem: true}, nil, 0
			return FleetView(p)
		}},
		{"fleet-unknown", func(f Frame) templ.Component {
			f.DataUnknown = true
			return FleetView(sampleFleetPage(f, rayslice.Fleet{}))
		}},
		{"fleet-unread", func(f Frame) templ.Component {
			fleet := sampleCards(f.Now)
			fleet.Holds, fleet.PodsUnread = nil, true
			return FleetView(sampleFleetPage(f, fleet))
		}},
		{"fleet-many", func(f Frame) templ.Component {
			fleet := rayslice.Fleet{ObservedAt: f.Now}
			for i := range 25 {
				fleet.Nodes = append(fleet.Nodes, rayslice.Node{Name: fmt.Sprintf("cn-hangzhou.10.200.50.%d", i), Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 8, CardGiB: 22})
			}
			p := sampleFleetPage(f, fleet)
			p.First, p.Next, p.Matching = "/fleet", "/fleet?page=3", 200
			return FleetView(p)
		}},
	}
}
