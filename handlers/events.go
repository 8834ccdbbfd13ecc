package handlers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

const eventStreamType = "text/event-stream"

// timing are the clocks of event streams and of reports.
type timing struct {
	heartbeat time.Duration // between comments: balancers cut streams that are silent for a minute (argoproj/argo-cd#14191)
	recheck   time.Duration // between looks at whether the session still holds
	write     time.Duration // longest a reader may take for one event
	rest      time.Duration // least time between two events of a request's stream
	listRest  time.Duration // the same for the list, which more changes concern
	report    time.Duration // longest wait for a report's turn, before its reader hears that others come first
	chunk     time.Duration // longest a reader of an export may take for one write
	export    time.Duration // longest an export may take
	look      time.Duration // longest that a reader waits for a look at YAML
	still     time.Duration // longest that an exchange with a cluster goes on while nothing moves
	retry     time.Duration // before a browser connects again; up to as much again is added, so that they do not come together
}

func defaultTiming() timing {
	return timing{heartbeat: 15 * time.Second, recheck: 4 * time.Second, write: 5 * time.Second, rest: 300 * time.Millisecond, listRest: time.Second, retry: 5 * time.Second,
		report: time.Second, chunk: 20 * time.Second, export: 5 * time.Minute, still: time.Hour, look: 2 * time.Second}
}

// listen feeds the streams from Postgres until Close.
func (s *Server) listen() {
	if err := s.config.Store.Listen(s.context, s.heard); err != nil && s.context.Err() == nil {
		s.config.Logger.LogAttrs(s.context, slog.LevelError, "listening for changes ended", slog.String("error", err.Error()))
	}
}

// heard passes a change on to the streams, after what they share of it was forgotten.
func (s *Server) heard(change store.Change) {
	s.seen.forget(change)
	switch {
	case change.Resync:
		s.shared.forgetAll()
	default:
		s.shared.forget(append(slices.Clip(change.IDs), change.ID)...)
	}
	s.streams.notify(change)
}

// streamRequest keeps one request's page fresh: all of it when the request or its cluster changes, and the bars alone when
// its use does.
func (s *Server) streamRequest(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	state := drawn(c, func() (templ.Component, error) {
		p, err := s.requestPage(c, s.bareFrame)
		return web.RequestLive(p), err
	})
	use := func() ([]byte, error) {
		return s.shared.of(c, sharedKey{web.EventUse, id, visitOf(c).locale.Code()}, func(ctx context.Context) (string, []byte, error) {
			p, err := s.usePage(ctx, c, id)
			if err != nil {
				return "", nil, err
			}
			data, err := rendered(ctx, web.UseLive(p))
			return p.Request.Team, data, err
		})
	}
	return s.stream(c, view{wants: changesOf(id), rest: s.timing.rest, watches: func() []string { return []string{id} },
		parts: []part{{web.EventLive, markState, state}, {web.EventUse, markAll, use}}})
}

// changesOf returns what a change means for whoever shows one request.
func changesOf(id string) func(store.Change) marks {
	return func(change store.Change) marks {
		switch {
		case change.Kind == store.KindUse && slices.Contains(change.IDs, id):
			return markUse
		case change.Kind != store.KindUse && change.ID == id:
			return markAll
		}
		return 0
	}
}

// usePage reads what the bars of a request's page show.
func (s *Server) usePage(ctx context.Context, c echo.Context, id string) (p web.RequestPage, err error) {
	p.Frame = s.frame(c)
	if p.Request, err = s.config.Store.Request(ctx, user(c), id); err != nil {
		return p, err
	}
	if p.Cluster, err = s.config.Store.Cluster(ctx, user(c), id); err != nil {
		return p, err
	}
	p.Use, err = s.config.Store.Use(ctx, user(c), id)
	return p, err
}

