package handlers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// serve puts the portal behind a real HTTP server.
func (p *portal) serve(change func(*timing)) *httptest.Server {
	p.t.Helper()
	return p.serveWithin(0, change)
}

// serveWithin is serve with limits for reading a request and writing an answer.
func (p *portal) serveWithin(limit time.Duration, change func(*timing)) *httptest.Server {
	p.t.Helper()
	p.server.timing.rest, p.server.timing.listRest = time.Millisecond, time.Millisecond
	change(&p.server.timing)
	web := httptest.NewUnstartedServer(p.server)
	web.Config.ReadTimeout, web.Config.WriteTimeout = limit, limit
	web.Start()
	p.t.Cleanup(func() {
		p.server.Close() // first, as cmd does it: Close of the HTTP server waits for streams
		web.Close()
	})
	return web
}

// stream is an open event stream.
type stream struct {
	t        testing.TB
	response *http.Response
	lines    *bufio.Scanner
}

// message is one event, or one comment.
type message struct{ name, id, data, comment, retry string }

// open connects; the test fails when nothing comes for ten seconds.
func (v visitor) open(web *httptest.Server, path, lastID string) *stream {
	v.p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+path, nil)
	if err != nil {
		v.p.t.Fatal(err)
	}
	r.Header = v.header.Clone()
	r.Header.Set("Accept", eventStreamType)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := web.Client().Do(r) //nolint:bodyclose // the stream closes it when the test ends
	if err != nil {
		v.p.t.Fatal(err)
	}
	s := &stream{v.p.t, response, bufio.NewScanner(response.Body)}
	v.p.t.Cleanup(func() { cancel(); s.close() })
	return s
}

func (s *stream) close() { _ = s.response.Body.Close() }

// next returns what comes next; io.EOF when the server ended the stream in order.
func (s *stream) next() (message, error) {
	var m message
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case s.lines.Text() == "":
			return m, nil
		case name == "":
			m.comment = value
		case name == "event":
			m.name = value
		case name == "id":
			m.id = value
		case name == "retry":
			m.retry = value
		case name == "data":
			m.data += value + "\n"
		}
	}
	if err := s.lines.Err(); err != nil {
		return m, err
	}
	return m, io.EOF
}

// event returns the next event of the name, passing over all else.
func (s *stream) event(name string) message {
	s.t.Helper()
	for {
		m, err := s.next()
		if err != nil {
			s.t.Fatalf("waiting for %q: %v", name, err)
		}
		if m.name == name {
			return m
		}
	}
}

// ends fails the test when the stream goes on.
func (s *stream) ends() {
	s.t.Helper()
	if m, err := s.next(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("got %+v, %v; want the end", m, err)
	}
}

func calm(*timing) {}

// TestStreamOfARequest pushes the present state at once, and every change as it happens.
func TestStreamOfARequest(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	web := p.serve(calm)
	s := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", "")
	if got := s.response.Header.Get("Content-Type"); got != eventStreamType {
		t.Errorf("content type %q", got)
	}
	if m, err := s.next(); err != nil || m.retry < "5000" || len(m.retry) > 5 {
		t.Errorf("first comes %+v (%v), want when to connect again", m, err)
	}
	first := s.event("live")
	if !strings.Contains(first.data, "ablation-7") || first.id == "" {
		t.Errorf("first event %+v", first)
	}
	if _, err := p.store.StopRequest(t.Context(), p.Bob, request.ID); rayslice.KindOf(err) == "" {
		t.Fatalf("Bob may stop Ada's cluster: %v", err)
	}
	if _, err := p.store.StopRequest(t.Context(), p.Lea, request.ID); err != nil {
		t.Fatal(err)
	}
	for m := first; !strings.Contains(m.data, "Lea"); m = s.event("live") {
	}
	if got := testutil.ToFloat64(p.server.metrics.streams); got != 1 {
		t.Errorf("%v streams counted, want 1", got)
	}
	chinese := p.as(p.Bob).with("Accept-Language", "zh-CN").open(web, "/clusters/"+request.ID+"/events", "")
	if got := chinese.event("live").data; !strings.ContainsAny(got, "停止") {
		t.Errorf("not in the reader's language: %s", got)
	}
}

