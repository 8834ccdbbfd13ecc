package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
)

// measure lets one collector read all clusters, and reports what that costs.
func (m *measureCommand) measure(ctx context.Context, sandbox *bench.Sandbox, report *bench.Report) error {
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
	catalogue, err := bench.Catalogue(m.Catalogue)
	if err != nil {
		return err
	}
	running, err := m.fill(ctx, s, catalogue)
	if err != nil {
		return err
	}
	stopHeads, err := startHeads(ctx, m.Clusters, m.Slices)
	if err != nil {
		return err
	}
	defer stopHeads()
	registry := prometheus.NewRegistry()
	collector, err := k8s.NewCollector(k8s.CollectorConfig{
		Store: s, Heads: k8s.DirectHeads(slog.Default()), Catalogue: catalogue, Every: m.Every, Watched: m.Every, Registerer: registry,
		Running: func(of rayslice.UseTarget) k8s.Running { return running[of.RequestID] },
	})
	if err != nil {
		return err
	}
	return m.watch(ctx, collector, registry, pool, report)
}

// fill makes the clusters ready, and returns what runs of each.
func (m *measureCommand) fill(ctx context.Context, s *store.Store, catalogue rayslice.Catalogue) (map[string]k8s.Running, error) {
	asker, err := bench.Hire(ctx, s, "bench-collect")
	if err != nil {
		return nil, err
	}
	draft, err := bench.Draft(catalogue, m.Slices)
	if err != nil {
		return nil, err
	}
	requests, err := bench.Ask(ctx, s, asker, draft, m.Clusters)
	if err != nil {
		return nil, err
	}
	err = bench.Parallel(ctx, len(requests), 4, func(ctx context.Context, i int) error {
		id := requests[i].ID
		if err := s.Move(ctx, rayslice.System, id, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, "uid-"+id); err != nil {
			return err
		}
		return s.Move(ctx, rayslice.System, id, rayslice.StateProvisioning, rayslice.StateReady, rayslice.Reason{}, "uid-"+id)
	})
	running := make(map[string]k8s.Running, len(requests))
	for i, request := range requests {
		r := k8s.Running{Known: true, Head: &rayslice.Worker{Name: "head", UID: "head-" + request.ID, IP: headIP(i), Phase: rayslice.PodRunning}}
		for slice := range m.Slices {
			name := request.ObjectName() + "-worker-" + strconv.Itoa(slice)
			r.Workers = append(r.Workers, rayslice.Worker{Name: name, UID: "uid-" + name, IP: workerIP(i, slice), Node: "gpu-1", Phase: rayslice.PodRunning, Slice: draft.Groups[0].Slice})
		}
		running[request.ID] = r
	}
	return running, err
}

// reading is how far everything has come at one moment.
type reading struct {
	at           time.Time
	cpuMillis    float64
	rows         int
	polls, fails float64
}

// watch runs the collector, and measures from the end of its first round on.
func (m *measureCommand) watch(ctx context.Context, collector *k8s.Collector, registry *prometheus.Registry, pool *pgxpool.Pool, report *bench.Report) error {
	collecting, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = collector.Run(collecting) // until it is stopped
	}()
	defer func() {
		stop()
		<-done
	}()
	if err := pause(ctx, m.Every+5*time.Second); err != nil {
		return err
	}
	if m.Profile != "" {
		file, err := os.Create(m.Profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	before, err := look(ctx, registry, pool)
	if err != nil {
		return err
	}
	if err := pause(ctx, m.Time); err != nil {
		return err
	}
	after, err := look(ctx, registry, pool)
	if err != nil {
		return err
	}
	return m.tell(before, after, report)
}

func (m *measureCommand) tell(before, after reading, report *bench.Report) error {
	seconds := after.at.Sub(before.at).Seconds()
	polls := (after.polls - before.polls) / seconds
	if want := float64(m.Clusters) / m.Every.Seconds(); polls < want*.95 || after.fails > before.fails {
		return fmt.Errorf("%.1f questions per second of %.1f, %.0f without an answer: the machine is too busy to measure", polls, want, after.fails-before.fails)
	}
	report.Result("CPU of the collector", "%.1f %% of one core (goal: at most 10 %%)", (after.cpuMillis-before.cpuMillis)/seconds/10)
	report.Result("questions", "%.1f/s, all answered", polls)
	report.Result("rows of history", "%.0f/s", float64(after.rows-before.rows)/seconds)
	return nil
}

func look(ctx context.Context, registry *prometheus.Registry, pool *pgxpool.Pool) (r reading, err error) {
	r.at, r.cpuMillis = time.Now(), bench.ProcessMillis()
	families, err := registry.Gather()
	if err != nil {
		return r, err
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			switch family.GetName() {
			case "rayslice_use_polls_total":
				r.polls += metric.GetCounter().GetValue()
			case "rayslice_use_failures_total":
				r.fails += metric.GetCounter().GetValue()
			}
		}
	}
	return r, pool.QueryRow(ctx, `SELECT count(*) FROM use_raw`).Scan(&r.rows)
}

// pause waits, as a benchmark has to.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
