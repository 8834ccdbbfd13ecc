package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rayslice/rayslice"
)

// lead does the work of the leading replica until ctx ends, and returns when all of it has stopped.
func (c *Controller) lead(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), c.caches.nodes.HasSynced) {
		return
	}
	var parts sync.WaitGroup
	parts.Go(func() { c.reportFleet(ctx) }) // also while RayClusters cannot be read: it says why
	if cache.WaitForCacheSync(ctx.Done(), c.caches.synced) {
		c.reconcileAll(ctx, &parts)
	}
	parts.Wait()
	c.begun.Wait() // nothing begins any more
}

func (c *Controller) reconcileAll(ctx context.Context, parts *sync.WaitGroup) {
	waitToSee(ctx, c.caches.policies)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 30*time.Second))
	c.mu.Lock()
	clear(c.saved) // another replica may have written since
	c.mu.Unlock()
	c.queue.Store(&q)
	for range c.cfg.Workers {
		parts.Go(func() { c.work(ctx, q) })
	}
	parts.Go(func() { c.heads.run(ctx) })
	parts.Go(func() { c.sweepRegularly(ctx) })
	if c.cfg.NamespaceQuota {
		parts.Go(func() { c.keepQuotas(ctx) })
	}
	<-ctx.Done()
	c.queue.Store(nil)
	q.ShutDown()
}

// work takes one request at a time off the queue.
func (c *Controller) work(ctx context.Context, q queue) {
	for {
		c.gate.pass(ctx)
		id, stop := q.Get()
		if stop {
			return
		}
		c.process(ctx, q, id)
		q.Done(id)
	}
}

// process reconciles one request. While the API server is away it waits with the request in hand, so that all are
// applied in the order of their approval when the server is back.
func (c *Controller) process(ctx context.Context, q queue, id string) {
	for ctx.Err() == nil {
		start := time.Now()
		again, err := c.reconcileSafely(ctx, id)
		c.metrics.reconciled(start, err)
		var fromAPI *apiError
		if errors.As(err, &fromAPI) && away(err) {
			c.log.WarnContext(ctx, "API server away, waiting", "request", id, "error", err)
			c.gate.wait(ctx, err)
			continue
		}
		c.schedule(ctx, q, id, again, err)
		return
	}
}

func (c *Controller) schedule(ctx context.Context, q queue, id string, again time.Duration, err error) {
	switch {
	case ctx.Err() != nil: // the next leader starts from what is
	case rayslice.KindOf(err) == rayslice.KindConflict:
		q.AddRateLimited(id) // somebody else moved it: look at it as it is now
	case err != nil:
		c.log.ErrorContext(ctx, "reconcile failed, will try again", "request", id, "error", err)
		q.AddRateLimited(id)
	default:
		q.Forget(id)
		if again > 0 {
			q.AddAfter(id, again)
		}
	}
}

// reconcileSafely keeps one bad object from stopping all others.
func (c *Controller) reconcileSafely(ctx context.Context, id string) (again time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return c.reconcile(ctx, id)
}

// sweepRegularly compares rows and objects both ways, at once, every Resync, and whenever a watch works again.
func (c *Controller) sweepRegularly(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Resync)
	defer ticker.Stop()
	for {
		if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "sweep failed, will try again", "error", err)
		}
		select {
		case <-ticker.C:
		case <-c.sweepSoon:
		case <-ctx.Done():
			return
		}
	}
}

// sweep looks at every live request, oldest decision first, and at every object with our label; those without a request
// are listed as orphans and left alone.
func (c *Controller) sweep(ctx context.Context) error {
	live, err := c.cfg.Store.LiveRequests(ctx, rayslice.System)
	if err != nil {
		return err
	}
	for _, id := range live {
		c.Wake(id)
	}
	objects := c.objects()
	known, err := c.cfg.Store.KnownRequests(ctx, rayslice.System, idsOf(objects))
	if err != nil {
		return err
	}
	c.prune(live, known)
	var orphans []rayslice.Orphan
	for _, o := range objects {
		if known[o.RequestID] && o.Name == "rs-"+o.RequestID {
			c.Wake(o.RequestID)
			continue
		}
		orphans = append(orphans, o)
	}
	c.orphans.Store(&orphans)
	if err := c.lookForUnmanaged(ctx); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "pods made without the portal not looked for, will try again", "error", err)
	}
	nudge(c.fleetDirty)
	c.WakeQuotas()
	return nil
}

// objects lists the RayClusters with our label, sorted.
func (c *Controller) objects() []rayslice.Orphan {
	var out []rayslice.Orphan
	for _, obj := range c.caches.clusters.GetIndexer().List() {
		o := obj.(*rayv1.RayCluster)
		if o.Labels[LabelRequest] == "" {
			continue
		}
		out = append(out, rayslice.Orphan{Namespace: o.Namespace, Name: o.Name, RequestID: o.Labels[LabelRequest], CreatedAt: o.CreationTimestamp.UTC()})
	}
	slices.SortFunc(out, func(a, b rayslice.Orphan) int { return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return out
}

func idsOf(objects []rayslice.Orphan) []string {
	ids := make([]string, 0, len(objects))
	for _, o := range objects {
		ids = append(ids, o.RequestID)
	}
	return ids
}

// prune forgets requests that are over and have left nothing.
func (c *Controller) prune(live []string, known map[string]bool) {
	needed := make(map[string]bool, len(live))
	for _, id := range live {
		needed[id] = true
	}
	c.heads.prune(needed)
	c.forgetGuards()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.saved {
		if !needed[id] && !known[id] {
			delete(c.saved, id)
		}
	}
}

// knock asks whether the API server answers at all.
func (c *Controller) knock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.clients.core.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}
