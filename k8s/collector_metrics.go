package k8s

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
)

// collectorMetrics are what Prometheus sees of the collector.
type collectorMetrics struct {
	polls        prometheus.Counter
	failures     *prometheus.CounterVec
	bad          prometheus.Counter
	seconds      prometheus.Histogram
	unattributed prometheus.Gauge
}

func newCollectorMetrics(registry prometheus.Registerer, c *Collector) (collectorMetrics, error) {
	m := collectorMetrics{
		polls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rayslice_use_polls_total", Help: "Questions about the use of one cluster."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rayslice_use_failures_total", Help: "Questions that got no answer, by reason."}, []string{"reason"}),
		bad: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rayslice_bad_samples_total", Help: "Figures dropped because they cannot be."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rayslice_use_poll_seconds", Help: "Time until a question about use was answered or given up.", Buckets: buckets}),
		unattributed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rayslice_use_unattributed_series", Help: "Series about cards that name no pod, and so count for nobody."}),
	}
	var failed error
	for _, collector := range []prometheus.Collector{
		m.polls, m.failures, m.bad, m.seconds, m.unattributed,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rayslice_use_age_seconds", Help: "Time since use was last saved; 0 while no cluster is this replica's."}, c.age),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rayslice_use_clusters", Help: "Clusters whose use this replica asks for."}, c.clusters),
	} {
		failed = errors.Join(failed, registry.Register(collector))
	}
	return m, failed
}

func (c *Collector) age() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.schedule.entries) == 0 {
		return 0
	}
	return time.Since(c.saved).Seconds()
}

func (c *Collector) clusters() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(len(c.schedule.entries))
}

func (m collectorMetrics) asked(start time.Time, use rayslice.Use) {
	m.polls.Inc()
	m.bad.Add(float64(use.Dropped))
	m.seconds.Observe(time.Since(start).Seconds())
	if !use.Problem.IsZero() {
		m.failures.WithLabelValues(use.Problem.Code).Inc()
	}
}
