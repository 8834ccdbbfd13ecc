package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/rayslice/rayslice"
)

// nodesPath is where a head lists its nodes with their cards (domain facts C.1).
const nodesPath = "/nodes?view=summary"

// Bounds of what a head says about its nodes: about 5 KiB each, of which users can make more.
const (
	nodesBase    = 256 << 10
	nodesPerPod  = 32 << 10
	maxCardNames = 100 // characters of a card's UUID that are kept
	maxPodCards  = 64
)

// rayUsage asks each cluster's head.
type rayUsage struct{ heads *Heads }

func (r *rayUsage) kind() rayslice.UseSource { return rayslice.UseFromRay }

func (r *rayUsage) read(ctx context.Context, of subject, _ time.Duration) (finding, error) {
	if of.Head == nil {
		return finding{}, &useError{Reason: rayslice.Reason{Code: ReasonUseNoHead}, Err: errors.New("no head pod runs")}
	}
	limit := nodesBase + nodesPerPod*(len(of.Workers)+1)
	body, err := r.heads.call(ctx, of.head(), http.MethodGet, nodesPath, nil, limit)
	if err != nil {
		return finding{}, err
	}
	return readNodes(body, of, time.Now().UTC())
}

// rayNodes is what is read of the answer.
type rayNodes struct {
	Data struct {
		Summary []struct {
			IP   string    `json:"ip"`
			GPUs []rayCard `json:"gpus"` // nil = the node could not ask its driver
			Ray  struct {
				State string `json:"state"`
			} `json:"raylet"`
		} `json:"summary"`
	} `json:"data"`
}

type rayCard struct {
	UUID    string `json:"uuid"`
	Percent figure `json:"utilizationGpu"` // -1 or null where the driver does not say
	Used    figure `json:"memoryUsed"`     // MiB
	Total   figure `json:"memoryTotal"`    // MiB
}

// figure is a number that may be missing, or nonsense.
type figure struct{ value *float64 }

// UnmarshalJSON takes null for not known, and what is no number for one that cannot be.
func (f *figure) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		value = -2 // below zero: dropped and counted
	}
	f.value = &value
	return nil
}

// readNodes joins the nodes that a head lists with the workers of its cluster, by the address of their pods: never by an
// index, which is 0 in every slice. A head can say nothing about pods of others.
func readNodes(body []byte, of subject, now time.Time) (finding, error) {
	var answer rayNodes
	if err := json.Unmarshal(body, &answer); err != nil {
		return finding{}, unreadable(err)
	}
	if answer.Data.Summary == nil {
		return finding{}, unreadable(errors.New("head lists no nodes"))
	}
	byIP := map[string][]gauged{}
	for _, node := range answer.Data.Summary {
		if node.Ray.State == "ALIVE" && byIP[node.IP] == nil { // the dead stay with figures of their last sign of life
			byIP[node.IP] = gauges(node.GPUs, now)
		}
	}
	holders := map[string]int{}
	for _, w := range of.Workers {
		holders[w.IP]++
	}
	found := finding{at: now}
	for _, w := range of.Workers {
		var cards []gauged
		if w.IP != "" && holders[w.IP] == 1 { // pods on their node's network cannot be told apart
			cards = byIP[w.IP]
		}
		found.add(of, rayslice.UseFromRay, w, cards, now)
	}
	return found, nil
}

// gauges returns each card once.
func gauges(cards []rayCard, now time.Time) []gauged {
	var out []gauged
	seen := map[string]bool{}
	for _, c := range cards {
		uuid := cutText(clean(c.UUID), maxCardNames)
		if seen[uuid] || len(out) >= maxPodCards {
			continue
		}
		seen[uuid] = true
		percent := c.Percent.value
		if percent != nil && *percent == -1 {
			percent = nil
		}
		out = append(out, gauged{gpu: uuid, at: now, Figures: rayslice.Figures{UsedMiB: c.Used.value, LimitMiB: c.Total.value, Percent: percent}})
	}
	return out
}

// cutText returns at most n characters.
func cutText(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
