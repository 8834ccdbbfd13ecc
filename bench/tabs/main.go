// Command tabs counts what open tabs cost the API server: requests with hundreds of event streams open on the portal, beside as
// long an interval without.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"k8s.io/client-go/kubernetes"

	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

// options is what a person can choose.
type options struct {
	Bin       string        `default:"bin" type:"path" help:"Folder with rayslice and the sandbox's programs."`
	Dir       string        `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string        `default:"bench/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string        `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for; the portal has the same built in."`
	Version   string        `required:"" help:"Version of the portal, for the report."`
	Tabs      int           `default:"500" help:"Tabs that are open, each with its event stream."`
	Interval  time.Duration `default:"60s" help:"How long is counted, with tabs and without."`
	Rounds    int           `default:"2" help:"How often both are counted, in turns."`
}

// Validate refuses what measures nothing.
func (o *options) Validate() error {
	if o.Tabs < 1 || o.Rounds < 1 || o.Interval < 10*time.Second {
		return errors.New("--tabs and --rounds must be at least 1, --interval at least 10s")
	}
	return nil
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Counts the API-server requests that open tabs cause."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-tabs:", err)
		os.Exit(1)
	}
}

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("API-server requests of open tabs", "kube-apiserver", "etcd", "Postgres", "portal", "tabs", "interval", "rounds")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	report.SetPrograms(o.Bin, "kube-apiserver", "etcd")
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", o.Version)
	report.Set("KubeRay operator", "paused: what is counted is the portal's, the controllers', the scheduler's and the machines'")
	report.Set("tabs", o.Tabs)
	report.Set("interval", o.Interval)
	report.Set("rounds", o.Rounds)
	t, err := prepare(ctx, o, sandbox)
	if err != nil {
		return err
	}
	defer t.portal.Stop()
	defer t.crowd.Close()
	if err := t.measure(ctx, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// prepare starts the portal, with people enough for the tabs, and holds what else talks to the API server a lot.
func prepare(ctx context.Context, o options, sandbox *bench.Sandbox) (*tabs, error) {
	url, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	config, err := k8s.LoadConfig(sandbox.Kubeconfig)
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"bench-tabs", "bench-tabs-team"} { // the portal's, and the team's
		if err := bench.MakeNamespace(ctx, config, name); err != nil {
			return nil, err
		}
	}
	if _, err := sandbox.Pause("kuberay-operator"); err != nil { // the sandbox ends it all the same
		return nil, err
	}
	roster := filepath.Join(o.Dir, "teams.yaml")
	if err := bench.WriteRoster(roster, o.Tabs, "bench-tabs-team"); err != nil {
		return nil, err
	}
	portal, err := bench.Serve(ctx, o.Bin, o.Dir, "--database-url", url, "--kubeconfig", sandbox.Kubeconfig, "--namespace", "bench-tabs",
		"--teams", roster, "--persona-sign-in", "--resync", "30s")
	if err != nil {
		return nil, err
	}
	t := &tabs{options: o, portal: portal, core: core}
	if t.crowd, err = bench.Gather(ctx, portal, url, o.Catalogue); err != nil {
		portal.Stop()
		return nil, err
	}
	return t, nil
}
