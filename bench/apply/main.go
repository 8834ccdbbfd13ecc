// Command apply measures how fast approved requests become RayClusters, beside a bare loop that applies the same objects.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

// options is what a person can choose.
type options struct {
	Bin       string  `default:"bin" type:"path" help:"Folder with the sandbox's programs."`
	Dir       string  `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string  `default:"bench/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string  `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string  `required:"" help:"Version of the portal, for the report."`
	Requests  int     `default:"500" help:"Requests of one round."`
	Rounds    int     `default:"5" help:"Rounds; each measures both ways, in turns first."`
	Single    int     `default:"100" help:"Requests that are approved one at a time."`
	Workers   int     `default:"8" help:"Objects in work at the same time, both ways."`
	QPS       float32 `name:"qps" default:"200" help:"Most calls per second to the API server, both ways."`
	Burst     int     `default:"400" help:"Most calls at once, both ways."`
	KubeRay   bool    `name:"kuberay" help:"Let the KubeRay operator work meanwhile. It makes pods of both ways' objects, which costs both the same."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures how fast approved requests become RayClusters."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-apply:", err)
		os.Exit(1)
	}
}

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("From approved requests to RayClusters",
		"kube-apiserver", "etcd", "kuberay-operator", "Postgres", "portal", "fsync", "KubeRay operator",
		"requests per round", "rounds", "workers", "QPS", "burst", "object bytes")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	if !o.KubeRay {
		resume, err := sandbox.Pause("kuberay-operator")
		if err != nil {
			return err
		}
		defer resume() // a program that is held cannot stop
	}
	b, err := newBenchmark(ctx, o, sandbox)
	if err != nil {
		return err
	}
	if err := b.describe(ctx, report); err != nil {
		return err
	}
	if err := b.compare(ctx, report); err != nil {
		return err
	}
	if err := b.oneAtATime(ctx, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// benchmark is what both ways share.
type benchmark struct {
	options
	sandbox   *bench.Sandbox
	config    *rest.Config // the administrator's: the API server limits neither way
	catalogue rayslice.Catalogue
	draft     rayslice.RequestDraft
	logger    *slog.Logger
	runs      int // names of namespaces
}

// leases is the namespace of the portals' Lease.
const leases = "bench-leases"

// patience bounds the wait for one round.
const patience = 10 * time.Minute

func newBenchmark(ctx context.Context, o options, sandbox *bench.Sandbox) (*benchmark, error) {
	b := &benchmark{options: o, sandbox: sandbox, logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	klog.SetSlogLogger(b.logger) // client-go's own lines
	var err error
	if b.config, err = k8s.LoadConfig(sandbox.Kubeconfig); err != nil {
		return nil, err
	}
	if b.catalogue, err = bench.Catalogue(o.Catalogue); err != nil {
		return nil, err
	}
	if b.draft, err = bench.Draft(b.catalogue, 1); err != nil {
		return nil, err
	}
	return b, bench.MakeNamespace(ctx, b.config, leases)
}

// describe says what the numbers are measured on.
func (b *benchmark) describe(ctx context.Context, report *bench.Report) error {
	report.SetPrograms(b.Bin, "kube-apiserver", "etcd", "kuberay-operator")
	version, err := b.sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", b.Version)
	report.Set("fsync", "off")
	operator := "paused"
	if b.KubeRay {
		operator = "working"
	}
	report.Set("KubeRay operator", operator)
	report.Set("requests per round", b.Requests)
	report.Set("rounds", b.Rounds)
	report.Set("workers", b.Workers)
	report.Set("QPS", b.QPS)
	report.Set("burst", b.Burst)
	manifest, err := b.manifest("sizes")
	report.Set("object bytes", len(manifest.body))
	return err
}

// compare measures both ways, which take turns in going first; what comes later finds a warmer API server.
func (b *benchmark) compare(ctx context.Context, report *bench.Report) error {
	if _, err := b.bare(ctx, min(50, b.Requests)); err != nil { // warms the API server
		return err
	}
	ways := []struct {
		name    string
		measure func(context.Context, int) (time.Duration, error)
		took    []time.Duration
	}{{name: "portal", measure: b.portal}, {name: "bare loop", measure: b.bare}}
	for round := range b.Rounds {
		for turn := range ways {
			way := &ways[(round+turn)%2]
			took, err := way.measure(ctx, b.Requests)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", way.name, round+1, err)
			}
			way.took = append(way.took, took)
			fmt.Fprintf(os.Stderr, "round %d: %s %s, load %s\n", round+1, way.name, took.Round(time.Millisecond), bench.LoadAverage())
		}
	}
	for _, way := range ways {
		median := bench.Quantile(way.took, 0.5).Seconds()
		report.Result(way.name, "%.0f RayClusters/s (median round %.2f s; rounds %v)", float64(b.Requests)/median, median, rounded(way.took))
	}
	ratios := make([]float64, b.Rounds) // within a round, for the machine's other work changes from one to the next
	for i := range ratios {
		ratios[i] = ways[1].took[i].Seconds() / ways[0].took[i].Seconds()
	}
	report.Result("ratio", "%.2f, median of the rounds' %.2f (goal: at least 0.8)", bench.Quantile(ratios, 0.5), ratios)
	return nil
}

func rounded(times []time.Duration) []time.Duration {
	out := make([]time.Duration, len(times))
	for i, t := range times {
		out[i] = t.Round(10 * time.Millisecond)
	}
	return out
}

// namespace makes the next run's namespace.
func (b *benchmark) namespace(ctx context.Context) (string, error) {
	b.runs++
	name := fmt.Sprintf("bench-%d", b.runs)
	return name, bench.MakeNamespace(ctx, b.config, name)
}
