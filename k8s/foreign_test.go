package k8s

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

// foreigners are the pods as the watch keeps them.
func foreigners(t *testing.T, pods ...corev1.Pod) []*foreignPod {
	t.Helper()
	kept := newForeignPods(func() {})
	for i := range pods {
		if err := kept.Add(&pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	return kept.all()
}

// alien is a foreign pod with 8 GiB of card 1 of gpu-1.
func alien(change ...func(*corev1.Pod)) *corev1.Pod {
	return pod("trainer", typeWorker, append([]func(*corev1.Pod){func(p *corev1.Pod) { p.Labels = map[string]string{} }}, change...)...)
}

func annotated(values map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = values }
}

func TestViewForeign(t *testing.T) {
	held := rayslice.Hold{Foreign: true, Namespace: "team-vision", Pod: "trainer", Node: "gpu-1", Slice: rayslice.Slice{GiB: 8, Cards: 1}, Placements: []rayslice.Placement{{Card: 1, GiB: 8}}}
	with := func(change func(*rayslice.Hold)) *rayslice.Hold {
		h := held
		change(&h)
		return &h
	}
	phase := func(p corev1.PodPhase) func(*corev1.Pod) { return func(o *corev1.Pod) { o.Status.Phase = p } }
	limits := func(name corev1.ResourceName, n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(n)}
		}
	}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   *rayslice.Hold
	}{
		"V2 annotation":       {func(*corev1.Pod) {}, &held},
		"V2 before V1":        {annotated(map[string]string{annotationAllocation: `{"0":{"1":8}}`, annotationCardIndex: "0", annotationCardUnits: "8"}), &held},
		"V1 index":            {annotated(map[string]string{annotationCardIndex: "1", annotationCardUnits: "8"}), &held},
		"B032 neither":        {annotated(nil), with(func(h *rayslice.Hold) { h.Placements = nil })},
		"a failed allocation": {annotated(map[string]string{annotationCardIndex: "-1", annotationCardUnits: "8"}), with(func(h *rayslice.Hold) { h.Placements = nil })},
		"B064 of a RayJob": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "RayJob", Controller: new(true)}}
		}, &held},
		"on its way out":                {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, with(func(h *rayslice.Hold) { h.Deleting = true })},
		"waiting":                       {func(p *corev1.Pod) { p.Spec.NodeName, p.Annotations = "", nil }, with(func(h *rayslice.Hold) { h.Node, h.Placements = "", nil })},
		"whole cards":                   {func(p *corev1.Pod) { limits(ResourceGPU, "2")(p); p.Annotations = nil }, with(func(h *rayslice.Hold) { h.Slice, h.Placements = rayslice.Slice{Cards: 2}, nil })},
		"more cards than units":         {func(p *corev1.Pod) { p.Labels[LabelGPUCount] = "1000000" }, &held},
		"succeeded":                     {phase(corev1.PodSucceeded), nil},
		"failed":                        {phase(corev1.PodFailed), nil},
		"of no GPU":                     {limits(corev1.ResourceCPU, "8"), nil},
		"ours is watched for elsewhere": {func(p *corev1.Pod) { p.Labels[LabelRequest] = "abcdefghijkl" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got *rayslice.Hold
			if view := viewForeign(alien(tc.change)); view != nil {
				got = &view.hold
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeignPods follows one pod through its life, and tells of every change that matters, once.
func TestForeignPods(t *testing.T) {
	told := 0
	kept := newForeignPods(func() { told++ })
	check := func(step string, wantTold, wantKept int, err error) {
		t.Helper()
		if err != nil || told != wantTold || len(kept.all()) != wantKept {
			t.Errorf("%s: told %d times of %d pods (%v), want %d of %d", step, told, len(kept.all()), err, wantTold, wantKept)
		}
	}
	bare := func(p *corev1.Pod) { p.Annotations = nil }
	if kept.read() {
		t.Error("read before anything was listed")
	}
	check("listed", 1, 1, kept.Replace([]any{alien(bare), alien(func(p *corev1.Pod) { p.Name = "cpu"; p.Spec.Containers[0].Resources.Limits = nil })}, "7"))
	if !kept.read() {
		t.Error("not read after the list")
	}
	check("placed", 2, 1, kept.Update(alien()))
	check("ready, which changes nothing", 2, 1, kept.Update(alien(func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.8" })))
	check("another without GPU", 2, 1, kept.Add(alien(func(p *corev1.Pod) { p.Name = "web"; p.Spec.Containers[0].Resources.Limits = nil })))
	check("ended", 3, 0, kept.Update(alien(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })))
	check("gone", 3, 0, kept.Delete(alien()))
	check("another", 4, 1, kept.Add(alien()))
	check("gone at once", 5, 0, kept.Delete(alien()))
}

// pagedPods answers lists page by page.
type pagedPods struct {
	pods []corev1.Pod
	asks []metav1.ListOptions
}

func (p *pagedPods) List(_ context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	p.asks = append(p.asks, options)
	begin := 0
	if options.Continue != "" {
		if _, err := fmt.Sscan(options.Continue, &begin); err != nil {
			return nil, err
		}
	}
	end := min(len(p.pods), begin+int(options.Limit))
	page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}, Items: slices.Clone(p.pods[begin:end])}
	if end < len(p.pods) {
		page.Continue = fmt.Sprint(end)
	}
	return page, nil
}

func TestListForeign(t *testing.T) {
	all := &pagedPods{}
	for i := range 3*foreignPage + 1 {
		all.pods = append(all.pods, *alien(func(p *corev1.Pod) {
			p.Name = fmt.Sprintf("p-%d", i)
			if i%100 != 0 {
				p.Spec.Containers[0].Resources.Limits = nil
			}
		}))
	}
	options := metav1.ListOptions{ResourceVersion: "0"}
	foreignOnly(&options)
	got, err := listForeign(all)(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if list := got.(*corev1.PodList); len(list.Items) != 16 || list.ResourceVersion != "42" || list.Continue != "" {
		t.Errorf("%d pods at %q, continued at %q", len(list.Items), list.ResourceVersion, list.Continue)
	}
	if len(all.asks) != 4 || all.asks[0].Limit != foreignPage || all.asks[0].ResourceVersion != "" || all.asks[3].LabelSelector != "!"+LabelRequest {
		t.Errorf("asked %+v", all.asks)
	}
}

// TestObserveHolds joins our pods and foreign ones on the nodes, and flags what does not add up.
func TestObserveHolds(t *testing.T) {
	ours := pod("w", typeWorker, func(p *corev1.Pod) { p.Labels[LabelTeam] = "vision" })
	gone := pod("gone", typeWorker, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	strange := alien(func(p *corev1.Pod) { p.Name = "strange"; p.Annotations[annotationAllocation] = `{"0":{"9":8}}` })
	heavy := alien(func(p *corev1.Pod) {
		p.Name = "heavy"
		p.Annotations[annotationAllocation] = `{"0":{"1":8},"1":{"1":9}}`
	})
	stray := alien(func(p *corev1.Pod) { p.Name = "stray"; p.Spec.NodeName = "" })
	fleet := observeFleet([]*corev1.Node{gpuNode()}, views(ours, gone, pod("h", typeHead)), foreigners(t, *alien(), *strange, *heavy, *stray), rayslice.Catalogue{Pools: pools}, 20, noon)
	var names []string
	for _, h := range fleet.Holds {
		names = append(names, fmt.Sprint(h.Pod, h.RequestID, h.Team, h.Placements))
	}
	want := []string{"heavy[{1 17}]", "strange[{9 8}]", "trainer[{1 8}]", "wabcdefghijklvision[{1 8}]"}
	if diff := cmp.Diff(want, names); diff != "" || fleet.Strays != 1 {
		t.Errorf("%d wait, holds (-want +got):\n%s", fleet.Strays, diff)
	}
	doubts := []rayslice.Reason{
		reason(ReasonNodeOverfull, map[string]any{"card": 1, "given_gib": 33, "card_gib": 22}), reason(ReasonNodeStrangeCard, map[string]any{"card": 9}),
	}
	if diff := cmp.Diff(doubts, fleet.Nodes[0].Doubts); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	if node := fleet.ByNode()[0]; node.Cards[1].FreeGiB != 0 || len(node.Cards[1].Parts) != 3 || len(node.Loose) != 1 || node.Cards[0].Loose.GiB != 8+11 || !node.Usable() {
		t.Errorf("card 1 %+v, loose %+v", node.Cards[1], node.Loose)
	}
}
