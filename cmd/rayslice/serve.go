package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/notify"
	"github.com/rayslice/rayslice/store"
)

// portal is the running program: what serve builds, starts and stops.
type portal struct {
	config     Config
	logger     *slog.Logger
	store      *store.Store
	sessions   *pgxpool.Pool
	controller *k8s.Controller
	collector  *k8s.Collector
	notifier   *notify.Notifier
	outbox     *pgxpool.Pool // of the notifier
	handler    *handlers.Server
	token      string // of the demo's first persona; "" = none
}

// serve runs the portal until ctx ends or a part of it fails.
func serve(ctx context.Context, config Config, logger *slog.Logger) error {
	klog.SetSlogLogger(logger) // client-go's own lines
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40) // most of the heap are caches that live long; make bench-memory measures it
	}
	p := &portal{config: config, logger: logger}
	if err := checkPersonas(config); err != nil {
		return err
	}
	defer p.close()
	if err := p.open(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", config.Addr)
	if err != nil {
		return fmt.Errorf("%s is in use or not ours: choose another with --addr or RAYSLICE_ADDR (%w)", config.Addr, err)
	}
	p.announce(listener.Addr())
	return p.run(ctx, listener)
}

// checkPersonas lets anybody be anyone only where nobody else can reach the portal.
func checkPersonas(config Config) error {
	if !config.PersonaSignIn {
		return nil
	}
	host, _, _ := net.SplitHostPort(config.Addr)
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("RAYSLICE_PERSONA_SIGN_IN lets anybody sign in as anyone, so it needs a loopback address: %s is not one", config.Addr)
}

// open builds every part, from the database up.
func (p *portal) open(ctx context.Context) error {
	if p.config.DatabaseURL == "" {
		return errNoDatabase
	}
	catalogue, err := loadCatalogue(p.config.Catalogue)
	if err != nil {
		return err
	}
	oidc, err := p.config.oidc()
	if err != nil {
		return err
	}
	if err := p.openStore(ctx); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := p.openController(catalogue, registry); err != nil {
		return err
	}
	if err := p.openCollector(catalogue, registry); err != nil {
		return err
	}
	if err := p.openNotifier(ctx, registry); err != nil {
		return err
	}
	allow, err := notify.ParseAllow(p.config.WebhookAllow)
	if err != nil {
		return err
	}
	p.handler, err = handlers.New(handlers.Config{
		Store: p.store, Sessions: p.sessions, Catalogue: catalogue, Metrics: registry, Logger: p.logger,
		Render: func(r rayslice.Request) (string, error) { return k8s.RenderYAML(r, catalogue) },
		Lint:   linter(catalogue),
		Health: p.health, Demo: p.config.PersonaSignIn, OIDC: oidc, Version: programVersion(), PublicURL: p.config.BaseURL(),
		TrustedProxies: p.config.TrustedProxies, CORSOrigins: p.config.CORSOrigins, ClustersDomain: p.config.clustersDomain(), Dashboard: p.dashboard,
		Mail: p.config.SMTPAddr != "", CheckWebhook: allow.CheckURL, Reserved: p.config.reserved(),
	})
	return err
}

func (p *portal) openStore(ctx context.Context) error {
	prepare := checkSchema
	if p.config.AutoMigrate {
		prepare = migrateUp
	}
	err := prepare(ctx, p.config)
	if err != nil {
		return err
	}
	if p.store, err = store.Open(ctx, p.config.DatabaseURL); err != nil {
		return fmt.Errorf("RAYSLICE_DATABASE_URL: %w", err)
	}
	p.store.KeepUse(rayslice.UseRetention{Raw: p.config.UsageRaw, Minutes: p.config.UsageMinutes, Hours: p.config.UsageHours})
	if p.config.PersonaSignIn {
		p.store.LetPersonasIn()
	}
	if p.sessions, err = p.openPool(ctx, 4); err != nil {
		return err
	}
	p.warnOfOpenAudit(ctx)
	return p.seed(ctx)
}

// warnOfOpenAudit says that the database would let this portal rewrite its audit log. It serves all the same.
func (p *portal) warnOfOpenAudit(ctx context.Context) {
	if open, err := p.store.AuditIsOpen(ctx); err == nil && open {
		p.logger.Warn("the portal's database role could change the audit log: give it a role of its own and set RAYSLICE_MIGRATE_URL (docs/configuration.md, Two database roles)")
	}
}

