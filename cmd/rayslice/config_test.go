package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// parse parses args in a clean environment but for env.
func parse(t *testing.T, env map[string]string, args ...string) (commandLine, error) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "RAYSLICE_") {
			t.Setenv(name, value) // put back at the end
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	var line commandLine
	parser, err := newParser(&line)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return line, err
}

func TestConfigDefaults(t *testing.T) {
	line, err := parse(t, nil, "serve")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Addr: "127.0.0.1:8080", AutoMigrate: true, Namespace: "rayslice", KubeRayNamespace: "kuberay-system", NamespaceQuota: true, Verify: true, HeadAccess: "auto", UsageSource: "ray", UsageEvery: 30 * time.Second, UsageWatchedEvery: 5 * time.Second, PrometheusPreset: "ack", QPS: 200, Burst: 400, MaxPodsPerCard: 20,
		Resync: time.Minute, OIDCScopes: []string{"profile", "email"}, OIDCGroupsClaim: "groups", SMTPTLS: "starttls", LogLevel: "info", ShutdownTimeout: 20 * time.Second,
		UsageRaw: 6 * time.Hour, UsageMinutes: 168 * time.Hour, UsageHours: 4320 * time.Hour,
	}
	if diff := cmp.Diff(want, line.Config); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if got := line.BaseURL(); got != "http://127.0.0.1:8080" {
		t.Errorf("BaseURL() = %q", got)
	}
}

func TestConfigOrder(t *testing.T) {
	env := map[string]string{"RAYSLICE_BURST": "7", "RAYSLICE_QPS": "3", "RAYSLICE_PUBLIC_URL": "https://rayslice.example/"}
	line, err := parse(t, env, "serve", "--qps=9", "--no-auto-migrate")
	if err != nil {
		t.Fatal(err)
	}
	if line.Burst != 7 {
		t.Errorf("Burst = %d, want the variable's 7", line.Burst)
	}
	if line.QPS != 9 {
		t.Errorf("QPS = %g, want the flag's 9", line.QPS)
	}
	if line.AutoMigrate {
		t.Error("AutoMigrate stays on with --no-auto-migrate")
	}
	if got := line.BaseURL(); got != "https://rayslice.example" {
		t.Errorf("BaseURL() = %q", got)
	}
}

