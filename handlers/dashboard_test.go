package handlers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestWhatAClusterHears gives the head nothing that is the portal's or the visitor's: no cookie, no token, no host of theirs.
func TestWhatAClusterHears(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	for name, g := range map[string]guest{"cookie": c.opens(c.Ada), "token": c.at(c.token(c.adaToken)).with("Cookie", "other=1")} {
		for header, value := range map[string]string{
			"Origin": "http://" + c.host, "Referer": "http://" + c.host + "/x", "X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "evil", "Forwarded": "for=1.2.3.4",
			"X-Real-Ip": "1.2.3.4", "X-Original-Url": "/admin", "X-Http-Method-Override": "DELETE", "Proxy-Authorization": "Basic eA==", "Te": "trailers",
			"Keep-Alive": "x", "Connection": "X-Custom", "X-Custom": "1", "X-Request-Id": "12345678", "Range": "bytes=0-1", "User-Agent": "Mozilla/5.0",
		} {
			g = g.with(header, value)
		}
		g.get("/api/jobs/?a=1&b=%2Fx").want(http.StatusOK)
		heard := c.last()
		if heard.Host != "ray-head:8265" || heard.URL.RequestURI() != "/api/jobs/?a=1&b=%2Fx" {
			t.Errorf("%s: the head heard %s %s", name, heard.Host, heard.URL.RequestURI())
		}
		for header := range heard.Header {
			if !slices.Contains([]string{"Accept", "Range", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"}, header) {
				t.Errorf("%s: the head heard %s: %s", name, header, heard.Header.Get(header))
			}
		}
		if heard.Header.Get("X-Forwarded-For") != "192.0.2.1" || heard.Header.Get("X-Forwarded-Host") != c.host || heard.Header.Get("X-Forwarded-Proto") != "http" {
			t.Errorf("%s: forwarded by %v", name, heard.Header)
		}
	}
	if len(c.asked) != 1 || c.asked[0] != (Head{Namespace: c.request.Namespace, Pod: c.request.ObjectName() + "-head-x", IP: "10.9.8.7"}) {
		t.Errorf("ways asked for: %+v", c.asked)
	}
}

// TestWhatAClusterMayNotSay drops what would reach beyond the cluster's host.
func TestWhatAClusterMayNotSay(t *testing.T) {
	t.Parallel()
	kept := map[string]string{"Content-Type": "text/css", "Etag": `"x"`, "Content-Disposition": "attachment"}
	dropped := map[string]string{
		"Set-Cookie": "rayslice_session=x; Domain=example", "Clear-Site-Data": `"*"`, "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true",
		"Alt-Svc": `h3="evil:443"`, "Refresh": "0; url=http://evil.example", "Www-Authenticate": "Basic", "Service-Worker-Allowed": "/", "Public-Key-Pins": "x",
		"Report-To": "{}", "Nel": "{}", "Link": "<http://evil.example>; rel=preload", "X-Frame-Options": "ALLOWALL", "Server": "aiohttp",
	}
	c := openClusters(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "early=1")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Security-Policy", "frame-ancestors *")
		w.Header().Set("Trailer", "Set-Cookie")
		for _, all := range []map[string]string{kept, dropped} {
			for name, value := range all {
				w.Header().Set(name, value)
			}
		}
		_, _ = io.WriteString(w, "body {}")
		w.Header().Set("Set-Cookie", "trailing=1")
	})
	web := c.serve(func(*timing) {})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/static/css/main.css", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Header = c.host, c.opens(c.Ada).header
	got, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || string(body) != "body {}" {
		t.Errorf("%q, %v", body, err)
	}
	for name, value := range kept {
		if got.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), value)
		}
	}
	for name, value := range dropped {
		if got.Header.Get(name) == value || got.Trailer.Get(name) != "" {
			t.Errorf("%s came through: %q", name, value)
		}
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "private, no-cache", "Content-Security-Policy": clusterPolicy} {
		if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s is %q, want %q", name, values, want)
		}
	}
}

