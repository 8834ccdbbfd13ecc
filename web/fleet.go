package web

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// FleetPage shows every node and every card, and what live pods have of them.
type FleetPage struct {
	Frame
	Pages
	Filter     FleetFilter
	Catalogue  rayslice.Catalogue
	Pools      []FleetPool                     // the catalogue's pools in its order, then, if there are any, nodes that no pool picks
	Nodes      []rayslice.NodeCards            // of this page, in the order of the pools
	Names      map[string]string               // of clusters that the user may see, by the id of their request
	Verdicts   map[string]rayslice.Enforcement // the latest conclusive verdict about slices on a node, by its name; none = not known
	Matching   int                             // nodes that the filter picks, on all pages
	Unread     bool                            // pods could not be read, so nothing is known about what is free
	Strays     int                             // foreign pods that wait for a card somewhere
	ObservedAt time.Time                       // zero = nothing was read yet
	Stream     string                          // address of the event stream; "" = the page does not refresh itself
}

// FleetFilter narrows the fleet. Its fields are the query parameters of GET /fleet.
type FleetFilter struct {
	Pool    string // ?pool= name of a pool
	Mode    string // ?mode= sharing mode
	Problem bool   // ?problem=1 only nodes that take no slices, or about which something does not add up
	Table   bool   // ?view=table
}

// FleetPool is one pool with its sums over all nodes, whatever the filter.
type FleetPool struct {
	Pool   rayslice.Pool // zero = nodes that no pool picks
	Status rayslice.PoolStatus
	Sum    rayslice.PoolSum
}

// RoomFit says when something fits the fleet.
type RoomFit struct {
	rayslice.Forecast
	Name string // of the cluster whose end makes room; "" = it is another team's
}

// fleetSums is the line below the title.
func fleetSums(p FleetPage) string {
	nodes, cards, given, gib := 0, 0, 0, 0
	for _, pool := range p.Pools {
		nodes, cards = nodes+pool.Sum.Nodes, cards+pool.Sum.Cards
		given, gib = given+pool.Sum.GivenGiB, gib+pool.Sum.GiB
	}
	text := p.Locale.N("fleet_nodes", nodes) + " · " + p.Locale.N("pool_cards", cards)
	if gib > 0 {
		text += " · " + p.Locale.T("fleet_given", Args{"Given": given, "GiB": gib})
	}
	return text
}

// modesOf returns the sharing modes there are, for the filter.
func modesOf() []rayslice.Mode {
	return []rayslice.Mode{rayslice.ModeCGPU, rayslice.ModeCoreMem, rayslice.ModeShare, rayslice.ModeWhole}
}

