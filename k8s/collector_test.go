package k8s

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/rayslice/rayslice"
)

// shelf keeps what collectors save and tells them what there is to ask: for faults that a real database does not have at
// will.
type shelf struct {
	mu       sync.Mutex
	targets  []rayslice.UseTarget
	replicas map[string]time.Time
	saved    map[string][]rayslice.Use // by request, in order
	batches  int
	fail     error
}

func newShelf(targets ...rayslice.UseTarget) *shelf {
	return &shelf{targets: targets, replicas: map[string]time.Time{}, saved: map[string][]rayslice.Use{}}
}

func (s *shelf) UseTargets(_ context.Context, actor rayslice.User) ([]rayslice.UseTarget, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !actor.System {
		return nil, errors.New("not the portal")
	}
	return slices.Clone(s.targets), s.fail
}

func (s *shelf) SaveUse(_ context.Context, actor rayslice.User, uses []rayslice.Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !actor.System {
		return errors.New("not the portal")
	}
	if s.fail != nil {
		return s.fail
	}
	s.batches++
	for _, u := range uses {
		s.saved[u.RequestID] = append(s.saved[u.RequestID], u)
	}
	return nil
}

func (s *shelf) Attend(_ context.Context, actor rayslice.User, replica string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !actor.System {
		return nil, errors.New("not the portal")
	}
	s.replicas[replica] = time.Now()
	var alive []string
	for name := range s.replicas {
		alive = append(alive, name)
	}
	slices.Sort(alive)
	return alive, s.fail
}

func (s *shelf) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// last returns the latest use of a request, zero when there is none.
func (s *shelf) last(id string) rayslice.Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uses := s.saved[id]; len(uses) > 0 {
		return uses[len(uses)-1]
	}
	return rayslice.Use{}
}

func (s *shelf) count() (uses, batches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.saved {
		uses += len(u)
	}
	return uses, s.batches
}

// loopbackHead answers as a head at a loopback address of its own, at the port that all heads have.
func loopbackHead(t *testing.T, ip string, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, fmt.Sprint(dashboardPort)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
}

// headWith returns a head of one worker that uses so much.
func headWith(ip string, used int, asked *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if r.URL.RequestURI() != nodesPath {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(rayList(rayNode(ip, "ALIVE", rayGPUs(rayGPU("GPU-a", used, 8373, 41))))))
	}
}

// runningAt returns what runs of clusters whose heads are at the given addresses: one worker each, with the head's address.
func runningAt(ips map[string]string) func(rayslice.UseTarget) Running {
	return func(of rayslice.UseTarget) Running {
		ip := ips[of.RequestID]
		return Running{Known: true, Head: &rayslice.Worker{Name: "head", UID: "uid-head", IP: ip, Phase: rayslice.PodRunning},
			Workers: []rayslice.Worker{useWorker(1, func(w *rayslice.Worker) { w.IP, w.UID = ip, "uid-"+of.RequestID })}}
	}
}

// collect runs a collector until the test ends, and returns it with what stops it.
func collect(t *testing.T, cfg CollectorConfig) (c *Collector, stop func()) {
	t.Helper()
	def(&cfg.Every, 500*time.Millisecond)
	def(&cfg.Watched, 200*time.Millisecond)
	cfg.Catalogue = useCatalogue
	c, err := NewCollector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return c, stop
}

