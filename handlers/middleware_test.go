package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
	"github.com/rayslice/rayslice/web"
)

// TestSecurityHeaders is T37: the same headers on every answer.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) { c.Render = func(rayslice.Request) (string, error) { return "", errors.New("broken") } })
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada := p.as(p.Ada)
	answers := map[string]answer{
		"page":      ada.get("/clusters").want(200),
		"404":       ada.get("/no-such").want(404),
		"500":       ada.get("/clusters/" + request.ID + "/yaml").want(500),
		"405":       ada.send(http.MethodPut, "/clusters", nil).want(405),
		"redirect":  p.nobody().get("/clusters").want(303),
		"static":    p.nobody().get("/static/app.css").want(200),
		"no static": p.nobody().get("/static/no-such").want(404),
		"stream":    ada.send(http.MethodHead, "/clusters/"+request.ID+"/events", nil).want(200),
		"API":       p.token(p.adaToken).get("/api/v1/requests").want(200),
		"API 401":   p.nobody().get("/api/v1/requests").want(401),
		"health":    p.nobody().get("/healthz").want(200),
		"metrics":   p.nobody().get("/metrics").want(200),
		"account":   ada.get("/account").want(200),
		"secret":    ada.post("/account/tokens", url.Values{"name": {"x"}, "days": {"1"}}).want(201),
		"people":    p.as(p.Root).get("/admin/people").want(200),
		"no rights": ada.get("/admin/people").want(403),
		"forbidden": ada.with("Sec-Fetch-Site", "cross-site").post("/clusters", nil).want(403),
	}
	for name, got := range answers {
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got.Header().Get(header) != want {
				t.Errorf("%s: %s %q, want %q", name, header, got.Header().Get(header), want)
			}
		}
		csp := got.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", name, csp)
		}
		if len(got.Header().Get("X-Request-Id")) < 20 {
			t.Errorf("%s: request id %q", name, got.Header().Get("X-Request-Id"))
		}
	}
	if got := answers["page"].Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("pages may be kept: %q", got)
	}
	if got := answers["static"].Header().Get("Cache-Control"); got == "no-store" {
		t.Errorf("static files may not be kept: %q", got)
	}
}

// TestPagesKeepThePolicy looks for what the policy would block: inline scripts, styles and handlers.
func TestPagesKeepThePolicy(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	for _, path := range []string{"/clusters", "/clusters/new", "/clusters/" + request.ID, "/teams/vision", "/no-such", "/signin", "/account", "/account?confirm=sessions", "/admin/people"} {
		page := p.as(p.Ada).send(http.MethodGet, path, nil).page()
		for _, selector := range []string{"script:not([src])", "style", "[style]", "[onclick]", "[onchange]", "[onload]", "a[href^='javascript:']", "script[src^='http']", "link[href^='http']"} {
			if n := page.Find(selector).Length(); n != 0 {
				t.Errorf("%s has %d of %s", path, n, selector)
			}
		}
	}
}

// TestCrossSiteRequests is T38: what another site makes a browser send has no effect.
func TestCrossSiteRequests(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada := p.as(p.Ada).with("Sec-Fetch-Site", "")
	for name, v := range map[string]visitor{
		"cross-site":     ada.with("Sec-Fetch-Site", "cross-site"),
		"same-site":      ada.with("Sec-Fetch-Site", "same-site"), // a neighbour on the same domain, e.g. a dashboard
		"foreign origin": ada.with("Origin", "https://evil.example"),
		"null origin":    ada.with("Origin", "null"),
		"no origin":      ada,
	} {
		for _, path := range []string{"/clusters", "/clusters/preview", "/clusters/" + request.ID + "/stop", "/signin", "/signout", "/language",
			"/account/tokens", "/account/sessions/end", "/admin/people/1/roles", "/admin/people/1/disable"} {
			if got := v.post(path, goodForm()); got.Code != http.StatusForbidden {
				t.Errorf("%s to %s: %d, want 403", name, path, got.Code)
			}
		}
		if got := v.postJSON("/api/v1/requests", goodBody); got.Code != http.StatusForbidden {
			t.Errorf("%s to the API with a cookie: %d, want 403", name, got.Code)
		}
	}
	ada.with("Origin", "http://portal.example").with("Content-Type", "text/plain").
		send(http.MethodPost, "/clusters", strings.NewReader(goodForm().Encode())).want(http.StatusUnsupportedMediaType)
	if n := p.countRequests(); n != 1 {
		t.Errorf("%d requests, want the one from before", n)
	}
	ada.with("Origin", "http://portal.example").post("/clusters", goodForm()).want(http.StatusSeeOther)
	p.token(p.adaToken).with("Origin", "https://notebook.example").postJSON("/api/v1/requests?dry_run=true", goodBody).want(http.StatusOK)
}

