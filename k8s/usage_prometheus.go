package k8s

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/rayslice/rayslice"
)

// PrometheusConfig says where use is read instead of from Ray heads.
type PrometheusConfig struct {
	URL   string      // of the server, with user and password where it wants them
	Names SeriesNames // what the exporter calls things
}

// Bounds of a question to Prometheus.
const (
	// useWindow is how long the last value of a pod counts. It spans several scrapes, so that a label that goes from pod to
	// pod (NVIDIA/dcgm-exporter#340) makes no pod come and go.
	useWindow        = 2 * time.Minute
	prometheusTime   = 10 * time.Second
	prometheusAnswer = 64 << 20
)

// prometheusUsage asks a Prometheus server about all clusters at once, and answers for each from that.
type prometheusUsage struct {
	api          promv1.API
	names        SeriesNames
	unattributed prometheus.Gauge

	mu     sync.Mutex // held while asking: everybody wants the same answer
	last   snapshot
	failed error // instead of last
	asked  time.Time
}

func newPrometheusUsage(cfg PrometheusConfig, unattributed prometheus.Gauge) (*prometheusUsage, error) {
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("names of series: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client, err := api.NewClient(api.Config{Address: cfg.URL, RoundTripper: bounded{transport, prometheusAnswer}})
	if err != nil {
		return nil, err
	}
	return &prometheusUsage{api: promv1.NewAPI(client), names: cfg.Names, unattributed: unattributed}, nil
}

// bounded is a way to a server that may not send more than so many bytes.
type bounded struct {
	http.RoundTripper
	limit int64
}

// RoundTrip sends the request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, b.limit)
	}
	return response, err
}

func (p *prometheusUsage) kind() rayslice.UseSource { return rayslice.UseFromPrometheus }

func (p *prometheusUsage) read(ctx context.Context, of subject, maxAge time.Duration) (finding, error) {
	now, err := p.current(ctx, maxAge)
	if err != nil {
		return finding{}, err
	}
	var found finding
	for _, w := range of.Workers {
		cards := now.cards[podName{of.Namespace, w.Name}]
		found.add(of, rayslice.UseFromPrometheus, w, cards, now.taken)
		for _, c := range cards {
			if c.at.After(found.at) {
				found.at = c.at
			}
		}
	}
	if found.at.IsZero() {
		return finding{}, &useError{Reason: rayslice.Reason{Code: ReasonUseNoSeries}, Err: errors.New("no series of the cluster's pods")}
	}
	return found, nil
}

// current returns what Prometheus said at most maxAge ago; that it did not answer counts as long.
func (p *prometheusUsage) current(ctx context.Context, maxAge time.Duration) (snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.IsZero() && time.Since(p.asked) < maxAge-maxAge/10 {
		return p.last, p.failed
	}
	now := time.Now()
	p.last, p.failed = p.ask(ctx, now)
	switch {
	case ctx.Err() != nil: // nobody has asked to the end
	case p.failed != nil:
		p.asked = time.Now() // who has waited meanwhile does not ask again
	default:
		p.asked = now
	}
	return p.last, p.failed
}

// ask asks one question per series.
func (p *prometheusUsage) ask(ctx context.Context, now time.Time) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, prometheusTime)
	defer cancel()
	builder := newSnapshotBuilder(p.names, now)
	for _, figure := range builder.figures {
		for _, series := range figure.series {
			matrix, err := p.query(ctx, series.Name, now)
			if err != nil {
				return snapshot{}, err
			}
			builder.add(figure, series, matrix)
		}
	}
	p.unattributed.Set(float64(builder.unattributed))
	return builder.build(), nil
}

// query asks for the last values with their times: of an instant vector Prometheus tells only when it was asked.
func (p *prometheusUsage) query(ctx context.Context, name string, now time.Time) (model.Matrix, error) {
	value, _, _, err := p.api.Query(ctx, fmt.Sprintf("%s[%ds]", name, int(useWindow.Seconds())), now)
	var refused *promv1.Error
	switch {
	case errors.As(err, &refused):
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseSourceRefused, Detail: clean(refused.Msg)}, Err: err}
	case err != nil:
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseSourceSilent}, Err: err}
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, unreadable(fmt.Errorf("prometheus answers with a %s", value.Type()))
	}
	return matrix, nil
}
