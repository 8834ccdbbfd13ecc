package k8s

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rayslice/rayslice"
)

// What nodes say about their cards (domain facts A.1, A.2).
const (
	ResourceGPUCount = corev1.ResourceName("aliyun.com/gpu-count") // cards of a node; no pod asks for it

	labelCardMiB      = "aliyun.accelerator/nvidia_mem"   // "23028MiB", one card
	labelCardCount    = "aliyun.accelerator/nvidia_count" // cards of the node
	labelMaxPods      = "ack.node.gpu.max-pod"            // most pods on one card
	labelNoIsolation  = "cgpu.disable.isolation"          // "true" makes the plugin turn isolation off
	labelLegacyShared = "gpushare"
	labelLegacyCGPU   = "cgpu"
)

// implausibleGiB is more than any card has: a node that offers more per card counts in MiB.
const implausibleGiB = 1024

// observeFleet turns nodes, and the pods on them, into what the portal says about them. It is pure. ACK's scheduler writes on
// the pods what each card of their node offers.
func observeFleet(nodes []*corev1.Node, pods []*podView, others []*foreignPod, catalogue rayslice.Catalogue, maxPods int, now time.Time) rayslice.Fleet {
	fleet := rayslice.Fleet{ObservedAt: now.UTC(), Problems: schedulerProblems(pods)}
	devices := cardsByNode(pods, others)
	for _, n := range nodes {
		pool, picked := pickPool(n, catalogue.Pools)
		if !picked && !offersGPU(n) {
			continue
		}
		fleet.Nodes = append(fleet.Nodes, observeNode(n, pool, devices[n.Name], maxPods))
	}
	slices.SortFunc(fleet.Nodes, func(a, b rayslice.Node) int { return cmp.Compare(a.Name, b.Name) })
	fleet.Holds, fleet.Strays = holds(pods, others)
	doubtAllocations(&fleet)
	for _, pool := range catalogue.Pools {
		fleet.Pools = append(fleet.Pools, observePool(pool, fleet.Nodes, len(nodes)))
	}
	return fleet
}

// pickPool returns the first pool whose selector picks the node.
func pickPool(n *corev1.Node, pools []rayslice.Pool) (rayslice.Pool, bool) {
	for _, p := range pools {
		if len(p.NodeSelector) > 0 && labels.SelectorFromSet(p.NodeSelector).Matches(labels.Set(n.Labels)) {
			return p, true
		}
	}
	return rayslice.Pool{}, false
}

func offersGPU(n *corev1.Node) bool {
	return offered(n, ResourceGPUMem) > 0 || offered(n, ResourceGPUCount) > 0 || offered(n, ResourceGPU) > 0
}

// offered returns how much of a resource the node offers; 0 when it does not name it.
func offered(n *corev1.Node, name corev1.ResourceName) int {
	quantity, ok := n.Status.Allocatable[name]
	if !ok {
		return 0
	}
	return int(min(max(0, quantity.Value()), math.MaxInt32))
}

func observeNode(n *corev1.Node, pool rayslice.Pool, devices []int, maxPods int) rayslice.Node {
	node := rayslice.Node{Name: n.Name, Pool: pool.Name, Mode: nodeMode(n), Ready: nodeReady(n) && !n.Spec.Unschedulable}
	var found []rayslice.Reason
	if node.Mode.Sliced() {
		node.Cards, node.CardGiB, found = slicedCards(n, node.Mode, pool, devices)
		var most []rayslice.Reason
		node.MaxPods, most = podsPerCard(n, maxPods)
		found = append(found, most...)
	} else {
		node.Cards = offered(n, ResourceGPU)
		node.CardGiB = cmp.Or(cardMiB(n)/1024, pool.CardGiB)
		if pool.Name != "" && node.Cards == 0 {
			node.CardGiB, found = 0, []rayslice.Reason{{Code: ReasonNodeOffersNone}}
		}
	}
	if node.Cards > mostCards {
		found, node.Cards = append(found, rayslice.Reason{Code: ReasonNodeManyCards, Args: map[string]any{"cards": node.Cards}}), 0
	}
	for _, reason := range append(stateProblems(n, node, pool), found...) {
		if reason = onNode(n.Name, reason); doubts[reason.Code] {
			node.Doubts = append(node.Doubts, reason)
		} else {
			node.Problems = append(node.Problems, reason)
		}
	}
	return node
}

// mostCards is more than any machine has. A node that offers more is not believed.
const mostCards = 64

// doubts are the codes of what is odd about a node that takes slices all the same.
var doubts = map[string]bool{ReasonNodeUnlikeCards: true, ReasonNodeSmallCard: true, ReasonNodeOverfull: true, ReasonNodeStrangeCard: true}

// onNode names the node in a reason.
func onNode(node string, reason rayslice.Reason) rayslice.Reason {
	if reason.Args == nil {
		reason.Args = map[string]any{}
	}
	reason.Args["node"] = node
	return reason
}