// soon waits until ok.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestCollectorDirect asks heads straight at their pods' addresses, as inside the cluster: one that answers, and ones that
// do what no head should.
func TestCollectorDirect(t *testing.T) {
	var asked, hung atomic.Int64
	ips := map[string]string{"good": "127.65.0.1", "hangs": "127.65.0.2", "html": "127.65.0.3", "gone": "127.65.0.4"}
	loopbackHead(t, ips["good"], headWith(ips["good"], 4329, &asked))
	loopbackHead(t, ips["hangs"], func(_ http.ResponseWriter, r *http.Request) { hung.Add(1); <-r.Context().Done() })
	loopbackHead(t, ips["html"], func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<!doctype html>")) })
	var targets []rayslice.UseTarget
	for id := range ips {
		targets = append(targets, rayslice.UseTarget{RequestID: id, Namespace: "team"})
	}
	store, registry := newShelf(targets...), prometheus.NewRegistry()
	_, stop := collect(t, CollectorConfig{Store: store, Heads: DirectHeads(slog.Default()), Running: runningAt(ips), Workers: 2, Registerer: registry})
	for id, code := range map[string]string{"hangs": ReasonUseHeadSilent, "html": ReasonUseAnswerUnreadable, "gone": ReasonUseHeadSilent} {
		soon(t, id+" is said to be "+code, func() bool { return store.last(id).Problem.Code == code })
		if use := store.last(id); !use.DataAt.IsZero() || len(use.Samples) > 0 || use.AskedAt.IsZero() || use.Source != rayslice.UseFromRay {
			t.Errorf("%s: %+v", id, use)
		}
	}
	before := asked.Load()
	soon(t, "the good head is asked while another hangs", func() bool { return asked.Load() > before+1 })
	use := store.last("good")
	if len(use.Samples) != 1 || use.Samples[0].PodUID != "uid-good" || *use.Samples[0].UsedMiB != 4329 || !use.Problem.IsZero() || use.DataAt.Before(use.AskedAt) {
		t.Errorf("good: %+v", use)
	}
	stop()
	if n := asked.Load(); hung.Load() >= n {
		t.Errorf("the head that hangs was asked %d times, the good one %d times", hung.Load(), n)
	}
	if uses, batches := store.count(); batches >= uses {
		t.Errorf("%d uses were saved in %d transactions", uses, batches)
	}
	for _, name := range []string{"rayslice_use_polls_total", "rayslice_use_failures_total", "rayslice_use_age_seconds", "rayslice_use_poll_seconds", "rayslice_bad_samples_total", "rayslice_use_clusters"} {
		if n, err := testutil.GatherAndCount(registry, name); n == 0 || err != nil {
			t.Errorf("no metric %s (%v)", name, err)
		}
	}
}

// TestCollectorCountsBadSamples covers field case B044: what cannot be is no reading, and is counted.
func TestCollectorCountsBadSamples(t *testing.T) {
	var asked atomic.Int64
	ips := map[string]string{"bad": "127.65.1.1"}
	loopbackHead(t, ips["bad"], headWith(ips["bad"], 17592186044134, &asked))
	store := newShelf(rayslice.UseTarget{RequestID: "bad", Namespace: "team"})
	c, stop := collect(t, CollectorConfig{Store: store, Heads: DirectHeads(slog.Default()), Running: runningAt(ips)})
	soon(t, "saved", func() bool { return len(store.last("bad").Samples) == 1 })
	stop()
	use := store.last("bad")
	if use.Dropped != 1 || use.Samples[0].UsedMiB != nil || use.Samples[0].LimitMiB == nil || !use.Problem.IsZero() {
		t.Errorf("use %+v", use)
	}
	if n := testutil.ToFloat64(c.metrics.bad); n != float64(asked.Load()) {
		t.Errorf("%v bad samples counted, %d read", n, asked.Load())
	}
}

// TestCollectorSurvivesTheDatabase goes on while nothing can be saved, and then saves what it knows.
func TestCollectorSurvivesTheDatabase(t *testing.T) {
	var asked atomic.Int64
	ips := map[string]string{"good": "127.65.2.1"}
	loopbackHead(t, ips["good"], headWith(ips["good"], 4329, &asked))
	store := newShelf(rayslice.UseTarget{RequestID: "good", Namespace: "team"})
	c, stop := collect(t, CollectorConfig{Store: store, Heads: DirectHeads(slog.Default()), Running: runningAt(ips)})
	soon(t, "saved", func() bool { return len(store.last("good").Samples) == 1 })
	store.setFail(errors.New("away"))
	before := asked.Load()
	soon(t, "asked on", func() bool { return asked.Load() > before+3 })
	uses, _ := store.count()
	store.setFail(nil)
	soon(t, "saved again", func() bool { n, _ := store.count(); return n > uses })
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) > 0 {
		t.Errorf("%d left unsaved at the end", len(c.found))
	}
}

// TestCollectorsShare runs two replicas: each cluster is asked by one of them, and the second takes over when the first is
// no longer alive.
func TestCollectorsShare(t *testing.T) {
	ips, asked := map[string]string{}, map[string]*atomic.Int64{}
	store := newShelf()
	for i := range 24 {
		id, ip := fmt.Sprintf("cluster-%d", i), fmt.Sprintf("127.65.3.%d", i+1)
		ips[id], asked[id] = ip, &atomic.Int64{}
		loopbackHead(t, ip, headWith(ip, i, asked[id]))
		store.targets = append(store.targets, rayslice.UseTarget{RequestID: id, Namespace: "team"})
	}
	replica := func(name string) (*Collector, func()) {
		return collect(t, CollectorConfig{Store: store, Heads: DirectHeads(slog.Default()), Running: runningAt(ips), Identity: name})
	}
	store.replicas = map[string]time.Time{"a-1": time.Now(), "b-1": time.Now()}
	a, stopA := replica("a-1")
	b, _ := replica("b-1")
	soon(t, "every cluster is known", func() bool {
		return !slices.ContainsFunc(store.targets, func(t rayslice.UseTarget) bool { return store.last(t.RequestID).DataAt.IsZero() })
	})
	if ofA, ofB := a.clusters(), b.clusters(); ofA == 0 || ofB == 0 || ofA+ofB != 24 {
		t.Errorf("shares %v and %v, want 24 together", ofA, ofB)
	}
	stopA()
	store.mu.Lock()
	delete(store.replicas, "a-1")
	store.mu.Unlock()
	soon(t, "the other takes over", func() bool { return b.clusters() == 24 })
}

// TestCollectorLeavesNothing looks for what goes on after Run has returned, also while a head hangs.
func TestCollectorLeavesNothing(t *testing.T) {
	ips := map[string]string{"hangs": "127.65.4.1"}
	var hung atomic.Int64
	loopbackHead(t, ips["hangs"], func(_ http.ResponseWriter, r *http.Request) { hung.Add(1); <-r.Context().Done() })
	before := goleak.IgnoreCurrent()
	store := newShelf(rayslice.UseTarget{RequestID: "hangs", Namespace: "team"})
	_, stop := collect(t, CollectorConfig{Store: store, Heads: DirectHeads(slog.Default()), Running: runningAt(ips)})
	soon(t, "asked", func() bool { return hung.Load() > 0 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > headTimeout {
		t.Errorf("stopping took %v", took)
	}
	goleak.VerifyNone(t, before, goleak.IgnoreTopFunction("net/http.(*conn).serve"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

func TestCollectorConfig(t *testing.T) {
	if _, err := NewCollector(CollectorConfig{Store: newShelf()}); err == nil {
		t.Error("collects without a way to heads")
	}
	cfg := CollectorConfig{}.withDefaults()
	if cfg.Every != 30*time.Second || cfg.Watched != 5*time.Second || cfg.Workers != 16 || cfg.Identity == "" {
		t.Errorf("defaults %+v", cfg)
	}
}
