package gpushare_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

// on puts so many units on each named card, by one pod per card.
func on(units map[int]int) []gpushare.Allocation {
	var held []gpushare.Allocation
	for card, amount := range units {
		held = append(held, gpushare.Allocation{Memory: gpushare.Amounts{0: {card: amount}}})
	}
	return held
}

func memory(units int) gpushare.Request {
	return gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: units}}, Cards: 1}
}

func TestPlace(t *testing.T) {
	fourA10 := gpushare.Node{Cards: 4, Size: gpushare.Share{Memory: 22}, MaxPods: 20}
	spread := fourA10
	spread.Spread = true
	crowded := fourA10
	crowded.MaxPods = 1
	coreMem := gpushare.Node{Cards: 2, Size: gpushare.Share{Memory: 22, Core: 100}, MaxPods: 20}
	halfCard := gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 4, Core: 50}}, Cards: 1}
	busyCore := []gpushare.Allocation{{Memory: gpushare.Amounts{0: {0: 4, 1: 4}}, Core: gpushare.Amounts{0: {0: 60, 1: 60}}}}

	tests := map[string]struct {
		node      gpushare.Node
		held      []gpushare.Allocation
		request   gpushare.Request
		wantCards []int
		wantErr   string
	}{
		"the first card of an empty node":            {node: fourA10, request: memory(8), wantCards: []int{0}},
		"binpack takes the smallest sufficient card": {node: fourA10, held: on(map[int]int{1: 8, 2: 14, 3: 20}), request: memory(8), wantCards: []int{2}},
		"spread takes the emptiest card":             {node: spread, held: on(map[int]int{0: 8, 1: 4, 2: 1, 3: 20}), request: memory(8), wantCards: []int{2}},
		"an exact fit":                               {node: fourA10, held: on(map[int]int{0: 22, 1: 22, 2: 22, 3: 6}), request: memory(16), wantCards: []int{3}},
		"a whole card":                               {node: fourA10, held: on(map[int]int{0: 1}), request: memory(22), wantCards: []int{1}},
		"48 free in sum, 12 on each card": {node: fourA10, held: on(map[int]int{0: 10, 1: 10, 2: 10, 3: 10}), request: memory(16),
			wantErr: "Insufficient GPU Memory in one device"},
		"larger than a card": {node: fourA10, request: memory(24), wantErr: "Insufficient GPU Memory in one device"},
		"split over two cards": {node: fourA10, held: on(map[int]int{0: 20}), wantCards: []int{1, 2},
			request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 30}}, Cards: 2}},
		"split over more cards than have room": {node: fourA10, held: on(map[int]int{0: 20}), wantErr: "Insufficient GPU Memory in one device",
			request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 32}}, Cards: 4}},
		"split over more cards than there are": {node: fourA10, wantErr: "Insufficient GPU Memory in one device",
			request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 5}}, Cards: 5}},
		"every card has its pods": {node: crowded, held: on(map[int]int{0: 1, 1: 1, 2: 1, 3: 1}), request: memory(1),
			wantErr: "The number of pods per gpu device has reached the maximum allowed"},
		"two containers share one card": {node: fourA10, held: on(map[int]int{0: 8}), wantCards: []int{1},
			request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 8}, 1: {Memory: 8}}, Cards: 1}},
		"memory and compute":              {node: coreMem, request: halfCard, wantCards: []int{0}},
		"no compute left":                 {node: coreMem, held: busyCore, request: halfCard, wantErr: "Insufficient GPU Core in one device"},
		"memory only on a compute node":   {node: coreMem, request: memory(4), wantErr: "node(s) owns gpu resources are not matched that pod requests"},
		"compute on a memory node":        {node: fourA10, request: halfCard, wantErr: "node(s) owns gpu resources are not matched that pod requests"},
		"no cards":                        {node: gpushare.Node{MaxPods: 20}, request: memory(1), wantErr: "Insufficient aliyun.com/gpu-mem"},
		"an allocation of a missing card": {node: fourA10, held: on(map[int]int{9: 22, -1: 22}), request: memory(22), wantCards: []int{0}},
		"an over-committed card":          {node: fourA10, held: on(map[int]int{0: 99}), request: memory(22), wantCards: []int{1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cards, err := test.node.Place(test.request, test.held)
			if diff := cmp.Diff(test.wantCards, cards); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
			if got := text(err); got != test.wantErr {
				t.Errorf("error = %q, want %q", got, test.wantErr)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Whatever comes and goes, no card ever holds more than its size or more pods than allowed, and a refusal is honest.
func TestPlaceNeverOvercommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := gpushare.Node{
			Cards:   rapid.IntRange(0, 8).Draw(t, "cards"),
			Size:    gpushare.Share{Memory: rapid.IntRange(0, 80).Draw(t, "size"), Core: rapid.SampledFrom([]int{0, 100}).Draw(t, "core")},
			MaxPods: rapid.IntRange(1, 20).Draw(t, "max pods"),
			Spread:  rapid.Bool().Draw(t, "spread"),
		}
		var held []gpushare.Allocation
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				held = held[1:]
				continue
			}
			request := drawRequest(t, node)
			cards, err := node.Place(request, held)
			if err != nil {
				continue
			}
			if len(cards) != request.Cards {
				t.Fatalf("placed on %v, want %d cards", cards, request.Cards)
			}
			held = append(held, gpushare.Allocate(request, cards))
			checkCards(t, node, held)
		}
	})
}

