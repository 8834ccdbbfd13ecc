package k8s

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
)

// metrics are what Prometheus sees of the Kubernetes side.
type metrics struct {
	reconcile prometheus.Histogram
	apply     prometheus.Histogram
	errors    prometheus.Counter
	verify    verifyMetrics
}

// verifyMetrics count verifications.
type verifyMetrics struct {
	seconds  prometheus.Histogram
	verdicts *prometheus.CounterVec
}

func newVerifyMetrics() verifyMetrics {
	return verifyMetrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rayslice_verification_seconds", Help: "Time from the begin of a verification to its certificates.", Buckets: []float64{1, 2, 5, 10, 15, 30, 60, 120, 300}}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rayslice_certificates_total", Help: "Certificates of workers, by verdict and pool."}, []string{"verdict", "pool"}),
	}
}

func (m verifyMetrics) ended(took time.Duration, certificates []rayslice.Certificate) {
	m.seconds.Observe(took.Seconds())
	for _, c := range certificates {
		m.verdicts.WithLabelValues(string(c.Judgement.Enforcement), c.Target.Slice.Pool).Inc()
	}
}

var buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(registry prometheus.Registerer, c *Controller) (metrics, error) {
	m := metrics{
		reconcile: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rayslice_reconcile_seconds", Help: "Time of one look at one request.", Buckets: buckets}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rayslice_apply_seconds", Help: "Time until the API server answered an apply of a RayCluster.", Buckets: buckets}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rayslice_reconcile_errors_total", Help: "Looks that failed and are tried again."}),
		verify: newVerifyMetrics(),
	}
	all := append(m.gauges(c), m.reconcile, m.apply, m.errors, m.verify.seconds, m.verify.verdicts)
	var failed error
	for _, collector := range all {
		failed = errors.Join(failed, registry.Register(collector))
	}
	return m, failed
}

func (m metrics) gauges(c *Controller) []prometheus.Collector {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rayslice_reconcile_queue_depth", Help: "Requests waiting to be looked at."}, c.queueDepth),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rayslice_leader", Help: "1 when this replica is the one that acts."}, c.leads),
	}
	for _, p := range slices.Concat(c.caches.pulses, c.caches.spare) {
		labels := prometheus.Labels{"watch": p.name}
		all = append(all,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "rayslice_watch_age_seconds", Help: "Time since the watch last showed life.", ConstLabels: labels},
				func() float64 { return p.age(time.Now(), c.started).Seconds() }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "rayslice_watch_silent_total", Help: "Times a silent watch was listed anew.", ConstLabels: labels},
				func() float64 { return float64(p.relists.Load()) }))
	}
	return all
}

func (c *Controller) queueDepth() float64 {
	if q := c.queue.Load(); q != nil {
		return float64((*q).Len())
	}
	return 0
}

func (c *Controller) leads() float64 {
	if c.queue.Load() != nil {
		return 1
	}
	return 0
}

func (m metrics) reconciled(start time.Time, err error) {
	m.reconcile.Observe(time.Since(start).Seconds())
	if err != nil && !errors.Is(err, context.Canceled) && rayslice.KindOf(err) != rayslice.KindConflict {
		m.errors.Inc()
	}
}

func (m metrics) timeApply(start time.Time) { m.apply.Observe(time.Since(start).Seconds()) }
