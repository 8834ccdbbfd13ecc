package handlers

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// maxBody is the most bytes any request body may have.
const maxBody = 1 << 20

// visit is what the middleware has learned about one HTTP request.
type visit struct {
	id       string // request id
	locale   *web.Localizer
	identity identity
	failure  error // what was answered with an error; for the access log

	onCluster bool   // this is a cluster's host
	cluster   string // whose host it is: id of the request
}

const visitKey = "visit"

func visitOf(c echo.Context) *visit { return c.Get(visitKey).(*visit) }

// user returns who asks. Routes behind requireUser always have one.
func user(c echo.Context) rayslice.User { return visitOf(c).identity.user }

var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{8,64}$`)

// begin gives the request its id and its language. A sane id of a proxy is kept, so that both logs can be joined.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(echo.HeaderXRequestID)
		if !saneRequestID.MatchString(id) {
			id = rand.Text()
		}
		c.Set(visitKey, &visit{id: id, locale: localizer(c.Request())})
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		return next(c)
	}
}

// secure sets the security headers, which hold for every answer: pages, errors, static files and streams.
func (s *Server) secure(next echo.HandlerFunc) echo.HandlerFunc {
	headers := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
			"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "same-origin", // no-referrer would make browsers send Origin: null with our own forms
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
		"Vary":                         "Cookie, Accept-Language, Authorization",
	}
	if s.public.Scheme == "https" {
		headers["Strict-Transport-Security"] = "max-age=31536000"
	}
	return func(c echo.Context) error {
		for name, value := range headers {
			c.Response().Header().Set(name, value)
		}
		return next(c)
	}
}

// record answers errors, then writes the access log and the metrics, so that both see the status that was sent.
func (s *Server) record(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		took := time.Since(began)
		s.metrics.observe(c, took)
		s.logAccess(c, took)
		return nil
	}
}

func (s *Server) logAccess(c echo.Context, took time.Duration) {
	v, request, response := visitOf(c), c.Request(), c.Response()
	attrs := []slog.Attr{
		slog.String("request_id", v.id),
		slog.String("method", request.Method),
		slog.String("path", request.URL.Path), // without the query, which may hold what people search for
		slog.String("route", c.Path()),
		slog.Int("status", response.Status),
		slog.Int64("bytes", response.Size),
		slog.Duration("took", took),
		slog.String("remote", c.RealIP()),
	}
	if v.identity.user.ID != 0 {
		attrs = append(attrs, slog.Int64("user", v.identity.user.ID))
	}
	level := slog.LevelInfo
	if v.failure != nil {
		attrs = append(attrs, slog.String("error", v.failure.Error()))
	}
	if response.Status >= http.StatusInternalServerError && request.Context().Err() == nil { // else the visitor has left
		level = slog.LevelError
	}
	s.config.Logger.LogAttrs(request.Context(), level, "request", attrs...)
}

// recoverPanic turns a panic into an error; its text and stack go to the log and never to the visitor.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch caught := recover(); caught {
			case nil:
			case http.ErrAbortHandler:
				panic(caught) // net/http's own way to drop a connection
			default:
				s.config.Logger.ErrorContext(c.Request().Context(), "panic",
					"request_id", visitOf(c).id, "panic", fmt.Sprint(caught), "stack", string(debug.Stack()))
				err = fmt.Errorf("panic: %v", caught)
			}
		}()
		return next(c)
	}
}

// refuseForeignHost keeps the demo to its own names. Whoever reaches the demo may be anybody in it, so another site that
// has pointed its own name at this address (DNS rebinding), and thereby is "same origin", must not reach it.
func (s *Server) refuseForeignHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := (&url.URL{Host: c.Request().Host}).Hostname()
		address := net.ParseIP(host)
		if s.config.Demo && host != "localhost" && host != s.public.Hostname() && (address == nil || !address.IsLoopback()) {
			return refuse(http.StatusMisdirectedRequest, "unknown_host", map[string]any{"want": s.config.PublicURL}, nil)
		}
		return next(c)
	}
}

// limitBody refuses bodies over maxBody, at once where the length is declared and else while reading.
func (s *Server) limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength > maxBody {
			return &http.MaxBytesError{Limit: maxBody}
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, maxBody)
		return next(c)
	}
}

// readBody reads the whole body before anybody asks who sent it, so that rights are those of the moment of the act, however
// slowly the body came. The server's limit for reading has done its work then; it would end slow answers and event streams.
func (s *Server) readBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			return err
		case err != nil:
			return refuse(http.StatusBadRequest, "body_cut", nil, err)
		}
		c.Request().Body = io.NopCloser(bytes.NewReader(body))
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Time{}) // not every writer has one
		return next(c)
	}
}

// refuseCrossOrigin refuses requests that another site made a browser send. It concerns cookies only: a bearer token is
// never sent by itself.
func (s *Server) refuseCrossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if bearerToken(r) != "" || safeMethod(r.Method) {
			return next(c)
		}
		if err := s.crossOrigin.Check(r); err != nil {
			return refuse(http.StatusForbidden, "cross_origin", nil, err)
		}
		if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" { // every browser sends one of them with a form
			return refuse(http.StatusForbidden, "no_origin", map[string]any{"origin": s.config.PublicURL}, nil)
		}
		return next(c)
	}
}

func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// identify learns who asks: from the bearer token when there is one, else from the cookie.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := s.identityOf(c.Request())
		if errors.Is(err, errBadToken) && !s.limits.badTokens.allow(addressOf(c)) {
			err = tooManyRequests()
		}
		if err != nil {
			return err
		}
		visitOf(c).identity = id
		s.touch(c, id)
		return next(c)
	}
}

// requireChecked lets nothing be changed by somebody for whom the identity provider has not spoken for too long.
func requireChecked(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if visitOf(c).identity.unchecked && !safeMethod(c.Request().Method) {
			return errProviderAway(nil)
		}
		return next(c)
	}
}

// requireUser refuses nobody in particular: pages answer with the sign-in page, the API with 401.
func requireUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if user(c).ID == 0 {
			return refuse(http.StatusUnauthorized, "sign_in", nil, nil)
		}
		return next(c)
	}
}

// seconds is a Retry-After value.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
