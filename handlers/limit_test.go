package handlers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestLimits is T41: whoever floods the portal hears 429 with Retry-After, and nobody else notices.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.limits = defaultLimits()
	bob, ada := p.token(p.newToken(p.Bob)), p.as(p.Ada)
	refused := func(n int, send func() answer) int {
		t.Helper()
		count := 0
		for range n {
			got := send()
			if got.Code != http.StatusTooManyRequests {
				continue
			}
			if count++; got.Header().Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
		return count
	}
	if n := refused(1000, func() answer { return p.token(p.adaToken).get("/api/v1/requests?limit=1") }); n == 0 {
		t.Error("1,000 calls of the API in a row are all answered")
	}
	form := url.Values{"name": {"many"}, "days": {"1"}}
	if n := refused(200, func() answer { return ada.post("/account/tokens", form) }); n == 0 {
		t.Error("200 tokens in a row are all made")
	}
	lea := p.as(p.Lea)
	if n := refused(600, func() answer { return lea.send(http.MethodHead, "/account", nil) }); n == 0 {
		t.Error("600 pages in a row are all shown")
	}
	lea.send(http.MethodHead, "/clusters/events", nil).want(http.StatusOK) // a page that is open stays fresh
	if n := refused(600, func() answer { return lea.send(http.MethodHead, "/approvals/events", nil) }); n == 0 {
		t.Error("600 streams in a row are all begun")
	}
	if n := refused(20, func() answer { return bob.get("/api/v1/requests?limit=1") }); n != 0 {
		t.Errorf("another is refused %d times", n)
	}
	ada.get("/clusters").want(http.StatusOK) // reading goes on
	bob.post("/language", url.Values{"lang": {"en"}}).want(http.StatusSeeOther)
}

// TestOneTestMessageAtATime refuses a second one that comes at once, and nobody else's.
func TestOneTestMessageAtATime(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.limits = defaultLimits()
	ada, bob := p.as(p.Ada), p.as(p.Bob)
	ada.post("/account/notifications/test", nil).want(http.StatusSeeOther)
	got := ada.post("/account/notifications/test", nil).want(http.StatusTooManyRequests)
	if got.Header().Get("Retry-After") == "" || !strings.Contains(got.Body.String(), "Wait 10 seconds") {
		t.Errorf("the refusal says %s", got.Body)
	}
	p.as(p.Ada).post("/account/notifications/test", nil).want(http.StatusTooManyRequests) // another session of hers
	bob.post("/account/notifications/test", nil).want(http.StatusSeeOther)
	var sent int
	storetest.Query(t, &sent, `SELECT count(*) FROM river_job`)
	if sent != 2 {
		t.Errorf("%d messages are on their way, want 2", sent)
	}
}

// TestStreamsPerPerson is T41's 300 streams: a person has a share of them, however many tokens they have.
func TestStreamsPerPerson(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := func(u rayslice.User, token int) identity {
		return identity{user: u, bearer: fmt.Sprint("token-", token)}
	}
	opened := 0
	for n := range 300 {
		if _, err := p.server.streams.subscribe(id(p.Ada, n), nil); err == nil {
			opened++
		}
	}
	if opened != maxUserStreams {
		t.Errorf("%d streams are open", opened)
	}
	sub, err := p.server.streams.subscribe(id(p.Bob, 1), nil)
	if err != nil {
		t.Fatalf("another is refused: %v", err)
	}
	p.server.streams.unsubscribe(sub)
}

// TestBadTokens holds up whoever tries out tokens, and never somebody with a good one, also from the same address.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.limits = defaultLimits()
	held := 0
	for range 200 {
		if p.token(rayslice.NewToken()).get("/api/v1/requests").Code == http.StatusTooManyRequests {
			held++
		}
	}
	if held == 0 {
		t.Error("200 made-up tokens in a row are all looked up and answered")
	}
	p.token(p.samToken).get("/api/v1/requests").want(http.StatusOK)
}

// TestSignInsPerAddress holds up one address that signs in all the time.
func TestSignInsPerAddress(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.limits = defaultLimits()
	p.server.limits.signIns = newLimiter(1, 3)
	for range 3 {
		p.nobody().post("/signin", url.Values{"user": {"0"}}).want(http.StatusUnprocessableEntity)
	}
	p.nobody().post("/signin", url.Values{"user": {"0"}}).want(http.StatusTooManyRequests)
	p.nobody().get("/signin").want(http.StatusOK)
}

// TestLimiterForgets keeps the memory of keys bounded, and gives nobody a new share by it who was held up just now.
func TestLimiterForgets(t *testing.T) {
	l := newLimiter(0, 1)
	l.allow("busy")
	for n := range 3 * maxLimiters { // all of them owe something
		if !l.allow(fmt.Sprint(n)) {
			t.Fatalf("key %d is held up by others", n)
		}
		if l.allow("busy") {
			t.Fatalf("after %d other keys the busy one has a new share", n+1)
		}
	}
	if l.of.Len() > maxLimiters {
		t.Errorf("%d keys are kept", l.of.Len())
	}
}

