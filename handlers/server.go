// Package handlers answers HTTP: pages for people, JSON for programs, and the event streams that keep pages fresh. It
// talks to the store and never to Kubernetes, so a page renders while the API server is away.
package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

// Config is what a Server needs. Every field without "optional" must be set.
type Config struct {
	Store          *store.Store
	Sessions       *pgxpool.Pool                          // for sign-in sessions; a small pool of its own, so that slow pages cannot lock people out
	Catalogue      rayslice.Catalogue                     // what may be asked for
	Render         func(rayslice.Request) (string, error) // request → RayCluster as YAML; pure
	Lint           Linter                                 // looks at YAML that people bring
	Health         func() Health                          // optional: what the cluster side says about itself
	Metrics        *prometheus.Registry                   // served at /metrics
	Logger         *slog.Logger
	Demo           bool  // personas to choose from, without any proof
	OIDC           *OIDC // optional: the identity provider people sign in with
	Version        string
	PublicURL      string          // where people reach the portal, e.g. "https://rayslice.example"; https makes cookies Secure
	TrustedProxies []netip.Prefix  // optional: networks whose X-Forwarded-For is believed
	CORSOrigins    []string        // optional: origins whose pages may use the API with a token, "https://notebooks.example"
	BaseContext    context.Context // optional: when it ends, so do the event streams

	ClustersDomain string                       // optional: below it every cluster has a host of its own, e.g. "clusters.example"
	Dashboard      func(Head) http.RoundTripper // with ClustersDomain: the way to the dashboard of one head, which goes nowhere else

	Reserved     []string               // namespaces that no team may have, beside Kubernetes' own: the portal's, KubeRay's
	Unlimited    bool                   // nobody is held to a share; for measurements
	Mail         bool                   // there is a mail server for notifications
	CheckWebhook func(url string) error // optional: refuses addresses that notifications may not go to, as an invalid field "webhook_url"
}

// Health is what the cluster side says about itself. The zero Health means: nothing read yet.
type Health struct {
	Synced    bool          // the caches have been filled once
	WatchAge  time.Duration // since the watches last said anything, or since the start
	Leader    bool          // this replica reconciles
	LastError string        // for the log and admins
}

// Server is the portal's HTTP side. Close it before the http.Server is shut down: Shutdown waits for open event
// streams and does not end them (golang/go#41344).
type Server struct {
	config       Config
	public       *url.URL
	echo         *echo.Echo
	clusters     *clusterHosts // nil = clusters have no hosts
	clusterEcho  *echo.Echo    // answers on them
	passes       *passes
	heads        *heads
	proxying     proxying
	sessions     *scs.SessionManager
	crossOrigin  *http.CrossOriginProtection
	sessionStore sessionStore
	provider     *provider // nil = nobody signs in with one
	limits       limits
	streams      *hub
	turns        turns
	exporting    exporting
	looks        chan struct{} // one for each text of somebody's that is looked at
	metrics      *metrics
	timing       timing
	seen         capacity
	watched      watched
	shared       sharedDrawings
	now          func() time.Time

	context   context.Context // ends with Close
	cancel    context.CancelFunc
	listening sync.WaitGroup
}

// New returns a server that has begun to listen for changes. It fails when PublicURL is no http(s) URL or the metrics
// are registered already.
func New(config Config) (*Server, error) {
	public, err := url.Parse(config.PublicURL)
	if err != nil || public.Host == "" || (public.Scheme != "http" && public.Scheme != "https") {
		return nil, fmt.Errorf("public URL %q: want http://host or https://host", config.PublicURL)
	}
	if config.BaseContext == nil {
		config.BaseContext = context.Background()
	}
	if config.Health == nil {
		config.Health = func() Health { return Health{} }
	}
	s := &Server{config: config, public: public, timing: defaultTiming(), limits: defaultLimits(), turns: newTurns(),
		exporting: exporting{by: map[int64]bool{}}, looks: make(chan struct{}, maxLooks), now: time.Now, watched: watched{said: map[string]time.Time{}}, shared: sharedDrawings{drawn: map[sharedKey]*drawing{}}, crossOrigin: http.NewCrossOriginProtection()}
	if err := s.crossOrigin.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, fmt.Errorf("public URL %q: %w", config.PublicURL, err)
	}
	if s.metrics, err = newMetrics(config.Metrics, config.Store.Counts); err != nil {
		return nil, err
	}
	if config.Unlimited {
		s.limits = noLimits()
	}
	s.sessionStore = sessionStore{config.Sessions}
	s.sessions = newSessions(s.sessionStore, public.Scheme == "https")
	if config.OIDC != nil {
		s.provider = newProvider(*config.OIDC, public.Scheme+"://"+public.Host+callbackPath)
	}
	s.streams = newHub(s.metrics)
	s.context, s.cancel = context.WithCancel(config.BaseContext)
	if s.clusters, err = newClusterHosts(public, config.ClustersDomain); err != nil {
		return nil, err
	}
	s.passes, s.heads, s.proxying = newPasses(s.now), newHeads(config.Dashboard), proxying{by: map[int64]int{}}
	s.echo, s.clusterEcho = s.routes(), s.clusterRoutes()
	s.listening.Go(s.listen)
	return s, nil
}

// ServeHTTP answers one HTTP request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, below := s.clusters.label(r.Host); below {
		s.clusterEcho.ServeHTTP(w, r)
		return
	}
	s.echo.ServeHTTP(w, r)
}

// Close ends every event stream and stops listening for changes. Other requests are still answered.
func (s *Server) Close() {
	s.cancel()
	s.listening.Wait()
	s.heads.close()
	if s.provider != nil {
		s.provider.close()
	}
}
