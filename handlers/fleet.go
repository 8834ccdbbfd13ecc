package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// capacity keeps what the cards hold, as everybody's pages need it and reading it means reading every pod. It is read anew when
// something changed, and in any case once in seenFor.
type capacity struct {
	turn sync.Mutex // held while it is read, so that many who need it at once read it once

	mu      sync.Mutex
	now     *snapshot
	changes int // that were heard of
}

const seenFor = 2 * time.Second

// snapshot is the fleet at one time, with nothing hidden: what of it is shown is for those who show it.
type snapshot struct {
	at        time.Time
	fleet     rayslice.Fleet
	room      rayslice.Room
	occupants []rayslice.Occupant
	byID      map[string]rayslice.Occupant

	mu        sync.Mutex
	forecasts map[string]rayslice.Forecast // by what is asked for
}

// forget drops what was read when the change may concern it.
func (c *capacity) forget(change store.Change) {
	if change.Resync || change.Kind == store.KindFleet || change.Kind == store.KindRequest {
		c.mu.Lock()
		c.now, c.changes = nil, c.changes+1
		c.mu.Unlock()
	}
}

// fresh returns what was read, nil when that is too old, and how many changes were heard of.
func (c *capacity) fresh(now time.Time) (*snapshot, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || now.Sub(c.now.at) >= seenFor {
		return nil, c.changes
	}
	return c.now, c.changes
}

// keep lets others have what was read, unless something has changed meanwhile.
func (c *capacity) keep(read *snapshot, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == changes {
		c.now = read
	}
}

// snapshot returns the fleet as it is now.
func (s *Server) snapshot(ctx context.Context) (*snapshot, error) {
	if kept, _ := s.seen.fresh(s.now()); kept != nil {
		return kept, nil
	}
	s.seen.turn.Lock()
	defer s.seen.turn.Unlock()
	kept, changes := s.seen.fresh(s.now())
	if kept != nil { // read while this one waited
		return kept, nil
	}
	read := &snapshot{at: s.now(), byID: map[string]rayslice.Occupant{}, forecasts: map[string]rayslice.Forecast{}}
	err := s.read(ctx, read)
	if err == nil {
		s.seen.keep(read, changes)
	}
	return read, err
}

func (s *Server) read(ctx context.Context, into *snapshot) (err error) {
	if into.fleet, err = s.config.Store.FleetCards(ctx, rayslice.System); err != nil {
		return err
	}
	into.room = into.fleet.Room()
	if into.occupants, err = s.config.Store.Occupants(ctx, rayslice.System); err != nil {
		return err
	}
	for _, o := range into.occupants {
		into.byID[o.RequestID] = o
	}
	return nil
}

