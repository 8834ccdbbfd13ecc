package notify

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	sent *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, pool *pgxpool.Pool) (*metrics, error) {
	m := &metrics{sent: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rayslice_notifications_total",
		Help: "Tries to send a notification, by channel (mail, webhook) and outcome: sent, failed (it is tried again), refused (it is not).",
	}, []string{"channel", "outcome"})}
	if registerer == nil {
		return m, nil
	}
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rayslice_notifications_waiting", Help: "News, mails and webhooks in the outbox that are not done with; NaN while the database is away.",
	}, func() float64 { return waiting(pool) })
	for _, c := range []prometheus.Collector{m.sent, queue} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// waiting counts what is in the outbox.
func waiting(pool *pgxpool.Pool) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var n float64
	err := pool.QueryRow(ctx, `
		SELECT
			count(*)
		FROM river_job
		WHERE state IN ('available', 'running', 'retryable', 'scheduled')
			AND kind IN ('news', 'mail', 'webhook')`).Scan(&n)
	if err != nil {
		return math.NaN()
	}
	return n
}
