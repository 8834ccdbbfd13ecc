package main

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/notify"
	"github.com/rayslice/rayslice/store/storetest"
)

var (
	metricName = regexp.MustCompile(`fqName: "([^"]+)"`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(rayslice_[a-z_]+)` \\|")
)

// TestMetricsAreDocumented compares what the parts of the program register with the table in docs/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	s := storetest.New(t)
	registry := prometheus.NewRegistry()
	pool, err := pgxpool.New(t.Context(), storetest.AppURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := k8s.New(k8s.Config{Rest: &rest.Config{Host: "https://127.0.0.1:1"}, Store: s, NamespaceQuota: true, Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := notify.New(notify.Config{Pool: pool, Store: s, Text: noticeText, BaseURL: "http://portal.example", Logger: slog.New(slog.DiscardHandler), Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	server, err := handlers.New(handlers.Config{Store: s, Sessions: pool, Metrics: registry, Logger: slog.New(slog.DiscardHandler), PublicURL: "http://portal.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if diff := cmp.Diff(registered(registry), documented(t)); diff != "" {
		t.Errorf("docs/metrics.md names other metrics (-registered +documented):\n%s", diff)
	}
}

func registered(registry *prometheus.Registry) []string {
	descriptions := make(chan *prometheus.Desc)
	go func() { registry.Describe(descriptions); close(descriptions) }()
	var names []string
	for d := range descriptions {
		if m := metricName.FindStringSubmatch(d.String()); m != nil && strings.HasPrefix(m[1], "rayslice_") {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range metricRow.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	return names
}
