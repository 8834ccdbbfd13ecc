package k8s_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// roundTripper is a function as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through returns the config with f between the client and the API server.
func through(config *rest.Config, f func(next http.RoundTripper, r *http.Request) (*http.Response, error)) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return f(next, r) })
	})
	return wrapped
}

// aboutCluster reports whether the call is of the given method on a single RayCluster.
func aboutCluster(r *http.Request, method string) bool {
	return r.Method == method && strings.Contains(r.URL.Path, "/rayclusters/")
}

// aboutPolicy reports whether the call applies a NetworkPolicy whose name begins so.
func aboutPolicy(r *http.Request, prefix string) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/networkpolicies/"+prefix)
}

// lose sends the call and throws the answer away.
func lose(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil, errCut
}

// killed is a store whose process dies at one call: before is called ahead of each and may cut it off.
type killed struct {
	k8s.Store
	before func(call string) error
}

func (k killed) Move(ctx context.Context, actor rayslice.User, id string, from, to rayslice.State, reason rayslice.Reason, uid string) error {
	if err := k.before("move to " + string(to)); err != nil {
		return err
	}
	return k.Store.Move(ctx, actor, id, from, to, reason, uid)
}

func (k killed) SaveCluster(ctx context.Context, actor rayslice.User, cluster rayslice.Cluster) error {
	if err := k.before("save"); err != nil {
		return err
	}
	return k.Store.SaveCluster(ctx, actor, cluster)
}

// muteWatches swallows what watches say while muted, without closing them: a lying proxy.
func muteWatches(config *rest.Config, muted *atomic.Bool) *rest.Config {
	return through(config, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" {
			response.Body = &muteBody{ReadCloser: response.Body, muted: muted}
		}
		return response, err
	})
}

type muteBody struct {
	io.ReadCloser
	muted *atomic.Bool
}

// Read passes bytes on, or swallows them and goes on reading.
func (b *muteBody) Read(p []byte) (int, error) {
	for {
		n, err := b.ReadCloser.Read(p)
		if err != nil || !b.muted.Load() {
			return n, err
		}
	}
}

// gateway stands between clients and the API server and can be cut, with all its connections.
type gateway struct {
	target string
	mu     sync.Mutex
	down   bool
	open   map[net.Conn]bool
}

// newGateway returns a config that goes through a gateway.
func newGateway(w *world) (*gateway, *rest.Config) {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	target, err := url.Parse(w.config.Host)
	w.must(err)
	g := &gateway{target: target.Host, open: map[net.Conn]bool{}}
	w.Cleanup(func() { _ = listener.Close(); g.cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn)
		}
	}()
	config := rest.CopyConfig(w.config)
	config.Host = "https://" + listener.Addr().String()
	return g, config
}

func (g *gateway) pass(client net.Conn) {
	defer client.Close()
	if !g.hold(client) {
		return
	}
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !g.hold(server) {
		return
	}
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

// hold remembers a connection to cut it later; false when the gateway is down.
func (g *gateway) hold(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.down {
		g.open[conn] = true
	}
	return !g.down
}

// cut ends all connections and refuses new ones.
func (g *gateway) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = true
	for conn := range g.open {
		_ = conn.Close()
	}
	g.open = map[net.Conn]bool{}
}

func (g *gateway) restore() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = false
}
