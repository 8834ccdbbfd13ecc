package main

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s"
)

const (
	noClustersDomain   = "none"
	localClusterDomain = "clusters.localhost" // browsers resolve all below localhost to this machine
)

var domainName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?))+$`)

// clustersDomain returns the domain below which clusters have hosts; "" = none.
func (c Config) clustersDomain() string {
	switch c.ClustersDomain {
	case noClustersDomain:
		return ""
	case "":
		if u, err := url.Parse(c.BaseURL()); err == nil && isLoopback(u.Hostname()) {
			return localClusterDomain
		}
	}
	return strings.ToLower(c.ClustersDomain)
}

// validClustersDomain reports whether a domain can be used with the public URL: with TLS, or on this machine, and neither
// above the portal's own host nor at it.
func (c Config) validClustersDomain() bool {
	domain := c.ClustersDomain
	if domain == "" || domain == noClustersDomain {
		return true
	}
	u, err := url.Parse(c.BaseURL())
	if err != nil || !domainName.MatchString(domain) {
		return false
	}
	host, domain := strings.ToLower(u.Hostname()), strings.ToLower(domain)
	local := strings.HasSuffix(domain, ".localhost") && isLoopback(host)
	return (u.Scheme == "https" || local) && host != domain && !strings.HasSuffix(host, "."+domain)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dashboard is the way to the dashboard of one head.
func (p *portal) dashboard(head handlers.Head) http.RoundTripper {
	return p.controller.Heads().Proxy(k8s.HeadAddress{Namespace: head.Namespace, Pod: head.Pod, IP: head.IP})
}