// TestConfigRefusals expects every bad value to be answered with the flag and what it must be.
func TestConfigRefusals(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"an address without a port":      {[]string{"serve", "--addr=localhost"}, "--addr (RAYSLICE_ADDR)"},
		"an address with a wild port":    {[]string{"serve", "--addr=:99999"}, "--addr (RAYSLICE_ADDR)"},
		"a public address with a path":   {[]string{"serve", "--public-url=https://x.example/ray"}, "--public-url (RAYSLICE_PUBLIC_URL)"},
		"a public address without http":  {[]string{"serve", "--public-url=x.example"}, "--public-url (RAYSLICE_PUBLIC_URL)"},
		"a clusters domain without TLS":  {[]string{"serve", "--public-url=http://x.example", "--clusters-domain=clusters.example"}, "--clusters-domain (RAYSLICE_CLUSTERS_DOMAIN)"},
		"the portal among the clusters":  {[]string{"serve", "--public-url=https://a.x.example", "--clusters-domain=x.example"}, "--clusters-domain (RAYSLICE_CLUSTERS_DOMAIN)"},
		"a clusters domain with a port":  {[]string{"serve", "--public-url=https://x.example", "--clusters-domain=clusters.example:8443"}, "--clusters-domain (RAYSLICE_CLUSTERS_DOMAIN)"},
		"a proxy without a network":      {[]string{"serve", "--trusted-proxies=10.0.0.0/8,ingress"}, "--trusted-proxies"},
		"a database of another kind":     {[]string{"serve", "--database-url=mysql://u:secret@h/db"}, "--database-url (RAYSLICE_DATABASE_URL)"},
		"no requests per second":         {[]string{"serve", "--qps=0"}, "--qps (RAYSLICE_QPS)"},
		"a burst that is no number":      {[]string{"serve", "--burst=many"}, "--burst"},
		"a burst of none":                {[]string{"serve", "--burst=0"}, "--burst (RAYSLICE_BURST)"},
		"a sweep that never rests":       {[]string{"serve", "--resync=1ms"}, "--resync (RAYSLICE_RESYNC)"},
		"use read without a rest":        {[]string{"serve", "--usage-watched-every=0s"}, "--usage-watched-every (RAYSLICE_USAGE_WATCHED_EVERY)"},
		"use read less when watched":     {[]string{"serve", "--usage-every=2s"}, "--usage-every (RAYSLICE_USAGE_EVERY)"},
		"an unknown source of use":       {[]string{"serve", "--usage-source=guess"}, `--usage-source must be one of "ray","prometheus"`},
		"Prometheus without an address":  {[]string{"serve", "--usage-source=prometheus"}, "--prometheus-url (RAYSLICE_PROMETHEUS_URL)"},
		"Prometheus of another kind":     {[]string{"serve", "--usage-source=prometheus", "--prometheus-url=grpc://u:secret@h"}, "--prometheus-url (RAYSLICE_PROMETHEUS_URL)"},
		"an unknown preset":              {[]string{"serve", "--prometheus-preset=nagios"}, `--prometheus-preset must be one of "ack","dcgm","hami"`},
		"an issuer in the clear":         {[]string{"serve", "--oidc-issuer=http://id.example", "--oidc-client-id=x"}, "--oidc-issuer (RAYSLICE_OIDC_ISSUER)"},
		"an issuer without a client":     {[]string{"serve", "--oidc-issuer=https://id.example"}, "--oidc-client-id (RAYSLICE_OIDC_CLIENT_ID)"},
		"no time to stop":                {[]string{"serve", "--shutdown-timeout=0s"}, "--shutdown-timeout (RAYSLICE_SHUTDOWN_TIMEOUT)"},
		"an unknown way to heads":        {[]string{"serve", "--head-access=tunnel"}, `--head-access must be one of "auto","direct","portforward"`},
		"an unknown log level":           {[]string{"serve", "--log-level=loud"}, "--log-level must be one of"},
		"render without a file":          {[]string{"render"}, "missing flags: --file"},
		"render with a file of nowhere":  {[]string{"render", "-f", "nowhere.yaml"}, "nowhere.yaml"},
		"migrate without a direction":    {[]string{"migrate"}, `expected one of "up", "down", "version"`},
		"an unknown command":             {[]string{"sevre"}, "unexpected argument sevre"},
		"a flag with a typing error":     {[]string{"serve", "--adr=:1"}, "unknown flag --adr"},
		"a truth value that is not one":  {[]string{"serve", "--persona-sign-in=perhaps"}, "--persona-sign-in"},
		"a catalogue flag with no value": {[]string{"serve", "--catalogue"}, "--catalogue"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, nil, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the password: %v", err)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	file := t.TempDir() + "/request.yaml"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"migrate", "up"}, {"migrate", "down"}, {"migrate", "version"}, {"render", "-f", file}, {"lint", "-"}, {"lint", "--fix", "--json", file, file}, {"demo"}, {"version"}} {
		if _, err := parse(t, nil, args...); err != nil {
			t.Errorf("rayslice %s: %v", strings.Join(args, " "), err)
		}
	}
}

// TestConfigurationTable compares the table in docs/configuration.md with the struct, row by row.
func TestConfigurationTable(t *testing.T) {
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(string(doc), "\n") {
		if strings.HasPrefix(line, "| `RAYSLICE_") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(configurationRows(t), got); diff != "" {
		t.Errorf("docs/configuration.md (-config.go +docs):\n%s", diff)
	}
}

// TestVariablesExist looks for names in documents and manifests that no longer, or never, set anything.
func TestVariablesExist(t *testing.T) {
	known := strings.Join(configurationRows(t), "") + "`RAYSLICE_URL``RAYSLICE_TOKEN`" // the last two are of clients/python
	for _, pattern := range []string{"*.md", "docs/*.md", "Dockerfile", "docker-compose.yml", "deploy/*.yaml"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("no file %s (%v)", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range regexp.MustCompile(`RAYSLICE_[A-Z_]+`).FindAllString(string(text), -1) {
				if !strings.Contains(known, "`"+name+"`") {
					t.Errorf("%s: %s is no variable of Config", file, name)
				}
			}
		}
	}
}

// configurationRows returns one Markdown row per variable, in the order of Config.
func configurationRows(t *testing.T) []string {
	t.Helper()
	parser, err := newParser(&commandLine{}, kong.Writers(&bytes.Buffer{}, &bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, flag := range parser.Model.Flags {
		for _, variable := range flag.Envs {
			rows = append(rows, fmt.Sprintf("| `%s` | `--%s` | %s | %s |", variable, flag.Name, code(flag.Default), flag.Help))
		}
	}
	return rows
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
