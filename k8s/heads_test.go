package k8s

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
)

// headsTo returns Heads for which every head is the given handler.
func headsTo(t *testing.T, handler http.HandlerFunc) *Heads {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	h, err := newHeads(HeadAccessDirect, nil, slog.Default(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	h.dial = func(ctx context.Context, _ HeadAddress) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	return h
}

func TestHeadVersion(t *testing.T) {
	answer := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body))
		}
	}
	cases := map[string]struct {
		handler   http.HandlerFunc
		want      string
		wantError string
	}{
		"Ray":             {answer("application/json; charset=utf-8", `{"version":"4","ray_version":"2.52.0"}`), "2.52.0", ""},
		"HTML":            {answer("text/html", `{"ray_version":"2.52.0"}`), "", "instead of JSON"},
		"not JSON":        {answer("application/json", `<html>`), "", "invalid character"},
		"no version":      {answer("application/json", `{}`), "", "no Ray version"},
		"version is code": {answer("application/json", `{"ray_version":"<script>"}`), "", "no Ray version"},
		"too large":       {answer("application/json", `{"ray_version":"`+strings.Repeat("2", maxHeadAnswer)+`"}`), "", "more than 64 KiB"},
		"error":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "", "status 503"},
		"sends us astray": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "", "status 302"},
		"headers too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeadAnswer))
		}, "", "exceeded"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := headsTo(t, tc.handler).version(t.Context(), HeadAddress{})
			if got != tc.want || (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("version %q, error %v; want %q, error with %q", got, err, tc.want, tc.wantError)
			}
		})
	}
}

func TestHeadThatNeverAnswers(t *testing.T) {
	release := make(chan struct{})
	h := headsTo(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.version(ctx, HeadAddress{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
}

func headCluster(uid string) rayslice.Cluster {
	return rayslice.Cluster{RequestID: "abcdefghijkl", Head: &rayslice.Worker{Name: "h", UID: uid, IP: "10.0.0.7", Phase: rayslice.PodRunning}}
}

func TestHeadSilentAfterThreeMisses(t *testing.T) {
	h, _ := newHeads(HeadAccessDirect, nil, slog.Default(), func(string) {})
	h.watch(twoWorkers(), headCluster("a"))
	miss := errors.New("no answer")
	steps := []struct {
		uid, version string
		err          error
		wantNews     bool
		wantAnswers  bool
	}{
		{"a", "", miss, false, false},
		{"a", "2.52.0", nil, true, true},
		{"a", "2.52.0", nil, false, true},
		{"a", "", miss, false, true},
		{"a", "", miss, false, true},
		{"b", "", miss, false, true}, // about a pod that is not the head any more
		{"a", "", miss, true, false},
		{"a", "2.52.0", nil, true, true},
	}
	for i, s := range steps {
		news := h.note("abcdefghijkl", s.uid, s.version, s.err)
		answers, _ := h.watch(twoWorkers(), headCluster("a"))
		if news != s.wantNews || answers != s.wantAnswers {
			t.Errorf("step %d: news %v, answers %v; want %v, %v", i, news, answers, s.wantNews, s.wantAnswers)
		}
	}
	if answers, _ := h.watch(twoWorkers(), headCluster("c")); answers {
		t.Error("a new head pod inherits the answer of the old one")
	}
}

func TestHeadIsRecalledAfterARestart(t *testing.T) {
	h, _ := newHeads(HeadAccessDirect, nil, slog.Default(), func(string) {})
	before := headCluster("a")
	before.HeadAnswers, before.RayVersion = true, "2.52.0"
	h.recall(before)
	if answers, version := h.watch(twoWorkers(), headCluster("a")); !answers || version != "2.52.0" {
		t.Errorf("answers %v, version %q", answers, version)
	}
	other, _ := newHeads(HeadAccessDirect, nil, slog.Default(), func(string) {})
	other.recall(before)
	if answers, _ := other.watch(twoWorkers(), headCluster("b")); answers {
		t.Error("another pod inherits the answer")
	}
}

func TestHeadAccess(t *testing.T) {
	if _, err := newHeads("carrier-pigeon", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "use auto, direct or portforward") {
		t.Errorf("error %v", err)
	}
	if _, err := dialDirect(t.Context(), HeadAddress{Pod: "h", IP: "metadata.internal"}); err == nil {
		t.Error("dialled a name instead of a pod's address")
	}
	for _, access := range []HeadAccess{HeadAccessAuto, HeadAccessPortForward} {
		if _, err := newHeads(access, &rest.Config{}, nil, nil); err != nil {
			t.Errorf("%s: %v", access, err)
		}
	}
}