func drawRequest(t *rapid.T, node gpushare.Node) gpushare.Request {
	request := gpushare.Request{Containers: map[int]gpushare.Share{}, Cards: rapid.IntRange(1, 3).Draw(t, "split")}
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		share := gpushare.Share{Memory: rapid.IntRange(1, 40).Draw(t, "memory") * request.Cards}
		if node.Size.Core > 0 {
			request.Cards, share.Core = 1, 5*rapid.IntRange(1, 20).Draw(t, "core")
		}
		request.Containers[i] = share
	}
	return request
}

func checkCards(t *rapid.T, node gpushare.Node, held []gpushare.Allocation) {
	used, pods := map[int]gpushare.Share{}, map[int]int{}
	for _, allocation := range held {
		for card, share := range allocation.PerCard() {
			used[card] = gpushare.Share{Memory: used[card].Memory + share.Memory, Core: used[card].Core + share.Core}
			pods[card]++
		}
	}
	for card, share := range used {
		if card < 0 || card >= node.Cards || share.Memory > node.Size.Memory || share.Core > node.Size.Core || pods[card] > node.MaxPods {
			t.Fatalf("card %d of %+v holds %+v and %d pods", card, node, share, pods[card])
		}
	}
}

// Binpack leaves the least behind, spread the most; a card is refused only if it has no room.
func TestPickIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cards []gpushare.Card
		for i, free := range rapid.SliceOfN(rapid.IntRange(-2, 30), 0, 8).Draw(t, "free") {
			cards = append(cards, gpushare.Card{Index: i, Free: gpushare.Share{Memory: free}, Pods: rapid.IntRange(0, 3).Draw(t, "pods")})
		}
		ask, spread := gpushare.Share{Memory: rapid.IntRange(1, 30).Draw(t, "ask")}, rapid.Bool().Draw(t, "spread")
		picked := gpushare.Pick(cards, ask, 1, 3, spread)
		for _, card := range cards {
			switch {
			case !card.Fits(ask, 3):
			case picked == nil:
				t.Fatalf("refused although card %+v has room for %+v", card, ask)
			case spread && card.Free.Memory > cards[picked[0]].Free.Memory, !spread && card.Free.Memory < cards[picked[0]].Free.Memory:
				t.Fatalf("picked %+v although %+v is better", cards[picked[0]], card)
			}
		}
		if picked != nil && !cards[picked[0]].Fits(ask, 3) {
			t.Fatalf("picked %+v, which has no room for %+v", cards[picked[0]], ask)
		}
	})
}