// streamClusters keeps the list fresh: its rows, and the small bars in them alone when only use changes.
func (s *Server) streamClusters(c echo.Context) error {
	var shown atomic.Pointer[web.ClusterList] // as it was drawn last
	list := drawn(c, func() (templ.Component, error) {
		p, err := s.clusterList(c, s.bareFrame)
		if err == nil {
			shown.Store(&p)
		}
		return web.ClusterRows(p), err
	})
	bars := drawn(c, func() (templ.Component, error) {
		p := *shown.Load() // the list comes first
		uses, err := s.config.Store.Uses(c.Request().Context(), user(c), requestIDs(p.Rows))
		p.Rows = slices.Clone(p.Rows)
		for i, row := range p.Rows {
			p.Rows[i].Use = uses[row.Request.ID]
		}
		p.Frame = s.frame(c)
		return web.UseRows(p), err
	})
	wants := func(change store.Change) marks {
		switch p := shown.Load(); {
		case change.Kind == store.KindFleet:
			return 0
		case change.Kind != store.KindUse:
			return markState
		case p != nil && slices.ContainsFunc(p.Rows, func(row web.ClusterRow) bool { return slices.Contains(change.IDs, row.Request.ID) }):
			return markUse
		}
		return 0
	}
	return s.stream(c, view{wants: wants, rest: s.timing.listRest, watches: func() []string { return runningIDs(shown.Load().Rows) },
		parts: []part{{web.EventLive, markState, list}, {web.EventUse, markUse, bars}}})
}

func requestIDs(rows []web.ClusterRow) []string {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.Request.ID
	}
	return ids
}

// runningIDs are the requests whose use there is something to know about.
func runningIDs(rows []web.ClusterRow) []string {
	return requestIDs(slices.DeleteFunc(slices.Clone(rows), func(row web.ClusterRow) bool { return !row.Request.State.Live() }))
}

// apiEvents streams a request and its use as JSON: the event "cluster" has what GET /api/v1/requests/ID answers, "use" what
// was last found out about its use.
func (s *Server) apiEvents(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	cluster := func() ([]byte, error) {
		request, err := s.config.Store.Request(ctx, user(c), id)
		if err != nil {
			return nil, err
		}
		details, err := s.details(c, request)
		if err != nil {
			return nil, err
		}
		return encoded(details)
	}
	use := func() ([]byte, error) {
		use, err := s.config.Store.Use(ctx, user(c), id)
		if err != nil {
			return nil, err
		}
		return encoded(useToJSON(c, use))
	}
	return s.stream(c, view{wants: changesOf(id), rest: s.timing.rest, watches: func() []string { return []string{id} }, expired: expiredJSON,
		parts: []part{{"cluster", markState, cluster}, {web.EventUse, markUse, use}}})
}

// expiredJSON is what a program is told when its token or session has ended.
var expiredJSON = []byte(`{"status":401,"code":"signed_out"}`)

// view is what a stream shows.
type view struct {
	wants   func(store.Change) marks // what a change may alter of it
	rest    time.Duration            // least time between two drawings
	parts   []part                   // in the order in which they are sent
	watches func() []string          // ids of the requests whose use it shows; nil = of none
	expired []byte                   // data of the event that tells of the end of a session
}

// part is a kind of event: what it shows as it is now, for the visitor as they are now.
type part struct {
	name string
	on   marks // which changes alter it
	draw func() ([]byte, error)
}

// drawn returns how a component is drawn for an event.
func drawn(c echo.Context, draw func() (templ.Component, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		component, err := draw()
		if err != nil {
			return nil, err
		}
		return rendered(c.Request().Context(), component)
	}
}

func rendered(ctx context.Context, component templ.Component) ([]byte, error) {
	var b bytes.Buffer
	err := component.Render(ctx, &b)
	return b.Bytes(), err
}

// watchFor says that somebody looks at what the stream shows.
func (s *Server) watchFor(c echo.Context, v view) {
	if v.watches != nil {
		s.watch(c, v.watches())
	}
}