// TestRedirectsOfAClusterStayThere passes on what leads to the cluster itself and nothing else, and follows nothing.
func TestRedirectsOfAClusterStayThere(t *testing.T) {
	t.Parallel()
	var location string
	c := openClusters(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{location}
		w.WriteHeader(http.StatusFound)
	})
	ada := c.at(c.token(c.adaToken))
	for where, want := range map[string]string{
		"/nodes": "/nodes", "nodes": "/api/nodes", "?a=1": "/api/version?a=1", "/x?next=http://evil.example": "/x?next=http://evil.example",
		"http://ray-head:8265/nodes": "/nodes", "http://" + c.host + "/nodes": "/nodes", "../nodes": "/nodes",
		"http://169.254.169.254/latest/meta-data": "", "//169.254.169.254/": "", "https://evil.example": "", "/\\evil.example": "", "\\\\evil.example": "",
		"javascript:alert(1)": "", "data:text/html,x": "", "http://portal.example/clusters": "", "http://a@" + c.host + "/": "", "https://" + c.host + "/": "",
		"/..//evil.example": "/evil.example", "http:evil.example": "", "http://bbbbbbbbbbbb.clusters.example/": "", " //evil.example": "", "/\tx": "", "http://ray-head:8265@evil.example/": "",
	} {
		location = where
		got, before := ada.get("/api/version"), c.count()
		if want == "" && (got.Code != http.StatusBadGateway || got.location() != "") || want != "" && (got.Code != http.StatusFound || got.location() != want) {
			t.Errorf("%q: %d %q, want %q", where, got.Code, got.location(), want)
		}
		if c.count() != before {
			t.Errorf("%q was followed", where)
		}
	}
}

// TestOtherSitesOnAClustersHost is T38 for cookies of clusters' hosts, where the neighbours are of the same site and hostile.
func TestOtherSitesOnAClustersHost(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	own, ada := "http://"+c.host, c.opens(c.Ada).with("Accept", "*/*").with("Sec-Fetch-Site", "").with("Sec-Fetch-Mode", "").with("Sec-Fetch-Dest", "")
	navigation := func(site string) guest {
		return ada.with("Sec-Fetch-Site", site).with("Sec-Fetch-Mode", "navigate").with("Sec-Fetch-Dest", "document")
	}
	neighbour := ada.with("Sec-Fetch-Site", "same-site").with("Origin", "http://bbbbbbbbbbbb.clusters.example")
	for name, tc := range map[string]struct {
		guest                 guest
		reads, kills, changes int // GET of what only reads, GET of what changes something, POST
	}{
		"its own pages":                        {ada.with("Sec-Fetch-Site", "same-origin").with("Origin", own), 200, 200, 200},
		"its own pages, in an old browser":     {ada.with("Origin", own), 200, 200, 200},
		"its own pages, by referrer":           {ada.with("Referer", own+"/x"), 200, 200, 200},
		"typed":                                {navigation("none"), 200, 403, 403},
		"a link elsewhere":                     {navigation("cross-site"), 200, 403, 403},
		"a link of a neighbour":                {navigation("same-site"), 200, 403, 403},
		"a neighbour's script":                 {neighbour, 403, 403, 403},
		"a neighbour's image":                  {ada.with("Sec-Fetch-Site", "same-site").with("Sec-Fetch-Mode", "no-cors").with("Sec-Fetch-Dest", "image"), 403, 403, 403},
		"a neighbour's frame":                  {ada.with("Sec-Fetch-Site", "same-site").with("Sec-Fetch-Mode", "navigate").with("Sec-Fetch-Dest", "iframe"), 403, 403, 403},
		"a neighbour, in an old browser":       {ada.with("Origin", "http://bbbbbbbbbbbb.clusters.example"), 403, 403, 403},
		"a neighbour, by referrer":             {ada.with("Referer", "http://bbbbbbbbbbbb.clusters.example/"), 200, 403, 403},
		"a neighbour whose name begins alike":  {ada.with("Referer", own+".evil.example/"), 200, 403, 403},
		"another origin that claims otherwise": {ada.with("Sec-Fetch-Site", "same-origin").with("Origin", "https://"+c.host), 403, 403, 403},
		"no origin":                            {ada.with("Sec-Fetch-Site", "same-origin").with("Origin", "null"), 403, 403, 403},
		"nothing known":                        {ada, 200, 403, 403},
		"a program":                            {c.at(c.token(c.adaToken)), 200, 200, 200},
		"a program with a neighbour's cookie":  {c.at(c.token(c.adaToken)).with("Sec-Fetch-Site", "same-site"), 200, 200, 200},
	} {
		for target, want := range map[string]int{"GET /nodes": tc.reads, "GET /api/actors/kill?actor_id=1": tc.kills, "POST /api/jobs/": tc.changes} {
			method, path, _ := strings.Cut(target, " ")
			if got := tc.guest.send(method, path, nil); got.Code != want {
				t.Errorf("%s: %s %d, want %d", name, target, got.Code, want)
			}
		}
		if got := tc.guest.with("Connection", "Upgrade").with("Upgrade", "websocket").get("/api/jobs/a/logs/tail"); got.Code == http.StatusOK && tc.kills != 200 {
			t.Errorf("%s may open a WebSocket", name)
		}
	}
	ada.with("Sec-Fetch-Site", "same-origin").with("Service-Worker", "script").get("/static/js/sw.js").want(http.StatusForbidden)
}