// nodesOf returns the nodes of one pool on this page.
func nodesOf(p FleetPage, pool FleetPool) []rayslice.NodeCards {
	var nodes []rayslice.NodeCards
	for _, n := range p.Nodes {
		if n.Pool == pool.Pool.Name {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// shown reports whether the filter leaves the pool: with nodes, or without any where it should have some.
func shown(p FleetPage, pool FleetPool) bool {
	if len(nodesOf(p, pool)) > 0 {
		return true
	}
	return pool.Sum.Nodes == 0 && !p.Filter.Problem && p.First == "" &&
		(p.Filter.Pool == "" || p.Filter.Pool == pool.Pool.Name) && (p.Filter.Mode == "" || p.Filter.Mode == string(pool.Pool.Mode))
}

func poolTitle(l *Localizer, pool rayslice.Pool) string {
	if pool.Name == "" {
		return l.T("fleet_no_pool")
	}
	return pool.Model
}

// poolSumText is what a pool's heading says at its end.
func poolSumText(l *Localizer, pool FleetPool) string {
	sum := pool.Sum
	switch {
	case sum.Nodes == 0:
		return ""
	case pool.Pool.Name == "":
		return l.N("fleet_nodes", sum.Nodes)
	case pool.Pool.Mode == rayslice.ModeWhole:
		return l.N("fleet_cards_free", sum.Free)
	case sum.Largest == 0:
		return l.T("fleet_free_none", Args{"Free": sum.FreeGiB, "GiB": sum.GiB})
	}
	return l.T("fleet_free", Args{"Free": sum.FreeGiB, "GiB": sum.GiB, "Largest": sum.Largest})
}

// selectorText returns the labels that pick a pool's nodes (B053).
func selectorText(pool rayslice.Pool) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(pool.NodeSelector)) {
		parts = append(parts, key+"="+pool.NodeSelector[key])
	}
	return strings.Join(parts, ", ")
}

// holderName says who has a part of a card: the name of a cluster that the user may see, else only that it is another team's or
// not the portal's.
func holderName(p FleetPage, h rayslice.Hold) string {
	switch name, known := p.Names[h.RequestID]; {
	case h.Foreign && h.Pod != "":
		return h.Namespace + "/" + h.Pod
	case h.Foreign:
		return p.Locale.T("fleet_foreign")
	case known:
		return name
	case h.Pod != "":
		return h.Namespace + "/" + h.Pod
	}
	return p.Locale.T("fleet_other")
}

// holderPath returns where a cluster that the user may see is shown; "" = nowhere.
func holderPath(p FleetPage, h rayslice.Hold) string {
	if _, known := p.Names[h.RequestID]; known && !h.Foreign {
		return "/clusters/" + url.PathEscape(h.RequestID)
	}
	return ""
}

// ownColours is how many colours own clusters are told apart by; static/app.css has as many.
const ownColours = 5

// holderClass colours a part: own clusters differ, and the same one is the same everywhere.
func holderClass(p FleetPage, h rayslice.Hold) string {
	switch {
	case h.Foreign:
		return "foreign"
	case holderPath(p, h) == "":
		return "other"
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(h.RequestID))
	return fmt.Sprintf("own%d", sum.Sum32()%ownColours)
}

// cardPart is one coloured part of a card's bar.
type cardPart struct{ class, x, width, label, title string }

// cardParts lays what pods have of a card end to end, in percent of the card.
func cardParts(p FleetPage, c rayslice.Card) []cardPart {
	var parts []cardPart
	at := 0.0
	for _, part := range c.Parts {
		width := 100 - at
		if c.Mode.Sliced() && c.GiB > 0 {
			width = min(width, float64(part.GiB)*100/float64(c.GiB))
		}
		if width <= 0 {
			continue
		}
		parts = append(parts, newCardPart(p, part, at, width))
		at += width
	}
	return parts
}

func newCardPart(p FleetPage, part rayslice.Part, at, width float64) cardPart {
	name := holderName(p, part.Hold)
	label := ""
	switch {
	case part.GiB == 0:
		label = name
	case width > 16:
		label = name + " · " + strconv.Itoa(part.GiB)
	case width > 4:
		label = strconv.Itoa(part.GiB)
	}
	return cardPart{class: holderClass(p, part.Hold), x: percent(at) + "%", width: percent(width) + "%", label: label, title: partText(p, part)}
}

// partText says who has how much of a card, e.g. "ablation-7, 8 GiB, 50 % compute".
func partText(p FleetPage, part rayslice.Part) string {
	text := holderName(p, part.Hold)
	if part.GiB > 0 {
		text += ", " + amount(p.Locale, unitGiB, part.GiB)
	}
	if part.CorePercent > 0 {
		text += ", " + p.Locale.T("fleet_compute", Args{"Percent": part.CorePercent})
	}
	if part.Hold.Deleting {
		text += ", " + p.Locale.T("fleet_going")
	}
	return text
}

// looseText says what a pod has whose card nobody recorded.
func looseText(p FleetPage, h rayslice.Hold) string {
	part := rayslice.Part{Hold: h, GiB: h.Slice.GiB * max(1, h.Slice.Cards), CorePercent: h.Slice.CorePercent}
	text := partText(p, part)
	if h.Slice.GiB == 0 {
		text += ", " + amount(p.Locale, unitCards, max(1, h.Slice.Cards))
	}
	return text
}

// cardName names a card. On nodes of whole cards nobody records which one a pod has.
func cardName(p FleetPage, c rayslice.Card) string {
	if !c.Mode.Sliced() {
		return p.Locale.T("fleet_card_any")
	}
	return p.Locale.T("fleet_card", Args{"Index": c.Index})
}

// freeText says what a card has left.
func freeText(p FleetPage, n rayslice.NodeCards, c rayslice.Card) string {
	switch {
	case !n.Usable():
		return p.Locale.T("fleet_closed")
	case !c.Mode.Sliced() && c.Empty:
		return p.Locale.T("fleet_card_free")
	case !c.Mode.Sliced():
		return p.Locale.T("fleet_card_taken")
	}
	text := p.Locale.T("fleet_gib_free", Args{"GiB": c.FreeGiB})
	if c.Loose.GiB > 0 {
		text = p.Locale.T("fleet_gib_free_most", Args{"GiB": c.FreeGiB})
	}
	if c.Mode == rayslice.ModeCoreMem {
		text += " · " + p.Locale.T("fleet_compute", Args{"Percent": c.FreeCore})
	}
	if c.MaxPods > 0 && len(c.Parts) >= c.MaxPods {
		text += " · " + p.Locale.N("fleet_max_pods", c.MaxPods)
	}
	return text
}

// cardLabel is a card's bar in words.
func cardLabel(p FleetPage, n rayslice.NodeCards, c rayslice.Card) string {
	parts := []string{cardName(p, c)}
	for _, part := range c.Parts {
		parts = append(parts, partText(p, part))
	}
	return strings.Join(append(parts, freeText(p, n, c)), "; ")
}

// modeTone marks what enforces nothing.
func modeTone(m rayslice.Mode) string {
	if m.Isolated() {
		return "ok"
	}
	return "bad"
}

// viewPath returns the address of the same nodes, as bars or as a table.
func viewPath(p FleetPage) string {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("pool", p.Filter.Pool)
	set("mode", p.Filter.Mode)
	if p.Filter.Problem {
		set("problem", "1")
	}
	if !p.Filter.Table {
		set("view", "table")
	}
	if len(query) == 0 {
		return "/fleet"
	}
	return "/fleet?" + query.Encode()
}

// roomTone colours when something fits.
func roomTone(r RoomFit) string {
	switch {
	case !r.Known:
		return "plain"
	case r.Fits:
		return "ok"
	case !r.Cannot.IsZero():
		return "bad"
	}
	return "warn"
}

// roomText says in a few words whether something fits now.
func roomText(l *Localizer, r RoomFit) string {
	switch {
	case !r.Known:
		return l.T("room_unknown")
	case r.Fits:
		return l.N("room_now", r.OnCards)
	case !r.Cannot.IsZero():
		return l.T("room_cannot")
	case r.Maybe:
		return l.T("room_maybe")
	}
	return l.T("room_none")
}

// roomWhy says what has to happen before it fits; "" = nothing, or it never does. The date that belongs to it stands beside.
func roomWhy(l *Localizer, r RoomFit, now time.Time) string {
	switch {
	case !r.Known || r.Fits:
		return ""
	case !r.Cannot.IsZero():
		return l.Reason(r.Cannot)
	case r.Latest.IsZero():
		return l.T("room_no_date")
	case !r.Latest.After(now) && r.Name == "":
		return l.T("room_soon_other")
	case !r.Latest.After(now):
		return l.T("room_soon", Args{"Name": r.Name})
	case r.Name == "":
		return l.T("room_when_other")
	}
	return l.T("room_when", Args{"Name": r.Name})
}

// roomDated reports whether a date belongs to what roomWhy says.
func roomDated(r RoomFit, now time.Time) bool {
	return r.Known && !r.Fits && r.Cannot.IsZero() && r.Latest.After(now)
}

// Sentence says the same as the pages in one piece of text, with the time as the API writes it.
func (r RoomFit) Sentence(l *Localizer, now time.Time) string {
	text := roomText(l, r)
	if why := roomWhy(l, r, now); why != "" {
		text += ": " + why
		if roomDated(r, now) {
			text += " " + r.Latest.UTC().Format(time.RFC3339)
		}
	}
	return text
}