// podsPerCard reads how many pods one card takes: from the node's label, else what the configuration says (domain facts A.1).
// A label that is no number, or zero, lets nothing on the node, as the share scheduler does.
func podsPerCard(n *corev1.Node, otherwise int) (most int, found []rayslice.Reason) {
	text, labelled := n.Labels[labelMaxPods]
	if !labelled {
		return otherwise, nil
	}
	most, err := strconv.Atoi(text)
	if err != nil || most < 1 {
		return otherwise, []rayslice.Reason{{Code: ReasonNodeMaxPods, Args: map[string]any{"value": clean(text)}}}
	}
	return most, nil
}

// doubtAllocations flags nodes whose pods have, by what is recorded on them, more of a card than it offers, or a card that the
// node does not have.
func doubtAllocations(fleet *rayslice.Fleet) {
	at := map[string]int{}
	for i, n := range fleet.Nodes {
		at[n.Name] = i
	}
	given := map[string]map[int]int{}
	for _, h := range fleet.Holds {
		for _, p := range h.Placements {
			if given[h.Node] == nil {
				given[h.Node] = map[int]int{}
			}
			given[h.Node][p.Card] += p.GiB
		}
	}
	for name, cards := range given {
		i, known := at[name]
		if !known || !fleet.Nodes[i].Mode.Sliced() {
			continue
		}
		n := &fleet.Nodes[i]
		for _, card := range slices.Sorted(maps.Keys(cards)) {
			switch {
			case card >= n.Cards:
				n.Doubts = append(n.Doubts, onNode(name, rayslice.Reason{Code: ReasonNodeStrangeCard, Args: map[string]any{"card": card}}))
			case cards[card] > n.CardGiB:
				n.Doubts = append(n.Doubts, onNode(name, rayslice.Reason{Code: ReasonNodeOverfull, Args: map[string]any{"card": card, "given_gib": cards[card], "card_gib": n.CardGiB}}))
			}
		}
	}
}

func stateProblems(n *corev1.Node, node rayslice.Node, pool rayslice.Pool) (found []rayslice.Reason) {
	if !nodeReady(n) {
		found = append(found, rayslice.Reason{Code: ReasonNodeNotReady})
	}
	if n.Spec.Unschedulable {
		found = append(found, rayslice.Reason{Code: ReasonNodeCordoned})
	}
	if node.Mode == rayslice.ModeShare && n.Labels[labelNoIsolation] == "true" {
		found = append(found, rayslice.Reason{Code: ReasonNodeNoWall})
	} else if pool.Name != "" && node.Mode != pool.Mode {
		found = append(found, rayslice.Reason{Code: ReasonNodeMode, Args: map[string]any{"mode": string(node.Mode), "pool_mode": string(pool.Mode)}})
	}
	return found
}

// slicedCards reads how many cards a sharing node has and how many GiB each offers: the node says only the sum
// (domain facts A.4), so a slice is held against sum ÷ cards.
func slicedCards(n *corev1.Node, mode rayslice.Mode, pool rayslice.Pool, devices []int) (cards, gib int, found []rayslice.Reason) {
	total := offered(n, ResourceGPUMem)
	cards = cmp.Or(offered(n, ResourceGPUCount), labelledCards(n))
	if mode == rayslice.ModeCoreMem && total > 0 && offered(n, ResourceGPUCore) == 0 {
		found = append(found, rayslice.Reason{Code: ReasonNodeNoCompute})
	}
	if _, named := n.Status.Allocatable[ResourceGPUMem]; !named {
		return cards, 0, append(found, rayslice.Reason{Code: ReasonNodeOffersNone})
	}
	switch {
	case total == 0:
		return cards, 0, append(found, rayslice.Reason{Code: ReasonNodeZero, Args: map[string]any{"cards": cards}})
	case cards == 0:
		return 0, 0, append(found, rayslice.Reason{Code: ReasonNodeNoCount})
	}
	perCard, physical := total/cards, cmp.Or(cardMiB(n), pool.CardMiB)
	if countsMiB(perCard, physical, pool.CardGiB) {
		args := map[string]any{"offered": perCard, "card_mib": physical}
		return cards, perCard / 1024, append(found, rayslice.Reason{Code: ReasonNodeUnit, Args: args})
	}
	if all := sum(devices); len(devices) == cards && all != total || total%cards != 0 {
		args := map[string]any{"cards_gib": cmp.Or(all, total), "offered_gib": total}
		found = append(found, rayslice.Reason{Code: ReasonNodeUnlikeCards, Args: args})
	}
	if pool.Mode.Sliced() && perCard < pool.CardGiB {
		found = append(found, rayslice.Reason{Code: ReasonNodeSmallCard, Args: map[string]any{"card_gib": perCard, "pool_gib": pool.CardGiB}})
	}
	return cards, perCard, found
}

