package handlers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
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
	still     time.Duration // longest that an exchange with a cluster goes on while nothing moves
	retry     time.Duration // before a browser connects again; up to as much again is added, so that they do not come together
}

func defaultTiming() timing {
	return timing{heartbeat: 15 * time.Second, recheck: 4 * time.Second, write: 5 * time.Second, rest: 300 * time.Millisecond, listRest: time.Second, retry: 5 * time.Second,
		report: time.Second, chunk: 20 * time.Second, export: 5 * time.Minute, still: time.Hour}
}

// listen feeds the streams from Postgres until Close.
func (s *Server) listen() {
	hear := func(change store.Change) {
		s.seen.forget(change)
		s.streams.notify(change)
	}
	if err := s.config.Store.Listen(s.context, hear); err != nil && s.context.Err() == nil {
		s.config.Logger.LogAttrs(s.context, slog.LevelError, "listening for changes ended", slog.String("error", err.Error()))
	}
}

// streamRequest keeps one request's page fresh.
func (s *Server) streamRequest(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	wants := func(change store.Change) bool { return change.ID == id }
	return s.stream(c, view{wants: wants, rest: s.timing.rest, draw: func() (templ.Component, error) {
		p, err := s.requestPage(c)
		return web.RequestLive(p), err
	}})
}

// streamClusters keeps the list fresh.
func (s *Server) streamClusters(c echo.Context) error {
	wants := func(change store.Change) bool { return change.Kind != store.KindFleet }
	return s.stream(c, view{wants: wants, rest: s.timing.listRest, draw: func() (templ.Component, error) {
		p, err := s.clusterList(c)
		return web.ClusterRows(p), err
	}})
}

// view is what a stream shows.
type view struct {
	wants func(store.Change) bool         // changes that may alter it
	rest  time.Duration                   // least time between two events
	draw  func() (templ.Component, error) // as it is now, for the visitor as they are now
}

// stream draws a component now and after every change the visitor may see, until the reader leaves, the session ends
// or the server closes. What is refused before the first event is answered like any page.
func (s *Server) stream(c echo.Context, v view) error {
	sub, err := s.streams.subscribe(visitOf(c).identity, v.wants) // before the first look, so that nothing falls between
	if err != nil {
		return err
	}
	defer s.streams.unsubscribe(sub)
	first, err := drawEvent(c, v.draw)
	if err != nil {
		return err
	}
	w := newEventWriter(c, s.timing)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	err = w.begin(first)
	if err == nil {
		err = s.follow(c, sub, w, v)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.metrics.dropped.Inc()
	}
	return nil // whatever happened, the answer has been given
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
			if err = w.comment("heartbeat"); err == nil && !drawn {
				err = s.redraw(c, w, v) // a change whose announcement was lost, or that nothing is reported any more
			}
			drawn = false
		case <-recheck.C:
			if !s.stillSignedIn(c) {
				return w.send(event{name: web.EventAuthExpired})
			}
		case <-wake:
			wake, drawn = nil, true
			rested.Reset(v.rest)
			err = s.redraw(c, w, v)
		}
		switch {
		case errors.Is(err, errGone):
			return w.send(event{name: web.EventAuthExpired}) // the page loads again and says what is the matter
		case errors.Is(err, errLater):
			sub.mark()
			wake = nil
			rested.Reset(s.timing.retry)
		case err != nil:
			return err
		}
	}
}

// What redraw says when it has sent nothing.
var (
	errGone  = errors.New("not to be seen any more") // ends the stream
	errLater = errors.New("cannot be read now")      // and is to be tried again
)

// redraw sends what is true now.
func (s *Server) redraw(c echo.Context, w *eventWriter, v view) error {
	fresh, err := drawEvent(c, v.draw)
	switch kind := rayslice.KindOf(err); {
	case err == nil:
		return w.send(fresh)
	case kind == rayslice.KindNotFound || kind == rayslice.KindForbidden:
		return errGone
	}
	s.config.Logger.LogAttrs(s.context, slog.LevelWarn, "drawing an event failed",
		slog.String("request_id", visitOf(c).id), slog.String("error", err.Error()))
	return errLater
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
	id   string // comes back as Last-Event-ID; equal ids mean equal data
	data []byte
}

func drawEvent(c echo.Context, draw func() (templ.Component, error)) (event, error) {
	component, err := draw()
	if err != nil {
		return event{}, err
	}
	var b bytes.Buffer
	if err := component.Render(c.Request().Context(), &b); err != nil {
		return event{}, err
	}
	sum := sha256.Sum256(b.Bytes())
	return event{name: web.EventLive, id: hex.EncodeToString(sum[:8]), data: b.Bytes()}, nil
}

// eventWriter writes events and gives each a time limit of its own, whatever the server's are.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	timing   timing
	last     string // id of the event the reader has seen last
}

func newEventWriter(c echo.Context, t timing) *eventWriter {
	w := &eventWriter{response: c.Response(), control: http.NewResponseController(c.Response().Writer), timing: t}
	w.last = c.Request().Header.Get("Last-Event-ID")
	w.response.Header().Set(echo.HeaderContentType, eventStreamType)
	w.response.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.response.WriteHeader(http.StatusOK)
	return w
}

// begin says when to connect again and sends the first event.
func (w *eventWriter) begin(first event) error {
	retry := w.timing.retry + rand.N(w.timing.retry)
	if err := w.write(fmt.Appendf(nil, "retry: %d\n\n", retry.Milliseconds())); err != nil {
		return err
	}
	return w.send(first)
}

// send writes an event, unless the reader has seen the same already.
func (w *eventWriter) send(e event) error {
	if e.id != "" && e.id == w.last {
		return nil
	}
	w.last = e.id
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", e.name)
	if e.id != "" {
		fmt.Fprintf(&b, "id: %s\n", e.id)
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
