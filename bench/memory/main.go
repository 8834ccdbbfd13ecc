// Command memory measures how much memory the portal needs with many RayClusters and pods cached.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

// options is what a person can choose.
type options struct {
	Bin       string `default:"bin" type:"path" help:"Folder with rayslice and the sandbox's programs."`
	Dir       string `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string `default:"bench/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for; the portal has the same built in."`
	Version   string `required:"" help:"Version of the portal, for the report."`
	Clusters  int    `default:"2000" help:"RayClusters."`
	Pods      int    `default:"6000" help:"Pods, spread evenly; at least one per RayCluster."`
	Width     int    `default:"16" help:"Objects made at the same time."`
}

// Validate refuses clusters without a head.
func (o *options) Validate() error {
	if o.Clusters < 1 || o.Pods < o.Clusters {
		return errors.New("--pods must be at least --clusters, and that at least 1: each cluster has a head")
	}
	return nil
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the portal's memory."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-memory:", err)
		os.Exit(1)
	}
}

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("Memory of the portal", "kube-apiserver", "etcd", "kuberay-operator", "Postgres", "portal",
		"RayClusters", "pods", "object bytes", "QPS", "burst", "GOGC", "GOMEMLIMIT")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	resume, err := sandbox.Pause("kuberay-operator") // it would make pods of its own
	if err != nil {
		return err
	}
	defer resume()
	url, err := sandbox.Database(ctx)
	if err != nil {
		return err
	}
	config, err := k8s.LoadConfig(sandbox.Kubeconfig)
	if err != nil {
		return err
	}
	b := &benchmark{options: o, sandbox: sandbox, config: config, database: url}
	if err := b.describe(ctx, report); err != nil {
		return err
	}
	if err := b.fill(ctx, report); err != nil {
		return err
	}
	if err := b.measure(ctx, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

type benchmark struct {
	options
	sandbox  *bench.Sandbox
	config   *rest.Config
	database string // URL
	requests []rayslice.Request
}

// namespace is where all the clusters are.
const namespace = "bench-memory"

// describe says what the numbers are measured on. The portal runs with its defaults.
func (b *benchmark) describe(ctx context.Context, report *bench.Report) error {
	report.SetPrograms(b.Bin, "kube-apiserver", "etcd", "kuberay-operator")
	version, err := b.sandbox.PostgresVersion(ctx)
	report.Set("Postgres", version)
	report.Set("portal", b.Version)
	report.Set("KubeRay operator", "paused")
	report.Set("pods' phase", "Pending, no node")
	report.Set("RayClusters", b.Clusters)
	report.Set("pods", b.Pods)
	report.Set("QPS", "200, the portal's default")
	report.Set("burst", "400, the portal's default")
	report.Set("GOGC", cmp.Or(os.Getenv("GOGC"), "40, the portal's default"))
	report.Set("GOMEMLIMIT", orDefault(os.Getenv("GOMEMLIMIT")))
	return err
}

func orDefault(value string) string {
	if value == "" {
		return "Go's default"
	}
	return value
}
