package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/rayslice/rayslice/bench"
)

type tabs struct {
	options
	portal *bench.Process
	core   kubernetes.Interface
	crowd  *bench.Crowd
}

// measure counts in turns with and without tabs, after the portal has come to rest.
func (t *tabs) measure(ctx context.Context, report *bench.Report) error {
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	steady, open := counts{}, counts{}
	for round := range t.Rounds {
		turns := []func() error{func() error { return t.count(ctx, steady) }, func() error { return t.countOpen(ctx, open) }}
		if round%2 == 1 { // what goes by the clock does not always fall to the same one
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return err
			}
		}
	}
	t.report(report, steady, open)
	return nil
}

// countOpen counts with the tabs open, once they have all been opened.
func (t *tabs) countOpen(ctx context.Context, to counts) error {
	closeAll, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	return t.count(ctx, to)
}

// report names what the portal reads and writes; leases and the components' own health are renewed by the clock.
func (t *tabs) report(report *bench.Report, steady, open counts) {
	var more float64
	for _, key := range slices.Sorted(keys(steady, open)) {
		if steady[key] != open[key] {
			report.Result("  "+key, "%.0f without tabs, %.0f with", steady[key], open[key])
		}
		if portals.MatchString(key) {
			more += max(0, open[key]-steady[key])
		}
	}
	report.Result("all requests", "%.0f without tabs, %.0f with %d", steady.sum(), open.sum(), t.Tabs)
	report.Result("on what the portal reads", "%.0f without tabs, %.0f with; %.0f more (goal: 0 above the steady watch)", steady.of(portals), open.of(portals), more)
}

// portals are the resources that the portal lists, watches and writes. A watch ends and begins anew by itself every few
// minutes, and is counted when it ends.
var portals = regexp.MustCompile(`(GET|LIST|APPLY|PATCH|POST|PUT|DELETE) (rayclusters|pods|nodes|events|networkpolicies|resourcequotas|namespaces)$`)

// counts are API-server requests by verb and resource.
type counts map[string]float64

func (c counts) sum() (n float64) { return c.of(regexp.MustCompile("")) }

func (c counts) of(which *regexp.Regexp) (n float64) {
	for key, value := range c {
		if which.MatchString(key) {
			n += value
		}
	}
	return n
}

func keys(all ...counts) func(func(string) bool) {
	seen := map[string]bool{}
	for _, c := range all {
		for key := range c {
			seen[key] = true
		}
	}
	return func(yield func(string) bool) {
		for key := range seen {
			if !yield(key) {
				return
			}
		}
	}
}

// count adds what the API server counts during one interval.
func (t *tabs) count(ctx context.Context, to counts) error {
	before, err := t.server(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, t.Interval); err != nil {
		return err
	}
	after, err := t.server(ctx)
	for key, value := range after {
		to[key] += value - before[key]
	}
	return err
}

var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// server reads the API server's own counter, apiserver_request_total.
func (t *tabs) server(ctx context.Context) (counts, error) {
	text, err := t.core.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	c := counts{}
	for name, value := range bench.ParseMetrics(string(text)) {
		if !strings.HasPrefix(name, "apiserver_request_total{") {
			continue
		}
		labels := map[string]string{}
		for _, m := range label.FindAllStringSubmatch(name, -1) {
			labels[m[1]] = m[2]
		}
		c[labels["verb"]+" "+labels["resource"]] += value
	}
	return c, nil
}

// open opens every tab, each with a stream that is read, and returns when each has had its first event.
func (t *tabs) open(ctx context.Context) (closeAll func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	closeAll = func() { cancel(); reading.Wait() }
	cookies, err := t.crowd.Cookies(ctx, t.Tabs)
	if err != nil {
		cancel()
		return nil, err
	}
	for i, cookie := range cookies {
		first := make(chan error, 1)
		reading.Go(func() { read(ctx, t.crowd.Page+"/events", cookie, first) })
		if err := <-first; err != nil {
			closeAll()
			return nil, fmt.Errorf("tab %d: %w", i+1, err)
		}
	}
	return closeAll, nil
}

// read reads a stream until ctx ends, and tells first of its first line.
func read(ctx context.Context, address string, cookie *http.Cookie, first chan<- error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		first <- err
		return
	}
	r.AddCookie(cookie)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		first <- err
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		first <- fmt.Errorf("event stream: %s", answer.Status)
		return
	}
	lines := bufio.NewReader(answer.Body)
	_, err = lines.ReadString('\n')
	first <- err
	for err == nil {
		_, err = lines.ReadString('\n')
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
