package handlers

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
)

// guardedWriter gives every write to a visitor, and every read from one, a time limit of its own, and notes when something
// has moved last.
type guardedWriter struct {
	*echo.Response
	control *http.ResponseController
	timing  timing
	moved   atomic.Int64 // Unix nanoseconds
	mu      sync.Mutex
	taken   net.Conn // after an upgrade
}

func newGuardedWriter(response *echo.Response, t timing) *guardedWriter {
	w := &guardedWriter{Response: response, control: http.NewResponseController(response.Writer), timing: t}
	w.move()
	return w
}

func (w *guardedWriter) move() { w.moved.Store(time.Now().UnixNano()) }

func (w *guardedWriter) still() time.Duration { return time.Since(time.Unix(0, w.moved.Load())) }

// Write writes within the time limit.
func (w *guardedWriter) Write(b []byte) (int, error) {
	w.move()
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timing.chunk)) // not every writer has one
	return w.Response.Write(b)
}

// FlushError flushes within the time limit.
func (w *guardedWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timing.chunk))
	return w.control.Flush()
}

// Flush is FlushError for callers that cannot hear of failures.
func (w *guardedWriter) Flush() { _ = w.FlushError() }

// Hijack hands the connection over for an upgrade. It keeps its time limits.
func (w *guardedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.Response.Hijack()
	if err != nil {
		return nil, nil, err
	}
	guarded := &guardedConn{Conn: conn, w: w}
	rw.Writer.Reset(guarded)
	w.Status, w.Committed = http.StatusSwitchingProtocols, true // the proxy writes the answer itself
	w.mu.Lock()
	w.taken = conn
	w.mu.Unlock()
	return guarded, rw, nil
}

// cut closes an upgraded connection, which does not hear of its request's end.
func (w *guardedWriter) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken != nil {
		_ = w.taken.Close()
	}
}

func (w *guardedWriter) upgraded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken != nil
}

// release gives the connection its usual limits back.
func (w *guardedWriter) release() {
	if !w.upgraded() {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// request returns the visitor's request with a body that must go on arriving, and ends at maxUpload.
func (w *guardedWriter) request(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		_ = w.control.SetReadDeadline(time.Time{}) // it has arrived; the server's limit would end the answer
		return r
	}
	r.Body = &guardedBody{ReadCloser: http.MaxBytesReader(w.Response, r.Body, maxUpload), w: w, until: time.Now().Add(maxUploadTime)}
	return r
}

// maxUploadTime is the longest that a body may take to arrive, however it trickles.
const maxUploadTime = 30 * time.Minute

// guardedBody is a body of which each part must arrive in time.
type guardedBody struct {
	io.ReadCloser
	w     *guardedWriter
	until time.Time
}

// Read reads within the time limit.
func (b *guardedBody) Read(p []byte) (int, error) {
	limit := time.Now().Add(b.w.timing.chunk)
	if limit.After(b.until) {
		limit = b.until
	}
	_ = b.w.control.SetReadDeadline(limit)
	n, err := b.ReadCloser.Read(p)
	b.w.move()
	if err == io.EOF {
		_ = b.w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// guardedConn is an upgraded connection.
type guardedConn struct {
	net.Conn
	w *guardedWriter
}

// Read notes that something has moved.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.move()
	return n, err
}

// Write writes within the time limit.
func (c *guardedConn) Write(b []byte) (int, error) {
	c.w.move()
	_ = c.SetWriteDeadline(time.Now().Add(c.w.timing.chunk))
	return c.Conn.Write(b)
}

// exchangeWatch looks after one exchange with a cluster until it is stopped.
type exchangeWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	closing func() bool // stops listening for the server's end
}

// watchExchange ends an exchange when whoever asked may not go on, when nothing moves for too long, and when the server closes.
// Most exchanges are over before the first look.
func (s *Server) watchExchange(w *guardedWriter, cancel context.CancelCauseFunc, may func() bool) *exchangeWatch {
	watch := &exchangeWatch{}
	end := func(why error) {
		cancel(why)
		w.cut()
	}
	look := func() bool {
		switch {
		case s.context.Err() != nil:
			end(context.Cause(s.context))
		case w.still() > s.timing.still:
			end(errNothingMoves)
		case !may():
			end(errAccessEnded)
		default:
			return true
		}
		return false
	}
	watch.closing = context.AfterFunc(s.context, func() {
		if w.upgraded() { // Shutdown does not know of these
			end(context.Cause(s.context))
		}
	})
	watch.timer = time.AfterFunc(s.timing.recheck, func() {
		if look() {
			watch.again(s.timing.recheck)
		}
	})
	return watch
}

func (x *exchangeWatch) again(after time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopped {
		x.timer.Reset(after)
	}
}

// Stop ends the watch.
func (x *exchangeWatch) Stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	x.timer.Stop()
	x.closing()
}

// stillMay looks again whether a key opens what it did: everything, or the dashboard to look at. While the database is away
// nobody is cut off.
func (s *Server) stillMay(ctx context.Context, k key, everything bool) bool {
	p, err := s.passes.of(ctx, k, s.timing.recheck, s.may)
	if err != nil {
		status, _ := explain(err)
		return status == statusClientGone || status == http.StatusServiceUnavailable
	}
	return p.access == rayslice.AccessFull || p.access == rayslice.AccessView && !everything
}
