package handlers

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the HTTP side's own.
type metrics struct {
	requests *prometheus.HistogramVec
	streams  prometheus.Gauge
	dropped  prometheus.Counter
	handler  http.Handler
}

func newMetrics(registry *prometheus.Registry, counts countFunc) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rayslice_http_request_duration_seconds", Help: "Time to answer an HTTP request, event streams excepted.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"route", "method", "status"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "rayslice_event_streams", Help: "Event streams open now."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "rayslice_event_streams_dropped_total",
			Help: "Event streams ended because their reader was too slow."}),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.streams, m.dropped, newRequestMetrics(counts)} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// observe records one answer under its route, so that ids do not make series of their own.
func (m *metrics) observe(c echo.Context, took time.Duration) {
	if c.Response().Header().Get(echo.HeaderContentType) == eventStreamType {
		return
	}
	m.requests.WithLabelValues(routeOf(c), methodOf(c.Request()), strconv.Itoa(c.Response().Status)).Observe(took.Seconds())
}

func routeOf(c echo.Context) string {
	if c.Path() == "" {
		return "none"
	}
	return c.Path()
}

// methodOf keeps made-up methods from making series.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}