// TestDNSRebinding keeps a site whose name was pointed at this machine out of the demo, where anybody may be anybody.
func TestDNSRebinding(t *testing.T) {
	t.Parallel()
	for _, demo := range []bool{true, false} {
		p := open(t, func(c *Config) { c.Demo = demo })
		for host, want := range map[string]int{
			"portal.example": 200, "portal.example:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "localhost:8080": 200, "127.0.0.2": 200,
			"evil.example": 421, "evil.example:8080": 421, "10.0.0.7": 421, "127.0.0.1.evil.example": 421,
		} {
			r := httptest.NewRequest(http.MethodGet, "/signin", nil)
			r.Host = host
			w := httptest.NewRecorder()
			p.server.ServeHTTP(w, r)
			if !demo {
				want = 200 // behind a proxy, names are the proxy's business, and a name alone signs nobody in
			}
			if w.Code != want {
				t.Errorf("demo %v, host %q: %d, want %d", demo, host, w.Code, want)
			}
		}
	}
}

// TestUnknownPage knows its reader.
func TestUnknownPage(t *testing.T) {
	t.Parallel()
	p := open(t)
	if got := p.as(p.Ada).get("/no-such").want(http.StatusNotFound).page().Find(".who").Text(); got != "Ada" {
		t.Errorf("the page is for %q", got)
	}
	p.nobody().get("/no-such").want(http.StatusNotFound).page()
	p.nobody().get("/api/no-such").want(http.StatusNotFound).problem()
}

// TestFaultsStayInside is T45: what went wrong is in the log under the request id, and outside there is only the id.
func TestFaultsStayInside(t *testing.T) {
	t.Parallel()
	const secret = "pq: password of 10.0.0.7"
	broken := func(rayslice.Request) (string, error) { panic(secret) }
	p := open(t, func(c *Config) {
		c.Render = func(r rayslice.Request) (string, error) { return broken(r) }
	})
	request := p.create(p.Ada, storetest.Draft(1, 8))
	check := func(got answer) {
		t.Helper()
		id := got.Header().Get("X-Request-Id")
		body := got.Body.String()
		if !strings.Contains(body, id) || strings.Contains(body, "password") || strings.Contains(body, "goroutine") {
			t.Errorf("%s answers %s", got.what, body)
		}
		found := false
		for line := range strings.Lines(p.log.String()) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("log line %q: %v", line, err)
			}
			found = found || (record["request_id"] == id && strings.Contains(line, "password") && record["level"] == "ERROR")
		}
		if !found {
			t.Errorf("%s: the log has no cause under %s", got.what, id)
		}
	}
	check(p.as(p.Ada).get("/clusters/" + request.ID + "/yaml").want(http.StatusInternalServerError))
	check(p.token(p.adaToken).postJSON("/api/v1/requests?dry_run=true", goodBody).want(http.StatusInternalServerError))
	broken = func(rayslice.Request) (string, error) { return "", errors.New(secret) }
	check(p.as(p.Ada).post("/clusters/preview", goodForm()).want(http.StatusInternalServerError))
	if got := p.token(p.adaToken).postJSON("/api/v1/requests?dry_run=true", goodBody).want(http.StatusInternalServerError).problem(); got.Code != "internal" || got.Detail == "" {
		t.Errorf("got %+v", got)
	}
}

