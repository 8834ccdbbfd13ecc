package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
)

// Head is where a cluster's Ray head is, as Kubernetes reported it.
type Head struct {
	Namespace string
	Pod       string
	IP        string // of the pod
}

// headHost is what every cluster hears as its own name, whatever a visitor wrote.
const headHost = "ray-head:8265"

// Bounds of what passes through to and from a cluster.
const (
	maxUpload   = 1 << 30 // bytes of a body; Ray itself refuses packages above 500 MiB
	maxProxied  = 64      // of one person at a time, on all clusters together
	proxyBuffer = 32 << 10
)

// proxyDashboard passes a request on to the cluster's head, if its sender may do what it does.
func (s *Server) proxyDashboard(c echo.Context) error {
	r := c.Request()
	if !plainPath(r.URL) {
		return errBadAddress
	}
	if strings.HasPrefix(r.URL.Path, ownPrefix) { // written in a way that the routes above do not know
		return rayslice.NotFound("page")
	}
	if r.Header.Get("Service-Worker") != "" { // it would see the next visitor's code
		return refuse(http.StatusForbidden, "no_service_worker", nil, nil)
	}
	if kind := r.Header.Get("Upgrade"); kind != "" && !strings.EqualFold(kind, "websocket") {
		return refuse(http.StatusBadRequest, "bad_upgrade", nil, nil)
	}
	if r.ContentLength > maxUpload {
		return errUploadTooLarge
	}
	k := s.keyOf(c)
	age := s.timing.recheck
	if !onlyReads(r) {
		age = 0 // nobody sends a job by what was true a moment ago
	}
	p, err := s.passes.of(r.Context(), k, age, s.may)
	visitOf(c).identity = p.identity
	if err == nil {
		err = s.checkPass(c, p)
	}
	if errors.Is(err, errBadToken) && !s.limits.badTokens.allow(addressOf(c)) {
		err = tooManyRequests()
	}
	if err != nil {
		return err
	}
	person := strconv.FormatInt(p.identity.user.ID, 10)
	if !s.limits.proxied.allow(person) {
		return tooManyRequests()
	}
	if !s.proxying.begin(p.identity.user.ID) {
		return refuse(http.StatusTooManyRequests, "too_many_proxied", map[string]any{"max": maxProxied}, nil)
	}
	defer s.proxying.end(p.identity.user.ID)
	return s.forward(c, k, p)
}

var errUploadTooLarge = refuse(http.StatusRequestEntityTooLarge, "upload_too_large", map[string]any{"max_mib": maxUpload >> 20}, nil)

// checkPass refuses what a request may not do: with a cookie, what other sites make a browser send; for those who may only look,
// all that is not in viewPaths.
func (s *Server) checkPass(c echo.Context, p pass) error {
	r := c.Request()
	reads := onlyReads(r)
	if p.identity.bearer == "" {
		if own := s.clusters.origin(p.request.ID); !sameOrigin(r, own) && (!reads || !mayNavigate(r)) {
			return refuse(http.StatusForbidden, "cross_origin", nil, nil)
		}
	}
	if reads {
		return nil
	}
	if p.identity.unchecked {
		return errProviderAway(nil)
	}
	if p.access != rayslice.AccessFull {
		about := rayslice.AuditEntry{RequestID: p.request.ID, Team: p.request.Team, Subject: attempt(r)}
		refusal := &rayslice.Error{Kind: rayslice.KindForbidden, Code: "view_only"}
		if p.identity.bearer != "" && !p.identity.user.Within(rayslice.ScopeRequest) {
			refusal = &rayslice.Error{Kind: rayslice.KindForbidden, Code: "token_scope", Args: map[string]any{"scope": string(rayslice.ScopeRequest)}}
		}
		return s.config.Store.RefuseOnHost(r.Context(), p.identity.user, about, refusal)
	}
	return nil
}

// forward passes one request on and copies the answer.
func (s *Server) forward(c echo.Context, k key, p pass) error {
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	w := newGuardedWriter(c.Response(), s.timing)
	defer w.release()
	watch := s.watchExchange(w, cancel, func() bool { return s.stillMay(ctx, k, !onlyReads(c.Request())) })
	defer watch.Stop()

	var failed error
	proxy := httputil.ReverseProxy{
		Rewrite:        s.rewrite(p, c.RealIP()),
		Transport:      plainTransport{s.heads.to(p.head)},
		FlushInterval:  -1,
		BufferPool:     buffers{},
		ErrorLog:       slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(answer *http.Response) error { return s.checkAnswer(answer, c, p) },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	defer func() {
		if caught := recover(); caught != nil {
			if err, ok := caught.(error); !ok || !isAborted(err) {
				panic(caught)
			}
			visitOf(c).failure = errors.Join(errCutOff, context.Cause(ctx))
			s.logAccess(c, 0)
			panic(caught) // net/http ends the connection, so that nobody takes half an answer for a whole one
		}
	}()
	proxy.ServeHTTP(w, w.request(c.Request().WithContext(ctx)))
	return s.explainFailure(ctx, failed)
}

var (
	errCutOff       = errors.New("the answer was cut off")
	errBadRedirect  = refuse(http.StatusBadGateway, "bad_redirect", nil, nil)
	errBadAnswer    = refuse(http.StatusBadGateway, "bad_answer", nil, nil)
	errAccessEnded  = errors.New("whoever asked may not go on")
	errNothingMoves = errors.New("nothing has moved for too long")
)

// explainFailure says why a request could not be passed on.
func (s *Server) explainFailure(ctx context.Context, err error) error {
	var refused *refusal
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &refused):
		return err
	case errors.As(err, &tooLarge):
		return errUploadTooLarge
	case errors.Is(context.Cause(ctx), errAccessEnded):
		return errNotOpened
	case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled):
		return err // the visitor has left
	}
	return errHeadAway(err)
}