// stream draws its parts now and after every change the visitor may see, until the reader leaves, the session ends
// or the server closes. What is refused before the first event is answered like any page.
func (s *Server) stream(c echo.Context, v view) error {
	sub, err := s.streams.subscribe(visitOf(c).identity, v.wants) // before the first look, so that nothing falls between
	if err != nil {
		return err
	}
	defer s.streams.unsubscribe(sub)
	first := make([]event, len(v.parts))
	if err := aside(func() error { return v.draw(first) }); err != nil {
		return err
	}
	w := newEventWriter(c, s.timing)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	s.watchFor(c, v)
	err = w.begin(first...)
	if err == nil {
		err = s.follow(c, sub, w, v)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.metrics.dropped.Inc()
	}
	return nil // whatever happened, the answer has been given
}

// draw draws every part into events.
func (v view) draw(events []event) (err error) {
	for i, p := range v.parts {
		if events[i], err = p.event(); err != nil {
			return err
		}
	}
	return nil
}

// aside does work on a stack of its own, and waits for it. What a stream does once in a while goes deep, and a stack that
// was deep once stays large for as long as the stream is open. A panic goes on to whoever waits.
func aside(do func() error) (err error) {
	var caught any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if caught = recover(); caught != nil {
				caught = fmt.Sprintf("%v\n%s", caught, debug.Stack())
			}
		}()
		err = do()
	}()
	<-done
	if caught != nil {
		panic(caught)
	}
	return err
}

// follow is the stream's loop. It returns nil when the stream ends in order, else the error of writing.
func (s *Server) follow(c echo.Context, sub *subscription, w *eventWriter, v view) error {
	heartbeat, recheck := time.NewTicker(s.timing.heartbeat), time.NewTicker(s.timing.recheck)
	defer heartbeat.Stop()
	defer recheck.Stop()
	rested := time.NewTimer(v.rest)
	defer rested.Stop()
	var wake chan struct{} // sub.wake, or nil while the stream rests
	drawn := false         // since the last heartbeat
	for {
		var err error
		select {
		case <-c.Request().Context().Done():
			return nil
		case <-s.context.Done():
			return nil
		case <-rested.C:
			wake = sub.wake
		case <-heartbeat.C:
			quiet := !drawn
			err = aside(func() error { return s.beat(c, w, v, quiet) })
			drawn = false
		case <-recheck.C:
			err = aside(func() error { return s.mayGoOn(c, v) })
		case <-wake:
			marked := sub.take()
			wake, drawn = nil, drawn || marked&markState != 0
			rested.Reset(v.rest)
			err = aside(func() error { return s.redraw(c, w, v, marked) })
		}
		switch {
		case errors.Is(err, errGone):
			return w.send(event{name: web.EventAuthExpired, data: v.expired}) // the page loads again and says what is the matter
		case errors.Is(err, errLater):
			sub.mark(markAll)
			wake = nil
			rested.Reset(s.timing.retry)
		case err != nil:
			return err
		}
	}
}

// beat keeps the stream alive, and after a quiet time draws all anew: the announcement of a change may have been lost, and
// when nothing is reported any more the page has to say so.
func (s *Server) beat(c echo.Context, w *eventWriter, v view, quiet bool) error {
	if err := w.comment("heartbeat"); err != nil || !quiet {
		return err
	}
	return s.redraw(c, w, v, markAll)
}

// mayGoOn looks whether the stream may go on, and says that somebody still looks.
func (s *Server) mayGoOn(c echo.Context, v view) error {
	if !s.stillSignedIn(c) {
		return errGone
	}
	s.watchFor(c, v)
	return nil
}

// What redraw and mayGoOn say when nothing was sent.
var (
	errGone  = errors.New("not to be seen any more") // ends the stream
	errLater = errors.New("cannot be read now")      // and is to be tried again
)

// redraw sends what is true now of the parts that the marks concern.
func (s *Server) redraw(c echo.Context, w *eventWriter, v view, marked marks) error {
	for _, p := range v.parts {
		if p.on&marked == 0 {
			continue
		}
		fresh, err := p.event()
		switch kind := rayslice.KindOf(err); {
		case kind == rayslice.KindNotFound || kind == rayslice.KindForbidden:
			return errGone
		case err != nil:
			s.config.Logger.LogAttrs(s.context, slog.LevelWarn, "drawing an event failed",
				slog.String("request_id", visitOf(c).id), slog.String("error", err.Error()))
			return errLater
		}
		if err := w.send(fresh); err != nil {
			return err
		}
	}
	return nil
}

