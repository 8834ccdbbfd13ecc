package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
)

// UseStore is what the collector needs of Postgres; package store satisfies it.
type UseStore interface {
	// UseTargets returns the clusters that are live.
	UseTargets(ctx context.Context, actor rayslice.User) ([]rayslice.UseTarget, error)
	// SaveUse keeps what was found out about clusters, and the samples in their history. A Use without DataAt leaves the
	// samples that were saved before, and a sample of the same moment is kept once.
	SaveUse(ctx context.Context, actor rayslice.User, uses []rayslice.Use) error
	// Attend says that this replica is alive and returns those that are, sorted.
	Attend(ctx context.Context, actor rayslice.User, replica string) (alive []string, err error)
}

// CollectorConfig is what a Collector needs.
type CollectorConfig struct {
	Store      UseStore                            // required
	Heads      *Heads                              // the way to Ray heads; required without Prometheus
	Prometheus *PrometheusConfig                   // where use is read instead of from heads; nil = from heads
	Running    func(of rayslice.UseTarget) Running // what runs of a cluster, e.g. Controller.Running; required
	Catalogue  rayslice.Catalogue                  // sizes of cards
	Every      time.Duration                       // between two questions to a cluster nobody looks at; default 30 s
	Watched    time.Duration                       // and to one that somebody looks at; default 5 s
	Workers    int                                 // clusters asked at the same time; default 16
	Identity   string                              // of this replica; default host name and process id
	Logger     *slog.Logger                        // default slog.Default
	Registerer prometheus.Registerer               // default one of its own
}

func (c CollectorConfig) withDefaults() CollectorConfig {
	def(&c.Every, 30*time.Second)
	def(&c.Watched, 5*time.Second)
	def(&c.Workers, 16)
	host, _ := os.Hostname()
	def(&c.Identity, fmt.Sprintf("%s-%d", host, os.Getpid()))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// The collector's own beats.
const (
	useRefresh  = 5 * time.Second        // targets and replicas are read so often
	useDispatch = 100 * time.Millisecond // and what is due looked for
	useSave     = time.Second            // and what was found out written
	useCall     = 10 * time.Second       // longest call of the database
	useLast     = 5 * time.Second        // longest last write, when the collector stops
)

// A Collector finds out what live clusters use: each is asked once per interval, however many people look, and by one
// replica of those that are alive. Run it on every replica.
type Collector struct {
	cfg     CollectorConfig
	log     *slog.Logger
	source  usageSource
	metrics collectorMetrics

	mu       sync.Mutex
	schedule *schedule
	found    map[string]rayslice.Use // not saved yet, by request
	saved    time.Time               // when something was saved last
	alive    []string                // replicas, as last heard
}

// NewCollector prepares a Collector; nothing is read or asked before Run.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Running == nil || cfg.Heads == nil && cfg.Prometheus == nil {
		return nil, errors.New("k8s: CollectorConfig needs Store, Running, and Heads or Prometheus")
	}
	c := &Collector{
		cfg:      cfg,
		log:      cfg.Logger.With("part", "collector"),
		source:   &rayUsage{heads: cfg.Heads},
		schedule: newSchedule(cfg.Every, cfg.Watched),
		found:    map[string]rayslice.Use{},
		saved:    time.Now(),
	}
	var err error
	if c.metrics, err = newCollectorMetrics(cfg.Registerer, c); err != nil {
		return nil, err
	}
	if cfg.Prometheus != nil {
		c.source, err = newPrometheusUsage(*cfg.Prometheus, c.metrics.unattributed)
	}
	return c, err
}

// Run collects until ctx ends, then waits for what it has begun and saves it. That the database or a source is away is no
// error: it goes on when they are back.
func (c *Collector) Run(ctx context.Context) error {
	var parts, workers sync.WaitGroup
	work := make(chan *entry)
	for range c.cfg.Workers {
		workers.Go(func() {
			for e := range work {
				c.ask(ctx, e)
			}
		})
	}
	parts.Go(func() { each(ctx, useRefresh, c.refresh) })
	parts.Go(func() { each(ctx, useSave, c.save) })
	each(ctx, useDispatch, func(ctx context.Context) { c.dispatch(ctx, work) })
	close(work)
	workers.Wait()
	parts.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), useLast)
	defer cancel()
	c.save(last)
	return nil
}

