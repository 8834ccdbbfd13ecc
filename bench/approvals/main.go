// Command approvals measures the server time of the approvals page among many requests, on a real Postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// options is what a person can choose.
type options struct {
	Bin       string `default:"bin" type:"path" help:"Folder with the sandbox's program."`
	Dir       string `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Server    string `help:"URL of a Postgres to measure on instead of a sandbox's; a database is made on it and kept."`
	Catalogue string `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string `required:"" help:"Version of the portal, for the report."`
	Requests  int    `default:"10000" help:"Requests in the database."`
	Waiting   int    `default:"2000" help:"How many of them wait for a decision."`
	Live      int    `default:"200" help:"How many of them run, with a cluster that was observed."`
	Teams     int    `default:"10" help:"Teams that the requests belong to."`
	People    int    `default:"200" help:"People who ask."`
	Profile   string `type:"path" help:"File for a CPU profile of the pages; look at it with go tool pprof."`
	Pages     int    `default:"500" help:"Pages of each kind measured one after another."`
}

// publicURL is where the portal believes it is.
const publicURL = "http://portal.example"

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the server time of the approvals page."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-approvals:", err)
		os.Exit(1)
	}
}

// run measures on a Postgres of its own, and prints the report.
func run(ctx context.Context, o options) error {
	if o.Waiting+o.Live > o.Requests {
		return errors.New("more requests wait and run than there are")
	}
	report := bench.NewReport("Server time of the approvals page", "Postgres", "portal", "fsync", "requests", "waiting", "running", "teams", "people", "concurrency", "pages")
	sandbox, fsync, err := server(ctx, o)
	if o.Server == "" {
		defer sandbox.Down()
	}
	if err != nil {
		return err
	}
	version, err := sandbox.PostgresVersion(ctx)
	if err != nil {
		return err
	}
	report.Set("Postgres", version)
	report.Set("portal", o.Version)
	report.Set("fsync", fsync)
	report.Set("requests", o.Requests)
	report.Set("waiting", o.Waiting)
	report.Set("running", o.Live)
	report.Set("teams", o.Teams)
	report.Set("people", o.People)
	report.Set("concurrency", 1)
	report.Set("pages", o.Pages)
	if err := pages(ctx, o, sandbox, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// server is the Postgres to measure on, and how it keeps data.
func server(ctx context.Context, o options) (*bench.Sandbox, string, error) {
	if o.Server != "" {
		return &bench.Sandbox{DatabaseURL: o.Server}, "as the server is set", nil
	}
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--only", "postgres")
	return sandbox, "off", err
}

// pages measures the pages as `rayslice serve` answers them: session and all, without the network.
func pages(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report) error {
	address, err := sandbox.Database(ctx)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	defer s.Close()
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return err
	}
	if err := fill(ctx, o, s, pool, catalogue); err != nil {
		return err
	}
	people, err := s.Personas(ctx, rayslice.System)
	if err != nil {
		return err
	}
	portal, err := handlers.New(handlers.Config{
		Store: s, Sessions: pool, Catalogue: catalogue, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Render: func(r rayslice.Request) (string, error) { return k8s.RenderYAML(r, catalogue) },
		Demo:   true, Version: o.Version, PublicURL: publicURL, BaseContext: ctx, Unlimited: true,
	})
	if err != nil {
		return err
	}
	defer portal.Close()
	stop, err := profile(o.Profile)
	if err != nil {
		return err
	}
	defer stop()
	for _, who := range people[:2] { // the admin and the lead of the first team, as fill seeds them
		if err := measureAs(portal, who, o.Pages, report); err != nil {
			return err
		}
	}
	return nil
}

// profile begins to write a CPU profile, unless the file has no name.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench-approvals:", err)
		}
	}, nil
}

// warm is how many pages are read first, to prepare statements and fill caches.
const warm = 20

// measureAs reads the pages of one person, one after another.
func measureAs(portal http.Handler, who rayslice.User, pages int, report *bench.Report) error {
	cookie, err := signIn(portal, who)
	if err != nil {
		return err
	}
	for _, path := range []string{"/approvals", "/approvals?decided=1", "/approvals?q=run-7", "/approvals?decided=1&q=run-7"} {
		var took []float64
		var cpu float64
		bytes := 0
		for i := range pages + warm {
			if i == warm {
				cpu = processMillis()
			}
			r := httptest.NewRequest(http.MethodGet, publicURL+path, nil)
			r.AddCookie(cookie)
			w := httptest.NewRecorder()
			begin := time.Now()
			portal.ServeHTTP(w, r)
			ms := float64(time.Since(begin).Microseconds()) / 1000
			if w.Code != http.StatusOK {
				return fmt.Errorf("%s answers %d: %s", path, w.Code, w.Body)
			}
			if i >= warm {
				took, bytes = append(took, ms), w.Body.Len()
			}
		}
		report.Result(who.Name+", "+path, "p50 %.2f ms, p95 %.2f ms (goal: 20), %.1f ms of CPU, %d bytes", bench.Quantile(took, 0.5), bench.Quantile(took, 0.95),
			(processMillis()-cpu)/float64(len(took)), bytes)
	}
	return nil
}

// processMillis returns the CPU time that this process has used, in milliseconds.
func processMillis() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0 // it fails for a wrong argument only
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}

// signIn begins a session and returns its cookie.
func signIn(portal http.Handler, who rayslice.User) (*http.Cookie, error) {
	form := url.Values{"user": {strconv.FormatInt(who.ID, 10)}}
	r := httptest.NewRequest(http.MethodPost, publicURL+"/signin", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", publicURL)
	w := httptest.NewRecorder()
	portal.ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) == 0 {
		return nil, errors.New("sign-in gave no cookie: " + w.Body.String())
	}
	return cookies[0], nil
}
