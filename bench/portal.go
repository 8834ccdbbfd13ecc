package bench

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// PublicURL is where a Portal believes it is.
const PublicURL = "http://portal.example"

// A Portal is the HTTP side as `rayslice serve` has it, on a real Postgres, without the network. Close it.
type Portal struct {
	*handlers.Server
	Store     *store.Store
	Pool      *pgxpool.Pool // for sessions, and for what a benchmark has to prepare
	Catalogue rayslice.Catalogue
}

// OpenPortal opens one on a migrated database. settings are of the Store's pool, e.g. "&pool_max_conns=16".
func OpenPortal(ctx context.Context, address, settings, catalogue, version string) (*Portal, error) {
	p := &Portal{}
	var err error
	if p.Catalogue, err = Catalogue(catalogue); err != nil {
		return nil, err
	}
	if p.Store, err = store.Open(ctx, address+settings); err != nil {
		return nil, err
	}
	if p.Pool, err = pgxpool.New(ctx, address); err != nil {
		p.Store.Close()
		return nil, err
	}
	if p.Server, err = p.Over(ctx, p.Store, version); err != nil {
		p.Pool.Close()
		p.Store.Close()
		return nil, err
	}
	return p, nil
}

// Over returns the same HTTP side over another Store. Close it.
func (p *Portal) Over(ctx context.Context, s *store.Store, version string) (*handlers.Server, error) {
	s.LetPersonasIn()
	return handlers.New(handlers.Config{
		Store: s, Sessions: p.Pool, Catalogue: p.Catalogue, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Render: func(r rayslice.Request) (string, error) { return k8s.RenderYAML(r, p.Catalogue) },
		Demo:   true, Version: version, PublicURL: PublicURL, BaseContext: ctx, Unlimited: true,
	})
}

// Close ends the portal and its connections.
func (p *Portal) Close() {
	p.Server.Close()
	p.Pool.Close()
	p.Store.Close()
}

// SignIn begins a session of a persona and returns its cookie.
func (p *Portal) SignIn(who rayslice.User) (*http.Cookie, error) {
	form := url.Values{"user": {strconv.FormatInt(who.ID, 10)}}
	r := httptest.NewRequest(http.MethodPost, PublicURL+"/signin", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", PublicURL)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) == 0 {
		return nil, errors.New("sign-in gave no cookie: " + w.Body.String())
	}
	return cookies[0], nil
}

// ProcessMillis returns the CPU time that this process has used, in milliseconds.
func ProcessMillis() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0 // it fails for a wrong argument only
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}
