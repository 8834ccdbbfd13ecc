// Command verify measures how long a cluster waits for the certificates of its slices once its workers run.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"k8s.io/klog/v2"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// options is what a person can choose.
type options struct {
	Bin       string `default:"bin" type:"path" help:"Folder with the sandbox's programs."`
	Dir       string `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string `default:"sandbox/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string `required:"" help:"Version of the portal, for the report."`
	Clusters  int    `default:"20" help:"Clusters, one after the other."`
	Workers   int    `default:"4" help:"Workers of each."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures how long a cluster waits for the certificates of its slices."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-verify:", err)
		os.Exit(1)
	}
}

const (
	namespace = "bench-verify"
	patience  = 5 * time.Minute       // for one cluster
	every     = 50 * time.Millisecond // looks at what the portal has recorded
)

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) (err error) {
	report := bench.NewReport("From running workers to their certificates",
		"kube-apiserver", "kuberay-operator", "Postgres", "portal", "fsync", "clusters", "workers of each", "verdicts")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	report.SetPrograms(o.Bin, "kube-apiserver", "kuberay-operator")
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", o.Version)
	report.Set("fsync", "off")
	report.Set("clusters", o.Clusters)
	report.Set("workers of each", o.Workers)
	b, err := start(ctx, o, sandbox)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.measure(ctx, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// benchmark is the portal's real reconciler on a sandbox.
type benchmark struct {
	options
	store *store.Store
	asker rayslice.User
	draft rayslice.RequestDraft
	stop  func() error
}

func start(ctx context.Context, o options, sandbox *bench.Sandbox) (*benchmark, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	klog.SetSlogLogger(logger) // client-go's own lines
	b := &benchmark{options: o}
	config, err := k8s.LoadConfig(sandbox.Kubeconfig)
	if err != nil {
		return nil, err
	}
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return nil, err
	}
	if b.draft, err = bench.Draft(catalogue, o.Workers); err != nil {
		return nil, err
	}
	url, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	if b.store, err = store.Open(ctx, url); err != nil {
		return nil, err
	}
	if b.asker, err = bench.Hire(ctx, b.store, namespace); err != nil {
		return nil, err
	}
	if err := bench.MakeNamespace(ctx, config, namespace); err != nil {
		return nil, err
	}
	controller, err := k8s.New(k8s.Config{Rest: config, Store: b.store, Catalogue: catalogue, Namespace: namespace, Logger: logger})
	if err != nil {
		return nil, err
	}
	b.work(ctx, controller)
	return b, nil
}

// work runs the reconciler until b.stop.
func (b *benchmark) work(ctx context.Context, controller *k8s.Controller) {
	working, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	var failed error
	parts.Go(func() { failed = controller.Run(working) })
	parts.Go(func() {
		_ = b.store.Listen(working, func(change store.Change) { // ends with the context
			if change.Kind == store.KindRequest && !change.Resync {
				controller.Wake(change.ID)
			}
		})
	})
	b.stop = func() error {
		cancel()
		parts.Wait()
		b.store.Close()
		return failed
	}
}

func (b *benchmark) measure(ctx context.Context, report *bench.Report) error {
	verdicts := map[rayslice.Enforcement]int{}
	var proven, ready []float64
	for i := range b.Clusters {
		one, err := b.one(ctx, verdicts)
		if err != nil {
			return fmt.Errorf("cluster %d: %w", i+1, err)
		}
		proven, ready = append(proven, one.proven.Seconds()), append(ready, one.ready.Seconds())
		fmt.Fprintf(os.Stderr, "cluster %d: certificates after %.1f s, ready after %.1f s, load %s\n", i+1, one.proven.Seconds(), one.ready.Seconds(), bench.LoadAverage())
	}
	report.Set("verdicts", fmt.Sprint(verdicts))
	line := func(took []float64) string {
		return fmt.Sprintf("p50 %.1f s, p95 %.1f s, longest %.1f s", bench.Quantile(took, 0.5), bench.Quantile(took, 0.95), bench.Quantile(took, 1))
	}
	report.Result("workers run → certificates", "%s (goal: p95 at most 15 s)", line(proven))
	report.Result("workers run → ready", "%s", line(ready))
	return nil
}

// times of one cluster, from when all its workers were seen to run.
type times struct{ proven, ready time.Duration }

// one measures one cluster, and waits until it is gone.
func (b *benchmark) one(ctx context.Context, verdicts map[rayslice.Enforcement]int) (took times, err error) {
	request, err := b.store.CreateRequest(ctx, b.asker, b.draft, "")
	if err != nil {
		return took, err
	}
	if err := b.until(ctx, "the workers run", func() (bool, error) {
		cluster, err := b.store.Cluster(ctx, rayslice.System, request.ID)
		return cluster.ReadyWorkers() == b.Workers, err
	}); err != nil {
		return took, err
	}
	began := time.Now()
	if err := b.until(ctx, "certificates", func() (bool, error) {
		found, err := b.store.Certificates(ctx, rayslice.System, request.ID)
		if len(found) == b.Workers {
			for _, c := range found {
				verdicts[c.Judgement.Enforcement]++
			}
		}
		return len(found) == b.Workers, err
	}); err != nil {
		return took, err
	}
	took.proven = time.Since(began)
	if err := b.state(ctx, request.ID, rayslice.StateReady); err != nil {
		return took, err
	}
	took.ready = time.Since(began)
	if _, err := b.store.StopRequest(ctx, b.asker, request.ID); err != nil {
		return took, err
	}
	return took, b.state(ctx, request.ID, rayslice.StateStopped)
}

func (b *benchmark) state(ctx context.Context, id string, want rayslice.State) error {
	return b.until(ctx, "it is "+string(want), func() (bool, error) {
		request, err := b.store.Work(ctx, rayslice.System, id)
		return request.State == want, err
	})
}

// until looks every so often; what is measured would be blurred by anything slower.
func (b *benchmark) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited too long until %s", what)
		}
	}
}