// TestAddressesOnAClustersHost is T46: whatever a visitor writes, the head hears a plain path and no one else hears anything.
func TestAddressesOnAClustersHost(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	web := c.serve(func(*timing) {})
	send := func(text string) string {
		t.Helper()
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		status, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return strings.Fields(status)[1]
	}
	for target, want := range map[string]string{
		"/nodes": "200", "/nodes?x=/../..//": "200", "/api/jobs/": "200",
		"/../admin": "400", "/%2e%2e/admin": "400", "/a/..": "400", "/a/%2E%2e/b": "400", "/./a": "400", "//169.254.169.254/latest": "400", "/a//b": "400", "/%2f%2f169.254.169.254/": "400",
		"/%5c%5cevil": "400", `/\evil`: "400", "/a%00b": "400", "/a%0d%0aHost:x": "400", "/a%252e": "400", "/a;b": "400", "/%ff": "400",
		"@169.254.169.254/": "400", "http://169.254.169.254/": "421", "http://" + c.host + "/nodes": "400", "http://" + c.host + "@evil.example/": "421", "*": "404",
		"/.rayslice/open": "401", "/.rayslice/": "404", "/.rayslice/../nodes": "404", "/%2erayslice/open": "404",
	} {
		before := c.count()
		if got := send("GET " + target + " HTTP/1.1\r\nHost: " + c.host + "\r\nAuthorization: Bearer " + c.adaToken + "\r\nConnection: close\r\n\r\n"); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
		if heard := c.count() - before; (heard == 1) != (want == "200") {
			t.Errorf("%s: the head heard %d", target, heard)
		}
	}
	for host, want := range map[string]string{
		strings.ToUpper(c.host): "200", c.host + ":8080": "200", c.host + ".": "200",
		"clusters.example": "421", "x." + c.host: "421", "rs-" + c.host: "421", ".clusters.example": "421", "..clusters.example": "421",
		c.request.ID + ".clusters.example.evil.example": "421", c.host + "@evil.example": "400", "": "421",
	} {
		if got := send("GET /nodes HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + c.adaToken + "\r\nConnection: close\r\n\r\n"); got != want {
			t.Errorf("host %q: %s, want %s", host, got, want)
		}
	}
	for _, upgrade := range []string{"h2c", "tcp", "websocket, h2c"} {
		if got := c.at(c.token(c.adaToken)).with("Connection", "Upgrade").with("Upgrade", upgrade).get("/nodes"); got.Code != http.StatusBadRequest {
			t.Errorf("upgrade to %s: %d", upgrade, got.Code)
		}
	}
}