// TestStreamOfTheList shows a teammate's new request, and nothing of another team's.
func TestStreamOfTheList(t *testing.T) {
	t.Parallel()
	p := open(t)
	web := p.serve(calm)
	ada, sam := p.as(p.Ada).open(web, "/clusters/events", ""), p.as(p.Sam).open(web, "/clusters/events", "")
	ada.event("live")
	sam.event("live")
	draft := storetest.Draft(1, 8)
	draft.Name = "of-vision"
	p.create(p.Bob, draft)
	for !strings.Contains(ada.event("live").data, "of-vision") {
	}
	draft.Team, draft.Name = "speech", "of-speech"
	p.create(p.Sam, draft)
	for got := ""; !strings.Contains(got, "of-speech"); {
		if got = sam.event("live").data; strings.Contains(got, "of-vision") {
			t.Fatalf("got %s", got)
		}
	}
}

// TestStreamHeartbeat is B119: something comes before a balancer thinks the stream is dead, and it outlives the
// server's own time limits.
func TestStreamHeartbeat(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	web := p.serveWithin(time.Second, func(t *timing) { t.heartbeat = 300 * time.Millisecond })
	s := p.token(p.adaToken).open(web, "/clusters/"+request.ID+"/events", "") // B121: a token opens it too
	s.event("use")                                                            // the last of what is sent at once
	for range 5 {                                                             // past the server's limits
		if m, err := s.next(); err != nil || m.comment != "heartbeat" {
			t.Fatalf("got %+v (%v), want a heartbeat", m, err)
		}
	}
}

// TestStreamResumes is the other half of B119: who has seen the present state does not get it again.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	now := time.Now()
	p.server.now = func() time.Time { return now }
	web := p.serve(func(t *timing) { t.heartbeat = 30 * time.Millisecond })
	ada, path := p.as(p.Ada), "/clusters/"+request.ID+"/events"
	first := ada.open(web, path, "")
	id := first.event("use").id // names all that was seen
	first.close()

	again := ada.open(web, path, id)
	if m, err := again.next(); err != nil || m.retry == "" {
		t.Fatalf("got %+v (%v)", m, err)
	}
	if m, err := again.next(); err != nil || m.comment == "" {
		t.Errorf("got %+v (%v), want only a heartbeat", m, err)
	}
	if _, err := p.store.StopRequest(t.Context(), p.Ada, request.ID); err != nil {
		t.Fatal(err)
	}
	if later := ada.open(web, path, id).event("live"); later.id == id {
		t.Error("the state has changed and its id has not")
	}
}

// TestStreamMissesNoChange brings a change whose announcement was lost with the next heartbeat.
func TestStreamMissesNoChange(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	web := p.serve(func(t *timing) { t.heartbeat = 30 * time.Millisecond })
	one, list := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", ""), p.as(p.Ada).open(web, "/clusters/events", "")
	one.event("live")
	list.event("live")
	storetest.Exec(t, `UPDATE requests SET state = 'rejected', reason = '{"code":"rejected_by","args":{"who":"Lea","answer":"too large"}}' WHERE id = $1`, request.ID)
	for !strings.Contains(one.event("live").data, "too large") {
	}
	for !strings.Contains(list.event("live").data, "too large") {
	}
}