// TestTokenScopes names the scope that a token lacks, on pages and in the API alike.
func TestTokenScopes(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	reader, asker := p.token(p.newToken(p.Ada)), p.token(p.newToken(p.Ada, rayslice.ScopeRequest))
	reader.get("/api/v1/requests/" + request.ID).want(http.StatusOK)
	if got := reader.postJSON("/api/v1/requests", goodBody).want(http.StatusForbidden).problem(); got.Code != "token_scope" || got.Detail == "" {
		t.Errorf("got %+v", got)
	}
	asker.postJSON("/api/v1/requests", goodBody).want(http.StatusCreated)
	for _, v := range []visitor{reader, asker} {
		v.post("/api/v1/requests/"+request.ID+"/stop", nil).want(http.StatusForbidden)
		v.post("/clusters/"+request.ID+"/stop", nil).want(http.StatusForbidden)
	}
	stopper := p.token(p.newToken(p.Ada, rayslice.ScopeStop))
	stopper.postJSON("/api/v1/requests", goodBody).want(http.StatusForbidden)
	stopper.post("/api/v1/requests/"+request.ID+"/stop", nil).want(http.StatusOK)
}

// TestTokenMakesNoTokens keeps a token that was stolen from outliving its revocation.
func TestTokenMakesNoTokens(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, path := range []string{"/account/tokens", "/account/sessions/end"} {
		p.token(p.adaToken).post(path, url.Values{"name": {"child"}, "days": {"1"}}).want(http.StatusForbidden)
	}
	var made int
	storetest.Query(t, &made, `SELECT count(*) FROM tokens WHERE name = 'child'`)
	if made != 0 {
		t.Error("a token made another")
	}
}

// TestVisitorsAddress counts by the visitor behind trusted proxies, by nobody's word else, and by networks in IPv6.
func TestVisitorsAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		peer      string
		forwarded []string
		want      string
	}{
		"nobody in between":                    {nil, "203.0.113.7:1234", nil, "203.0.113.7"},
		"a header that nobody was trusted for": {nil, "203.0.113.7:1234", []string{"198.51.100.1"}, "203.0.113.7"},
		"a private peer that was not named":    {nil, "10.0.0.1:1234", []string{"198.51.100.1"}, "10.0.0.1"},
		"a peer that is no proxy of ours":      {trusted, "192.168.0.1:1234", []string{"198.51.100.1"}, "192.168.0.1"},
		"a loopback peer":                      {trusted, "127.0.0.1:1234", []string{"198.51.100.1"}, "127.0.0.1"},
		"one proxy":                            {trusted, "10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		"two proxies":                          {trusted, "10.0.0.1:1234", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		"two headers":                          {trusted, "10.0.0.1:1234", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		"a visitor who makes some up":          {trusted, "10.0.0.1:1234", []string{"203.0.113.9, nonsense, 198.51.100.1"}, "198.51.100.1"},
		"a proxy that says nothing":            {trusted, "10.0.0.1:1234", nil, "10.0.0.1"},
		"IPv6":                                 {nil, "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::/64"},
		"IPv6 with a zone":                     {nil, "[fe80::1%eth0]:1234", nil, "fe80::/64"},
		"IPv6 behind a proxy":                  {trusted, "[fd00::1]:1234", []string{"2001:db8:1:2:ffff::1"}, "2001:db8:1:2::/64"},
		"IPv4 written as IPv6":                 {nil, "[::ffff:203.0.113.7]:1234", nil, "203.0.113.7"},
	} {
		e := echo.New()
		e.IPExtractor = extractor(tc.trusted)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tc.peer
		for _, value := range tc.forwarded {
			r.Header.Add("X-Forwarded-For", value)
		}
		if got := addressOf(e.NewContext(r, nil)); got != tc.want {
			t.Errorf("%s: counts as %s, want %s", name, got, tc.want)
		}
	}
}

// TestSignInsBehindProxy lets nobody keep the others behind the same ingress from signing in, nor from ending what they began.
func TestSignInsBehindProxy(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }) // httptest's peer
	p.server.limits.signIns = newLimiter(0, 10)
	begun := p.depart(i, "/clusters") // without X-Forwarded-For: as all are who share an address
	for _, address := range []string{"203.0.113.66", ""} {
		flood := p.nobody().with("X-Forwarded-For", address)
		for range 20 {
			flood.get("/signin/oidc")
		}
		flood.get("/signin/oidc").want(http.StatusTooManyRequests)
		flood.get("/signin/callback?state=made-up").want(http.StatusTooManyRequests)
	}
	p.nobody().with("X-Forwarded-For", "198.51.100.7").get("/signin/oidc").want(http.StatusSeeOther)
	begun.arrive().want(http.StatusSeeOther)
}