// each calls do at once and at every beat until ctx ends.
func each(ctx context.Context, beat time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// refresh reads which clusters are this replica's. What cannot be read stays as it was.
func (c *Collector) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, useCall)
	defer cancel()
	alive, err := c.cfg.Store.Attend(ctx, rayslice.System, c.cfg.Identity)
	if err == nil {
		c.alive = alive // only refresh uses it
	}
	targets, errTargets := c.cfg.Store.UseTargets(ctx, rayslice.System)
	if errTargets == nil {
		own := share(targets, c.alive, c.cfg.Identity)
		c.mu.Lock()
		c.schedule.set(own, time.Now())
		c.mu.Unlock()
	}
	if err := errors.Join(err, errTargets); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "clusters to ask not read, will try again", "error", err)
	}
}

// dispatch hands out what is due, the longest waiting first, as far as workers are free: what hangs costs a worker and
// nothing else.
func (c *Collector) dispatch(ctx context.Context, work chan<- *entry) {
	for more := true; more; {
		c.mu.Lock()
		due := c.schedule.due(time.Now(), c.cfg.Workers)
		c.mu.Unlock()
		for _, e := range due {
			select {
			case work <- e:
			case <-ctx.Done():
				return
			}
		}
		more = len(due) == c.cfg.Workers
	}
}

// ask asks for one cluster's use and keeps the answer, or why there was none, for saving.
func (c *Collector) ask(ctx context.Context, e *entry) {
	c.mu.Lock()
	target, watched := e.target, e.target.WatchedUntil.After(time.Now())
	c.mu.Unlock()
	running := c.cfg.Running(target)
	if !running.Known { // the caches have not been read yet
		c.finish(e, nil, true)
		return
	}
	maxAge := c.cfg.Every
	if watched {
		maxAge = c.cfg.Watched
	}
	asked := time.Now().UTC()
	found, err := c.read(ctx, subject{UseTarget: target, Running: running, catalogue: c.cfg.Catalogue}, maxAge)
	if ctx.Err() != nil && err != nil {
		c.finish(e, nil, true) // not the source's fault
		return
	}
	use := c.use(target, asked, found, err)
	c.metrics.asked(asked, use)
	if err != nil {
		c.log.DebugContext(ctx, "no answer about use", "request", target.RequestID, "error", err)
	}
	c.finish(e, &use, err == nil)
}

// read keeps one bad answer from stopping all others.
func (c *Collector) read(ctx context.Context, of subject, maxAge time.Duration) (found finding, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = unreadable(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
		}
	}()
	if len(of.Workers) == 0 {
		return finding{at: time.Now().UTC()}, nil // nothing holds a card: there is nothing to ask
	}
	return c.source.read(ctx, of, maxAge)
}

// use says what was found out. Without an answer the samples that were saved before stand, with their time.
func (c *Collector) use(target rayslice.UseTarget, asked time.Time, found finding, err error) rayslice.Use {
	use := rayslice.Use{RequestID: target.RequestID, AskedAt: asked, Source: c.source.kind()}
	if err == nil {
		use.DataAt, use.Dropped, use.Samples = found.at, found.dropped, found.sorted()
		return use
	}
	var why *useError
	use.Problem = rayslice.Reason{Code: ReasonUseHeadSilent}
	if errors.As(err, &why) {
		use.Problem = why.Reason
	}
	return use
}

// finish puts a cluster back on the schedule.
func (c *Collector) finish(e *entry, use *rayslice.Use, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if use != nil {
		c.found[use.RequestID] = *use
	}
	c.schedule.done(e, answered, time.Now())
}

// save writes what was found out since the last time, all in one go. While that does not work the newest of each cluster
// is kept.
func (c *Collector) save(ctx context.Context) {
	c.mu.Lock()
	found := c.found
	c.found = map[string]rayslice.Use{}
	c.mu.Unlock()
	if len(found) == 0 {
		return
	}
	uses := make([]rayslice.Use, 0, len(found))
	for _, use := range found {
		uses = append(uses, use)
	}
	slices.SortFunc(uses, func(a, b rayslice.Use) int { return cmp.Compare(a.RequestID, b.RequestID) })
	limited, cancel := context.WithTimeout(ctx, useCall)
	defer cancel()
	err := c.cfg.Store.SaveUse(limited, rayslice.System, uses)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.saved = time.Now()
		return
	}
	for _, use := range uses {
		if _, newer := c.found[use.RequestID]; !newer {
			c.found[use.RequestID] = use
		}
	}
	if ctx.Err() == nil {
		c.log.WarnContext(ctx, "use not saved, will try again", "clusters", len(uses), "error", err)
	}
}
