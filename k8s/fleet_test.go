package k8s

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

var pools = []rayslice.Pool{
	{Name: "a10", Mode: rayslice.ModeCGPU, CardGiB: 22, NodeSelector: map[string]string{"card": "a10"}},
	{Name: "core", Mode: rayslice.ModeCoreMem, CardGiB: 22, NodeSelector: map[string]string{"card": "core"}},
	{Name: "a100", Mode: rayslice.ModeWhole, CardGiB: 80, NodeSelector: map[string]string{"card": "a100"}},
}

// gpuNode returns a ready node of the pool a10 with 4 cards of 22 GiB.
func gpuNode(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", Labels: map[string]string{"card": "a10", LabelGPUMode: "cgpu", labelCardMiB: "23028MiB"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{ResourceGPUMem: resource.MustParse("88"), ResourceGPUCount: resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func offers(list map[corev1.ResourceName]string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{}
		for name, quantity := range list {
			n.Status.Allocatable[name] = resource.MustParse(quantity)
		}
	}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func reason(code string, args map[string]any) rayslice.Reason {
	if args == nil {
		args = map[string]any{}
	}
	args["node"] = "gpu-1"
	return rayslice.Reason{Code: code, Args: args}
}

func TestObserveNode(t *testing.T) {
	good := rayslice.Node{Name: "gpu-1", Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 4, CardGiB: 22, MaxPods: 20}
	with := func(change func(*rayslice.Node)) rayslice.Node {
		n := good
		change(&n)
		return n
	}
	cases := map[string]struct {
		node    *corev1.Node
		devices []int
		want    rayslice.Node
		blocked string // code of the reason that closes pool a10
	}{
		"as it should be": {gpuNode(), []int{22, 22, 22, 22}, good, ""},
		"not ready": {gpuNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), nil,
			with(func(n *rayslice.Node) {
				n.Ready, n.Problems = false, []rayslice.Reason{reason(ReasonNodeNotReady, nil)}
			}), ""},
		"cordoned": {gpuNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }), nil,
			with(func(n *rayslice.Node) {
				n.Ready, n.Problems = false, []rayslice.Reason{reason(ReasonNodeCordoned, nil)}
			}), ""},
		"B020 counts in MiB, card size known": {gpuNode(label(labelCardMiB, "8192MiB"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "8192", ResourceGPUCount: "1"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Problems = 1, 8, []rayslice.Reason{reason(ReasonNodeUnit, map[string]any{"offered": 8192, "card_mib": 8192})}
			}), ReasonPoolUnit},
		"B020 counts in MiB, card size unknown": {gpuNode(label(labelCardMiB, ""), offers(map[corev1.ResourceName]string{ResourceGPUMem: "46056", ResourceGPUCount: "2"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Problems = 2, 22, []rayslice.Reason{reason(ReasonNodeUnit, map[string]any{"offered": 23028, "card_mib": 0})}
			}), ReasonPoolUnit},
		"a card of 141 GiB is not MiB": {gpuNode(label(labelCardMiB, "143771MiB"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "140", ResourceGPUCount: "1"})), nil,
			with(func(n *rayslice.Node) { n.Cards, n.CardGiB = 1, 140 }), ""},
		"B031 16130 MiB offered as 15": {gpuNode(label(labelCardMiB, "16130MiB"), label("card", "other"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "15", ResourceGPUCount: "1"})), nil,
			with(func(n *rayslice.Node) { n.Pool, n.Cards, n.CardGiB = "", 1, 15 }), ""},
		"B022 labelled, offers nothing": {gpuNode(offers(nil)), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Problems = 0, 0, []rayslice.Reason{reason(ReasonNodeOffersNone, nil)}
			}), ""},
		"B023 8 cards, 0 memory": {gpuNode(offers(map[corev1.ResourceName]string{ResourceGPUMem: "0", ResourceGPUCount: "8"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Problems = 8, 0, []rayslice.Reason{reason(ReasonNodeZero, map[string]any{"cards": 8})}
			}), ""},
		"B023 memory, 0 cards": {gpuNode(offers(map[corev1.ResourceName]string{ResourceGPUMem: "88", ResourceGPUCount: "0"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Problems = 0, 0, []rayslice.Reason{reason(ReasonNodeNoCount, nil)}
			}), ""},
		"cards counted by the label": {gpuNode(label(labelCardCount, "4"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "88"})), nil, good, ""},
		"B025 unlike cards": {gpuNode(label(labelCardMiB, "10240MiB"), label("card", "other"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "20", ResourceGPUCount: "2"})), []int{10, 20},
			with(func(n *rayslice.Node) {
				n.Pool, n.Cards, n.CardGiB, n.Doubts = "", 2, 10, []rayslice.Reason{reason(ReasonNodeUnlikeCards, map[string]any{"cards_gib": 30, "offered_gib": 20})}
			}), ""},
		"smaller cards than the pool says": {gpuNode(label(labelCardMiB, "15360MiB"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "30", ResourceGPUCount: "2"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB, n.Doubts = 2, 15, []rayslice.Reason{reason(ReasonNodeSmallCard, map[string]any{"card_gib": 15, "pool_gib": 22})}
			}), ""},
		"isolation turned off": {gpuNode(label(labelNoIsolation, "true")), nil,
			with(func(n *rayslice.Node) {
				n.Mode, n.Problems = rayslice.ModeShare, []rayslice.Reason{reason(ReasonNodeNoWall, nil)}
			}), ReasonPoolNotIsolated},
		"another mode than its pool": {gpuNode(label(LabelGPUMode, "share")), nil,
			with(func(n *rayslice.Node) {
				n.Mode, n.Problems = rayslice.ModeShare, []rayslice.Reason{reason(ReasonNodeMode, map[string]any{"mode": "share", "pool_mode": "cgpu"})}
			}), ""},
		"core_mem without compute": {gpuNode(label("card", "core"), label(LabelGPUMode, "core_mem")), nil,
			with(func(n *rayslice.Node) {
				n.Pool, n.Mode, n.Problems = "core", rayslice.ModeCoreMem, []rayslice.Reason{reason(ReasonNodeNoCompute, nil)}
			}), ""},
		"whole cards": {gpuNode(label("card", "a100"), label(LabelGPUMode, "default"), label(labelCardMiB, "81920MiB"), offers(map[corev1.ResourceName]string{ResourceGPU: "8"})), nil,
			with(func(n *rayslice.Node) {
				n.Pool, n.Mode, n.Cards, n.CardGiB, n.MaxPods = "a100", rayslice.ModeWhole, 8, 80, 0
			}), ""},
		"whole cards, none offered": {gpuNode(label("card", "a100"), label(LabelGPUMode, "default"), offers(nil)), nil,
			with(func(n *rayslice.Node) {
				n.Pool, n.Mode, n.MaxPods, n.Cards, n.CardGiB, n.Problems = "a100", rayslice.ModeWhole, 0, 0, 0, []rayslice.Reason{reason(ReasonNodeOffersNone, nil)}
			}), ""},
		"most pods on a card": {gpuNode(label(labelMaxPods, "3")), nil, with(func(n *rayslice.Node) { n.MaxPods = 3 }), ""},
		"a limit of pods that is none": {gpuNode(label(labelMaxPods, "many")), nil,
			with(func(n *rayslice.Node) {
				n.Problems = []rayslice.Reason{reason(ReasonNodeMaxPods, map[string]any{"value": "many"})}
			}), ""},
		"a limit of no pods": {gpuNode(label(labelMaxPods, "0")), nil,
			with(func(n *rayslice.Node) {
				n.Problems = []rayslice.Reason{reason(ReasonNodeMaxPods, map[string]any{"value": "0"})}
			}), ""},
		"more cards than a machine has": {gpuNode(offers(map[corev1.ResourceName]string{ResourceGPUMem: "2000000000", ResourceGPUCount: "100000000"})), nil,
			with(func(n *rayslice.Node) {
				n.Cards, n.CardGiB = 0, 20
				n.Problems = []rayslice.Reason{reason(ReasonNodeManyCards, map[string]any{"cards": 100000000})}
				n.Doubts = []rayslice.Reason{reason(ReasonNodeSmallCard, map[string]any{"card_gib": 20, "pool_gib": 22})}
			}), ""},
		"label of the old plugin": {gpuNode(label(LabelGPUMode, ""), label(labelLegacyCGPU, "true")), nil, good, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool, _ := pickPool(tc.node, pools)
			got := observeNode(tc.node, pool, tc.devices, 20)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if code := observePool(pools[0], []rayslice.Node{got}, 1).Blocked.Code; code != tc.blocked {
				t.Errorf("pool blocked by %q, want %q", code, tc.blocked)
			}
		})
	}
}

