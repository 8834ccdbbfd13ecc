package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/store"
)

const publicURL = "http://portal.example"

// portal is the product's side of the comparison: its store, and its HTTP handler without the network.
type portal struct {
	store    *store.Store
	sessions *pgxpool.Pool
	handler  *handlers.Server
	askers   []rayslice.User
	tokens   []string // of each asker
	drafts   []rayslice.RequestDraft
	next     atomic.Int64
}

// newPortal returns a portal whose teams may hold as much as there can be.
func newPortal(ctx context.Context, o options, sandbox *bench.Sandbox, teams int) (*portal, error) {
	address, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	p := &portal{}
	if p.store, err = store.Open(ctx, fmt.Sprintf("%s&pool_max_conns=%d", address, o.Pool)); err != nil {
		return nil, err
	}
	p.store.LetPersonasIn()
	if p.sessions, err = pgxpool.New(ctx, address); err != nil {
		return nil, err
	}
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return nil, err
	}
	p.handler, err = handlers.New(handlers.Config{
		Store: p.store, Sessions: p.sessions, Catalogue: catalogue, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Render: func(rayslice.Request) (string, error) { return "", nil },
		Demo:   true, Version: o.Version, PublicURL: publicURL, BaseContext: ctx,
	})
	if err != nil {
		return nil, err
	}
	return p, p.hire(ctx, catalogue, teams, rayslice.MaxLimit)
}

// crew is how many people ask, all teams together: so many that nobody reaches the limit of changes per person.
const crew = 400

// hire makes the teams with people who ask for one slice at a time, each with an API token.
func (p *portal) hire(ctx context.Context, catalogue rayslice.Catalogue, teams, limit int) error {
	draft, err := bench.Draft(catalogue, 1)
	if err != nil {
		return err
	}
	var seed store.Seed
	for i := range teams {
		team := fmt.Sprintf("bench-%d", i)
		seed.Teams = append(seed.Teams, store.SeedTeam{Name: team, Namespace: team, LimitGiB: limit})
	}
	for i := range crew * min(teams, 1) {
		team := seed.Teams[i%teams].Name
		seed.Users = append(seed.Users, store.SeedUser{Name: fmt.Sprintf("Asker %d", i), Email: fmt.Sprintf("asker-%d@bench.example", i),
			Roles: map[string]rayslice.Role{team: rayslice.RoleMember}})
	}
	if err := p.store.Seed(ctx, rayslice.System, seed); err != nil {
		return err
	}
	if p.askers, err = p.store.Personas(ctx, rayslice.System); err != nil {
		return err
	}
	for _, asker := range p.askers {
		draft.Team = asker.Teams()[0]
		p.drafts = append(p.drafts, draft)
		token, _, err := p.store.CreateToken(ctx, asker, rayslice.TokenDraft{Name: "bench", Scopes: rayslice.Scopes(), Days: 1})
		if err != nil {
			return err
		}
		p.tokens = append(p.tokens, token)
	}
	return nil
}

func (p *portal) close() {
	if p.handler != nil {
		p.handler.Close()
	}
	p.sessions.Close()
	p.store.Close()
}

// turn picks the asker whose turn it is.
func (p *portal) turn() int { return int(p.next.Add(1) % int64(len(p.askers))) }

// create asks through the store.
func (p *portal) create(ctx context.Context) error {
	i := p.turn()
	_, err := p.store.CreateRequest(ctx, p.askers[i], p.drafts[i], "")
	return err
}

// errRefused is a request that the quota did not allow.
var errRefused = errors.New("over quota")

// post asks through the whole handler: token, strict JSON, store, answer.
func (p *portal) post(ctx context.Context) error {
	i := p.turn()
	slice := p.drafts[i].Groups[0].Slice
	body := fmt.Sprintf(`{"team": %q, "name": "benchmark", "hours": 8, "pool": %q, "slice_gib": %d, "workers": 1}`, p.drafts[i].Team, slice.Pool, slice.GiB)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, publicURL+"/api/v1/requests", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.tokens[i])
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	switch {
	case w.Code == http.StatusCreated:
		return nil
	case w.Code == http.StatusConflict && strings.Contains(w.Body.String(), `"over_quota"`):
		return errRefused
	}
	return fmt.Errorf("answers %d: %s", w.Code, w.Body)
}

// run lets all clients ask until the time is over, and returns the accepted requests per second.
func (p *portal) run(ctx context.Context, o options, ask func(context.Context) error) (float64, error) {
	var accepted atomic.Int64
	began := time.Now()
	until := began.Add(o.Time)
	err := crowd(ctx, o.Clients, func(ctx context.Context) error {
		for time.Now().Before(until) {
			if err := ask(ctx); err != nil {
				return err
			}
			accepted.Add(1)
		}
		return nil
	})
	return float64(accepted.Load()) / time.Since(began).Seconds(), err
}

// crowd runs do n times at once and returns the first error.
func crowd(ctx context.Context, n int, do func(context.Context) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = do(ctx) })
	}
	group.Wait()
	return cmp.Or(errs...)
}

// check fails when a quota differs from its ledger or is over its limit.
func (p *portal) check(ctx context.Context) error {
	drift, err := p.store.QuotaDrift(ctx, rayslice.System)
	if err != nil || len(drift) > 0 {
		return fmt.Errorf("quotas differ from their ledger: %v, %w", drift, err)
	}
	quotas, err := p.store.Quotas(ctx, rayslice.System)
	for _, q := range quotas {
		if q.Used.GiB > q.Limit.GiB {
			return fmt.Errorf("%s uses %d of %d GiB", q.Team, q.Used.GiB, q.Limit.GiB)
		}
	}
	return err
}

// exhaust lets all clients ask for more than a hot team may have: exactly the limit is accepted.
func exhaust(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report) error {
	const limit, each = 1000, 40
	p, err := newPortal(ctx, o, sandbox, 0)
	if err != nil {
		return err
	}
	defer p.close()
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return err
	}
	if err := p.hire(ctx, catalogue, 1, limit); err != nil {
		return err
	}
	var accepted, refused atomic.Int64
	err = crowd(ctx, o.Clients, func(ctx context.Context) error {
		for range each {
			switch err := p.post(ctx); {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, errRefused):
				refused.Add(1)
			default:
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	charge := p.drafts[0].Charge().GiB
	if got := int(accepted.Load()) * charge; got > limit || got+charge <= limit {
		return fmt.Errorf("%d GiB accepted on a limit of %d", got, limit)
	}
	report.Result("asked for more than there is", "%d × %d GiB of %d accepted, %d refused, nothing else answered", accepted.Load(), charge, limit, refused.Load())
	return p.check(ctx)
}
