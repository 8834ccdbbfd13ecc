// Command proxy measures what the way through the portal to a cluster's dashboard costs: time per call, and memory while a
// long answer streams.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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
	Calls     int    `default:"3000" help:"Calls each way, in turns."`
	KiB       int    `name:"kib" default:"20" help:"Size of the answer to a call."`
	MiB       int    `name:"mib" default:"200" help:"Size of the answer that streams."`
	AsHead    bool   `hidden:"" help:"Be the head."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the way through the portal to a dashboard."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := run
	if o.AsHead {
		do = beHead
	}
	err := do(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-proxy:", err)
		os.Exit(1)
	}
}

// run measures with a Postgres and a head of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("The way through the portal to a dashboard", "Postgres", "portal", "fsync", "concurrency", "calls", "answer", "stream")
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
	report.Set("concurrency", 1)
	report.Set("calls", fmt.Sprintf("%d each way, in turns", o.Calls))
	report.Set("answer", fmt.Sprintf("%d KiB", o.KiB))
	report.Set("stream", fmt.Sprintf("%d MiB", o.MiB))
	head, err := startHead(ctx, o)
	if err != nil {
		return err
	}
	way, err := openWay(ctx, o, sandbox, head)
	if err != nil {
		return err
	}
	defer way.Close()
	if err := way.measureCalls(ctx, o, report); err != nil {
		return err
	}
	if err := way.measureStream(ctx, o, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}
