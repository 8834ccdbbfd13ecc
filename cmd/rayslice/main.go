// Command rayslice is the portal: it serves the pages and the API, and keeps approved clusters applied in Kubernetes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set at link time; a build without it reports the module's.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rayslice:", err)
		os.Exit(exitStatus(err))
	}
}

// run does what the arguments say until it is done or ctx ends; it is the whole program for tests.
func run(ctx context.Context, args []string) error {
	var line commandLine
	parser, err := newParser(&line)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return misuse(err)
	}
	switch parsed.Command() {
	case "serve":
		return serve(ctx, line.Config, newLogger(line.LogLevel))
	case "migrate up", "migrate down", "migrate version":
		return migrate(ctx, line.Config, parsed.Command())
	case "render":
		return render(os.Stdout, line.Config, line.Render)
	case "lint <file>":
		return lintFiles(ctx, os.Stdin, os.Stdout, os.Stderr, line.Config, line.Lint)
	case "verify <cluster>":
		return verify(ctx, os.Stdout, line.Config, line.Verify)
	case "demo":
		return demo(ctx, line.Config, line.Demo)
	}
	fmt.Println("rayslice", programVersion())
	return nil
}

// misuse makes a wrong call of lint an error with that command's own exit status.
func misuse(err error) error {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && strings.HasPrefix(parse.Context.Command(), "lint") {
		return lintFailure{err}
	}
	return err
}

// newLogger writes JSON lines to standard error; level is one of debug, info, warn, error.
func newLogger(level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo // kong's enum lets nothing else through
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: least}))
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