// stillSignedIn looks again who the stream's session or token stands for. While the database is away nobody is signed
// out, and nothing can be drawn either.
func (s *Server) stillSignedIn(c echo.Context) bool {
	v := visitOf(c)
	id, err := s.recognise(c.Request().Context(), v.identity)
	var refused *refusal
	if errors.As(err, &refused) || (err == nil && id.user.ID == 0) {
		return false
	}
	if err == nil {
		v.identity = id // roles may have changed
	}
	return true
}

// key is what streams are counted by.
func (id identity) key() string {
	if id.bearer != "" {
		return "bearer " + id.bearer
	}
	return "session " + id.session
}

// event is one server-sent event.
type event struct {
	name string
	hash string // equal ones mean equal data; "" = it is sent in any case
	data []byte
}

// eventIDFormat is how the ids of our events look; they are hashes with dots between.
var eventIDFormat = regexp.MustCompile(`^[a-z][0-9a-f]{16}(\.[a-z][0-9a-f]{16}){0,3}$`)

// agesLeftOut finds how long ago something was: pages count on by themselves, so another age is nothing new.
var agesLeftOut = regexp.MustCompile(`(<time [^>]*data-relative=[^>]*>)[^<]*`)

// event draws the part.
func (p part) event() (event, error) {
	data, err := p.draw()
	if err != nil {
		return event{}, err
	}
	sum := sha256.Sum256(agesLeftOut.ReplaceAll(data, []byte("$1")))
	return event{name: p.name, hash: p.name[:1] + hex.EncodeToString(sum[:8]), data: data}, nil
}

// eventWriter writes events and gives each a time limit of its own, whatever the server's are.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	timing   timing
	last     []string // hashes of the events the reader has seen last, one of each part; together they are the event's id
}

func newEventWriter(c echo.Context, t timing) *eventWriter {
	w := &eventWriter{response: c.Response(), control: http.NewResponseController(c.Response().Writer), timing: t}
	if last := c.Request().Header.Get("Last-Event-ID"); eventIDFormat.MatchString(last) {
		w.last = strings.Split(last, ".")
	}
	w.response.Header().Set(echo.HeaderContentType, eventStreamType)
	w.response.Header().Set("X-Accel-Buffering", "no")                         // nginx would hold events back
	w.response.Header().Set(echo.HeaderCacheControl, "no-store, no-transform") // and others might compress, which holds them back too
	w.response.WriteHeader(http.StatusOK)
	return w
}

// begin says when to connect again and sends the first events.
func (w *eventWriter) begin(first ...event) error {
	retry := w.timing.retry + rand.N(w.timing.retry)
	if err := w.write(fmt.Appendf(nil, "retry: %d\n\n", retry.Milliseconds())); err != nil {
		return err
	}
	for _, e := range first {
		if err := w.send(e); err != nil {
			return err
		}
	}
	return nil
}

// send writes an event, unless the reader has seen the same already.
func (w *eventWriter) send(e event) error {
	if e.hash != "" && slices.Contains(w.last, e.hash) {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", e.name)
	if e.hash != "" {
		w.last = append(slices.DeleteFunc(w.last, func(h string) bool { return h[0] == e.hash[0] }), e.hash)
		fmt.Fprintf(&b, "id: %s\n", strings.Join(w.last, "."))
	}
	for line := range bytes.Lines(bytes.ReplaceAll(e.data, []byte{'\r'}, []byte{'\n'})) { // a lone CR ends a line too, so text with one could forge an event
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimSuffix(line, []byte{'\n'}))
	}
	if len(e.data) == 0 {
		b.WriteString("data:\n") // browsers drop events without data
	}
	b.WriteByte('\n')
	return w.write(b.Bytes())
}

func (w *eventWriter) comment(text string) error { return w.write([]byte(": " + text + "\n\n")) }

func (w *eventWriter) write(b []byte) error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timing.write)) // not every writer has one
	if _, err := w.response.Write(b); err != nil {
		return err
	}
	return w.control.Flush()
}
