package handlers

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// capacityJSON is what GET /api/v1/capacity answers: the fleet page and the new-request form in numbers.
type capacityJSON struct {
	ObservedAt *time.Time         `json:"observed_at"` // null = nothing was read yet
	PodsKnown  bool               `json:"pods_known"`  // false = which pods hold cards could not be read, so nothing is known to be free
	Pools      []capacityPoolJSON `json:"pools"`
	Nodes      []capacityNodeJSON `json:"nodes"`
	Strays     int                `json:"strays"` // foreign pods that wait for a card somewhere
}

type capacityPoolJSON struct {
	Pool    string      `json:"pool"`
	Model   string      `json:"model"`
	Mode    string      `json:"mode"`
	Offered bool        `json:"offered"` // people may ask for it
	Looked  int         `json:"looked"`  // nodes that were looked at
	Blocked *reasonJSON `json:"blocked"`
	rayslice.PoolSum
	Sizes []capacitySizeJSON `json:"sizes"`
}

// capacitySizeJSON says whether one worker of a size finds room; slice_gib 0 is a whole card.
type capacitySizeJSON struct {
	SliceGiB    int         `json:"slice_gib"`
	Fits        *bool       `json:"fits"` // null = not known
	Maybe       bool        `json:"maybe"`
	OnCards     int         `json:"on_cards"`
	LatestStart *time.Time  `json:"latest_start"` // null = it fits now, or no date is known
	Until       *string     `json:"until"`        // id of the request whose end makes room; null = another team's, or none
	Cannot      *reasonJSON `json:"cannot"`
	Text        string      `json:"text"`
}

type capacityNodeJSON struct {
	Node     string             `json:"node"`
	Pool     *string            `json:"pool"` // null = no pool picks it
	Mode     string             `json:"mode"`
	Usable   bool               `json:"usable"` // takes slices
	Problems []reasonJSON       `json:"problems"`
	Doubts   []reasonJSON       `json:"doubts"`
	Cards    []capacityCardJSON `json:"cards"`
	Loose    []capacityPartJSON `json:"unattributed"` // pods of which nobody recorded the card
}

type capacityCardJSON struct {
	Index    int                `json:"index"`
	GiB      int                `json:"gib"`
	FreeGiB  int                `json:"free_gib"`    // at most, when the node has unattributed pods
	UpTo     bool               `json:"upper_bound"` // free_gib is such a bound
	FreeCore int                `json:"free_core_percent"`
	Empty    bool               `json:"empty"`
	MaxPods  int                `json:"max_pods"` // 0 = not limited
	Parts    []capacityPartJSON `json:"parts"`
}

// capacityPartJSON is what one pod has. Names are null where the caller may not see them.
type capacityPartJSON struct {
	Holder      string  `json:"holder"` // own, other_team or foreign
	RequestID   *string `json:"request_id"`
	Name        *string `json:"name"`
	Team        *string `json:"team"`
	Namespace   *string `json:"namespace"`
	Pod         *string `json:"pod"`
	GiB         int     `json:"gib"` // 0 = the whole card
	CorePercent int     `json:"core_percent"`
	Deleting    bool    `json:"deleting"`
}

// apiCapacity says what the fleet has, who has it, and when each size fits.
func (s *Server) apiCapacity(c echo.Context) error {
	actor := user(c)
	now, err := s.snapshot(c.Request().Context())
	if err != nil {
		return err
	}
	fleet := now.fleet.For(actor)
	nodes := fleet.ByNode()
	answer := capacityJSON{ObservedAt: known(fleet.ObservedAt), PodsKnown: !fleet.ObservedAt.IsZero() && !fleet.PodsUnread, Strays: fleet.Strays,
		Pools: []capacityPoolJSON{}, Nodes: []capacityNodeJSON{}}
	for _, pool := range s.fleetPools(fleet, nodes) {
		if pool.Pool.Name != "" {
			answer.Pools = append(answer.Pools, s.capacityPool(c, now, pool))
		}
	}
	names := now.names(actor)
	for _, n := range nodes {
		answer.Nodes = append(answer.Nodes, capacityNode(c, n, names))
	}
	return c.JSON(http.StatusOK, answer)
}

