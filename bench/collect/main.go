// Command collect measures what reading the use of many clusters costs: CPU of the collector, and rows in the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rayslice/rayslice/bench"
)

// commandLine is what can be typed. The heads are a process of their own, so that their CPU does not count.
type commandLine struct {
	Measure measureCommand `cmd:"" default:"withargs" help:"Measure, and print the report."`
	Heads   headsCommand   `cmd:"" hidden:"" help:"Answer as the heads of all clusters until stdin ends."`
}

// measureCommand is what a person can choose.
type measureCommand struct {
	Bin       string        `default:"bin" type:"path" help:"Folder with the sandbox's program."`
	Dir       string        `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Catalogue string        `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string        `required:"" help:"Version of the portal, for the report."`
	Clusters  int           `default:"1000" help:"Clusters whose heads are asked; at most 60000."`
	Slices    int           `default:"5" help:"Workers of each, with one slice."`
	Every     time.Duration `default:"15s" help:"Time between two questions to a head."`
	Time      time.Duration `default:"60s" help:"How long to measure, after one round to warm up."`
	Profile   string        `type:"path" help:"File for a CPU profile; look at it with go tool pprof."`
}

// headsCommand says for how many clusters to answer.
type headsCommand struct{ Clusters, Slices int }

// Validate refuses more clusters than there are addresses.
func (m *measureCommand) Validate() error {
	if m.Clusters < 1 || m.Clusters > maxClusters || m.Slices < 1 || m.Slices > 200 {
		return errors.New("--clusters must be 1 to 60000 and --slices 1 to 200")
	}
	return nil
}

func main() {
	var line commandLine
	parsed := kong.Parse(&line, kong.Description("Measures what reading the use of many clusters costs."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if parsed.Command() == "heads" {
		err = line.Heads.run()
	} else {
		err = line.Measure.run(ctx)
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-collect:", err)
		os.Exit(1)
	}
}

// run measures on a Postgres of its own, and prints the report.
func (m *measureCommand) run(ctx context.Context) error {
	report := bench.NewReport("Reading the use of clusters", "Postgres", "portal", "fsync", "clusters", "slices", "every", "time", "answer bytes")
	sandbox, err := bench.Up(ctx, m.Bin, m.Dir, "--only", "postgres")
	defer sandbox.Down()
	if err != nil {
		return err
	}
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", m.Version)
	report.Set("fsync", "off")
	report.Set("clusters", m.Clusters)
	report.Set("slices", fmt.Sprintf("%d of each cluster", m.Slices))
	report.Set("every", m.Every)
	report.Set("time", m.Time)
	report.Set("answer bytes", len(answer(0, m.Slices)))
	if err := m.measure(ctx, sandbox, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}
