package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// publicURL is where the portal believes it is.
const publicURL = "http://portal.example"

// realPage measures the page as `rayslice serve` answers it: session, real renderer and all, without the network.
func realPage(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report) error {
	address, err := sandbox.Database(ctx)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	defer s.Close()
	sessions, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer sessions.Close()
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return err
	}
	asker, err := bench.Hire(ctx, s, "bench-page")
	if err != nil {
		return err
	}
	requests, err := running(ctx, s, asker, catalogue, o.Clusters)
	if err != nil {
		return err
	}
	server, err := handlers.New(handlers.Config{
		Store: s, Sessions: sessions, Catalogue: catalogue, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Render: func(r rayslice.Request) (string, error) { return k8s.RenderYAML(r, catalogue) },
		Demo:   true, Version: o.Version, PublicURL: publicURL, BaseContext: ctx, Unlimited: true,
	})
	if err != nil {
		return err
	}
	defer server.Close()
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
	return measure(server, asker, requests, o.Pages, report)
}

// measure reads pages of different requests, one after another.
func measure(server http.Handler, asker rayslice.User, requests []rayslice.Request, pages int, report *bench.Report) error {
	cookie, err := bench.SignIn(server, publicURL, asker)
	if err != nil {
		return err
	}
	var took []float64
	var cpu float64
	bytes := 0
	for i := range pages + len(requests) {
		r := httptest.NewRequest(http.MethodGet, publicURL+"/clusters/"+requests[i%len(requests)].ID, nil)
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		begin := time.Now()
		server.ServeHTTP(w, r)
		ms := float64(time.Since(begin).Microseconds()) / 1000
		if w.Code != http.StatusOK {
			return fmt.Errorf("page answers %d: %s", w.Code, w.Body)
		}
		if i < len(requests) {
			cpu = processMillis() // the first time prepares statements and fills caches
			continue
		}
		took, bytes = append(took, ms), w.Body.Len()
	}
	report.Set("page bytes", bytes)
	report.Result("CPU of this process", "%.2f ms for each page, whatever else the machine does", (processMillis()-cpu)/float64(pages))
	report.Result("request page, real renderer", "p50 %.2f ms, p95 %.2f ms (goal: 2)", bench.Quantile(took, 0.5), bench.Quantile(took, 0.95))
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

// running makes n requests that look as if they ran: four workers, a head and twenty events.
func running(ctx context.Context, s *store.Store, asker rayslice.User, catalogue rayslice.Catalogue, n int) ([]rayslice.Request, error) {
	draft, err := bench.Draft(catalogue, 4)
	if err != nil {
		return nil, err
	}
	requests, err := bench.Ask(ctx, s, asker, draft, n)
	if err != nil {
		return nil, err
	}
	return requests, bench.Parallel(ctx, n, 4, func(ctx context.Context, i int) error {
		id := requests[i].ID
		return errors.Join(
			s.SaveCluster(ctx, rayslice.System, observed(requests[i])),
			s.Move(ctx, rayslice.System, id, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, id),
			s.Move(ctx, rayslice.System, id, rayslice.StateProvisioning, rayslice.StateReady, rayslice.Reason{}, id))
	})
}

func observed(request rayslice.Request) rayslice.Cluster {
	now, name := time.Now(), request.ObjectName()
	head := rayslice.Worker{Name: name + "-head", UID: name + "-head", Group: "headgroup", Phase: rayslice.PodRunning, Ready: true,
		Node: "cn-hangzhou.10.200.30.1", IP: "10.0.0.1", CreatedAt: now}
	cluster := rayslice.Cluster{RequestID: request.ID, ObservedAt: now, Exists: true, Ours: true, UID: request.ID, CreatedAt: now,
		RayVersion: request.Draft.RayVersion, Head: &head, HeadAnswers: true, Service: name + "-head-svc." + request.Namespace + ".svc"}
	group := request.Draft.Groups[0]
	for i := range group.Workers {
		worker := head
		worker.Name = fmt.Sprintf("%s-worker-%d", name, i)
		worker.UID, worker.Group, worker.Node = worker.Name, group.Name, "cn-hangzhou.10.200.12.1"
		worker.Slice, worker.Placements = group.Slice, []rayslice.Placement{{Card: i, GiB: group.GiB}}
		cluster.Workers = append(cluster.Workers, worker)
	}
	for i := range 20 {
		cluster.Events = append(cluster.Events, rayslice.Event{At: now, Object: "Pod/" + cluster.Workers[i%len(cluster.Workers)].Name,
			Reason: "Scheduled", Message: "Successfully assigned the pod to cn-hangzhou.10.200.12.1", Count: 1})
	}
	return cluster
}