// TestStreamTellsOldData is B107: when the watches die, nothing changes any more, and the banner must come all the same.
func TestStreamTellsOldData(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	var late atomic.Int64 // how far the portal's clock is ahead
	p.server.now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	if err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{ObservedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	web := p.serve(func(t *timing) { t.heartbeat = 30 * time.Millisecond })
	s := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", "")
	if got := s.event("live").data; strings.Contains(got, "note warn") {
		t.Fatalf("the banner is there already: %s", got)
	}
	late.Store(int64(time.Hour))
	for !strings.Contains(s.event("live").data, "note warn") {
	}
	late.Store(0)
	for strings.Contains(s.event("live").data, "note warn") {
	}
}

// TestStreamTriesAgain draws a change later when it cannot be read at once.
func TestStreamTriesAgain(t *testing.T) {
	t.Parallel()
	p := open(t)
	var draws atomic.Int64
	p.server.echo.GET("/shaky", func(c echo.Context) error {
		return p.server.stream(c, view{wants: func(store.Change) marks { return markState }, rest: time.Millisecond, parts: []part{{"live", markState, drawn(c, func() (templ.Component, error) {
			switch n := draws.Add(1); n {
			case 1, 4:
				return templ.Raw(fmt.Sprint("drawing ", n)), nil
			}
			return nil, &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_busy"}
		})}}})
	})
	web := p.serve(func(t *timing) { t.retry = 5 * time.Millisecond })
	s := p.nobody().open(web, "/shaky", "")
	s.event("live")
	p.server.streams.notify(store.Change{Kind: store.KindRequest})
	if got := s.event("live").data; got != "drawing 4\n" {
		t.Errorf("got %q", got)
	}
}

// TestStreamEndsWithTheSession is T35 and B118: the stream says auth-expired and ends.
func TestStreamEndsWithTheSession(t *testing.T) {
	t.Parallel()
	soon := func(t *timing) { t.recheck = 20 * time.Millisecond }
	for name, end := range map[string]func(p *portal){
		"session deleted": func(p *portal) { storetest.Exec(p.t, `DELETE FROM sessions`) },
		"user disabled by an admin": func(p *portal) {
			if err := p.store.SetDisabled(p.t.Context(), p.Root, p.Ada.ID, true); err != nil {
				p.t.Error(err)
			}
		},
		"sessions ended by an admin": func(p *portal) {
			if err := p.store.EndSessions(p.t.Context(), p.Root, p.Ada.ID); err != nil {
				p.t.Error(err)
			}
		},
		"user deleted": func(p *portal) {
			storetest.Exec(p.t, `UPDATE requests SET owner_id = $1`, p.Bob.ID)
			storetest.Exec(p.t, `DELETE FROM users WHERE id = $1`, p.Ada.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			request := p.create(p.Ada, storetest.Draft(1, 8))
			web := p.serve(soon)
			s := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", "")
			s.event("live")
			end(p)
			s.event("auth-expired")
			s.ends()
		})
	}
	t.Run("team lost", func(t *testing.T) {
		t.Parallel()
		p := open(t)
		request := p.create(p.Bob, storetest.Draft(1, 8))
		web := p.serve(soon)
		s := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", "")
		s.event("live")
		storetest.Exec(t, `DELETE FROM roles WHERE user_id = $1`, p.Ada.ID)
		done := make(chan struct{})
		t.Cleanup(func() { <-done })
		go func() { // changes that the stream draws until it has looked again who reads
			defer close(done)
			for t.Context().Err() == nil {
				p.server.streams.notify(store.Change{ID: request.ID})
				<-time.After(5 * time.Millisecond)
			}
		}()
		s.event("auth-expired")
		s.ends()
	})
	if defaultTiming().recheck > 5*time.Second {
		t.Errorf("the session is looked at every %s only", defaultTiming().recheck)
	}
}

// TestStreamEndsWithTheToken is B121, B122 and T35's other half: a token opens a stream within its team, and when it ends, so
// does the stream within seconds; the next call is answered 401.
func TestStreamEndsWithTheToken(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"its time is over": `UPDATE tokens SET ends_at = now() WHERE user_id = $1`,
		"it is revoked":    `UPDATE tokens SET revoked_at = now() WHERE user_id = $1`,
		"owner disabled":   `UPDATE users SET disabled = true WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			request := p.create(p.Ada, storetest.Draft(1, 8))
			web := p.serve(func(t *timing) { t.recheck = 20 * time.Millisecond })
			program := p.token(p.newToken(p.Ada))
			s := program.open(web, "/clusters/"+request.ID+"/events", "")
			s.event("live")
			if got := p.token(p.samToken).open(web, "/clusters/"+request.ID+"/events", "").response.StatusCode; got != http.StatusNotFound {
				t.Errorf("another team's token: %d", got)
			}
			storetest.Exec(t, end, p.Ada.ID)
			s.event("auth-expired")
			s.ends()
			if got := program.get("/api/v1/requests/" + request.ID).want(http.StatusUnauthorized).problem(); got.Code != "bad_token" {
				t.Errorf("got %+v", got)
			}
			program.with("Accept", eventStreamType).get("/clusters/" + request.ID + "/events").want(http.StatusUnauthorized)
		})
	}
}

// TestStreamLimit lets one session have eight streams, and others theirs.
func TestStreamLimit(t *testing.T) {
	t.Parallel()
	p := open(t)
	web := p.serve(calm)
	ada := p.as(p.Ada)
	var last *stream
	for range maxStreams {
		last = ada.open(web, "/clusters/events", "")
		last.event("live")
	}
	refused := ada.open(web, "/clusters/events", "")
	if refused.response.StatusCode != http.StatusTooManyRequests || refused.response.Header.Get("Retry-After") != "5" ||
		refused.response.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %v", refused.response.StatusCode, refused.response.Header)
	}
	p.as(p.Ada).open(web, "/clusters/events", "").event("live")
	last.close()
	for range 500 { // until the server has noticed
		if again := ada.open(web, "/clusters/events", ""); again.response.StatusCode == http.StatusOK {
			return
		}
	}
	t.Error("a closed stream still counts")
}

// TestSlowReader ends the stream of somebody who does not read, and counts it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := open(t)
	ended := make(chan error, 1)
	p.server.echo.GET("/large", func(c echo.Context) error {
		err := p.server.stream(c, view{wants: func(store.Change) marks { return 0 }, rest: time.Second, parts: []part{{"live", markState, drawn(c, func() (templ.Component, error) {
			return templ.Raw(strings.Repeat("more than any socket takes ", 1<<20)), nil
		})}}})
		ended <- err
		return err
	})
	web := p.serve(func(t *timing) { t.write = 50 * time.Millisecond })
	p.nobody().open(web, "/large", "")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(p.server.metrics.dropped); got != 1 {
		t.Errorf("%v streams dropped, want 1", got)
	}
	if got := testutil.ToFloat64(p.server.metrics.streams); got != 0 {
		t.Errorf("%v streams open, want none", got)
	}
}

// TestCloseEndsStreams lets the HTTP server shut down at once (golang/go#41344).
func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	web := p.serve(calm)
	ada := p.as(p.Ada)
	streams := []*stream{ada.open(web, "/clusters/events", ""), ada.open(web, "/clusters/"+request.ID+"/events", "")}
	for _, s := range streams {
		s.event("use") // the last of what is sent at once
	}
	p.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := web.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	for _, s := range streams {
		s.ends()
	}
}

// TestStreamRefusals answers like a page before the first event: a program's answer, since no page would be seen.
func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	path := "/clusters/" + request.ID + "/events"
	stream := func(v visitor) visitor { return v.with("Accept", eventStreamType) }
	if got := stream(p.nobody()).get(path).want(http.StatusUnauthorized).problem(); got.Code != "sign_in" {
		t.Errorf("code %s", got.Code)
	}
	stream(p.as(p.Sam)).get(path).want(http.StatusNotFound).problem()
	stream(p.as(p.Ada)).get("/clusters/events?state=no-such").want(http.StatusUnprocessableEntity).problem()
	if got := testutil.ToFloat64(p.server.metrics.streams); got != 0 {
		t.Errorf("%v streams open after refusals", got)
	}
}

// TestDataCannotForgeEvents keeps text with line ends of any kind inside its event.
func TestDataCannotForgeEvents(t *testing.T) {
	recorder := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), recorder)
	w := newEventWriter(c, defaultTiming())
	if err := w.send(event{name: "live", hash: "l1", data: []byte("a\rdata: b\r\n\r\revent: auth-expired\n\nid: 9")}); err != nil {
		t.Fatal(err)
	}
	want := "event: live\nid: l1\ndata: a\ndata: data: b\ndata: \ndata: \ndata: \ndata: event: auth-expired\ndata: \ndata: id: 9\n\n"
	if got := recorder.Body.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
