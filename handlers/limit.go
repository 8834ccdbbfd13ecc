package handlers

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"
)

// limiter lets each key do so much in a while. Keys do not touch each other.
type limiter struct {
	rate  rate.Limit // per second, for long
	burst int        // at once
	mu    sync.Mutex
	of    *simplelru.LRU[string, *rate.Limiter]
}

// maxLimiters is how many keys are remembered. Beyond, the one that was quiet for longest is forgotten, and no other gets a
// new share by it.
const maxLimiters = 10_000

func newLimiter(perSecond rate.Limit, burst int) *limiter {
	of, err := simplelru.NewLRU[string, *rate.Limiter](maxLimiters, nil)
	if err != nil {
		panic(err) // the size is above 0
	}
	return &limiter{rate: perSecond, burst: burst, of: of}
}

// allow takes one from the key's share and reports whether there was one left.
func (l *limiter) allow(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.of.Get(key)
	if !ok {
		one = rate.NewLimiter(l.rate, l.burst)
		l.of.Add(key, one)
	}
	return one.Allow()
}

// limits are per replica and, but for tests, far above what people and well-made programs do.
type limits struct {
	reads     *limiter // by one person: pages; event streams have a share of their own, as an open page needs its stream
	changes   *limiter // by one person: requests that change something
	api       *limiter // by one person: everything under /api/
	signIns   *limiter // from one address
	badTokens *limiter // from one address; good ones are never held up by it
	tests     *limiter // by one person: messages to try their notifications out
	proxied   *limiter // by one person: what is passed on to clusters; a dashboard loads dozens of files at once
}

// testEvery is the time between two test messages of one person.
const testEvery = 10 * time.Second

func defaultLimits() limits {
	return limits{reads: newLimiter(20, 300), changes: newLimiter(5, 120), api: newLimiter(10, 200), signIns: newLimiter(5, 100), badTokens: newLimiter(2, 60),
		tests: newLimiter(rate.Every(testEvery), 1), proxied: newLimiter(50, 600)}
}

// noLimits lets everybody do everything.
func noLimits() limits {
	none := newLimiter(rate.Inf, 0)
	return limits{reads: none, changes: none, api: none, signIns: none, badTokens: none, tests: none, proxied: none}
}

func tooManyRequests() error {
	return refuse(http.StatusTooManyRequests, "too_many_requests", nil, nil)
}

// limitUser holds one person's requests to their share, whatever sessions and tokens they come by.
func (s *Server) limitUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, key := c.Request(), strconv.FormatInt(user(c).ID, 10)
		var allowed bool
		switch {
		case !safeMethod(r.Method):
			allowed = s.limits.changes.allow(key) && (!isAPI(r) || s.limits.api.allow(key))
		case isAPI(r):
			allowed = s.limits.api.allow(key)
		case strings.HasSuffix(r.URL.Path, "/events"):
			allowed = s.limits.reads.allow("events " + key)
		default:
			allowed = s.limits.reads.allow(key)
		}
		if !allowed {
			return tooManyRequests()
		}
		return next(c)
	}
}

// limitSignIns holds the sign-ins from one address to their share.
func (s *Server) limitSignIns(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !s.limits.signIns.allow(addressOf(c)) {
			return tooManyRequests()
		}
		return next(c)
	}
}

// limitCallbacks is limitSignIns for the way back from the identity provider. Whoever comes back with the sign-in they began
// was counted then, and must not be stopped half-way by others behind the same address.
func (s *Server) limitCallbacks(next echo.HandlerFunc) echo.HandlerFunc {
	limited := s.limitSignIns(next)
	return func(c echo.Context) error {
		if s.provider != nil {
			if _, err := s.flowOf(c); err == nil {
				return next(c)
			}
		}
		return limited(c)
	}
}
