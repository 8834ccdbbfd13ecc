// Command api measures the list of the API, beside pgbench with the same SQL for the same rows.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rayslice/rayslice/bench"
)

// options is what a person can choose.
type options struct {
	Bin       string        `default:"bin" type:"path" help:"Folder with the sandbox's program."`
	Dir       string        `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Catalogue string        `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string        `required:"" help:"Version of the portal, for the report."`
	Clusters  int           `default:"200" help:"Clusters in the list."`
	Clients   int           `default:"64" help:"Clients at the same time, for both."`
	Pool      int           `default:"16" help:"Connections of the portal to Postgres; pgbench has one for each client."`
	Time      time.Duration `default:"8s" help:"How long each measurement takes."`
	Profile   string        `type:"path" help:"File for a CPU profile; look at it with go tool pprof."`
	Rounds    int           `default:"3" help:"Rounds; both take turns in going first."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the list of clusters over the API, beside pgbench with the same SQL."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-api:", err)
		os.Exit(1)
	}
}

// run measures on a Postgres of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("List of clusters over the API", "Postgres", "portal", "clusters", "clients", "connections", "time", "rounds", "answer bytes")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--only", "postgres")
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
	report.Set("clusters", o.Clusters)
	report.Set("clients", o.Clients)
	report.Set("connections", fmt.Sprintf("%d of the portal, %d of pgbench", o.Pool, o.Clients))
	report.Set("time", o.Time)
	report.Set("rounds", o.Rounds)
	portal, err := open(ctx, o, sandbox)
	if err != nil {
		return err
	}
	defer portal.Close()
	if err := compare(ctx, o, portal, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// compare lets the portal and pgbench take turns, and reports the ratio of their medians.
func compare(ctx context.Context, o options, p *portal, report *bench.Report) error {
	if _, err := p.list(p); err != nil { // the first time prepares statements, and notes the use of the token, once a minute
		return err
	}
	script, err := p.script(ctx, o)
	if err != nil {
		return err
	}
	report.Set("answer bytes", p.bytes)
	if o.Profile != "" {
		file, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var rates, bare, ratios, p99, cpu []float64
	for round := range o.Rounds {
		var rate, least, slowest float64
		ways := []func() error{
			func() (err error) { least, err = pgbench(ctx, o, p.address, script); return err },
			func() (err error) {
				begin := bench.ProcessMillis()
				rate, slowest, err = p.measure(ctx, o)
				cpu = append(cpu, (bench.ProcessMillis()-begin)/(rate*o.Time.Seconds()))
				return err
			},
		}
		for i := range ways {
			if err := ways[(i+round)%len(ways)](); err != nil {
				return err
			}
		}
		rates, bare, ratios, p99 = append(rates, rate), append(bare, least), append(ratios, rate/least), append(p99, slowest)
	}
	half := func(of []float64) float64 { return bench.Quantile(of, 0.5) }
	report.Result("pgbench, the same SQL", "%.0f/s (rounds %.0f)", half(bare), bare)
	report.Result("GET /api/v1/requests", "%.0f/s, %.2f of pgbench (goal: 0.3; rounds %.2f)", half(rates), half(ratios), ratios)
	report.Result("CPU of this process", "%.1f ms for each list, whatever else the machine does", half(cpu))
	report.Result("GET /api/v1/requests, p99", "%.0f ms (rounds %.0f)", half(p99), p99)
	return nil
}