// TestHeadAway says what to do when there is no head, or it does not answer.
func TestHeadAway(t *testing.T) {
	t.Parallel()
	c := openClusters(t, nil)
	ada, browser := c.at(c.token(c.adaToken)), c.opens(c.Ada).with("Accept", "text/html")
	c.head.Close()
	got := ada.get("/api/version").want(http.StatusServiceUnavailable)
	if got.problem().Code != "head_away" || got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "127.0.0.1") {
		t.Errorf("a program hears %s", got.Body)
	}
	page := browser.get("/").want(http.StatusServiceUnavailable).page()
	if link, _ := page.Find("a").Attr("href"); link != "http://portal.example/clusters/"+c.request.ID || !strings.Contains(page.Text(), "does not answer now") {
		t.Errorf("the page leads to %s and says %s", link, page.Text())
	}
	head := rayslice.Worker{Name: "head", Phase: rayslice.PodRunning, Ready: true, IP: "10.9.8.7"}
	for name, change := range map[string]func(*rayslice.Worker){
		"deleting": func(w *rayslice.Worker) { w.Deleting = true }, "pending": func(w *rayslice.Worker) { w.Phase = rayslice.PodPending }, "no address": func(w *rayslice.Worker) { w.IP = "" },
	} {
		other := head
		change(&other)
		c.observe(c.request, &other)
		if code := ada.send(http.MethodPost, "/api/jobs/", nil).want(http.StatusServiceUnavailable).problem().Code; code != "head_away" {
			t.Errorf("%s: %s", name, code)
		}
		c.as(c.Ada).post("/clusters/"+c.request.ID+"/open", nil).want(http.StatusServiceUnavailable)
	}
	c.observe(c.request, &head)
	storetest.Exec(t, `UPDATE clusters SET observed_at = now() - interval '11 minutes'`)
	ada.send(http.MethodPost, "/api/jobs/", nil).want(http.StatusServiceUnavailable)
	if _, err := c.store.StopRequest(t.Context(), c.Ada, c.request.ID); err != nil {
		t.Fatal(err)
	}
	if code := ada.send(http.MethodPost, "/api/jobs/", nil).want(http.StatusConflict).problem().Code; code != "cluster_not_running" {
		t.Errorf("stopped: %s", code)
	}
}

// TestProxyLimits holds one person to their share of connections, uploads to a size, and readers and writers to a pace.
func TestProxyLimits(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	c := openClusters(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/nodes" {
			<-hold
		}
		fmt.Fprint(w, n)
	})
	ada := c.at(c.token(c.adaToken))
	upload := bytes.Repeat([]byte("x"), 3<<20) // above what pages take
	if got := ada.send(http.MethodPut, "/api/packages/gcs/x.zip", bytes.NewReader(upload)).want(http.StatusOK).Body.String(); got != fmt.Sprint(len(upload)) {
		t.Errorf("the head got %s bytes of %d", got, len(upload))
	}
	huge := httptest.NewRequest(http.MethodPut, "/api/packages/gcs/x.zip", http.NoBody)
	huge.Host, huge.Header, huge.ContentLength = c.host, ada.header.Clone(), 10<<30
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, huge)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("10 GiB: %d, want 413", w.Code)
	}

	web := c.serveWithin(time.Second, func(x *timing) { x.chunk = 200 * time.Millisecond })
	slow, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "PUT /api/packages/gcs/y.zip HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nx", c.host, c.adaToken)
	_ = slow.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("a body that stops coming holds its connection: %v", err)
	}

	for range maxProxied {
		if !c.server.proxying.begin(c.Ada.ID) {
			t.Fatal("held up too early")
		}
	}
	got := ada.get("/api/version").want(http.StatusTooManyRequests)
	if got.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	c.at(c.token(c.newToken(c.Bob))).get("/api/version").want(http.StatusOK)
	c.server.proxying.end(c.Ada.ID)
	ada.get("/api/version").want(http.StatusOK)
	close(hold)
}

