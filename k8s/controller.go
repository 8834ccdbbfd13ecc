package k8s

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/rayslice/rayslice"
)

// Store is what the reconciler needs of Postgres; package store satisfies it.
type Store interface {
	VerificationStore

	// Work returns one request, whatever its team; KindNotFound when there is none.
	Work(ctx context.Context, actor rayslice.User, id string) (rayslice.Request, error)
	// LiveRequests returns the ids to look at, in the order they were decided.
	LiveRequests(ctx context.Context, actor rayslice.User) ([]string, error)
	// KnownRequests reports which of the ids are requests.
	KnownRequests(ctx context.Context, actor rayslice.User, ids []string) (map[string]bool, error)
	// Cluster returns what was last saved about a request.
	Cluster(ctx context.Context, actor rayslice.User, id string) (rayslice.Cluster, error)
	// Move changes a request's state; KindConflict when it is no longer in from.
	Move(ctx context.Context, actor rayslice.User, id string, from, to rayslice.State, reason rayslice.Reason, clusterUID string) error
	// SaveCluster keeps what was observed about one request.
	SaveCluster(ctx context.Context, actor rayslice.User, cluster rayslice.Cluster) error
	// NamespaceLimits returns what each team's namespace may hold.
	NamespaceLimits(ctx context.Context, actor rayslice.User) ([]rayslice.NamespaceLimit, error)
	// SaveFleet keeps what was observed about nodes and pools.
	SaveFleet(ctx context.Context, actor rayslice.User, fleet rayslice.Fleet) error
}

// Config is what a Controller is built from. Rest, Store and Catalogue are needed; the rest has defaults.
type Config struct {
	Rest      *rest.Config
	Store     Store
	Catalogue rayslice.Catalogue

	Access           HeadAccess    // how Ray heads are reached; default auto
	QPS              float32       // calls per second to the API server, all together; default 200
	Burst            int           // default twice QPS
	Workers          int           // requests looked at at the same time; default 8
	Resync           time.Duration // every request is looked at this often even when nothing happens; default 1 min
	Silence          time.Duration // a watch silent for longer is listed anew; default 5 min
	Namespace        string        // of the Lease and of the portal's own pods; default "rayslice-system"
	KubeRayNamespace string        // of the KubeRay operator, which may call dashboards too; "" = nothing else may
	Identity         string        // of this replica in the Lease; default the host name and process id
	Unverified       bool          // verify only what somebody asks for
	VerifyLimit      time.Duration // a verification of one worker ends after this; default 1 min
	MaxPodsPerCard   int           // on nodes without the label ack.node.gpu.max-pod; default 20, as ACK documents
	NamespaceQuota   bool          // keep a ResourceQuota in every team's namespace
	CreateNamespaces bool          // make the teams' namespaces, and the Lease's, when they are missing
	Logger           *slog.Logger  // default slog's
	Registerer       prometheus.Registerer
}

