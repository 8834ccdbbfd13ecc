package main

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/notify"
)

// Config is everything an operator sets, one line per variable. A flag wins over its variable, a variable over the
// default. The table in docs/configuration.md is checked against these lines.
type Config struct {
	Addr              string         `env:"RAYSLICE_ADDR" default:"127.0.0.1:8080" help:"Address the portal listens on."`
	PublicURL         string         `env:"RAYSLICE_PUBLIC_URL" help:"Address people type, without a path, e.g. https://rayslice.example; empty: http:// and the listening address."`
	ClustersDomain    string         `env:"RAYSLICE_CLUSTERS_DOMAIN" help:"Domain below which every cluster has a host of its own, <request id>.<domain>, for its dashboard and jobs, e.g. clusters.example; none: no such hosts; empty: clusters.localhost where the public URL is on this machine, else none."`
	TrustedProxies    []netip.Prefix `env:"RAYSLICE_TRUSTED_PROXIES" help:"Networks of the proxies in front of the portal, e.g. the ingress's pods, with commas between: 10.244.0.0/16. The nearest address in X-Forwarded-For that is none of them counts as the visitor's, for limits and the log; empty: the address that connects."`
	CORSOrigins       []string       `env:"RAYSLICE_CORS_ORIGINS" name:"cors-origins" help:"Origins whose pages may use the API with a token, e.g. notebooks in the browser, with commas between: https://notebooks.example; empty: none."`
	DatabaseURL       string         `env:"RAYSLICE_DATABASE_URL" help:"Postgres to keep requests and quota in, postgres://user:password@host:port/name."`
	MigrateURL        string         `env:"RAYSLICE_MIGRATE_URL" help:"The same database as the role that owns its tables, which migrates; the role of the database URL then only reads and writes rows and cannot change the audit log. Empty: the database URL's role does both."`
	AutoMigrate       bool           `env:"RAYSLICE_AUTO_MIGRATE" default:"true" negatable:"" help:"Bring the database to this version before serving."`
	Kubeconfig        string         `env:"RAYSLICE_KUBECONFIG" type:"path" help:"File that says how to reach the Kubernetes API; empty: the service account of the pod the portal runs in."`
	Namespace         string         `env:"RAYSLICE_NAMESPACE" default:"rayslice" help:"Namespace the portal runs in: of the Lease by which replicas elect the one that reconciles, and of the pods that may call the clusters' dashboards."`
	KubeRayNamespace  string         `env:"RAYSLICE_KUBERAY_NAMESPACE" name:"kuberay-namespace" default:"kuberay-system" help:"Namespace of the KubeRay operator. Its pods may call the clusters' dashboards, which RayJobs on a cluster need; empty: only the portal's and the team's may."`
	CreateNamespaces  bool           `env:"RAYSLICE_CREATE_NAMESPACES" default:"false" negatable:"" help:"Create a team's namespace when it is missing."`
	Verify            bool           `env:"RAYSLICE_VERIFY" default:"true" negatable:"" help:"Verify by itself that slices are enforced before a cluster is called ready; otherwise only when somebody asks."`
	NamespaceQuota    bool           `env:"RAYSLICE_NAMESPACE_QUOTA" default:"true" negatable:"" help:"Keep a ResourceQuota named rayslice in each team's namespace, at the team's limit, so that pods made without the portal stay within it."`
	HeadAccess        string         `env:"RAYSLICE_HEAD_ACCESS" default:"auto" enum:"auto,direct,portforward" help:"How the portal reaches Ray heads: direct to the pod, portforward through the API server, or auto: direct inside the cluster, else portforward."`
	UsageSource       string         `env:"RAYSLICE_USAGE_SOURCE" default:"ray" enum:"ray,prometheus" help:"Where the use of slices is read: ray asks each cluster's head, prometheus a Prometheus server about all of them."`
	UsageEvery        time.Duration  `env:"RAYSLICE_USAGE_EVERY" default:"30s" help:"Time between two readings of a cluster nobody looks at."`
	UsageWatchedEvery time.Duration  `env:"RAYSLICE_USAGE_WATCHED_EVERY" default:"5s" help:"Time between two readings of a cluster that somebody looks at."`
	PrometheusURL     string         `env:"RAYSLICE_PROMETHEUS_URL" help:"Prometheus server to read use from, http://user:password@host:port; for RAYSLICE_USAGE_SOURCE=prometheus."`
	PrometheusPreset  string         `env:"RAYSLICE_PROMETHEUS_PRESET" default:"ack" enum:"ack,dcgm,hami" help:"Whose names the series have: ack-prometheus-gpu-exporter, dcgm-exporter or HAMi."`
	PrometheusNames   string         `env:"RAYSLICE_PROMETHEUS_NAMES" type:"path" help:"YAML file with names of series and labels instead of a preset's."`
	QPS               float32        `env:"RAYSLICE_QPS" name:"qps" default:"200" help:"Most requests per second to the Kubernetes API."`
	Burst             int            `env:"RAYSLICE_BURST" default:"400" help:"Most requests to the Kubernetes API at once."`
	Resync            time.Duration  `env:"RAYSLICE_RESYNC" default:"1m" help:"Time between two sweeps that compare every request with the cluster."`
	MaxPodsPerCard    int            `env:"RAYSLICE_MAX_PODS_PER_CARD" default:"20" placeholder:"N" help:"Most pods on one card of a node without the label ack.node.gpu.max-pod."`
	Catalogue         string         `env:"RAYSLICE_CATALOGUE" type:"path" help:"YAML file of pools, images and limits; empty: the catalogue of the demo."`
	Teams             string         `env:"RAYSLICE_TEAMS" type:"path" help:"YAML file of teams to add at start, with persona sign-in of people too; a limit that exists is left as it is; empty: none, or with persona sign-in those of the demo."`
	PersonaSignIn     bool           `env:"RAYSLICE_PERSONA_SIGN_IN" default:"false" negatable:"" help:"Let anybody sign in as any person by choosing a name. For trying out, so only on a loopback address."`
	OIDCIssuer        string         `env:"RAYSLICE_OIDC_ISSUER" name:"oidc-issuer" help:"Identity provider people sign in with, as it names itself, e.g. https://id.example/realms/lab; empty: none."`
	OIDCClientID      string         `env:"RAYSLICE_OIDC_CLIENT_ID" name:"oidc-client-id" help:"What the identity provider calls this portal."`
	OIDCClientSecret  string         `env:"RAYSLICE_OIDC_CLIENT_SECRET" name:"oidc-client-secret" help:"Secret of the portal at the identity provider; empty: a public client, which PKCE alone protects."`
	OIDCScopes        []string       `env:"RAYSLICE_OIDC_SCOPES" name:"oidc-scopes" default:"profile,email" help:"What to ask the identity provider for beside openid; many need groups and offline_access too."`
	OIDCGroupsClaim   string         `env:"RAYSLICE_OIDC_GROUPS_CLAIM" name:"oidc-groups-claim" default:"groups" help:"Claim that lists a person's groups."`
	OIDCGroups        string         `env:"RAYSLICE_OIDC_GROUPS" name:"oidc-groups" type:"path" help:"YAML file that says which roles a group gives; empty: groups do not count."`
	OIDCAdmins        []string       `env:"RAYSLICE_OIDC_ADMINS" name:"oidc-admins" help:"Subjects (sub) that are administrators while they stand here, whatever their groups, with commas between; for the first one."`
	OIDCTrustEmail    bool           `env:"RAYSLICE_OIDC_TRUST_EMAIL" name:"oidc-trust-email" default:"false" negatable:"" help:"Keep e-mail addresses although the identity provider does not say that it verified them, e.g. Microsoft Entra ID."`
	SMTPAddr          string         `env:"RAYSLICE_SMTP_ADDR" name:"smtp-addr" help:"Mail server for notifications, host:port; empty: no mail."`
	SMTPUser          string         `env:"RAYSLICE_SMTP_USER" name:"smtp-user" help:"Name to sign in to the mail server with; empty: without signing in."`
	SMTPPassword      string         `env:"RAYSLICE_SMTP_PASSWORD" name:"smtp-password" help:"Password for the mail server. Others on the machine can read flags: prefer the variable."`
	SMTPFrom          string         `env:"RAYSLICE_SMTP_FROM" name:"smtp-from" help:"Sender of mail, e.g. rayslice <rayslice@example.org>. Needed with a mail server."`
	SMTPTLS           string         `env:"RAYSLICE_SMTP_TLS" name:"smtp-tls" default:"starttls" enum:"starttls,tls,none" help:"How mail is encrypted on its way to the server: starttls, which must succeed; tls from the first byte; or none."`
	WebhookAllow      string         `env:"RAYSLICE_WEBHOOK_ALLOW" help:"Private places that people's webhooks may reach, also without TLS: host names, addresses and networks, separated by commas; empty: https to the public internet only."`
	UsageRaw          time.Duration  `env:"RAYSLICE_USAGE_RAW" default:"6h" help:"How long readings of use are kept as they were read, up to 18h."`
	UsageMinutes      time.Duration  `env:"RAYSLICE_USAGE_MINUTES" default:"168h" help:"How long the use of each minute is kept, up to 768h (32 days)."`
	UsageHours        time.Duration  `env:"RAYSLICE_USAGE_HOURS" default:"4320h" help:"How long the use of each hour is kept, up to 8064h (48 weeks)."`
	LogLevel          string         `env:"RAYSLICE_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Least severe log line to write."`
	ShutdownTimeout   time.Duration  `env:"RAYSLICE_SHUTDOWN_TIMEOUT" default:"20s" help:"Longest wait for open requests when stopping."`
}

