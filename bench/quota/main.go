// Command quota measures how many requests per second a team's quota takes, beside the least that Postgres must do for
// it: one conditional UPDATE and two INSERTs in a transaction, by pgbench.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
)

// options is what a person can choose.
type options struct {
	Bin       string        `default:"bin" type:"path" help:"Folder with the sandbox's program."`
	Dir       string        `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Catalogue string        `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string        `required:"" help:"Version of the portal, for the report."`
	Clients   int           `default:"64" help:"Clients at the same time, for both."`
	Pool      int           `default:"16" help:"Connections of the portal to Postgres; pgbench has one for each client."`
	Teams     int           `default:"50" help:"Teams of the measurement with many."`
	Time      time.Duration `default:"8s" help:"How long each measurement takes."`
	Rounds    int           `default:"3" help:"Rounds; both take turns in going first."`
	Fsync     bool          `default:"true" negatable:"" help:"Let Postgres wait for its disk, as in production."`
	Variants  bool          `help:"Measure other ways to guard a quota as well: SELECT FOR UPDATE, advisory lock, SERIALIZABLE."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures accepted requests per second on a team's quota."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-quota:", err)
		os.Exit(1)
	}
}

// run measures on a Postgres of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("Accepted requests per second on a team's quota",
		"Postgres", "pgbench", "portal", "fsync", "clients", "connections", "time", "rounds")
	flags := []string{"--only", "postgres"}
	if o.Fsync {
		flags = append(flags, bench.WithFsync)
	}
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, flags...)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("pgbench", pgbenchVersion(ctx))
	report.Set("portal", o.Version)
	report.Set("fsync", map[bool]string{true: "on", false: "off"}[o.Fsync])
	report.Set("clients", o.Clients)
	report.Set("connections", fmt.Sprintf("%d of the portal, %d of pgbench", o.Pool, o.Clients))
	report.Set("time", o.Time)
	report.Set("rounds", o.Rounds)
	for _, teams := range []int{1, o.Teams} {
		if err := compare(ctx, o, sandbox, report, teams); err != nil {
			return err
		}
	}
	if err := exhaust(ctx, o, sandbox, report); err != nil {
		return err
	}
	if o.Variants {
		if err := variants(ctx, o, sandbox, report); err != nil {
			return err
		}
	}
	return report.Print(os.Stdout)
}

// compare lets the portal and pgbench take turns, and reports the ratio of their medians.
func compare(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report, teams int) error {
	portal, err := newPortal(ctx, o, sandbox, teams, rayslice.MaxLimit)
	if err != nil {
		return err
	}
	defer portal.Close()
	bare, err := newBare(ctx, sandbox, teams)
	if err != nil {
		return err
	}
	var store, api, least, storeRatio, apiRatio []float64
	for round := range o.Rounds {
		var s, a, l float64
		ways := []func() error{
			func() (err error) { l, err = bare.run(ctx, o, scriptUpdate); return err },
			func() (err error) { s, err = portal.run(ctx, o, portal.create); return err },
			func() (err error) { a, err = portal.run(ctx, o, portal.post); return err },
		}
		for i := range ways {
			if err := ways[(i+round)%len(ways)](); err != nil {
				return err
			}
		}
		store, api, least = append(store, s), append(api, a), append(least, l)
		storeRatio, apiRatio = append(storeRatio, s/l), append(apiRatio, a/l)
	}
	name, goal := fmt.Sprintf("%d teams", teams), 0.5
	if teams == 1 {
		name, goal = "one hot team", 0.6
	}
	half := func(of []float64) float64 { return bench.Quantile(of, 0.5) }
	report.Result(name+", pgbench", "%.0f/s", half(least))
	report.Result(name+", store.CreateRequest", "%.0f/s, %.2f of pgbench (goal: %.1f; rounds %.2f)", half(store), half(storeRatio), goal, storeRatio)
	report.Result(name+", POST /api/v1/requests", "%.0f/s, %.2f of pgbench (rounds %.2f)", half(api), half(apiRatio), apiRatio)
	return portal.check(ctx)
}
