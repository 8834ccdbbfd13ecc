package handlers

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/rayslice/rayslice"
)

// limiter lets each key do so much in a while. Keys do not touch each other.
type limiter struct {
	rate  rate.Limit // per second, for long
	burst int        // at once
	mu    sync.Mutex
	of    map[string]*rate.Limiter
}

// maxLimiters is how many keys are remembered before those that owe nothing are forgotten.
const maxLimiters = 10_000

func newLimiter(perSecond rate.Limit, burst int) *limiter {
	return &limiter{rate: perSecond, burst: burst, of: map[string]*rate.Limiter{}}
}

// allow takes one from the key's share and reports whether there was one left.
func (l *limiter) allow(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.of[key]
	if !ok {
		if len(l.of) >= maxLimiters {
			l.forget()
		}
		one = rate.NewLimiter(l.rate, l.burst)
		l.of[key] = one
	}
	return one.Allow()
}

// forget drops the keys whose share is whole again; when all are in use, all of them, which gives everybody a new share.
func (l *limiter) forget() {
	for key, one := range l.of {
		if one.Tokens() >= float64(l.burst) {
			delete(l.of, key)
		}
	}
	if len(l.of) >= maxLimiters {
		clear(l.of)
	}
}

// limits are per replica and, but for tests, far above what people and well-made programs do.
type limits struct {
	changes   *limiter // by one person: requests that change something
	api       *limiter // by one person: everything under /api/
	signIns   *limiter // from one address
	badTokens *limiter // from one address; good ones are never held up by it
	tests     *limiter // by one person: messages to try their notifications out
}

// testEvery is the time between two test messages of one person.
const testEvery = 10 * time.Second

func defaultLimits() limits {
	return limits{changes: newLimiter(5, 120), api: newLimiter(10, 200), signIns: newLimiter(5, 100), badTokens: newLimiter(2, 60),
		tests: newLimiter(rate.Every(testEvery), 1)}
}

func tooManyRequests() error {
	return refuse(http.StatusTooManyRequests, "too_many_requests", nil, nil)
}

// limitUser holds one person's requests to their share, whatever sessions and tokens they come by.
func (s *Server) limitUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, key := c.Request(), strconv.FormatInt(user(c).ID, 10)
		if !safeMethod(r.Method) && !s.limits.changes.allow(key) || isAPI(r) && !s.limits.api.allow(key) {
			return tooManyRequests()
		}
		return next(c)
	}
}

// limitSignIns holds the sign-ins from one address to their share.
func (s *Server) limitSignIns(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !s.limits.signIns.allow(c.RealIP()) {
			return tooManyRequests()
		}
		return next(c)
	}
}

// needs refuses API tokens that lack the scope. Without a token every scope is there.
func needs(scope rayslice.Scope) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !user(c).Within(scope) {
				return &rayslice.Error{Kind: rayslice.KindForbidden, Code: "token_scope", Args: map[string]any{"scope": string(scope)}}
			}
			return next(c)
		}
	}
}
