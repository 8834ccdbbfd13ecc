// Command sse measures event streams: the memory that idle ones take, and how long an update takes to the last of many browsers,
// some of which never read.
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

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

const (
	namespace     = "bench-sse" // the portal's
	teamNamespace = "bench-sse-team"
)

// options is what a person can choose.
type options struct {
	Bin       string        `default:"bin" type:"path" help:"Folder with rayslice and the sandbox's programs."`
	Dir       string        `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string        `default:"bench/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string        `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for; the portal has the same built in."`
	Version   string        `required:"" help:"Version of the portal, for the report."`
	Browsers  int           `default:"1000" help:"Browsers that look at one cluster's page, each with its event stream."`
	Silent    int           `default:"20" help:"Percent of them that never read what they are sent."`
	Updates   int           `default:"40" help:"Readings of the cluster's use that all of them are told."`
	Every     time.Duration `default:"1s" help:"Time between two updates."`
	Rest      time.Duration `default:"30s" help:"How long memory is watched, without streams and with."`
}

// Validate refuses what measures nothing.
func (o *options) Validate() error {
	if o.Browsers < 1 || o.Silent < 0 || o.Silent > 99 || o.Updates < 1 || o.Updates > maxUpdates || o.Every < 500*time.Millisecond || o.Rest < 5*time.Second {
		return fmt.Errorf("--browsers must be at least 1, --silent 0 to 99, --updates 1 to %d, --every at least 500ms, --rest at least 5s", maxUpdates)
	}
	return nil
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures memory and delay of many event streams."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-sse:", err)
		os.Exit(1)
	}
}

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("Event streams of one cluster's page", "Postgres", "portal", "fsync", "browsers", "updates", "every", "rest", "page")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", o.Version)
	report.Set("fsync", "off")
	report.Set("browsers", fmt.Sprintf("%d, %d of which never read", o.Browsers, o.silent()))
	report.Set("updates", o.Updates)
	report.Set("every", o.Every)
	report.Set("rest", o.Rest)
	report.Set("page", "a ready cluster of 2 workers; events are what its bars need")
	m, err := prepare(ctx, o, sandbox)
	if err != nil {
		return err
	}
	defer m.portal.Stop()
	defer m.crowd.Close()
	if err := m.measure(ctx, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

func (o *options) silent() int { return o.Browsers * o.Silent / 100 }

// prepare starts the portal and waits for the cluster. The portal reads its use once an hour, so that the updates are ours alone.
func prepare(ctx context.Context, o options, sandbox *bench.Sandbox) (*measurement, error) {
	url, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	config, err := k8s.LoadConfig(sandbox.Kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{namespace, teamNamespace} {
		if err := bench.MakeNamespace(ctx, config, name); err != nil {
			return nil, err
		}
	}
	roster := filepath.Join(o.Dir, "teams.yaml")
	if err := bench.WriteRoster(roster, o.Browsers, teamNamespace); err != nil {
		return nil, err
	}
	portal, err := bench.Serve(ctx, o.Bin, o.Dir, "--database-url", url, "--kubeconfig", sandbox.Kubeconfig, "--namespace", namespace, "--teams", roster,
		"--persona-sign-in", "--no-verify", "--usage-every", "1h", "--usage-watched-every", "1h")
	if err != nil {
		return nil, err
	}
	m := &measurement{options: o, portal: portal}
	if m.crowd, err = bench.Gather(ctx, portal, url, o.Catalogue); err != nil {
		portal.Stop()
		return nil, err
	}
	err = bench.Until(ctx, 3*time.Minute, "the cluster is ready", func() (bool, error) {
		r, err := m.crowd.Store.Work(ctx, rayslice.System, m.crowd.Request.ID)
		return r.State == rayslice.StateReady, err
	})
	if err == nil {
		m.cluster, err = m.crowd.Store.Cluster(ctx, rayslice.System, m.crowd.Request.ID)
	}
	if err == nil && len(m.cluster.Workers) == 0 {
		err = errors.New("the ready cluster has no workers")
	}
	if err != nil {
		portal.Stop()
		m.crowd.Close()
		return nil, err
	}
	return m, nil
}
