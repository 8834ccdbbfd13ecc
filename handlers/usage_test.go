package handlers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store/storetest"
)

// running makes a request of Ada whose one worker runs.
func (p *portal) running() rayslice.Request {
	p.t.Helper()
	r := p.create(p.Ada, storetest.Draft(1, 8))
	for _, step := range [][2]rayslice.State{{rayslice.StateApproved, rayslice.StateProvisioning}, {rayslice.StateProvisioning, rayslice.StateReady}} {
		if err := p.store.Move(p.t.Context(), rayslice.System, r.ID, step[0], step[1], rayslice.Reason{}, ""); err != nil {
			p.t.Fatal(err)
		}
	}
	c := rayslice.Cluster{RequestID: r.ID, Exists: true, Workers: []rayslice.Worker{{Name: "worker-a", UID: "uid-a", Ready: true, Slice: r.Draft.Groups[0].Slice}}}
	if err := p.store.SaveCluster(p.t.Context(), rayslice.System, c); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// use saves a reading of the worker: MiB of 8192 in use.
func (p *portal) use(id string, mib int, grade rayslice.Grade) {
	p.t.Helper()
	now, limit, percent := time.Now(), 8192, 50.0
	u := rayslice.Use{RequestID: id, AskedAt: now, DataAt: now, Source: rayslice.UseFromRay, Samples: []rayslice.Sample{{PodUID: "uid-a", Pod: "worker-a", GPU: "GPU-1", At: now,
		UsedMiB: &mib, LimitMiB: &limit, MemoryGrade: grade, Percent: &percent, Grade: rayslice.GradeCard}}}
	if err := p.store.SaveUse(p.t.Context(), rayslice.System, []rayslice.Use{u}); err != nil {
		p.t.Fatal(err)
	}
}

// TestABarMovesAlone sends what changed of a cluster's use, and not the page around it.
func TestABarMovesAlone(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.running()
	web := p.serve(calm)
	one, list := p.as(p.Ada).open(web, "/clusters/"+request.ID+"/events", ""), p.as(p.Ada).open(web, "/clusters/events", "")
	if got := one.event("use").data; !strings.Contains(got, "unknown") {
		t.Errorf("before any reading: %s", got)
	}
	list.event("use")
	if got := one.response.Header.Get("Cache-Control"); got != "no-store, no-transform" {
		t.Errorf("Cache-Control %q", got)
	}
	for mib, want := range map[int]string{3174: "3.1 of 8.0 GiB", 4096: "4.0 of 8.0 GiB"} {
		p.use(request.ID, mib, rayslice.GradeSlice)
		for _, s := range []*stream{one, list} {
			if m := s.event("use"); !strings.Contains(m.data, want) || len(m.data) > 4000 || strings.Contains(m.data, "request-head") {
				t.Errorf("got %d bytes: %s; want the bars alone with %s", len(m.data), m.data, want)
			}
		}
	}
	p.use(request.ID, 4096, rayslice.GradeCard) // B058: of the whole card
	if got := one.event("use").data; !strings.Contains(got, "whole card") {
		t.Errorf("the card's figure is not marked: %s", got)
	}
	if got := list.event("use").data; strings.Contains(got, "4.0 of") {
		t.Errorf("the card's figure counts as the slice's: %s", got)
	}
	var until time.Time
	storetest.Query(t, &until, `SELECT until_at FROM use_watches WHERE request_id = $1`, request.ID)
	if left := time.Until(until); left < 20*time.Second || left > watchHolds {
		t.Errorf("watched for another %s", left)
	}
}

// TestWatchingIsSaidOnce looks with many pages at one cluster: the database hears of it once in a while.
func TestWatchingIsSaidOnce(t *testing.T) {
	w := watched{said: map[string]time.Time{}}
	now := time.Now()
	if got := w.due([]string{"a", "b"}, now); len(got) != 2 {
		t.Errorf("first %v", got)
	}
	for range 100 {
		if got := w.due([]string{"a", "b"}, now.Add(14*time.Second)); len(got) != 0 {
			t.Errorf("again %v", got)
		}
	}
	if got := w.due([]string{"a"}, now.Add(15*time.Second)); len(got) != 1 {
		t.Errorf("later %v", got)
	}
	w.forget([]string{"b"})
	if got := w.due([]string{"b"}, now.Add(time.Second)); len(got) != 1 {
		t.Errorf("after it failed %v", got)
	}
}

// TestStreamForPrograms is B121 and B122 of the API's stream: a token opens it, and when that ends, so does the stream, with
// what a 401 says.
func TestStreamForPrograms(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.running()
	p.use(request.ID, 4096, rayslice.GradeSlice)
	web := p.serve(func(t *timing) { t.recheck = 20 * time.Millisecond })
	path := "/api/v1/clusters/" + request.ID + "/events"
	s := p.token(p.adaToken).open(web, path, "")
	var cluster api.Request
	if err := json.Unmarshal([]byte(s.event("cluster").data), &cluster); err != nil || cluster.Id != request.ID || cluster.State != rayslice.StateReady {
		t.Errorf("%+v, %v", cluster, err)
	}
	var use useJSON
	if err := json.Unmarshal([]byte(s.event("use").data), &use); err != nil || len(use.Samples) != 1 || *use.Samples[0].UsedMiB != 4096 || use.DataAt == nil {
		t.Errorf("%+v, %v", use, err)
	}
	storetest.Exec(t, `UPDATE tokens SET revoked_at = now()`)
	if got := s.event("auth-expired").data; !strings.Contains(got, `"status":401`) {
		t.Errorf("in the end %s", got)
	}
	s.ends()
}

func TestUsageAPI(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.running()
	p.use(request.ID, 4096, rayslice.GradeSlice)
	ada, path := p.token(p.adaToken), "/api/v1/clusters/"+request.ID+"/usage"
	var got usageJSON
	for _, query := range []string{"", "?range=hour", "?from=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)) + "&step=60"} {
		if err := json.Unmarshal(ada.get(path+query).want(http.StatusOK).Body.Bytes(), &got); err != nil || got.Step == 0 || len(got.Points) != 1 || *got.Points[0].UsedMiB != 4096 ||
			got.Points[0].Grade != rayslice.GradeCard || got.Now.Samples[0].Grade != rayslice.GradeCard {
			t.Errorf("%q: %+v, %v", query, got, err)
		}
	}
	for query, field := range map[string]string{
		"?range=month": "range", "?range=hour&step=5": "range", "?range=": "range", "?range=day&range=week": "range",
		"?from=yesterday": "from", "?to=now": "to", "?from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z": "to", "?from=0001-01-01T00:00:00Z": "to",
		"?step=0": "step", "?step=-1": "step", "?step=1m": "step", "?step=99999999999999999999": "step", "?from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z&step=60": "step",
		"?until=2026-01-01T00:00:00Z": "until", "?from=%00": "from",
	} {
		problem := ada.get(path + query).want(http.StatusUnprocessableEntity).problem()
		if len(problem.Errors) != 1 || problem.Errors[0].Field != field {
			t.Errorf("%s: %+v, want %s named", query, problem.Errors, field)
		}
	}
	ada.get("/clusters/" + request.ID + "?range=nonsense").want(http.StatusOK) // a page shows what it can
}

// TestTwoPortals puts two portals behind a proxy that takes turns: both tell of what either was told.
func TestTwoPortals(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.running()
	second := another(t, p)
	proxied := inTurns(t, p.serve(calm), second.serve(calm))
	var streams []*stream
	for range 4 {
		s := p.as(p.Ada).open(proxied, "/clusters/"+request.ID+"/events", "")
		s.event("use")
		streams = append(streams, s)
	}
	for i, portal := range []*portal{p, second} {
		portal.use(request.ID, 1024*(i+2), rayslice.GradeSlice)
		for _, s := range streams {
			for got, want := "", []string{"2.0 of 8.0", "3.0 of 8.0"}[i]; !strings.Contains(got, want); got = s.event("use").data {
			}
		}
	}
}

// another returns a second replica on the same database.
func another(t *testing.T, p *portal) *portal {
	t.Helper()
	second := *p
	second.store = storetest.New(t)
	config := p.server.config
	config.Store, config.Metrics = second.store, prometheus.NewRegistry()
	var err error
	if second.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.server.Close)
	return &second
}

// inTurns returns a proxy that sends each request to the next of the servers.
func inTurns(t *testing.T, servers ...*httptest.Server) *httptest.Server {
	t.Helper()
	var turn atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(servers[int(turn.Add(1))%len(servers)].URL)
		if err != nil {
			t.Error(err)
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	web := httptest.NewServer(proxy)
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	return web
}
