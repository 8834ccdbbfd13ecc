package handlers

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// viewPaths are what those see who may only look: addresses of Ray 2.52's dashboard that change nothing, by GET. They are
// listed one by one because some GETs do change something or reach elsewhere: /api/actors/kill, /task/traceback, profiles,
// /api/v0/delay, the log proxy. "*" stands for one id.
var viewPaths = []string{
	"/", "/favicon.ico", "/static/css/*", "/static/js/*", "/static/media/*",
	"/api/version", "/api/ray/version", "/api/authentication_mode", "/api/gcs_healthz", "/api/grafana_health", "/api/prometheus_health",
	"/timezone", "/cluster_id", "/usage_stats_enabled",
	"/api/cluster_status", "/api/component_activities", "/nodes", "/nodes/*", "/logical/actors", "/logical/actors/*", "/events",
	"/api/jobs/", "/api/jobs/*", "/api/jobs/*/logs", "/api/jobs/*/logs/tail",
	"/api/v0/cluster_metadata", "/api/v0/cluster_events", "/api/v0/actors", "/api/v0/jobs", "/api/v0/nodes", "/api/v0/placement_groups",
	"/api/v0/workers", "/api/v0/tasks", "/api/v0/objects", "/api/v0/runtime_envs", "/api/v0/logs", "/api/v0/logs/file", "/api/v0/logs/stream",
	"/api/v0/tasks/summarize", "/api/v0/actors/summarize", "/api/v0/objects/summarize", "/api/v0/tasks/timeline",
	"/api/train/v2/runs", "/api/train/v2/runs/v1", "/api/data/datasets/*", "/api/serve/applications/",
}

// onlyReads reports whether a request is one of viewPaths. An address that is written in an unusual way is none.
func onlyReads(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if r.URL.EscapedPath() != r.URL.Path {
		return false
	}
	return slices.ContainsFunc(viewPaths, func(pattern string) bool {
		matched, _ := path.Match(pattern, r.URL.Path)
		return matched
	})
}

// plainPath reports whether a path means the same to everybody who reads it, whether or not they decode or clean it: no empty
// or dot segments, no separators in disguise, no control characters.
func plainPath(u *url.URL) bool {
	if !strings.HasPrefix(u.Path, "/") || !utf8.ValidString(u.Path) {
		return false
	}
	escaped := strings.ToLower(u.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%25") || strings.ContainsFunc(u.Path, unfitForPath) {
		return false
	}
	segments := strings.Split(u.Path, "/")[1:]
	for i, segment := range segments {
		if segment == "." || segment == ".." || segment == "" && i < len(segments)-1 {
			return false
		}
	}
	return true
}

func unfitForPath(r rune) bool { return r == '\\' || r == ';' || !unicode.IsPrint(r) }

// ownRedirect returns where a cluster's redirect leads, as a path on its own host; ok is false when it leads elsewhere.
func ownRedirect(location, requested, own string) (target string, ok bool) {
	if strings.ContainsFunc(location, func(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }) {
		return "", false
	}
	u, err := url.Parse(location)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	if u.Scheme != "" || u.Host != "" {
		if origin := u.Scheme + "://" + u.Host; origin != "http://"+headHost && origin != own {
			return "", false
		}
		u.Scheme, u.Host = "", ""
	}
	base := &url.URL{Path: requested}
	u = base.ResolveReference(u)
	if !plainPath(u) {
		return "", false
	}
	return u.String(), true
}
