package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// portal is the portal's real reconciler on a database and a namespace of its own.
type portal struct {
	namespace  string
	store      *store.Store
	asker      rayslice.User
	controller *k8s.Controller
	arrivals   *bench.Arrivals
	stop       func() error // and forget its objects
}

// start returns a portal that leads, has read the cluster and has nothing to do. With listen set it hears of new requests
// as `rayslice serve` does.
func (b *benchmark) start(ctx context.Context, listen bool) (*portal, error) {
	p := &portal{}
	var err error
	if p.namespace, err = b.namespace(ctx); err != nil {
		return nil, err
	}
	url, err := b.sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	if p.store, err = store.Open(ctx, url); err != nil {
		return nil, err
	}
	if p.asker, err = bench.Hire(ctx, p.store, p.namespace); err != nil {
		return nil, err
	}
	if p.arrivals, err = bench.Watch(ctx, b.config, bench.RayClusters, p.namespace); err != nil {
		return nil, err
	}
	p.controller, err = k8s.New(k8s.Config{
		Rest: b.config, Store: p.store, Catalogue: b.catalogue, QPS: b.QPS, Burst: b.Burst, Workers: b.Workers,
		Resync: time.Hour, Namespace: leases, Unverified: true, Identity: p.namespace, Logger: b.logger,
	})
	if err != nil {
		return nil, err
	}
	b.work(ctx, p, listen)
	return p, bench.Until(ctx, time.Minute, "the portal leads", func() (bool, error) {
		health := p.controller.Health()
		return health.Synced && health.Leader, nil
	})
}

// work runs the reconciler until p.stop.
func (b *benchmark) work(ctx context.Context, p *portal, listen bool) {
	working, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	var failed error
	parts.Go(func() { failed = p.controller.Run(working) })
	if listen {
		parts.Go(func() {
			_ = p.store.Listen(working, func(change store.Change) { // ends with the context
				if change.Kind == store.KindRequest && !change.Resync {
					p.controller.Wake(change.ID)
				}
			})
		})
	}
	p.stop = func() error {
		cancel()
		parts.Wait()
		p.arrivals.Stop()
		p.store.Close()
		return errors.Join(failed, bench.Empty(ctx, b.config, p.namespace))
	}
}

// portal measures the time from n approved requests, of which the reconciler has not heard yet, until all their objects
// exist. It hears of them as after a lost connection to the database.
func (b *benchmark) portal(ctx context.Context, n int) (time.Duration, error) {
	p, err := b.start(ctx, false)
	if err != nil {
		return 0, err
	}
	requests, err := bench.Ask(ctx, p.store, p.asker, b.draft, n)
	if err == nil && requests[0].State != rayslice.StateApproved {
		err = errors.New("a request was not approved at once")
	}
	if err != nil {
		return 0, errors.Join(err, p.stop())
	}
	begin := time.Now()
	p.controller.WakeAll()
	err = p.arrivals.Wait(ctx, n, patience)
	took := time.Since(begin)
	return took, errors.Join(err, p.stop())
}

// oneAtATime measures the time from the call that approves a request until its object exists, with nothing else to do.
func (b *benchmark) oneAtATime(ctx context.Context, report *bench.Report) error {
	if b.Single == 0 {
		return nil
	}
	p, err := b.start(ctx, true)
	if err != nil {
		return err
	}
	var took []float64
	for range b.Single {
		ms, err := b.one(ctx, p)
		if err != nil {
			return errors.Join(err, p.stop())
		}
		took = append(took, ms)
	}
	report.Result("approved one at a time", "object exists after p50 %.0f ms, p95 %.0f ms (goal: at most 250), longest %.0f ms of %d",
		bench.Quantile(took, 0.5), bench.Quantile(took, 0.95), bench.Quantile(took, 1), b.Single)
	return p.stop()
}

// one measures one request in milliseconds, its transaction included, and waits until the portal is at rest again.
func (b *benchmark) one(ctx context.Context, p *portal) (float64, error) {
	begin := time.Now()
	request, err := p.store.CreateRequest(ctx, p.asker, b.draft, "")
	if err != nil {
		return 0, err
	}
	if err := p.arrivals.Wait(ctx, 1, patience); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return float64(took.Microseconds()) / 1000, bench.Until(ctx, patience, "the portal records its object", func() (bool, error) {
		now, err := p.store.Work(ctx, rayslice.System, request.ID)
		return now.State != rayslice.StateApproved, err
	})
}
