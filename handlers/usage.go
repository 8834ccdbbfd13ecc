package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// maxUsePoints is how many steps one answer has.
const maxUsePoints = 1500

// Field codes of the usage API's parameters.
const (
	codeMoment    = "moment"
	codeAfterFrom = "after_from"
	codeUseRange  = "use_range"
	codeUseStep   = "use_step" // Args: min, max
)

// useJSON is what was last found out about a cluster's use. What is not known is null and never zero.
type useJSON struct {
	RequestID string            `json:"request_id"`
	AskedAt   *time.Time        `json:"asked_at"` // null = nothing was asked yet
	DataAt    *time.Time        `json:"data_at"`  // of samples; null = the sources have never answered
	Source    *string           `json:"source"`
	Problem   *reasonJSON       `json:"problem"` // why the last question was not answered; null = it was
	Dropped   int               `json:"dropped"` // impossible figures left out of the last answer
	Samples   []rayslice.Sample `json:"samples"` // a figure whose grade is "card" is the whole card's: never add those up
}

// usageJSON is the use of a cluster, now and over time.
type usageJSON struct {
	Now    useJSON             `json:"now"`
	From   time.Time           `json:"from"`
	To     time.Time           `json:"to"`
	Step   int                 `json:"step_seconds"`
	Points []rayslice.UsePoint `json:"points"` // none for a step about which nothing was read
}

// stretch is the part of the past that is asked for.
type stretch struct {
	name     string // "hour", "day", "week"; "" = by from and to
	from, to time.Time
	step     time.Duration
}

// apiUsage answers what a cluster uses and has used.
func (s *Server) apiUsage(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	id, err := requestID(c)
	if err != nil {
		return err
	}
	use, err := s.config.Store.Use(ctx, actor, id) // first: another team's cluster is not there, whatever is asked about it
	if err != nil {
		return err
	}
	asked, err := readStretch(c.QueryParams(), s.now())
	if err != nil {
		return err
	}
	points, err := s.config.Store.UseHistory(ctx, actor, id, asked.from, asked.to, asked.step)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, usageJSON{Now: useToJSON(c, use), From: asked.from, To: asked.to, Step: int(asked.step.Seconds()), Points: append([]rayslice.UsePoint{}, points...)})
}

func useToJSON(c echo.Context, u rayslice.Use) useJSON {
	j := useJSON{RequestID: u.RequestID, AskedAt: known(u.AskedAt), DataAt: known(u.DataAt), Source: said(string(u.Source)), Dropped: u.Dropped,
		Samples: append([]rayslice.Sample{}, u.Samples...)}
	if !u.Problem.IsZero() {
		j.Problem = &reasonJSON{Code: u.Problem.Code, Text: visitOf(c).locale.Reason(u.Problem)}
	}
	return j
}

// readStretch reads ?range=, or ?from=, ?to= and ?step=, and names every bad parameter. Without any it is the last hour.
func readStretch(query url.Values, now time.Time) (stretch, error) {
	r := &filterReader{query: query}
	if query.Has("range") || !query.Has("from") && !query.Has("to") && !query.Has("step") {
		return r.named(now)
	}
	asked := stretch{to: r.moment("to", now)}
	asked.from = r.moment("from", asked.to.Add(-time.Hour))
	if len(r.bad) == 0 && (!asked.from.Before(asked.to) || asked.from.Unix() < 0) {
		r.refuse("to", codeAfterFrom, nil)
	}
	if len(r.bad) == 0 {
		asked.step = r.step(asked.to.Sub(asked.from))
	}
	return asked, rayslice.Invalid(r.bad...)
}

func (r *filterReader) named(now time.Time) (stretch, error) {
	name := "hour"
	if r.query.Has("range") {
		name = r.query.Get("range")
	}
	length, step, ok := web.UseStretch(name)
	if !ok || len(r.query["range"]) > 1 || r.query.Has("from") || r.query.Has("to") || r.query.Has("step") {
		r.refuse("range", codeUseRange, nil)
	}
	return stretch{name: name, from: now.Add(-length), to: now, step: step}, rayslice.Invalid(r.bad...)
}

func (r *filterReader) moment(field string, otherwise time.Time) time.Time {
	if !r.query.Has(field) {
		return otherwise
	}
	at, err := time.Parse(time.RFC3339, r.query.Get(field))
	if err != nil || at.Year() > 9000 {
		r.refuse(field, codeMoment, nil)
	}
	return at
}