// countsMiB reports whether what one card offers is in MiB. The physical size decides where it is known: in GiB, the
// offer times 1024 is near it; in MiB, the offer itself is. Without it, no card has a TiB.
func countsMiB(perCard, physicalMiB, poolGiB int) bool {
	switch {
	case physicalMiB > 0:
		return distance(perCard, physicalMiB) < distance(perCard*1024, physicalMiB)
	case poolGiB > 0:
		return distance(perCard, poolGiB*1024) < distance(perCard, poolGiB)
	}
	return perCard >= implausibleGiB
}

func distance(a, b int) int { return max(a-b, b-a) }

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// cardMiB reads the physical size of one card; 0 = unknown.
func cardMiB(n *corev1.Node) int {
	text, ok := strings.CutSuffix(n.Labels[labelCardMiB], "MiB")
	mib, err := strconv.Atoi(text)
	if !ok || err != nil || mib < 0 {
		return 0
	}
	return mib
}

func labelledCards(n *corev1.Node) int {
	cards, err := strconv.Atoi(n.Labels[labelCardCount])
	if err != nil {
		return 0
	}
	return max(0, min(cards, 64))
}

// nodeMode reads how the node's cards are shared. Isolation that is turned off makes every sliced mode a share.
func nodeMode(n *corev1.Node) rayslice.Mode {
	mode := rayslice.Mode(n.Labels[LabelGPUMode])
	switch {
	case mode != rayslice.ModeCGPU && mode != rayslice.ModeCoreMem && mode != rayslice.ModeShare:
		mode = rayslice.ModeWhole
		if n.Labels[labelLegacyCGPU] == "true" {
			mode = rayslice.ModeCGPU
		} else if n.Labels[labelLegacyShared] == "true" {
			mode = rayslice.ModeShare
		}
	}
	if mode.Sliced() && n.Labels[labelNoIsolation] == "true" {
		return rayslice.ModeShare
	}
	return mode
}

func nodeReady(n *corev1.Node) bool {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return i >= 0 && n.Status.Conditions[i].Status == corev1.ConditionTrue
}

// observePool sums up the pool's nodes, and closes the pool where a slice would not be what it says.
func observePool(pool rayslice.Pool, nodes []rayslice.Node, looked int) rayslice.PoolStatus {
	status := rayslice.PoolStatus{Pool: pool.Name, Looked: looked}
	for _, n := range nodes {
		if n.Pool != pool.Name {
			continue
		}
		status.Nodes++
		if status.Blocked.IsZero() {
			status.Blocked = blocked(pool, n)
		}
		if n.Ready && n.Mode == pool.Mode && !has(n, ReasonNodeUnit) {
			status.Cards += n.Cards
			status.LargestGiB = max(status.LargestGiB, n.CardGiB)
		}
	}
	return status
}

// blocked says why one node closes the pool: it would charge MiB as GiB, or hand out slices without a wall. A node
// whose label names another mode takes no slices of this pool, so it closes nothing.
func blocked(pool rayslice.Pool, n rayslice.Node) rayslice.Reason {
	for _, reason := range n.Problems {
		if reason.Code == ReasonNodeUnit && pool.Mode.Sliced() {
			return rayslice.Reason{Code: ReasonPoolUnit, Args: map[string]any{"node": n.Name, "offered": reason.Args["offered"]}}
		}
		if reason.Code == ReasonNodeNoWall && pool.Mode.Isolated() {
			return rayslice.Reason{Code: ReasonPoolNotIsolated, Args: map[string]any{"node": n.Name}}
		}
	}
	return rayslice.Reason{}
}

func has(n rayslice.Node, code string) bool {
	return slices.ContainsFunc(n.Problems, func(r rayslice.Reason) bool { return r.Code == code })
}

// cardsByNode collects what each card of a node offers, from the pods there: {"0":10,"1":20}.
func cardsByNode(pods []*podView, others []*foreignPod) map[string][]int {
	out := map[string][]int{}
	read := func(node, devices string) {
		if devices == "" || node == "" || out[node] != nil {
			return
		}
		var cards map[string]int
		if json.Unmarshal([]byte(devices), &cards) != nil {
			return
		}
		for _, units := range cards {
			out[node] = append(out[node], units)
		}
	}
	for _, pod := range pods {
		read(pod.worker.Node, pod.devices)
	}
	for _, pod := range others {
		read(pod.hold.Node, pod.devices)
	}
	return out
}

// schedulerProblems tells of slice pods that run somewhere though no share scheduler has put them on a card. One pod
// with a card is proof that there is one.
func schedulerProblems(pods []*podView) []rayslice.Reason {
	unplaced := 0
	for _, pod := range pods {
		if pod.worker.Phase != rayslice.PodRunning || pod.worker.Slice.GiB == 0 {
			continue
		}
		if pod.placed {
			return nil
		}
		unplaced++
	}
	if unplaced == 0 {
		return nil
	}
	return []rayslice.Reason{{Code: rayslice.ReasonNoShareScheduler, Args: map[string]any{"pods": unplaced}}}
}