// Validate refuses values that kong's types let through, naming the flag and the variable.
func (c Config) Validate() error {
	return errors.Join(
		require(validAddr(c.Addr), "--addr (RAYSLICE_ADDR): %q is not host:port, e.g. 127.0.0.1:8080", c.Addr),
		require(c.PublicURL == "" || validBase(c.PublicURL), "--public-url (RAYSLICE_PUBLIC_URL): %q is not an http or https address with nothing behind the host", c.PublicURL),
		require(!slices.ContainsFunc(c.CORSOrigins, func(o string) bool { return !validOrigin(o) }), "--cors-origins (RAYSLICE_CORS_ORIGINS): %q is not a list of origins like https://notebooks.example", strings.Join(c.CORSOrigins, ",")),
		require(c.PublicURL != "" && !validBase(c.PublicURL) || c.validClustersDomain(), "--clusters-domain (RAYSLICE_CLUSTERS_DOMAIN): %q is not a domain of its own beside the portal's host, with an https public URL, e.g. clusters.example; or none", c.ClustersDomain),
		require(c.DatabaseURL == "" || validDatabase(c.DatabaseURL), "--database-url (RAYSLICE_DATABASE_URL): not of the form postgres://user:password@host:port/name"),
		require(c.MigrateURL == "" || validDatabase(c.MigrateURL), "--migrate-url (RAYSLICE_MIGRATE_URL): not of the form postgres://user:password@host:port/name"),
		require(c.QPS > 0, "--qps (RAYSLICE_QPS): must be above 0, is %g", c.QPS),
		require(c.MaxPodsPerCard >= 1, "--max-pods-per-card (RAYSLICE_MAX_PODS_PER_CARD): must be at least 1, is %d", c.MaxPodsPerCard),
		require(c.Burst >= 1, "--burst (RAYSLICE_BURST): must be at least 1, is %d", c.Burst),
		require(c.Resync >= time.Second, "--resync (RAYSLICE_RESYNC): must be at least 1s, is %s", c.Resync),
		require(c.UsageWatchedEvery >= time.Second, "--usage-watched-every (RAYSLICE_USAGE_WATCHED_EVERY): must be at least 1s, is %s", c.UsageWatchedEvery),
		require(c.UsageEvery >= c.UsageWatchedEvery, "--usage-every (RAYSLICE_USAGE_EVERY): must be at least RAYSLICE_USAGE_WATCHED_EVERY, is %s", c.UsageEvery),
		require(c.UsageSource != "prometheus" || validPrometheus(c.PrometheusURL), "--prometheus-url (RAYSLICE_PROMETHEUS_URL): must be an http or https address for RAYSLICE_USAGE_SOURCE=prometheus, e.g. http://prometheus.monitoring:9090"),
		require(c.OIDCIssuer == "" || validIssuer(c.OIDCIssuer), "--oidc-issuer (RAYSLICE_OIDC_ISSUER): %q is not an https address, or http on this machine", c.OIDCIssuer),
		require((c.OIDCIssuer == "") == (c.OIDCClientID == ""), "--oidc-client-id (RAYSLICE_OIDC_CLIENT_ID): goes with RAYSLICE_OIDC_ISSUER; set both or neither"),
		require(c.SMTPAddr == "" || validAddr(c.SMTPAddr), "--smtp-addr (RAYSLICE_SMTP_ADDR): %q is not host:port, e.g. mail.example.org:587", c.SMTPAddr),
		require(c.SMTPAddr == "" || validSender(c.SMTPFrom), "--smtp-from (RAYSLICE_SMTP_FROM): %q is no address, e.g. rayslice <rayslice@example.org>", c.SMTPFrom),
		require(validAllow(c.WebhookAllow), "--webhook-allow (RAYSLICE_WEBHOOK_ALLOW): %q is not a list of host names, addresses and networks", c.WebhookAllow),
		require(within(c.UsageRaw, 3*time.Hour, rayslice.MaxUseRetention.Raw), "--usage-raw (RAYSLICE_USAGE_RAW): must be from 3h to 18h, is %s", c.UsageRaw),
		require(within(c.UsageMinutes, 24*time.Hour, rayslice.MaxUseRetention.Minutes), "--usage-minutes (RAYSLICE_USAGE_MINUTES): must be from 24h to 768h, is %s", c.UsageMinutes),
		require(within(c.UsageHours, 7*24*time.Hour, rayslice.MaxUseRetention.Hours), "--usage-hours (RAYSLICE_USAGE_HOURS): must be from 168h to 8064h, is %s", c.UsageHours),
		require(c.ShutdownTimeout > 0, "--shutdown-timeout (RAYSLICE_SHUTDOWN_TIMEOUT): must be above 0, is %s", c.ShutdownTimeout),
	)
}