// forecast says when the draft fits.
func (n *snapshot) forecast(draft rayslice.RequestDraft) rayslice.Forecast {
	key := ""
	for _, g := range draft.Groups {
		key += fmt.Sprintf("%v×%d %t;", g.Slice, g.MaxWorkers, g.Spread) + fmt.Sprint(g.CorePercent)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	found, known := n.forecasts[key]
	if !known {
		found = n.fleet.Forecast(draft, n.occupants, n.at)
		n.forecasts[key] = found
	}
	return found
}

// seenBy adds the name of the cluster whose end makes room, if the actor may see it.
func (n *snapshot) seenBy(actor rayslice.User, forecast rayslice.Forecast) web.RoomFit {
	fit := web.RoomFit{Forecast: forecast}
	if o := n.byID[forecast.Until]; o.RequestID != "" && actor.CanSee(o.Team) {
		fit.Name = o.Name
	} else {
		fit.Until = ""
	}
	return fit
}

// names returns the names of the live clusters that the actor may see, by the id of their request.
func (n *snapshot) names(actor rayslice.User) map[string]string {
	names := map[string]string{}
	for _, o := range n.occupants {
		if actor.CanSee(o.Team) {
			names[o.RequestID] = o.Name
		}
	}
	return names
}

// whenFits says when a draft fits.
func (s *Server) whenFits(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft) (web.RoomFit, error) {
	now, err := s.snapshot(ctx)
	if err != nil {
		return web.RoomFit{}, err
	}
	return now.seenBy(actor, now.forecast(draft)), nil
}

// sizesFit says for every size that is offered when it fits, for as many workers as the form's first group has.
func (s *Server) sizesFit(ctx context.Context, actor rayslice.User, form web.RequestForm, catalogue rayslice.Catalogue) (map[string]web.RoomFit, error) {
	now, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	fits := map[string]web.RoomFit{}
	for _, pool := range catalogue.Pools {
		if !pool.Offered() {
			continue
		}
		for _, gib := range web.PoolSizes(pool) {
			draft := form.AtSize(pool, gib, catalogue.Limits.MaxWorkers)
			fits[web.SizeValue(pool, gib)] = now.seenBy(actor, now.forecast(draft))
		}
	}
	return fits, nil
}

// showFleet shows every node and card.
func (s *Server) showFleet(c echo.Context) error {
	p, err := s.fleetPage(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.FleetView(p))
}

// streamFleet keeps the page fresh.
func (s *Server) streamFleet(c echo.Context) error {
	wants := func(change store.Change) marks {
		if change.Kind == store.KindFleet || change.Kind == store.KindRequest {
			return markState
		}
		return 0
	}
	return s.stream(c, view{wants: wants, rest: s.timing.listRest, parts: []part{{web.EventLive, markState, drawn(c, func() (templ.Component, error) {
		p, err := s.fleetPage(c)
		return web.FleetLive(p), err
	})}}})
}

// fleetNodes is how many nodes one page shows.
const fleetNodes = 25

// fleetPage reads the fleet as the address asks for it; the page and its event stream both show it.
func (s *Server) fleetPage(c echo.Context) (web.FleetPage, error) {
	actor, query := user(c), c.QueryParams()
	filter, at, err := s.readFleetFilter(query)
	if err != nil {
		return web.FleetPage{}, err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return web.FleetPage{}, err
	}
	now, err := s.snapshot(c.Request().Context())
	if err != nil {
		return web.FleetPage{}, err
	}
	verdicts, err := s.config.Store.NodeVerdicts(c.Request().Context(), actor)
	if err != nil {
		return web.FleetPage{}, err
	}
	fleet := now.fleet.For(actor)
	nodes := fleet.ByNode()
	p := web.FleetPage{
		Frame: frame, Filter: filter, Catalogue: s.config.Catalogue, Names: now.names(actor), Pools: s.fleetPools(fleet, nodes),
		Verdicts: verdictsByNode(verdicts), Unread: fleet.PodsUnread, Strays: fleet.Strays, ObservedAt: fleet.ObservedAt, Stream: withQuery("/fleet/events", query),
	}
	matching := s.filterNodes(nodes, filter)
	p.Matching = len(matching)
	at = min(at, max(0, len(matching)-1)/fleetNodes) // a page that is no more, as of a link from before, is the last one
	begin := at * fleetNodes
	end := min(len(matching), begin+fleetNodes)
	p.Nodes = matching[begin:end]
	next := ""
	if end < len(matching) {
		next = strconv.Itoa(at + 2)
	}
	p.Pages = pages("/fleet", query, "page", next)
	return p, nil
}

func verdictsByNode(verdicts []store.NodeVerdict) map[string]rayslice.Enforcement {
	by := map[string]rayslice.Enforcement{}
	for _, v := range verdicts {
		by[v.Node] = v.Enforcement
	}
	return by
}

// readFleetFilter reads how the fleet is narrowed and which page of it is wanted, counted from 0.
func (s *Server) readFleetFilter(query url.Values) (web.FleetFilter, int, error) {
	r := &filterReader{query: query}
	filter := web.FleetFilter{Pool: query.Get("pool"), Mode: query.Get("mode"), Problem: query.Get("problem") == "1", Table: query.Get("view") == "table"}
	if _, known := s.config.Catalogue.Pool(filter.Pool); filter.Pool != "" && !known {
		r.refuse("pool", rayslice.CodePoolUnknown, map[string]any{"pools": s.poolNames()})
	}
	modes := []string{"", string(rayslice.ModeCGPU), string(rayslice.ModeCoreMem), string(rayslice.ModeShare), string(rayslice.ModeWhole)}
	if !slices.Contains(modes, filter.Mode) {
		r.refuse("mode", codeModeUnknown, nil)
	}
	at, err := 1, error(nil)
	if text := query.Get("page"); text != "" {
		if at, err = strconv.Atoi(text); err != nil || at < 1 || at > maxFleetPage {
			r.refuse("page", rayslice.CodeRange, map[string]any{"min": 1, "max": maxFleetPage})
		}
	}
	return filter, at - 1, rayslice.Invalid(r.bad...)
}

const maxFleetPage = 10000

// codeModeUnknown is the field code of a sharing mode that does not exist; only the fleet's filter has it.
const codeModeUnknown = "mode_unknown"

func (s *Server) poolNames() string {
	names := ""
	for i, p := range s.config.Catalogue.Pools {
		if i > 0 {
			names += ", "
		}
		names += p.Name
	}
	return names
}

// filterNodes returns the nodes that the filter picks, in the order of their pools.
func (s *Server) filterNodes(nodes []rayslice.NodeCards, filter web.FleetFilter) []rayslice.NodeCards {
	place := func(pool string) int {
		at := slices.IndexFunc(s.config.Catalogue.Pools, func(p rayslice.Pool) bool { return p.Name == pool })
		if at < 0 {
			return len(s.config.Catalogue.Pools) // nodes of no pool come last
		}
		return at
	}
	found := slices.DeleteFunc(slices.Clone(nodes), func(n rayslice.NodeCards) bool {
		return filter.Pool != "" && n.Pool != filter.Pool || filter.Mode != "" && string(n.Mode) != filter.Mode || filter.Problem && !n.Troubled()
	})
	slices.SortStableFunc(found, func(a, b rayslice.NodeCards) int { return place(a.Pool) - place(b.Pool) })
	return found
}

// fleetPools sums up every pool of the catalogue, and the nodes of none.
func (s *Server) fleetPools(fleet rayslice.Fleet, nodes []rayslice.NodeCards) []web.FleetPool {
	var pools []web.FleetPool
	for _, pool := range s.config.Catalogue.Pools {
		one := web.FleetPool{Pool: pool, Sum: rayslice.SumPool(pool.Name, nodes)}
		if at := slices.IndexFunc(fleet.Pools, func(p rayslice.PoolStatus) bool { return p.Pool == pool.Name }); at >= 0 {
			one.Status = fleet.Pools[at]
		}
		pools = append(pools, one)
	}
	if none := rayslice.SumPool("", nodes); none.Nodes > 0 {
		pools = append(pools, web.FleetPool{Sum: none})
	}
	return pools
}