// TestEventTextIsEscaped is T45's other half: what pods say is text.
func TestEventTextIsEscaped(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	err := p.store.SaveCluster(t.Context(), rayslice.System, rayslice.Cluster{RequestID: request.ID, ObservedAt: time.Now(), Exists: true, Ours: true,
		Events: []rayslice.Event{{At: time.Now(), Warning: true, Object: "Pod/x", Reason: "Failed", Message: "<img src=x onerror=alert(1)>", Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	page := p.as(p.Ada).get("/clusters/" + request.ID).want(http.StatusOK).page()
	if !strings.Contains(page.Find("table.events").Text(), "<img src=x") || page.Find("table.events img").Length() != 0 {
		t.Error("the event's text is not shown as text")
	}
}

// TestDatabaseAway answers 503 with Retry-After, and says in /readyz which part is missing.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	const nobodyListens = "postgres://portal:secret@127.0.0.1:1/rayslice"
	p := open(t, func(c *Config) {
		c.Store = storetest.Open(t, nobodyListens)
		sessions, err := pgxpool.New(t.Context(), nobodyListens)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sessions.Close)
		c.Sessions = sessions
	})
	withCookie := p.nobody().with("Cookie", p.server.sessions.Cookie.Name+"=anything")
	for _, got := range []answer{p.nobody().get("/signin"), withCookie.get("/clusters"), withCookie.post("/signout", nil), p.token(p.adaToken).get("/api/v1/requests")} {
		got.want(http.StatusServiceUnavailable)
		if got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "127.0.0.1") || strings.Contains(got.Body.String(), "secret") {
			t.Errorf("%s: %v\n%s", got.what, got.Header(), got.Body)
		}
	}
	var ready readiness
	p.nobody().get("/readyz").want(http.StatusServiceUnavailable).decode(&ready)
	if ready.Ready || len(ready.Reasons) == 0 || ready.Reasons[0] != "database: does not answer" {
		t.Errorf("got %+v", ready)
	}
	p.nobody().get("/healthz").want(http.StatusOK)
}

// TestReadinessFollowsTheWatches is B107: silence for long makes the portal not ready; a start does not.
func TestReadinessFollowsTheWatches(t *testing.T) {
	t.Parallel()
	health := Health{}
	p := open(t, func(c *Config) { c.Health = func() Health { return health } })
	var ready readiness
	p.nobody().get("/readyz").want(http.StatusOK).decode(&ready)
	if len(ready.Reasons) != 1 {
		t.Errorf("before the first read: %+v", ready)
	}
	health = Health{Synced: true, WatchAge: silentTooLong + time.Second, LastError: "dial tcp 10.0.0.1"}
	got := p.nobody().get("/readyz").want(http.StatusServiceUnavailable)
	if !strings.Contains(got.Body.String(), "silent for 15m1s") || strings.Contains(got.Body.String(), "10.0.0.1") {
		t.Errorf("got %s", got.Body)
	}
}

// TestRequestIDs keeps a proxy's id when it is sane, and makes one otherwise.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	p := open(t)
	if got := p.nobody().with("X-Request-Id", "proxy-id.42_ok").get("/healthz").Header().Get("X-Request-Id"); got != "proxy-id.42_ok" {
		t.Errorf("got %q", got)
	}
	for _, id := range []string{"short", strings.Repeat("x", 65), "with blank!", "a\r\nb: c12345", "<script>alert"} {
		if got := p.nobody().with("X-Request-Id", id).get("/healthz").Header().Get("X-Request-Id"); got == id || len(got) != 26 {
			t.Errorf("%q became %q", id, got)
		}
	}
	p.as(p.Ada).get("/clusters?q=what-people-search")
	if log := p.log.String(); strings.Contains(log, "what-people-search") || !strings.Contains(log, `"route":"/clusters"`) {
		t.Errorf("log: %s", log)
	}
}

// TestMetrics counts answers by route and never by id.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada := p.as(p.Ada)
	ada.get("/clusters/" + request.ID)
	ada.get("/made/up/path")
	ada.send("BREW", "/clusters", nil)
	got := p.nobody().get("/metrics").want(http.StatusOK).Body.String()
	if !strings.Contains(got, `rayslice_http_request_duration_seconds_count{method="GET",route="/clusters/:id",status="200"} 1`) {
		t.Errorf("no series for the route:\n%s", got)
	}
	for _, bad := range []string{request.ID, "made/up", "BREW"} {
		if strings.Contains(got, bad) {
			t.Errorf("a series has %q", bad)
		}
	}
	for _, want := range []string{`rayslice_requests{state="approved"} 1`, `rayslice_requests{state="pending"} 0`, "rayslice_approvals_waiting 0", "rayslice_approvals_oldest_seconds 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if !strings.Contains(got, "rayslice_event_streams 0") {
		t.Error("open streams are not counted")
	}
}

// TestFormsMustBeForms refuses other content types and broken encodings.
func TestFormsMustBeForms(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	for _, contentType := range []string{"", "application/json", "multipart/form-data; boundary=x"} {
		ada.with("Content-Type", contentType).send(http.MethodPost, "/clusters", strings.NewReader(goodForm().Encode())).want(http.StatusUnsupportedMediaType)
	}
	ada.with("Content-Type", "application/x-www-form-urlencoded").send(http.MethodPost, "/clusters", strings.NewReader("name=%zz")).want(http.StatusUnprocessableEntity)
	ada.post("/clusters?name=from-the-address", url.Values{}).want(http.StatusUnprocessableEntity)
}

// TestEveryRefusalHasASentence looks our codes up in every language; the store's are tested with the catalogues.
func TestEveryRefusalHasASentence(t *testing.T) {
	keys := []string{"field_" + codeStateUnknown}
	for _, code := range []string{"sign_in", "bad_token", "cross_origin", "no_origin", "unknown_host", "too_large", "method_not_allowed", "unsupported_media_type",
		"too_many_streams", "internal", "unavailable", "database_unavailable", "not_found", codeKeyReused} {
		keys = append(keys, "error_"+code)
	}
	for _, language := range web.Languages() {
		l := web.NewLocalizer(language.Code)
		for _, key := range keys {
			if l.T(key) == key {
				t.Errorf("%s has no sentence in %s", key, language.Name)
			}
		}
	}
}

// TestClientGoneIsNoFailure keeps people who leave a page out of the count of server failures.
func TestClientGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	away := &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_unavailable", Err: context.Canceled}
	if status, _ := explain(away); status != statusClientGone {
		t.Errorf("a query cut off by its client: status %d, want %d", status, statusClientGone)
	}
	if status, _ := explain(context.DeadlineExceeded); status != http.StatusServiceUnavailable {
		t.Errorf("a query that took too long: status %d, want 503", status)
	}
}
