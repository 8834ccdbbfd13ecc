package k8s

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A gate is shut while the API server is away. Whoever needs the server waits at it with the work in hand, so that
// work goes on in its order once the server answers again, instead of every request backing off by itself.
type gate struct {
	knock func(context.Context) error // asks whether the server answers

	mu   sync.Mutex
	open chan struct{} // closed = open
	why  string
}

func newGate(knock func(context.Context) error) *gate {
	g := &gate{knock: knock, open: make(chan struct{})}
	close(g.open)
	return g
}

// reason returns why the gate is shut; "" when it is open.
func (g *gate) reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// wait shuts the gate because of err, and returns when the server answers again or ctx ends.
func (g *gate) wait(ctx context.Context, err error) {
	select {
	case <-g.shut(ctx, err):
	case <-ctx.Done():
	}
}

// pass waits only when the gate is shut.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}

func (g *gate) shut(ctx context.Context, err error) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == "" {
		g.why, g.open = clean(err.Error()), make(chan struct{})
		go g.knockUntilOpen(ctx, g.open)
	}
	return g.open
}

func (g *gate) knockUntilOpen(ctx context.Context, open chan struct{}) {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 2 * time.Second}
	for ctx.Err() == nil {
		if g.knock(ctx) == nil {
			break
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = ""
	close(open)
}

// apiError marks an error as the API server's, not the store's.
type apiError struct{ error }

// Unwrap returns what the client said.
func (e *apiError) Unwrap() error { return e.error }

// away reports whether err says that the API server could not be reached or is overloaded, rather than that it refused.
func away(err error) bool {
	var netError net.Error
	var urlError *url.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return true
	}
	return errors.As(err, &urlError) || errors.As(err, &netError) || errors.Is(err, context.DeadlineExceeded)
}
