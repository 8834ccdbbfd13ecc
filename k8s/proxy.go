package k8s

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Bounds of connections that people use.
const (
	proxyDial   = 10 * time.Second
	proxyIdle   = 30 * time.Second
	proxyAnswer = 3 * time.Minute // until the head says anything at all; a first job may take that long
	proxySpare  = 8               // connections kept for the next request
)

// Proxy returns the way to one head for what people do with it. Like Transport it goes nowhere else, whatever host a request
// names; unlike it, it keeps connections for a while, waits longer, and passes on what it gets as it is.
func (h *Heads) Proxy(to HeadAddress) http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, proxyDial)
			defer cancel()
			return h.dial(ctx, to)
		},
		DisableCompression:     true,
		MaxIdleConns:           proxySpare,
		MaxIdleConnsPerHost:    proxySpare,
		IdleConnTimeout:        proxyIdle,
		ResponseHeaderTimeout:  proxyAnswer,
		MaxResponseHeaderBytes: maxHeadAnswer,
	}
}
