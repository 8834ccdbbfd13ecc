package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// Every cluster has a host of its own, <request id>.<domain>: whoever may run code in a cluster controls the pages that its
// dashboard sends, so they must not be of the portal's origin, nor of another cluster's.

// ownPrefix is where the portal answers itself on a cluster's host. Nothing below it ever reaches the cluster.
const (
	ownPrefix = "/.rayslice/"
	openPath  = ownPrefix + "open"
)

// clusterHosts knows the hosts of clusters. nil = there are none.
type clusterHosts struct {
	scheme string
	domain string // in lower case, without a port
	port   string // ":8080", "" = the scheme's own
}

// newClusterHosts returns the hosts below a domain; "" = none.
func newClusterHosts(public *url.URL, domain string) (*clusterHosts, error) {
	if domain == "" {
		return nil, nil
	}
	h := &clusterHosts{scheme: public.Scheme, domain: strings.ToLower(domain)}
	if port := public.Port(); port != "" {
		h.port = ":" + port
	}
	if _, below := h.label(public.Host); below {
		return nil, fmt.Errorf("clusters domain %q: the portal's own host must not lie in it", domain)
	}
	return h, nil
}

// label returns what stands before the domain in a Host header; below is false for any other host. The domain itself is below
// it, with no label.
func (h *clusterHosts) label(host string) (label string, below bool) {
	if h == nil {
		return "", false
	}
	name := strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	if name == h.domain {
		return "", true
	}
	return strings.CutSuffix(name, "."+h.domain)
}

// origin returns the origin of a cluster's host, e.g. "https://k5d2m7qxw3ab.clusters.example"; "" when there are none.
func (h *clusterHosts) origin(id string) string {
	if h == nil {
		return ""
	}
	return h.scheme + "://" + id + "." + h.domain + h.port
}

// wayTo returns the visitor's way through the portal to a request's cluster; zero where there is none.
func (s *Server) wayTo(c echo.Context, r rayslice.Request) web.Way {
	access := user(c).Access(r)
	if s.clusters == nil || access == rayslice.AccessNone {
		return web.Way{}
	}
	return web.Way{Host: s.clusters.origin(r.ID), Portal: s.config.PublicURL, Access: access}
}

// clusterRoutes lists every address of the clusters' hosts.
func (s *Server) clusterRoutes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = extractor(s.config.TrustedProxies)
	e.Use(s.begin, s.secureCluster, s.record, s.recoverPanic, s.ownHost)
	e.GET(openPath, s.finishOpening)
	e.Any(ownPrefix+"*", func(echo.Context) error { return rayslice.NotFound("page") })
	e.Any("/*", s.proxyDashboard)
	return e
}

// clusterPolicy lets a dashboard do what it needs on its own host, and reach nothing beyond.
const clusterPolicy = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// secureCluster sets the security headers of a cluster's host, and marks the visit as one there.
func (s *Server) secureCluster(next echo.HandlerFunc) echo.HandlerFunc {
	headers := map[string]string{
		"Content-Security-Policy":      clusterPolicy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", // a neighbour's page, which is of the same site, must not embed it
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
		"Vary":                         "Cookie, Authorization",
	}
	if s.public.Scheme == "https" {
		headers["Strict-Transport-Security"] = "max-age=31536000"
	}
	return func(c echo.Context) error {
		for name, value := range headers {
			c.Response().Header().Set(name, value)
		}
		visitOf(c).onCluster = true
		return next(c)
	}
}

// ownHost refuses hosts below the domain that no cluster can have, and request targets that name a host of their own.
func (s *Server) ownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		label, _ := s.clusters.label(r.Host)
		if !requestIDFormat.MatchString(label) {
			return refuse(http.StatusMisdirectedRequest, "unknown_host", map[string]any{"want": s.config.PublicURL}, nil)
		}
		if r.URL.Scheme != "" || r.URL.Host != "" || r.URL.User != nil || r.URL.Opaque != "" || r.Method == http.MethodConnect {
			return errBadAddress
		}
		visitOf(c).cluster = label
		return next(c)
	}
}

var errBadAddress = refuse(http.StatusBadRequest, "bad_address", nil, nil)

// answerClusterError answers on a cluster's host, where the portal has neither its pages nor its styles. Whoever comes by
// browser without having opened the dashboard is led to the cluster's page in the portal.
func (s *Server) answerClusterError(c echo.Context, status int, problem *rayslice.Error) error {
	r, id := c.Request(), visitOf(c).cluster
	above := s.config.PublicURL + "/clusters"
	if id != "" {
		above += "/" + id
	}
	switch {
	case wantsProblem(r) || !strings.Contains(r.Header.Get(echo.HeaderAccept), echo.MIMETextHTML):
		return answerProblem(c, status, problem)
	case status == http.StatusUnauthorized && safeMethod(r.Method):
		return c.Redirect(http.StatusSeeOther, above)
	}
	frame := web.Frame{Locale: visitOf(c).locale, RequestID: visitOf(c).id}
	return page(c, status, web.ClusterErrorView(web.ClusterErrorPage{ErrorPage: web.ErrorPage{Frame: frame, Status: status, Problem: problem}, Portal: above}))
}

// isAborted reports whether an error is only that the visitor has gone.
func isAborted(err error) bool { return errors.Is(err, http.ErrAbortHandler) }
