package handlers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
)

// countLimit bounds the look into the database for one scrape.
const countLimit = 2 * time.Second

// countFunc is store.Store.Counts.
type countFunc func(ctx context.Context, actor rayslice.User) (map[rayslice.State]int, time.Time, error)

// requestMetrics are read from the database at each scrape. While it is away they are absent: unknown is not zero.
type requestMetrics struct {
	counts                  countFunc
	states, waiting, oldest *prometheus.Desc
}

func newRequestMetrics(counts countFunc) *requestMetrics {
	return &requestMetrics{
		counts:  counts,
		states:  prometheus.NewDesc("rayslice_requests", "Requests by state.", []string{"state"}, nil),
		waiting: prometheus.NewDesc("rayslice_approvals_waiting", "Requests that wait for a decision.", nil, nil),
		oldest:  prometheus.NewDesc("rayslice_approvals_oldest_seconds", "How long the oldest of them has waited; 0 when none does.", nil, nil),
	}
}

// Describe names the metrics.
func (m *requestMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.states
	out <- m.waiting
	out <- m.oldest
}

// Collect reads them.
func (m *requestMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countLimit)
	defer cancel()
	states, oldest, err := m.counts(ctx, rayslice.System)
	if err != nil {
		return
	}
	for _, state := range rayslice.States() {
		out <- prometheus.MustNewConstMetric(m.states, prometheus.GaugeValue, float64(states[state]), string(state))
	}
	age := 0.0
	if !oldest.IsZero() {
		age = max(0, time.Since(oldest).Seconds())
	}
	out <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(states[rayslice.StatePending]))
	out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, age)
}
