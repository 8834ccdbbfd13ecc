package handlers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// clusters is a portal with one running cluster of Ada's, whose head is an HTTP server of the test.
type clusters struct {
	*portal
	head    *httptest.Server
	request rayslice.Request
	host    string // of the cluster
	address string // of another head than the test's own; "" = that

	mu    sync.Mutex
	heard []*http.Request // by the head
	asked []Head          // that the portal wanted a way to
}

// openClusters starts one with a head that answers by f; nil = with 200 and a word.
func openClusters(t testing.TB, f http.HandlerFunc, change ...func(*Config)) *clusters {
	t.Helper()
	c := &clusters{}
	if f == nil {
		f = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "from the head") }
	}
	c.head = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.heard = append(c.heard, r)
		c.mu.Unlock()
		f(w, r)
	}))
	t.Cleanup(c.head.Close)
	c.portal = open(t, append([]func(*Config){func(config *Config) {
		config.ClustersDomain = "clusters.example"
		config.Dashboard = func(head Head) http.RoundTripper {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked = append(c.asked, head)
			return c.way()
		}
	}}, change...)...)
	c.request = c.create(c.Ada, storetest.Draft(1, 8))
	c.run(c.request)
	c.host = c.request.ID + ".clusters.example"
	return c
}

// way leads to the head and nowhere else.
func (c *clusters) way() http.RoundTripper {
	address := c.head.Listener.Addr().String()
	if c.address != "" {
		address = c.address
	}
	return &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
}

// run lets a request have a head.
func (p *portal) run(request rayslice.Request) {
	p.t.Helper()
	for _, step := range [][2]rayslice.State{{rayslice.StateApproved, rayslice.StateProvisioning}, {rayslice.StateProvisioning, rayslice.StateReady}} {
		if err := p.store.Move(p.t.Context(), rayslice.System, request.ID, step[0], step[1], rayslice.Reason{}, "uid"); err != nil {
			p.t.Fatal(err)
		}
	}
	p.observe(request, &rayslice.Worker{Name: request.ObjectName() + "-head-x", Phase: rayslice.PodRunning, Ready: true, IP: "10.9.8.7"})
}

func (p *portal) observe(request rayslice.Request, head *rayslice.Worker) {
	p.t.Helper()
	err := p.store.SaveCluster(p.t.Context(), rayslice.System, rayslice.Cluster{RequestID: request.ID, ObservedAt: time.Now(), Exists: true, Ours: true, UID: "uid", Head: head, HeadAnswers: true, Service: request.ObjectName() + "-head-svc.team-vision.svc"})
	if err != nil {
		p.t.Fatal(err)
	}
}

// last is what the head heard last.
func (c *clusters) last() *http.Request {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) == 0 {
		c.t.Fatal("the head has heard nothing")
	}
	return c.heard[len(c.heard)-1]
}

func (c *clusters) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heard)
}

// guest is somebody at the host of a cluster.
type guest struct {
	visitor
	host string
}

// at is a browser or a program at the cluster's host.
func (c *clusters) at(v visitor) guest { return guest{v, c.host} }

func (g guest) with(name, value string) guest { return guest{g.visitor.with(name, value), g.host} }

func (g guest) send(method, target string, body io.Reader) answer {
	g.p.t.Helper()
	r := httptest.NewRequest(method, target, body)
	r.Host, r.Header = g.host, g.header.Clone()
	a := answer{httptest.NewRecorder(), g.p.t, method + " " + target}
	g.p.server.ServeHTTP(a.ResponseRecorder, r)
	return a
}

func (g guest) get(target string) answer { return g.send(http.MethodGet, target, nil) }

// code lets somebody open the cluster in the portal and returns where they are led.
func (c *clusters) code(u rayslice.User) *url.URL {
	c.t.Helper()
	to, err := url.Parse(c.as(u).post("/clusters/"+c.request.ID+"/open", nil).want(http.StatusSeeOther).location())
	if err != nil {
		c.t.Fatal(err)
	}
	return to
}

// opens lets somebody open the dashboard by browser, as far as their cookie of the cluster's host.
func (c *clusters) opens(u rayslice.User) guest {
	c.t.Helper()
	to := c.code(u)
	browser := guest{visitor{c.portal, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}}}, to.Host}
	got := browser.get(to.RequestURI()).want(http.StatusSeeOther)
	if got.location() != "/" {
		c.t.Fatalf("led to %s, want the dashboard without the code", got.location())
	}
	cookies := got.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].Domain != "" || cookies[0].SameSite != http.SameSiteLaxMode {
		c.t.Fatalf("cookies %v, want one of this host alone", cookies)
	}
	return browser.with("Cookie", cookies[0].Name+"="+cookies[0].Value).with("Sec-Fetch-Site", "same-origin").with("Sec-Fetch-Mode", "cors").with("Sec-Fetch-Dest", "empty")
}

