package handlers

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// BenchmarkRequestPage measures the server time of a request's page, session and all, among 200 observed clusters on a
// real Postgres. The goal is 2 ms.
func BenchmarkRequestPage(b *testing.B) {
	p := open(b, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	storetest.Exec(b, `UPDATE quotas SET limit_gib = 1000000`)
	var ids []string
	for i := range 200 {
		draft := storetest.Draft(4, 8)
		draft.Name = fmt.Sprintf("cluster-%d", i)
		request := p.create(p.Ada, draft)
		ids = append(ids, request.ID)
		settle(b, p.store, request)
	}
	measure(b, p, "/clusters/"+ids[100])
}

// BenchmarkClusterList is the same for the list, 50 of the 200.
func BenchmarkClusterList(b *testing.B) {
	p := open(b, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	storetest.Exec(b, `UPDATE quotas SET limit_gib = 1000000`)
	for range 200 {
		settle(b, p.store, p.create(p.Ada, storetest.Draft(4, 8)))
	}
	measure(b, p, "/clusters")
}

func measure(b *testing.B, p *portal, path string) {
	ada := p.as(p.Ada)
	size := ada.get(path).want(http.StatusOK).Body.Len()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, "http://portal.example"+path, nil)
		r.Header = ada.header
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(size), "page-bytes")
}

// settle makes a request look like one that runs: four workers, a head and twenty events.
func settle(b *testing.B, s *store.Store, request rayslice.Request) {
	b.Helper()
	now := time.Now()
	worker := func(name string) rayslice.Worker {
		return rayslice.Worker{Name: name, UID: name, Group: "a10-8g", Phase: rayslice.PodRunning, Ready: true, Node: "gpu-node-1", IP: "10.0.0.1",
			Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Placements: []rayslice.Placement{{Card: 1, GiB: 8}}, CreatedAt: now}
	}
	head := worker(request.ObjectName() + "-head")
	head.Slice, head.Placements = rayslice.Slice{}, nil
	cluster := rayslice.Cluster{RequestID: request.ID, ObservedAt: now, Exists: true, Ours: true, UID: request.ID, CreatedAt: now, RayVersion: "2.52.0",
		Head: &head, HeadAnswers: true, Service: request.ObjectName() + "-head-svc." + request.Namespace + ".svc"}
	for i := range 4 {
		cluster.Workers = append(cluster.Workers, worker(fmt.Sprintf("%s-worker-%d", request.ObjectName(), i)))
	}
	for i := range 20 {
		cluster.Events = append(cluster.Events, rayslice.Event{At: now, Object: "Pod/" + cluster.Workers[i%4].Name, Reason: "Scheduled",
			Message: "Successfully assigned the pod to gpu-node-1", Count: 1})
	}
	if err := s.SaveCluster(b.Context(), rayslice.System, cluster); err != nil {
		b.Fatal(err)
	}
	for _, step := range [][2]rayslice.State{{rayslice.StateApproved, rayslice.StateProvisioning}, {rayslice.StateProvisioning, rayslice.StateReady}} {
		if err := s.Move(b.Context(), rayslice.System, request.ID, step[0], step[1], rayslice.Reason{}, request.ID); err != nil {
			b.Fatal(err)
		}
	}
}