// step reads the length of a step in seconds; without one there are some hundred steps.
func (r *filterReader) step(length time.Duration) time.Duration {
	least := int(length/time.Second)/maxUsePoints + 1
	if !r.query.Has("step") {
		return time.Duration(max(least, int(length/time.Second)/100, 1)) * time.Second
	}
	const most = 24 * 60 * 60
	seconds, err := strconv.Atoi(r.query.Get("step"))
	if err != nil || seconds < least || seconds > max(most, least) {
		r.refuse("step", codeUseStep, map[string]any{"min": least, "max": max(most, least)})
	}
	return time.Duration(seconds) * time.Second
}

// pastUse reads the history that a page shows: of the last hour, unless ?range= says otherwise.
func (s *Server) pastUse(c echo.Context, id string) (web.UseHistory, error) {
	name := c.QueryParam("range")
	length, step, ok := web.UseStretch(name)
	if !ok {
		name = web.UseRanges()[0]
		length, step, _ = web.UseStretch(name)
	}
	now := s.now()
	points, err := s.config.Store.UseHistory(c.Request().Context(), user(c), id, now.Add(-length), now, step)
	return web.UseHistory{Range: name, From: now.Add(-length), To: now, Step: step, Points: points}, err
}

// How often a replica says that somebody looks at a cluster, and for how long that holds.
const (
	watchEvery = 15 * time.Second
	watchHolds = 45 * time.Second
)

// watched remembers which clusters this replica has lately said to be looked at.
type watched struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// due returns those of the ids that are to be said again, and notes that they were.
func (w *watched) due(ids []string, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []string
	for _, id := range ids {
		if now.Sub(w.said[id]) >= watchEvery {
			w.said[id] = now
			due = append(due, id)
		}
	}
	if len(w.said) > 10_000 {
		for id, at := range w.said {
			if now.Sub(at) >= watchEvery {
				delete(w.said, id)
			}
		}
	}
	return due
}

// forget makes the ids due again: saying it has failed.
func (w *watched) forget(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.said, id)
	}
}

// watch says that somebody looks at the requests, so that their use is asked for more often: once in a while however many
// look.
func (s *Server) watch(c echo.Context, ids []string) {
	due := s.watched.due(ids, time.Now())
	if len(due) == 0 {
		return
	}
	if err := s.config.Store.WatchUse(c.Request().Context(), user(c), due, time.Now().Add(watchHolds)); err != nil {
		s.watched.forget(due)
	}
}

// sharedDrawings keeps what many streams show alike, so that a change is read and drawn once however many look.
type sharedDrawings struct {
	mu    sync.Mutex
	drawn map[sharedKey]*drawing
}

type sharedKey struct{ part, id, language string }

type drawing struct {
	mu   sync.Mutex
	at   time.Time // zero = not drawn yet
	team string
	data []byte
}

const (
	shareFor  = time.Second // ages are counted on the page from then on
	maxShared = 1000
	drawLimit = 5 * time.Second
)

// of returns the drawing for a key, drawing it where that has not just been done. Who may not see its team is refused.
func (d *sharedDrawings) of(c echo.Context, key sharedKey, draw func(context.Context) (team string, data []byte, err error)) ([]byte, error) {
	one := d.get(key)
	one.mu.Lock()
	defer one.mu.Unlock()
	if time.Since(one.at) >= shareFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), drawLimit) // others wait for it
		defer cancel()
		team, data, err := draw(ctx)
		if err != nil {
			return nil, err // which the next one may not get
		}
		one.at, one.team, one.data = time.Now(), team, data
	}
	if !user(c).CanSee(one.team) {
		return nil, rayslice.NotFound("request")
	}
	return one.data, nil
}

func (d *sharedDrawings) get(key sharedKey) *drawing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.drawn[key]; one != nil {
		return one
	}
	if len(d.drawn) >= maxShared {
		clear(d.drawn)
	}
	one := &drawing{}
	d.drawn[key] = one
	return one
}

// forget drops what is no longer true: whoever comes from now on draws anew.
func (d *sharedDrawings) forget(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.drawn {
		if slices.Contains(ids, key.id) {
			delete(d.drawn, key)
		}
	}
}

func (d *sharedDrawings) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.drawn)
}

// encoded returns v as JSON for an event.
func encoded(v any) ([]byte, error) { return json.Marshal(v) }