func (c Config) withDefaults() Config {
	def(&c.Access, HeadAccessAuto)
	def(&c.QPS, 200)
	def(&c.Burst, int(2*c.QPS))
	def(&c.Workers, 8)
	def(&c.MaxPodsPerCard, 20)
	def(&c.VerifyLimit, time.Minute)
	def(&c.Resync, time.Minute)
	def(&c.Silence, 5*time.Minute)
	def(&c.Namespace, "rayslice-system")
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

func def[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// Controller brings Kubernetes to what Postgres says and Postgres to know what Kubernetes does. Any number may run on
// one database; a Lease elects the one that acts, and nothing breaks when two do.
type Controller struct {
	cfg     Config
	log     *slog.Logger
	clients clients
	caches  *caches
	heads   *Heads
	verify  *verifier
	gate    *gate
	metrics metrics
	started time.Time

	queue      atomic.Pointer[queue] // nil while another replica leads
	fleetDirty chan struct{}
	sweepSoon  chan struct{}
	quotaDirty chan struct{}
	orphans    atomic.Pointer[[]rayslice.Orphan]
	unmanaged  atomic.Pointer[[]rayslice.Unmanaged]
	leaseError atomic.Pointer[string]

	quotaProblems atomic.Pointer[[]rayslice.Reason]

	namespaces sync.Map       // names of namespaces seen to exist
	guards     sync.Map       // types.NamespacedName of a NetworkPolicy → guarded
	unguarded  sync.Map       // types.NamespacedName of a NetworkPolicy → unguarded
	term       sync.Mutex     // held while leading
	begun      sync.WaitGroup // verifications under way, which end with the leading

	mu    sync.Mutex
	saved map[string]savedCluster // by request id; what this replica saved last while it leads
}

type queue = workqueue.TypedRateLimitingInterface[string]

// New prepares a Controller; nothing is read or written before Run.
func New(cfg Config) (*Controller, error) {
	if cfg.Rest == nil || cfg.Store == nil {
		return nil, errors.New("k8s: Config needs Rest and Store")
	}
	cfg = cfg.withDefaults()
	c := &Controller{
		cfg:        cfg,
		log:        cfg.Logger.With("part", "k8s"),
		fleetDirty: make(chan struct{}, 1),
		sweepSoon:  make(chan struct{}, 1),
		quotaDirty: make(chan struct{}, 1),
		saved:      map[string]savedCluster{},
		started:    time.Now(),
	}
	var err error
	if c.clients, err = newClients(cfg.Rest, cfg.QPS, cfg.Burst); err != nil {
		return nil, err
	}
	if c.heads, err = newHeads(cfg.Access, c.clients.rest, c.log, c.Wake); err != nil {
		return nil, err
	}
	c.caches = newCaches(c.clients, cfg.Silence, c.wakeSoon, func() { nudge(c.fleetDirty) }, func() { nudge(c.sweepSoon) })
	if cfg.NamespaceQuota {
		c.caches.watchQuotas(c.clients, cfg.Silence, c.WakeQuotas)
	}
	c.gate = newGate(c.knock)
	if c.metrics, err = newMetrics(cfg.Registerer, c); err != nil {
		return nil, err
	}
	c.verify = newVerifier(c, c.metrics.verify)
	return c, nil
}

// nudge leaves a mark that one is enough of.
func nudge(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// Run watches, and acts while this replica holds the Lease, until ctx ends; then it waits for what it has begun. Being
// cut off from the API server is no error: it goes on when the server is back.
func (c *Controller) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	c.caches.run(ctx, &watching)
	return c.elect(ctx)
}

// Wake asks for a look at the request soon. It never blocks, and may be called at any time, also for ids that do not
// exist.
func (c *Controller) Wake(id string) {
	if q := c.queue.Load(); q != nil && id != "" {
		(*q).Add(id)
	}
}

// wakeSoon is Wake for what Kubernetes tells: much of it comes in bursts, and one look answers a whole burst.
func (c *Controller) wakeSoon(id string) {
	if q := c.queue.Load(); q != nil && id != "" {
		(*q).AddAfter(id, settles)
	}
}

// settles is how long a burst of changes in Kubernetes is waited for.
const settles = 100 * time.Millisecond

// WakeAll asks for a look at every request soon: for when changes may have been missed.
func (c *Controller) WakeAll() { nudge(c.sweepSoon) }

// Heads returns the way to the Ray heads.
func (c *Controller) Heads() *Heads { return c.heads }

// Health is how the Kubernetes side is doing.
type Health struct {
	Synced    bool          // RayClusters and pods have been read once
	WatchAge  time.Duration // how long ago the quietest watch last showed life; about a minute when nothing happens
	Leader    bool          // this replica is the one that acts
	LastError string        // why something does not work now; "" = nothing known
}

// Health returns how the Kubernetes side is doing now.
func (c *Controller) Health() Health {
	now := time.Now()
	h := Health{Synced: c.caches.synced(), Leader: c.queue.Load() != nil}
	for _, p := range c.caches.pulses {
		h.WatchAge = max(h.WatchAge, p.age(now, c.started))
		if text := p.failed.Load(); text != nil && h.LastError == "" {
			h.LastError = *text
		}
	}
	if reason := c.gate.reason(); h.LastError == "" {
		h.LastError = reason
	}
	if text := c.leaseError.Load(); text != nil && h.LastError == "" {
		h.LastError = *text
	}
	return h
}
