package gpushare

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Share is an amount of one or several cards.
type Share struct {
	Memory int // gpu-mem units
	Core   int // percent of one card
}

// Request is what one pod asks for.
type Request struct {
	Containers map[int]Share // by position in spec.containers; only those that ask
	Cards      int           // how many cards of one node the request is split over, at least 1
}

// PerCard is what the request needs on each of its cards.
func (r Request) PerCard() Share {
	var sum Share
	for _, share := range r.Containers {
		sum.Memory += share.Memory / r.Cards
		sum.Core += share.Core / r.Cards
	}
	return sum
}

var errKinds = errors.New("The requested gpu resource types should be consistent for all containers") //nolint:staticcheck // ACK's own text

// RequestOf reads a pod's limits, as ACK does, and its card-count label. A pod that asks for no slice has no containers
// in its Request; the error is the event text that refuses a pod which can never be placed.
func RequestOf(pod *corev1.Pod) (Request, error) {
	request := Request{Containers: map[int]Share{}, Cards: 1}
	for i, container := range pod.Spec.Containers {
		share := Share{Memory: whole(container.Resources.Limits, Memory), Core: whole(container.Resources.Limits, Core)}
		if share != (Share{}) {
			request.Containers[i] = share
		}
	}
	if len(request.Containers) == 0 {
		return request, nil
	}
	if err := request.checkKinds(); err != nil {
		return request, err
	}
	return request, request.split(pod.Labels)
}

func whole(list corev1.ResourceList, name corev1.ResourceName) int {
	quantity := list[name]
	return int(quantity.Value())
}

func (r Request) checkKinds() error {
	kinds := map[[2]bool]bool{}
	for _, share := range r.Containers {
		kinds[[2]bool{share.Memory > 0, share.Core > 0}] = true
		if share.Core%5 != 0 || share.Core < 0 || share.Core > 100 {
			return fmt.Errorf("%s must be a multiple of 5 from 5 to 100, got %d", Core, share.Core)
		}
	}
	if len(kinds) > 1 {
		return errKinds
	}
	if kinds[[2]bool{false, true}] {
		return fmt.Errorf("request resources must include %s", Memory)
	}
	return nil
}

// split reads the label that spreads a request over several cards of one node.
func (r *Request) split(labels map[string]string) error {
	value, ok := labels[CardsLabel]
	if !ok || value == "0" {
		return nil
	}
	cards, err := strconv.Atoi(value)
	if err != nil || cards < 0 {
		return fmt.Errorf("pod label %s must be a whole number of cards, got %q", CardsLabel, value)
	}
	for _, share := range r.Containers {
		if share.Memory%cards != 0 {
			return fmt.Errorf("invalid replica for resource %s: %d does not divide over %d cards", Memory, share.Memory, cards)
		}
		if share.Core > 0 && cards > 1 {
			return fmt.Errorf("pod label %s cannot be combined with %s", CardsLabel, Core)
		}
	}
	r.Cards = cards
	return nil
}