func TestNodeOf(t *testing.T) {
	tests := map[string]struct {
		labels      map[string]string
		allocatable corev1.ResourceList
		want        gpushare.Node
		wantErr     string
	}{
		"four A10":     {allocatable: list("aliyun.com/gpu-mem", "88", "aliyun.com/gpu-count", "4"), want: gpushare.Node{Cards: 4, Size: gpushare.Share{Memory: 22}, MaxPods: 20}},
		"rounded down": {allocatable: list("aliyun.com/gpu-mem", "31", "aliyun.com/gpu-count", "2"), want: gpushare.Node{Cards: 2, Size: gpushare.Share{Memory: 15}, MaxPods: 20}},
		"core_mem": {labels: map[string]string{gpushare.ModeLabel: "core_mem"}, want: gpushare.Node{Cards: 2, Size: gpushare.Share{Memory: 22, Core: 100}, MaxPods: 20},
			allocatable: list("aliyun.com/gpu-mem", "44", "aliyun.com/gpu-count", "2", "aliyun.com/gpu-core.percentage", "200")},
		"memory but no cards":       {allocatable: list("aliyun.com/gpu-mem", "88"), want: gpushare.Node{MaxPods: 20}},
		"cards but no memory":       {allocatable: list("aliyun.com/gpu-mem", "0", "aliyun.com/gpu-count", "8"), want: gpushare.Node{Cards: 8, MaxPods: 20}},
		"labelled for whole cards":  {labels: map[string]string{gpushare.ModeLabel: "default"}, allocatable: list("aliyun.com/gpu-mem", "22", "aliyun.com/gpu-count", "1"), want: gpushare.Node{Cards: 1, MaxPods: 20}},
		"spread, at most five pods": {labels: map[string]string{gpushare.PlacementLabel: "spread", gpushare.MaxPodLabel: "5"}, want: gpushare.Node{MaxPods: 5, Spread: true}},
		"a limit that is no number": {labels: map[string]string{gpushare.MaxPodLabel: "many"}, want: gpushare.Node{MaxPods: 20},
			wantErr: `node label ack.node.gpu.max-pod must be a whole number, got "many"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := gpushare.NodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}, Status: corev1.NodeStatus{Allocatable: test.allocatable}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if text(err) != test.wantErr {
				t.Errorf("error = %q, want %q", text(err), test.wantErr)
			}
		})
	}
}

// list builds a resource list from names and quantities in turn.
func list(pairs ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		resources[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return resources
}

func TestRequestOf(t *testing.T) {
	one := func(memory, core int) map[int]gpushare.Share {
		return map[int]gpushare.Share{0: {Memory: memory, Core: core}}
	}
	tests := map[string]struct {
		labels     map[string]string
		containers []corev1.ResourceList
		want       gpushare.Request
		wantErr    string
	}{
		"no slice":         {containers: []corev1.ResourceList{list("cpu", "1", "nvidia.com/gpu", "1")}, want: gpushare.Request{Containers: map[int]gpushare.Share{}, Cards: 1}},
		"a slice":          {containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8")}, want: gpushare.Request{Containers: one(8, 0), Cards: 1}},
		"behind a sidecar": {containers: []corev1.ResourceList{{}, list("aliyun.com/gpu-mem", "8")}, want: gpushare.Request{Containers: map[int]gpushare.Share{1: {Memory: 8}}, Cards: 1}},
		"with compute": {containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8", "aliyun.com/gpu-core.percentage", "30")},
			want: gpushare.Request{Containers: one(8, 30), Cards: 1}},
		"over two cards": {labels: map[string]string{gpushare.CardsLabel: "2"}, containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8")},
			want: gpushare.Request{Containers: one(8, 0), Cards: 2}},
		"different kinds": {containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8"), list("aliyun.com/gpu-mem", "8", "aliyun.com/gpu-core.percentage", "30")},
			want:    gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 8}, 1: {Memory: 8, Core: 30}}, Cards: 1},
			wantErr: "The requested gpu resource types should be consistent for all containers"},
		"compute without memory": {containers: []corev1.ResourceList{list("aliyun.com/gpu-core.percentage", "30")}, want: gpushare.Request{Containers: one(0, 30), Cards: 1},
			wantErr: "request resources must include aliyun.com/gpu-mem"},
		"compute not in fives": {containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8", "aliyun.com/gpu-core.percentage", "33")}, want: gpushare.Request{Containers: one(8, 33), Cards: 1},
			wantErr: "aliyun.com/gpu-core.percentage must be a multiple of 5 from 5 to 100, got 33"},
		"does not divide": {labels: map[string]string{gpushare.CardsLabel: "3"}, containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8")}, want: gpushare.Request{Containers: one(8, 0), Cards: 1},
			wantErr: "invalid replica for resource aliyun.com/gpu-mem: 8 does not divide over 3 cards"},
		"compute over two cards": {labels: map[string]string{gpushare.CardsLabel: "2"}, containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8", "aliyun.com/gpu-core.percentage", "30")},
			want: gpushare.Request{Containers: one(8, 30), Cards: 1}, wantErr: "pod label aliyun.com/gpu-count cannot be combined with aliyun.com/gpu-core.percentage"},
		"cards not a number": {labels: map[string]string{gpushare.CardsLabel: "two"}, containers: []corev1.ResourceList{list("aliyun.com/gpu-mem", "8")}, want: gpushare.Request{Containers: one(8, 0), Cards: 1},
			wantErr: `pod label aliyun.com/gpu-count must be a whole number of cards, got "two"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
			for _, limits := range test.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: limits}})
			}
			got, err := gpushare.RequestOf(pod)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if text(err) != test.wantErr {
				t.Errorf("error = %q, want %q", text(err), test.wantErr)
			}
		})
	}
}
