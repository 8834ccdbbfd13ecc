package gpushare

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Amounts are units by container position and card index; its JSON is the annotations' own form, {"0":{"1":8}}.
type Amounts map[int]map[int]int

// Allocation says which cards a pod holds a part of.
type Allocation struct {
	Memory Amounts // gpu-mem units
	Core   Amounts // percent; empty on nodes that do not share compute
}

// Allocate splits a request over the picked cards.
func Allocate(request Request, cards []int) Allocation {
	allocation := Allocation{Memory: Amounts{}, Core: Amounts{}}
	for container, share := range request.Containers {
		allocation.Memory[container] = even(share.Memory, cards)
		if share.Core > 0 {
			allocation.Core[container] = even(share.Core, cards)
		}
	}
	return allocation
}

func even(amount int, cards []int) map[int]int {
	parts := map[int]int{}
	for _, card := range cards {
		parts[card] = amount / len(cards)
	}
	return parts
}

// AllocationOf reads a pod's annotations. A pod without a readable allocation holds no card that anybody knows of: false.
func AllocationOf(pod *corev1.Pod) (Allocation, bool) {
	var allocation Allocation
	if json.Unmarshal([]byte(pod.Annotations[AllocationAnnotation]), &allocation.Memory) != nil {
		return Allocation{}, false
	}
	if text, ok := pod.Annotations[CoreAnnotation]; ok && json.Unmarshal([]byte(text), &allocation.Core) != nil {
		return Allocation{}, false
	}
	return allocation, true
}

// PerCard sums the allocation over the pod's containers.
func (a Allocation) PerCard() map[int]Share {
	sum := map[int]Share{}
	for _, parts := range a.Memory {
		for card, units := range parts {
			share := sum[card]
			share.Memory += units
			sum[card] = share
		}
	}
	for _, parts := range a.Core {
		for card, percent := range parts {
			share := sum[card]
			share.Core += percent
			sum[card] = share
		}
	}
	return sum
}

// Annotations renders the allocation as ACK does, with the size of each card of the node beside it.
func (a Allocation) Annotations(node Node, now time.Time) (map[string]string, error) {
	devices := map[int]int{}
	for card := range node.Cards {
		devices[card] = node.Size.Memory
	}
	annotations := map[string]string{
		AssignedAnnotation:   "true",
		AssumeTimeAnnotation: strconv.FormatInt(now.UnixNano(), 10),
	}
	values := map[string]any{AllocationAnnotation: a.Memory, DevicesAnnotation: devices}
	if len(a.Core) > 0 {
		values[CoreAnnotation] = a.Core
	}
	for name, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", name, err)
		}
		annotations[name] = string(text)
	}
	return annotations, nil
}