// openPool opens a small pool beside the store's.
func (p *portal) openPool(ctx context.Context, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(p.config.DatabaseURL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

// seed adds the configured teams and, where they can sign in, personas, with a token for the first of them.
func (p *portal) seed(ctx context.Context) error {
	if p.config.Teams == "" && !p.config.PersonaSignIn {
		return nil
	}
	roster, err := p.config.roster()
	if err != nil {
		return err
	}
	if err := p.store.Seed(ctx, rayslice.System, roster.seed()); err != nil || !p.config.PersonaSignIn {
		return err
	}
	personas, err := p.store.Personas(ctx, rayslice.System)
	if err != nil || len(personas) == 0 {
		return err
	}
	p.token, err = p.demoToken(ctx, personas[0])
	return err
}

// demoTokens is how many tokens of earlier starts go on working, e.g. of a second replica.
const demoTokens = 4

// demoToken makes a token for programs to try the demo with, and revokes those of long ago.
func (p *portal) demoToken(ctx context.Context, persona rayslice.User) (string, error) {
	draft := rayslice.TokenDraft{Name: "demo", Scopes: rayslice.Scopes(), Days: 7}
	earlier, err := p.store.Tokens(ctx, persona)
	if err != nil {
		return "", err
	}
	ours := slices.DeleteFunc(earlier, func(t rayslice.Token) bool { return t.Name != draft.Name || !t.RevokedAt.IsZero() })
	for _, t := range ours[min(demoTokens, len(ours)):] {
		if err := p.store.RevokeToken(ctx, persona, persona.ID, t.ID); err != nil {
			return "", err
		}
	}
	secret, _, err := p.store.CreateToken(ctx, persona, draft)
	return secret, err
}

func (p *portal) openController(catalogue rayslice.Catalogue, registry *prometheus.Registry) error {
	rest, err := k8s.LoadConfig(p.config.Kubeconfig)
	if err != nil {
		return err
	}
	p.controller, err = k8s.New(k8s.Config{
		Rest: rest, Store: p.store, Catalogue: catalogue, Access: k8s.HeadAccess(p.config.HeadAccess),
		QPS: p.config.QPS, Burst: p.config.Burst, Resync: p.config.Resync, Logger: p.logger,
		Namespace: p.config.Namespace, KubeRayNamespace: p.config.KubeRayNamespace, CreateNamespaces: p.config.CreateNamespaces, NamespaceQuota: p.config.NamespaceQuota, Unverified: !p.config.Verify, MaxPodsPerCard: p.config.MaxPodsPerCard, Registerer: registry,
	})
	return err
}

func (p *portal) health() handlers.Health {
	h := p.controller.Health()
	return handlers.Health{Synced: h.Synced, WatchAge: h.WatchAge, Leader: h.Leader, LastError: h.LastError}
}

// announce says where the portal is and, in the demo, who to be.
func (p *portal) announce(addr net.Addr) {
	p.logger.Info("portal listens", "addr", addr.String(), "url", p.config.BaseURL(), "version", programVersion())
	if !p.config.PersonaSignIn {
		return
	}
	fmt.Printf("\n  Open %s and sign in as Mei Lin (researcher), Arjun Rao (lead) or Wei Zhang (admin).\n", p.config.BaseURL())
	if p.token != "" {
		fmt.Printf("  For programs, as Mei Lin, by an API token: curl -H 'Authorization: Bearer %s' %s/api/v1/requests\n", p.token, p.config.BaseURL())
		fmt.Printf("  For the Python client: export RAYSLICE_URL=%s RAYSLICE_TOKEN=%s\n", p.config.BaseURL(), p.token)
	}
	fmt.Print("  Ctrl-C stops everything; the data stays.\n\n")
}

// bodyTimeout is how long a request may take to arrive. It ends there: answers and event streams have limits of their own.
const bodyTimeout = 30 * time.Second

// run serves until ctx ends or a part fails, then stops: event streams first, then HTTP, then the reconciler and the
// notifier, each of which finishes what it does.
func (p *portal) run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: p.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: bodyTimeout, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug)}
	reconciling, stopReconciling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReconciling()
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return ignore(server.Serve(listener), http.ErrServerClosed) })
	group.Go(func() error { return ignore(p.controller.Run(reconciling), context.Canceled) })
	group.Go(func() error { return ignore(p.collector.Run(reconciling), context.Canceled) })
	group.Go(func() error { return ignore(p.notifier.Run(reconciling), context.Canceled) })
	group.Go(func() error { return ignore(p.store.Listen(reconciling, p.wake), context.Canceled) })
	group.Go(func() error {
		<-failed.Done()
		p.logger.Info("stopping")
		p.handler.Close()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.ShutdownTimeout)
		defer cancel()
		err := server.Shutdown(limit)
		stopReconciling()
		return err
	})
	return group.Wait()
}

// wake passes a change in the database on to the reconciler.
func (p *portal) wake(change store.Change) {
	switch {
	case change.Resync: // notifications may have been missed
		p.controller.WakeAll()
	case change.Kind == store.KindRequest:
		p.controller.Wake(change.ID)
		p.controller.WakeQuotas()
	case change.Kind == store.KindTeam:
		p.controller.WakeQuotas()
	}
}

func (p *portal) close() {
	if p.handler != nil {
		p.handler.Close()
	}
	if p.sessions != nil {
		p.sessions.Close()
	}
	if p.outbox != nil {
		p.outbox.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