func (s *Server) capacityPool(c echo.Context, now *snapshot, pool web.FleetPool) capacityPoolJSON {
	j := capacityPoolJSON{Pool: pool.Pool.Name, Model: pool.Pool.Model, Mode: string(pool.Pool.Mode), Offered: pool.Pool.Offered(), Looked: pool.Status.Looked,
		Blocked: reasonOf(c, pool.Status.Blocked), PoolSum: pool.Sum, Sizes: []capacitySizeJSON{}}
	for _, gib := range web.PoolSizes(pool.Pool) {
		draft := web.RequestForm{}.AtSize(pool.Pool, gib, 1)
		j.Sizes = append(j.Sizes, s.capacitySize(c, gib, now.seenBy(user(c), now.forecast(draft))))
	}
	return j
}

func (s *Server) capacitySize(c echo.Context, gib int, fit web.RoomFit) capacitySizeJSON {
	j := capacitySizeJSON{SliceGiB: gib, Maybe: fit.Maybe, OnCards: fit.OnCards, LatestStart: known(fit.Latest), Until: said(fit.Until),
		Cannot: reasonOf(c, fit.Cannot), Text: fit.Sentence(visitOf(c).locale, s.now())}
	if fit.Known {
		j.Fits = &fit.Fits
	}
	return j
}

func capacityNode(c echo.Context, n rayslice.NodeCards, names map[string]string) capacityNodeJSON {
	j := capacityNodeJSON{Node: n.Name, Pool: said(n.Pool), Mode: string(n.Mode), Usable: n.Usable(), Problems: reasonsOf(c, n.Problems), Doubts: reasonsOf(c, n.Doubts),
		Cards: []capacityCardJSON{}, Loose: []capacityPartJSON{}}
	for _, card := range n.Cards {
		one := capacityCardJSON{Index: card.Index, GiB: card.GiB, FreeGiB: card.FreeGiB, UpTo: card.Loose.GiB > 0, FreeCore: card.FreeCore, Empty: card.Empty,
			MaxPods: card.MaxPods, Parts: []capacityPartJSON{}}
		for _, part := range card.Parts {
			one.Parts = append(one.Parts, capacityPart(part, names))
		}
		j.Cards = append(j.Cards, one)
	}
	for _, h := range n.Loose {
		j.Loose = append(j.Loose, capacityPart(rayslice.Part{Hold: h, GiB: h.Slice.GiB * max(1, h.Slice.Cards), CorePercent: h.Slice.CorePercent}, names))
	}
	return j
}

func capacityPart(part rayslice.Part, names map[string]string) capacityPartJSON {
	h := part.Hold
	j := capacityPartJSON{Holder: "other_team", RequestID: said(h.RequestID), Team: said(h.Team), Namespace: said(h.Namespace), Pod: said(h.Pod),
		GiB: part.GiB, CorePercent: part.CorePercent, Deleting: h.Deleting}
	name, own := names[h.RequestID]
	switch {
	case h.Foreign:
		j.Holder = "foreign"
	case own:
		j.Holder, j.Name = "own", &name
	}
	return j
}

// reasonOf is nil when there is nothing to say.
func reasonOf(c echo.Context, reason rayslice.Reason) *reasonJSON {
	if reason.IsZero() {
		return nil
	}
	return &reasonJSON{Code: reason.Code, Text: visitOf(c).locale.Reason(reason)}
}

func reasonsOf(c echo.Context, reasons []rayslice.Reason) []reasonJSON {
	all := make([]reasonJSON, 0, len(reasons))
	for _, reason := range reasons {
		all = append(all, *reasonOf(c, reason))
	}
	return all
}