// TestWebSocketThrough carries an upgraded connection both ways and ends it with the token and with the server.
func TestWebSocketThrough(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *clusters){
		"token revoked": func(c *clusters) { storetest.Exec(c.t, `UPDATE tokens SET revoked_at = now()`) },
		"server closes": func(c *clusters) { c.server.Close() },
		"reader only":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openClusters(t, echoUpgrade)
			web := c.serveWithin(time.Second, func(x *timing) { x.recheck = 20 * time.Millisecond })
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			token := c.adaToken
			if end == nil {
				token = c.newToken(c.Bob)
			}
			fmt.Fprintf(conn, "GET /api/jobs/a/logs/tail HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n", c.host, token)
			reader := bufio.NewReader(conn)
			got, err := http.ReadResponse(reader, nil) //nolint:bodyclose // it has none
			if err != nil || got.StatusCode != http.StatusSwitchingProtocols || got.Header.Get("Set-Cookie") != "" || got.Header.Get("Sec-Websocket-Accept") != "y" {
				t.Fatalf("%v, %v", got, err)
			}
			for _, word := range []string{"one", "two"} {
				fmt.Fprintln(conn, word)
				if line, err := reader.ReadString('\n'); err != nil || line != word+"\n" {
					t.Fatalf("%q came back as %q, %v", word, line, err)
				}
			}
			if end == nil {
				return
			}
			end(c)
			if _, err := reader.ReadByte(); err == nil {
				t.Error("the connection goes on")
			}
		})
	}
}

// echoUpgrade upgrades and sends back what it gets.
func echoUpgrade(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\nSet-Cookie: x=1\r\n\r\n")
	_, _ = io.Copy(conn, rw)
}

// FuzzDashboardAddress sends any request line and host: the head hears only plain paths, under its own name.
func FuzzDashboardAddress(f *testing.F) {
	for _, target := range []string{"/", "/nodes", "/../x", "/%2e%2e/x", "//169.254.169.254/", "/a%2f..%2fb", "http://169.254.169.254/", "*", "@evil/", "/a?b=%zz;c", "/%5c..", "/a%0d%0ab", "/.rayslice/open?code=x", "/api/jobs/ä", "/%252e%252e/"} {
		f.Add(target, "k5d2m7qxw3ab.clusters.example")
	}
	f.Add("/", "k5d2m7qxw3ab.clusters.example@evil")
	f.Add("/", "127.0.0.1")
	s := &Server{clusters: &clusterHosts{scheme: "http", domain: "clusters.example"}}
	f.Fuzz(func(t *testing.T, target, host string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
		if err != nil {
			return
		}
		label, below := s.clusters.label(r.Host)
		if !below || !requestIDFormat.MatchString(label) || r.URL.Host != "" || r.URL.Scheme != "" || r.URL.Opaque != "" || !plainPath(r.URL) || strings.HasPrefix(r.URL.Path, ownPrefix) {
			return
		}
		var heard *http.Request
		proxyOnce(s, r, pass{request: rayslice.Request{ID: label}}, func(out *http.Request) { heard = out })
		if heard == nil {
			t.Fatalf("%q was not passed on", target)
		}
		var wire bytes.Buffer
		if err := heard.Write(&wire); err != nil {
			t.Fatal(err)
		}
		again, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil || wire.Len() != 0 || again.Host != headHost || again.URL.Host != "" || again.URL.Path != r.URL.Path {
			t.Fatalf("%q became %+v, %v", target, again, err)
		}
		decoded, err := url.PathUnescape(again.URL.Path)
		if err != nil || strings.Contains("/"+decoded+"/", "/../") || strings.HasPrefix(decoded, "//") || strings.Contains(decoded, `\`) || strings.HasPrefix(decoded, ownPrefix) {
			t.Fatalf("%q reaches the head as %q", target, decoded)
		}
	})
}