func TestObserveFleet(t *testing.T) {
	named := func(name string) func(*corev1.Node) { return func(n *corev1.Node) { n.Name = name } }
	nodes := []*corev1.Node{
		gpuNode(named("b")),
		gpuNode(named("a"), offers(map[corev1.ResourceName]string{ResourceGPUMem: "22", ResourceGPUCount: "1"})),
		gpuNode(named("c"), func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		gpuNode(named("cpu"), func(n *corev1.Node) { n.Labels, n.Status.Allocatable = nil, nil }),
		gpuNode(named("stray"), func(n *corev1.Node) { n.Labels = map[string]string{"accelerator": "a10"} }),
	}
	fleet := observeFleet(nodes, nil, nil, rayslice.Catalogue{Pools: pools}, 20, noon)
	var names []string
	for _, n := range fleet.Nodes {
		names = append(names, n.Name+"/"+n.Pool)
	}
	if diff := cmp.Diff([]string{"a/a10", "b/a10", "c/a10", "stray/"}, names); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	want := []rayslice.PoolStatus{
		{Pool: "a10", Nodes: 3, Looked: 5, Cards: 5, LargestGiB: 22},
		{Pool: "core", Looked: 5}, // B053: no node has its label; the page says how many were looked at
		{Pool: "a100", Looked: 5},
	}
	if diff := cmp.Diff(want, fleet.Pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestSchedulerProblems(t *testing.T) {
	placed := pod("p", typeWorker)
	bare := pod("b", typeWorker, func(p *corev1.Pod) { p.Annotations = nil })
	starting := pod("s", typeWorker, func(p *corev1.Pod) { p.Annotations = nil; p.Status.Phase = corev1.PodPending })
	cases := map[string]struct {
		pods []*podView
		want int // pods named; 0 = no problem
	}{
		"nothing runs":                 {nil, 0},
		"heads only":                   {views(pod("h", typeHead)), 0},
		"on its way":                   {views(starting), 0},
		"one without, one with a card": {views(bare, placed), 0},
		"B035 none has a card":         {views(bare, bare, starting), 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want []rayslice.Reason
			if tc.want > 0 {
				want = []rayslice.Reason{{Code: rayslice.ReasonNoShareScheduler, Args: map[string]any{"pods": tc.want}}}
			}
			if diff := cmp.Diff(want, schedulerProblems(tc.pods)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeRayVersions(t *testing.T) {
	cases := map[string]struct {
		versions []string
		want     rayslice.Reason
	}{
		"served":                {[]string{"v1", "v1alpha1"}, rayslice.Reason{}},
		"not installed":         {nil, rayslice.Reason{Code: rayslice.ReasonKubeRayMissing}},
		"B100 another version":  {[]string{"v2", "v1beta1"}, rayslice.Reason{Code: rayslice.ReasonKubeRayVersion, Args: map[string]any{"versions": "v2, v1beta1"}}},
		"only the one of years": {[]string{"v1alpha1"}, rayslice.Reason{Code: rayslice.ReasonKubeRayVersion, Args: map[string]any{"versions": "v1alpha1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, kubeRayVersions(tc.versions)); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}
