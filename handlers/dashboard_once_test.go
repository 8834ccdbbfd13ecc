package handlers

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
)

// transportFunc is a transport by a function.
type transportFunc func(*http.Request)

// RoundTrip shows the request and answers nothing.
func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// proxyOnce shows what a head would hear of a request.
func proxyOnce(s *Server, r *http.Request, p pass, hear func(*http.Request)) {
	(&httputil.ReverseProxy{Rewrite: s.rewrite(p, "192.0.2.1"), Transport: transportFunc(hear)}).ServeHTTP(httptest.NewRecorder(), r)
}