// BaseURL returns the address people type, without a slash at its end.
func (c Config) BaseURL() string {
	if c.PublicURL == "" {
		return "http://" + c.Addr
	}
	u, _ := url.Parse(c.PublicURL) // Validate has parsed it
	return u.Scheme + "://" + u.Host
}

// commandLine is what can be typed after "rayslice".
type commandLine struct {
	Config `embed:"" group:"settings"`

	Serve   serveCommand   `cmd:"" help:"Run the portal."`
	Migrate migrateCommand `cmd:"" help:"Bring the database schema up, down or print its version."`
	Render  renderCommand  `cmd:"" help:"Print the RayCluster that a request becomes, and apply nothing."`
	Lint    lintCommand    `cmd:"" help:"Say what is wrong with the slices of RayClusters in YAML files, and mend it. Exits with 0 when nothing is, or only warnings are left, 1 when errors are, 2 when a file could not be read or mended or the command was called wrongly; the other files are looked at all the same."`
	Verify  verifyCommand  `cmd:"" help:"Print whether a cluster's slices are enforced, with the evidence. Exits with 0 when all are, 2 when one is not, 3 when that is not known (inconclusive, out of date, not verified), 1 when the command fails."`
	Demo    demoCommand    `cmd:"" help:"Run the portal on the sandbox: a real control plane with a simulated GPU fleet, and its own Postgres."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

type serveCommand struct{}

type migrateCommand struct {
	Up      struct{} `cmd:"" help:"Apply every migration that is missing."`
	Down    struct{} `cmd:"" help:"Take back the last migration."`
	Version struct{} `cmd:"" help:"Print the schema's version."`
}

type renderCommand struct {
	File          string `short:"f" required:"" type:"existingfile" help:"YAML or JSON file with the request, as the API takes it."`
	KubeNamespace string `short:"n" name:"kube-namespace" default:"default" help:"Kubernetes namespace of the RayCluster; the portal takes the team's."`
}

type lintCommand struct {
	Files []string `arg:"" name:"file" help:"YAML or JSON files with RayClusters, RayJobs or RayServices; - reads standard input."`
	Fix   bool     `help:"Mend what can be mended, in the files; standard input is printed mended."`
	JSON  bool     `name:"json" help:"Print findings as JSON, one a line."`
}

type verifyCommand struct {
	Cluster string `arg:"" help:"Id of the cluster, as in its page's address, or the RayCluster's name."`
	Again   bool   `help:"Have the portal look once more first, and wait for it."`
}

type demoCommand struct {
	Dir string `default:".demo" type:"path" help:"Folder for the demo's data and logs."`
	Bin string `default:"bin" type:"path" help:"Folder with the sandbox's programs."`
}

type versionCommand struct{}

// newParser returns the parser that fills in line.
func newParser(line *commandLine, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(line, append([]kong.Option{
		kong.Name("rayslice"),
		kong.Description("Ray clusters by GPU slice, for teams. Every flag can be set by the variable named beside it."),
		kong.ExplicitGroups([]kong.Group{{Key: "settings", Title: "Settings of the portal:"}}), // behind a command's own flags
		kong.UsageOnError(),
	}, options...)...)
}

func require(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func within(d, least, most time.Duration) bool { return d >= least && d <= most }

func validAddr(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// validBase reports whether text is an http address with nothing behind the host: pages link from the root.
func validBase(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

// validOrigin reports whether text is an origin as browsers write it: scheme and host, and nothing behind them.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && validBase(text) && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text)
}

// validPrometheus does not show in errors what it refuses: it may hold a password.
func validPrometheus(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// validDatabase leaves the rest to the driver, which knows sockets, services and several hosts.
func validDatabase(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

func validSender(text string) bool {
	_, err := mail.ParseAddress(text)
	return err == nil
}

func validAllow(text string) bool {
	_, err := notify.ParseAllow(text)
	return err == nil
}