// passOn are the headers of a request that a cluster needs. Whatever else was sent stays here: cookies, tokens, and what
// proxies and frameworks might take for orders.
var passOn = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type",
	"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Pragma", "Range", "User-Agent",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", // Ray refuses jobs from browsers by these
	"Connection", "Upgrade", "Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version",
}

// passBack are the headers of an answer that a visitor needs. A cluster sets no cookie, clears no site's data, opens itself to
// no other site, asks for no password and names no other place.
var passBack = []string{
	"Accept-Ranges", "Allow", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
	"Content-Type", "Date", "Etag", "Last-Modified", "Location", "Retry-After",
	"Connection", "Upgrade", "Sec-Websocket-Accept", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
}

// rewrite makes the request that the head gets. Its address comes from the pass and nowhere else.
func (s *Server) rewrite(p pass, from string) func(*httputil.ProxyRequest) {
	return func(pr *httputil.ProxyRequest) {
		in := pr.In.URL
		pr.Out.URL = &url.URL{Scheme: "http", Host: headHost, Path: in.Path, RawPath: in.RawPath, RawQuery: pr.Out.URL.RawQuery}
		pr.Out.Host = headHost
		pr.Out.Header = only(pr.Out.Header, passOn)
		pr.Out.Header.Set("X-Forwarded-For", from)
		pr.Out.Header.Set("X-Forwarded-Host", strings.TrimPrefix(s.clusters.origin(p.request.ID), s.clusters.scheme+"://"))
		pr.Out.Header.Set("X-Forwarded-Proto", s.clusters.scheme)
		if pr.Out.Header.Get("User-Agent") == "" {
			pr.Out.Header.Set("User-Agent", "") // else Go names itself
		}
	}
}

func only(h http.Header, names []string) http.Header {
	kept := make(http.Header, len(names))
	for _, name := range names {
		if values, ok := h[name]; ok {
			kept[name] = values
		}
	}
	return kept
}

// checkAnswer takes out of an answer what a cluster must not say.
func (s *Server) checkAnswer(answer *http.Response, c echo.Context, p pass) error {
	answer.Header = only(answer.Header, passBack)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		answer.Header.Del("Connection")
		answer.Header.Del("Upgrade")
		if answer.Header.Get("Etag") != "" || answer.Header.Get("Last-Modified") != "" {
			c.Response().Header().Set("Cache-Control", "private, no-cache") // the browser asks each time, and so do we
		}
	}
	if answer.StatusCode < 200 && answer.StatusCode != http.StatusSwitchingProtocols {
		return errBadAnswer
	}
	location := answer.Header.Get("Location")
	if location == "" {
		return nil
	}
	target, ok := ownRedirect(location, c.Request().URL.Path, s.clusters.origin(p.request.ID))
	if !ok {
		return errBadRedirect
	}
	answer.Header.Set("Location", target)
	return nil
}

// plainTransport sends a request without what the proxy would pass on by itself: early answers (1xx) and trailers.
type plainTransport struct{ next http.RoundTripper }

// RoundTrip sends one request.
func (t plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	got, err := t.next.RoundTrip(r.WithContext(valueless{r.Context()}))
	if err != nil {
		return nil, err
	}
	answer := *got
	answer.Trailer = nil // the body fills in the original's
	return &answer, nil
}

// valueless is a context without values, thus without an httptrace that hears of early answers.
type valueless struct{ context.Context }

// Value returns nothing.
func (valueless) Value(any) any { return nil }

var bufferPool = sync.Pool{New: func() any { return new([proxyBuffer]byte) }}

// buffers lends the proxy its buffers.
type buffers struct{}

// Get lends one.
func (buffers) Get() []byte { return bufferPool.Get().(*[proxyBuffer]byte)[:] }

// Put takes one back.
func (buffers) Put(b []byte) { bufferPool.Put((*[proxyBuffer]byte)(b)) }