// TestWhoMayDoWhatOnAClustersHost asks for every kind of address as everybody, against the written table.
func TestWhoMayDoWhatOnAClustersHost(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	type row struct{ anonymous, stranger, owner, member, lead, admin, reader, token, strangerToken int }
	all := row{401, 404, 200, 200, 200, 200, 200, 200, 404}
	change := row{401, 404, 200, 403, 200, 403, 403, 200, 404}
	own := row{404, 404, 404, 404, 404, 404, 404, 404, 404}
	table := map[string]row{
		"GET /.rayslice/open": {401, 401, 401, 401, 401, 401, 401, 401, 401}, // without a code
		"GET /.rayslice/x":    own,
		"POST /.rayslice/x":   own,
	}
	for _, path := range viewPaths {
		table["GET "+strings.ReplaceAll(path, "*", "abc")] = all
		table["POST "+strings.ReplaceAll(path, "*", "abc")] = change
	}
	for _, path := range []string{"/api/actors/kill?actor_id=1&force_kill=true", "/task/traceback", "/task/cpu_profile", "/worker/traceback", "/worker/cpu_profile",
		"/worker/gpu_profile", "/memory_profile", "/log_proxy?url=http://169.254.169.254/", "/test/dump", "/api/v0/delay/5", "/api/prometheus/sd", "/api/unheard-of",
		"/logs/", "/api/packages/gcs/x.zip", "/api/jobs", "/api/jobs/a/b", "/static/", "/static/js/a/b", "/api/v0/logs/other", "/nodes/%61bc"} {
		table["GET "+path] = change
	}
	for _, line := range []string{"PUT /api/packages/gcs/x.zip", "DELETE /api/jobs/abc", "POST /api/jobs/abc/stop", "PUT /api/serve/applications/", "DELETE /api/serve/applications/",
		"OPTIONS /api/jobs/", "PATCH /"} {
		table[line] = change
	}
	stranger := c.at(c.nobody()).with("Cookie", c.opens(c.Ada).header.Get("Cookie")) // Ada's cookie, at another cluster
	theirs := c.create(c.Sam, func() rayslice.RequestDraft { d := storetest.Draft(1, 8); d.Team = "speech"; return d }())
	c.run(theirs)
	stranger.host = theirs.ID + ".clusters.example"
	reader := c.at(c.token(c.newToken(c.Ada, rayslice.ScopeRead, rayslice.ScopeStop)))
	guests := map[string]guest{
		"anonymous": c.at(c.nobody()), "owner": c.opens(c.Ada), "member": c.opens(c.Bob), "lead": c.opens(c.Lea), "admin": c.opens(c.Root),
		"reader": reader, "token": c.at(c.token(c.adaToken)), "strangerToken": c.at(c.token(c.samToken)),
	}
	for line, want := range table {
		method, target, _ := strings.Cut(line, " ")
		for who, status := range map[string]int{"anonymous": want.anonymous, "owner": want.owner, "member": want.member, "lead": want.lead, "admin": want.admin,
			"reader": want.reader, "token": want.token, "strangerToken": want.strangerToken} {
			before := c.count()
			got := guests[who].with("Accept", "*/*").send(method, target, nil)
			if got.Code != status {
				t.Errorf("%s by %s: %d, want %d", line, who, got.Code, status)
			}
			if heard := c.count() - before; (heard == 1) != (status == 200) {
				t.Errorf("%s by %s: the head heard it %d times", line, who, heard)
			}
		}
	}
	stranger.with("Accept", "*/*").get("/").want(http.StatusUnauthorized)
	c.as(c.Sam).post("/clusters/"+c.request.ID+"/open", nil).want(http.StatusNotFound)
	c.token(c.adaToken).post("/clusters/"+c.request.ID+"/open", nil).want(http.StatusForbidden)
}

// TestRefusalsOnAClustersHostAreOneRow: a program that may only look and tries on and on, to one address or many, does not
// crowd the history of the cluster.
func TestRefusalsOnAClustersHostAreOneRow(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	bob := c.opens(c.Bob)
	for n := range 20 {
		bob.send(http.MethodPost, "/api/jobs/", strings.NewReader("{}")).want(http.StatusForbidden)
		bob.send(http.MethodDelete, fmt.Sprintf("/api/jobs/%d", n), nil).want(http.StatusForbidden)
		bob.get(fmt.Sprintf("/api/actors/kill?actor_id=%d", n)).want(http.StatusForbidden)
	}
	reader := c.at(c.token(c.newToken(c.Ada, rayslice.ScopeRead)))
	for range 3 {
		reader.send(http.MethodPost, "/api/jobs/", nil).want(http.StatusForbidden)
	}
	entries, err := c.store.Audit(t.Context(), c.Ada, c.request.ID)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, e := range entries {
		if e.Action == "refuse" {
			refused = append(refused, e.Actor+" "+e.Subject+" "+e.Reason.Code)
		}
	}
	if want := []string{"Bob POST /api/jobs/ view_only", "Ada POST /api/jobs/ token_scope"}; !slices.Equal(refused, want) {
		t.Errorf("recorded %q, want %q", refused, want)
	}
}

