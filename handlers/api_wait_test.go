package handlers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestETag answers 304 for the version that the caller has, and not for another one.
func TestETag(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada, path := p.token(p.adaToken), "/api/v1/requests/"+request.ID
	etag := ada.get(path).want(http.StatusOK).Header().Get("ETag")
	for _, seen := range []string{etag, strings.TrimPrefix(etag, "W/"), `"other", ` + etag, "*"} {
		if got := ada.with("If-None-Match", seen).get(path).want(http.StatusNotModified); got.Body.Len() > 0 || got.Header().Get("ETag") != etag {
			t.Errorf("%s: %d bytes, ETag %s", seen, got.Body.Len(), got.Header().Get("ETag"))
		}
	}
	cluster := rayslice.Cluster{RequestID: request.ID, ObservedAt: time.Now(), Exists: true}
	save := func() {
		if err := p.store.SaveCluster(t.Context(), rayslice.System, cluster); err != nil {
			t.Fatal(err)
		}
	}
	save()
	seen := ada.with("If-None-Match", etag).get(path).want(http.StatusOK).Header().Get("ETag")
	cluster.ObservedAt = cluster.ObservedAt.Add(time.Second)
	save()
	ada.with("If-None-Match", seen).get(path).want(http.StatusNotModified) // another look is no other version
	ada.with("If-None-Match", seen).with("Accept-Language", "zh-CN").get(path)
	stopped := ada.send(http.MethodPost, path+"/stop", nil).want(http.StatusOK)
	if stopped.Header().Get("ETag") == seen {
		t.Error("a stopped request has the ETag of before")
	}
	p.token(p.samToken).with("If-None-Match", "*").get(path).want(http.StatusNotFound)
}

// TestWait holds an answer back until the request has changed.
func TestWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		etag bool
		wait string
	}{
		"until the state is another":   {false, "60"},
		"until the version is another": {true, "60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			request := p.create(p.Ada, storetest.Draft(1, 8))
			ada, path := p.token(p.adaToken), "/api/v1/requests/"+request.ID
			if tc.etag {
				ada = ada.with("If-None-Match", ada.get(path).Header().Get("ETag"))
			}
			answers := make(chan answer)
			go func() { answers <- ada.get(path + "?wait=" + tc.wait) }()
			p.untilStreams(1)
			if _, err := p.store.StopRequest(t.Context(), p.Ada, request.ID); err != nil {
				t.Fatal(err)
			}
			var now api.Request
			(<-answers).want(http.StatusOK).decode(&now)
			if now.State != rayslice.StateStopping {
				t.Errorf("state %s, want stopping", now.State)
			}
			p.untilStreams(0)
		})
	}
}

// TestWaitIsOver answers with what is true when nothing has changed, and at once where nothing can.
func TestWaitIsOver(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada, path := p.token(p.adaToken), "/api/v1/requests/"+request.ID
	etag := ada.get(path + "?wait=1").want(http.StatusOK).Header().Get("ETag")
	ada.with("If-None-Match", etag).get(path + "?wait=1").want(http.StatusNotModified)
	for _, wait := range []string{"-1", "61", "1e1", "x", "", "5&wait=6"} {
		if e := ada.get(path + "?wait=" + wait).want(http.StatusUnprocessableEntity).problem().Errors; len(e) != 1 || e[0].Field != "wait" {
			t.Errorf("%q: %+v", wait, e)
		}
	}
	storetest.Exec(t, `UPDATE requests SET state = 'stopped' WHERE id = $1`, request.ID)
	began := time.Now()
	ada.get(path + "?wait=60").want(http.StatusOK)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("waited %s for what is over", took)
	}
}

// TestWaitEndsWithTheToken is B122: whoever waits hears 401 when their token ends.
func TestWaitEndsWithTheToken(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.timing.recheck = 50 * time.Millisecond
	request := p.create(p.Ada, storetest.Draft(1, 8))
	answers := make(chan answer)
	go func() { answers <- p.token(p.adaToken).get("/api/v1/requests/" + request.ID + "?wait=60") }()
	p.untilStreams(1)
	storetest.Exec(t, `UPDATE tokens SET ends_at = now() - interval '1 second' WHERE user_id = $1`, p.Ada.ID)
	began := time.Now()
	if got := (<-answers).want(http.StatusUnauthorized).problem(); got.Code != "bad_token" {
		t.Errorf("code %s", got.Code)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("heard of it after %s", took)
	}
}

// TestTooManyWaits counts whoever waits as a stream.
func TestTooManyWaits(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada, path := p.token(p.adaToken), "/api/v1/requests/"+request.ID
	answers := make(chan answer)
	for range maxStreams {
		go func() { answers <- ada.get(path + "?wait=60") }()
	}
	p.untilStreams(maxStreams)
	if got := ada.get(path + "?wait=60").want(http.StatusTooManyRequests); got.problem().Code != "too_many_streams" || got.Header().Get("Retry-After") == "" {
		t.Errorf("%v", got.Header())
	}
	ada.get(path).want(http.StatusOK)
	p.server.Close() // they hear what is true now
	for range maxStreams {
		(<-answers).want(http.StatusOK)
	}
}

// untilStreams waits until so many streams and waiting calls are open.
func (p *portal) untilStreams(want int) {
	p.t.Helper()
	tick, over := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for {
		p.server.streams.mu.Lock()
		open := len(p.server.streams.open)
		p.server.streams.mu.Unlock()
		if open == want {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			p.t.Fatalf("%d streams are open, want %d", open, want)
		}
	}
}
