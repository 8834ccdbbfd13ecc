package handlers

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice/store/storetest"
	"github.com/rayslice/rayslice/web/browsertest"
)

// hostile is a dashboard that tries to get at the portal and at its neighbour. PORTAL and NEIGHBOUR are their origins.
const hostile = `<!doctype html><title>dashboard</title><script>
	const violated = [];
	addEventListener("securitypolicyviolation", e => violated.push(e.effectiveDirective));
	const attempt = async f => { try { return String(await f()); } catch (e) { return "failed"; } };
	const read = (url, options) => attempt(async () => { const r = await fetch(url, {credentials: "include", ...options}); return r.type + " " + r.status; });
	const frame = url => new Promise(done => {
		const f = document.createElement("iframe");
		f.onload = () => done(f.contentDocument?.title ?? "a frame of another origin");
		f.src = url;
		document.body.append(f);
		setTimeout(() => done("nothing"), 3000);
	});
	window.report = (async () => {
		await new Promise(done => addEventListener("load", done));
		for (const domain of ["", "; domain=127.0.0.1", "; domain=localhost", "; domain=clusters.localhost"])
			document.cookie = "rayslice_session=evil; path=/" + domain;
		return JSON.stringify({
			cookie: document.cookie,
			api: await read("PORTAL/api/v1/requests"),
			blind: await read("PORTAL/clusters", {mode: "no-cors"}),
			stop: await read("PORTAL/signout", {method: "POST", mode: "no-cors"}),
			framed: await frame("PORTAL/clusters"),
			neighbour: await read("NEIGHBOUR/api/jobs/", {method: "POST", mode: "no-cors"}),
			neighbourFramed: await frame("NEIGHBOUR/nodes"),
			worker: await attempt(() => navigator.serviceWorker.register("/static/js/sw.js")),
			own: await read("/api/jobs/", {method: "POST"}),
			socket: await attempt(() => new Promise((open, fail) => {
				const s = new WebSocket("ws://" + location.host + "/api/jobs/a/logs/tail");
				s.onopen = () => open("open");
				s.onerror = fail;
			})),
			violated: [...new Set(violated)].sort().join(" "),
		});
	})();
</script><body>`

// TestHostileDashboardInBrowser is T39: what a cluster's pages do in a real browser reaches neither the portal nor a neighbour.
func TestHostileDashboardInBrowser(t *testing.T) {
	browser := browsertest.New(t)
	server := httptest.NewUnstartedServer(nil)
	portal := "http://" + server.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	var neighbour string
	c := openClusters(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Clear-Site-Data", `"cookies"`)
		w.Header().Set("Set-Cookie", "rayslice_session=evil; Domain=127.0.0.1")
		switch {
		case r.Header.Get("Upgrade") != "":
			acceptSocket(w, r)
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, "0")
		case r.URL.Path == "/":
			_, _ = io.WriteString(w, strings.NewReplacer("PORTAL", portal, "NEIGHBOUR", neighbour).Replace(hostile))
		default:
			_, _ = io.WriteString(w, "<title>open</title>")
		}
	}, func(config *Config) { config.PublicURL, config.ClustersDomain = portal, "clusters.localhost" })
	server.Config.Handler = c.server
	server.Start()
	t.Cleanup(func() { c.server.Close(); server.Close() })
	other := c.create(c.Ada, storetest.Draft(1, 8))
	c.run(other)
	host := func(id string) string { return "http://" + id + ".clusters.localhost:" + port }
	neighbour = host(other.ID)

	ctx, cancel := context.WithTimeout(browser, 4*time.Minute)
	defer cancel()
	open := func(id string) chromedp.Action {
		return chromedp.Tasks{
			chromedp.Navigate(portal + "/clusters/" + id),
			chromedp.WaitVisible(`#open`, chromedp.ByQuery),
			chromedp.Evaluate(`{ const f = document.querySelector("form[action$='/open']"); f.target = ""; f.submit() }`, nil), // this tab is the one that is watched
		}
	}
	var atNeighbour, at, report, killed, who string
	var cookies []*network.Cookie
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	err := chromedp.Run(ctx,
		chromedp.Navigate(portal+"/signin"),
		chromedp.Click(`//button[contains(., "Ada")]`, chromedp.BySearch), chromedp.WaitVisible(`.who`, chromedp.ByQuery),
		open(other.ID), arrival(neighbour, &atNeighbour),
		open(c.request.ID), arrival(host(c.request.ID), &at),
		chromedp.Evaluate(`window.report`, &report, wait),
		chromedp.Evaluate(fmt.Sprintf(`location = %q`, neighbour+"/api/actors/kill?actor_id=1"), nil),
		arrival(neighbour+"/api", new(string)), chromedp.Evaluate(`document.body.innerText`, &killed),
		chromedp.Navigate(portal+"/clusters"), chromedp.Text(`.who`, &who, chromedp.ByQuery),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			cookies, err = network.GetCookies().WithURLs([]string{portal}).Do(ctx)
			return err
		}),
	)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, report, c.log)
	}
	if atNeighbour != neighbour+"/" || at != host(c.request.ID)+"/" {
		t.Errorf("opened %s and %s, want both without a code", atNeighbour, at)
	}
	var said map[string]string
	if err := json.Unmarshal([]byte(report), &said); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"api": "failed", "blind": "failed", "stop": "failed", "neighbour": "failed", "worker": "failed",
		"own": "basic 200", "socket": "open", "violated": "connect-src frame-src",
	} {
		if said[what] != want {
			t.Errorf("%s: %q, want %q", what, said[what], want)
		}
	}
	if strings.Contains(said["cookie"], "rayslice_cluster") || said["framed"] == "open" || said["neighbourFramed"] == "open" {
		t.Errorf("the dashboard reads %v", said)
	}
	if !strings.Contains(killed, "another site") && !strings.Contains(killed, "other site") {
		t.Errorf("a neighbour's link shows %q", killed)
	}
	if who != "Ada" {
		t.Errorf("the portal knows the visitor as %q", who)
	}
	for _, cookie := range cookies {
		if cookie.Value == "evil" {
			t.Errorf("the portal got the cookie %+v", cookie)
		}
	}
	c.checkNeighbourHeard(other.ID)
}

// arrival waits until the page is on an origin, and says where. The page before is of another origin, thus another process.
func arrival(origin string, address *string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var state string
			err := chromedp.Evaluate(`location.href + " " + document.readyState`, &state).Do(ctx) // it fails in between
			href, ready, _ := strings.Cut(state, " ")
			if err == nil && ready == "complete" && strings.HasPrefix(href, origin) {
				*address = href
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("at %q instead of %s: %w", state, origin, ctx.Err())
			}
		}
	})
}

// checkNeighbourHeard fails unless a cluster heard only that its own dashboard was opened.
func (c *clusters) checkNeighbourHeard(id string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.heard {
		if !strings.HasPrefix(r.Header.Get("X-Forwarded-Host"), id) || r.URL.Path == "/" || r.URL.Path == "/favicon.ico" {
			continue
		}
		if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
			c.t.Errorf("the neighbour heard %s %s, %v", r.Method, r.URL, r.Header)
		}
	}
}

// acceptKey is what RFC 6455 makes of a WebSocket's key.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// acceptSocket answers a WebSocket's handshake as RFC 6455 asks for, and says nothing more.
func acceptSocket(w http.ResponseWriter, r *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(r.Header.Get("Sec-WebSocket-Key")))
	_, _ = io.Copy(io.Discard, conn)
}
