// Command page measures the server time of a request's page among many clusters, on a real Postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/rayslice/rayslice/bench"
)

// options is what a person can choose.
type options struct {
	Bin       string `default:"bin" type:"path" help:"Folder with the sandbox's program."`
	Dir       string `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Catalogue string `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string `required:"" help:"Version of the portal, for the report."`
	Clusters  int    `default:"200" help:"Clusters in the database, for the page with the real renderer."`
	Pages     int    `default:"2000" help:"Pages measured one after another, with the real renderer."`
	Profile   string `type:"path" help:"File for a CPU profile of the pages with the real renderer; look at it with go tool pprof."`
	Benchtime string `default:"3s" help:"How long each of the handlers' benchmarks runs, as go test takes it."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the server time of a request's page."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-page:", err)
		os.Exit(1)
	}
}

// run measures on a Postgres of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("Server time of pages", "Postgres", "portal", "fsync", "clusters", "concurrency", "pages", "benchtime", "page bytes")
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
	report.Set("fsync", "off")
	report.Set("clusters", o.Clusters)
	report.Set("concurrency", 1)
	report.Set("pages", o.Pages)
	report.Set("benchtime", o.Benchtime)
	if err := realPage(ctx, o, sandbox, report); err != nil {
		return err
	}
	if err := handlersBenchmarks(ctx, o, sandbox, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\w+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// handlersBenchmarks runs the benchmarks beside the handlers, whose renderer is a short text.
func handlersBenchmarks(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report) error {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(RequestPage|ClusterList)$", "-benchtime", o.Benchtime, "./handlers")
	command.Env = append(os.Environ(), "TEST_DATABASE_URL="+sandbox.DatabaseURL, "CI=true")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	lines := benchmarkLine.FindAllStringSubmatch(string(out), -1)
	if len(lines) == 0 {
		return errors.New("go test ran no benchmark: " + string(out))
	}
	for _, line := range lines {
		ns, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return err
		}
		report.Result("handlers.Benchmark"+line[1], "%.2f ms on average, 200 clusters", ns/1e6)
	}
	return nil
}