// TestAnotherTeamsClusterHost is T30 on clusters' hosts: another team's is answered word for word like one that does not exist.
func TestAnotherTeamsClusterHost(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	sam := c.at(c.token(c.samToken)).with("X-Request-Id", "the-same-id")
	nobodys := sam
	nobodys.host = "aaaaaaaaaaaa.clusters.example"
	a, b := sam.get("/api/version").want(http.StatusNotFound), nobodys.get("/api/version").want(http.StatusNotFound)
	if a.Body.String() != b.Body.String() {
		t.Errorf("bodies\n%s\n%s", a.Body, b.Body)
	}
	browser := c.at(c.nobody()).with("Accept", "text/html")
	if got := browser.get("/").want(http.StatusSeeOther).location(); got != "http://portal.example/clusters/"+c.request.ID {
		t.Errorf("a browser without a cookie is led to %s", got)
	}
	if c.count() != 0 {
		t.Errorf("the head heard %d requests", c.count())
	}
}

// TestOpeningCode works once, at one host, within a minute, for one session, and is recorded.
func TestOpeningCode(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	to := c.code(c.Ada)
	if !strings.HasPrefix(to.String(), "http://"+c.host+"/.rayslice/open?code=") {
		t.Errorf("led to %s", to)
	}
	browser := c.at(c.nobody()).with("Accept", "text/html")
	other := browser
	second := c.create(c.Ada, storetest.Draft(1, 8))
	c.run(second)
	other.host = second.ID + ".clusters.example"
	other.get(to.RequestURI()).want(http.StatusSeeOther) // to the portal: it is another cluster's
	if cookies := other.get(to.RequestURI()).Result().Cookies(); len(cookies) != 0 {
		t.Errorf("another cluster's host sets %v", cookies)
	}
	browser.get(to.RequestURI()).want(http.StatusSeeOther)
	if got := browser.get(to.RequestURI()).location(); got != "http://portal.example/clusters/"+c.request.ID {
		t.Errorf("the code worked twice: led to %s", got)
	}
	late := c.code(c.Ada)
	storetest.Exec(t, `UPDATE openings SET ends_at = now() WHERE code IS NOT NULL`)
	if cookies := browser.get(late.RequestURI()).Result().Cookies(); len(cookies) != 0 {
		t.Errorf("a code that is over sets %v", cookies)
	}
	if strings.Contains(c.log.String(), to.Query().Get("code")) {
		t.Error("the log has the code")
	}
	c.code(c.Bob)
	c.at(c.token(c.adaToken)).get("/").want(http.StatusOK)
	c.at(c.token(c.adaToken)).get("/").want(http.StatusOK)
	entries, err := c.store.Audit(t.Context(), c.Ada, c.request.ID)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range entries {
		if e.Action == "open" {
			said = append(said, fmt.Sprintf("%s %s %t", e.Actor, e.Reason.Code, e.Via != ""))
		}
	}
	if got, want := strings.Join(said, ", "), "Ada opened_full false, Ada opened_full false, Bob opened_view false, Ada opened_full true"; got != want {
		t.Errorf("audit: %s, want %s", got, want)
	}
}

// TestCutOff ends what somebody has open when they may not go on: signed out, disabled, out of the team, token revoked.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *clusters, g guest){
		"session ended": func(c *clusters, _ guest) {
			if err := c.store.EndSessions(c.t.Context(), c.Ada, c.Ada.ID); err != nil {
				c.t.Fatal(err)
			}
		},
		"signed out": func(c *clusters, _ guest) { storetest.Exec(c.t, `DELETE FROM sessions`) },
		"disabled": func(c *clusters, _ guest) {
			if err := c.store.SetDisabled(c.t.Context(), c.Root, c.Ada.ID, true); err != nil {
				c.t.Fatal(err)
			}
		},
		"out of the team": func(c *clusters, _ guest) { storetest.Exec(c.t, `DELETE FROM roles WHERE user_id = $1`, c.Ada.ID) },
		"cluster stopped": func(c *clusters, _ guest) {
			if _, err := c.store.StopRequest(c.t.Context(), c.Ada, c.request.ID); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openClusters(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // which comes when the portal hangs up
			})
			web := c.serve(func(x *timing) { x.recheck = 20 * time.Millisecond })
			ada := c.opens(c.Ada)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/jobs/a/logs", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host, r.Header = c.host, ada.header
			response, err := web.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			first := make([]byte, 5)
			if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first" {
				t.Fatalf("%q, %v", first, err)
			}
			end(c, ada)
			if _, err := io.ReadAll(response.Body); err == nil {
				t.Error("the answer ended in order, want it cut off")
			}
			if got := ada.with("Accept", "*/*").send(http.MethodPost, "/api/jobs/", nil); got.Code < 400 {
				t.Errorf("afterwards: %d", got.Code)
			}
		})
	}
}
