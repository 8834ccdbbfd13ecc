package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"github.com/rayslice/rayslice"
)

// TestSharedOrigins lets pages of the configured origins use the API with a token, and nobody else, and nothing beside it.
func TestSharedOrigins(t *testing.T) {
	t.Parallel()
	const notebooks = "https://notebooks.example"
	p := open(t, func(c *Config) { c.CORSOrigins = []string{notebooks} })
	from := func(v visitor, origin string) visitor {
		return v.with("Origin", origin).with("Sec-Fetch-Site", "cross-site")
	}
	ada := p.token(p.adaToken)
	got := from(ada, notebooks).postJSON("/api/v1/requests", goodBody).want(http.StatusCreated)
	if got.Header().Get("Access-Control-Allow-Origin") != notebooks || got.Header().Get("Access-Control-Allow-Credentials") != "" ||
		!strings.Contains(got.Header().Get("Access-Control-Expose-Headers"), "Location") {
		t.Errorf("%v", got.Header())
	}
	asks := from(p.nobody(), notebooks).with("Access-Control-Request-Method", "POST").with("Access-Control-Request-Headers", "authorization,idempotency-key")
	preflight := asks.send(http.MethodOptions, "/api/v1/requests", nil).want(http.StatusNoContent)
	if h := preflight.Header(); !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "PUT") ||
		!strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
		t.Errorf("%v", h)
	}
	for name, got := range map[string]answer{
		"another origin":             from(ada, "https://evil.example").get("/api/v1/requests").want(http.StatusOK),
		"one that begins like it":    from(ada, notebooks+".evil.example").get("/api/v1/requests").want(http.StatusOK),
		"null":                       from(ada, "null").get("/api/v1/requests").want(http.StatusOK),
		"a page of the portal":       from(p.as(p.Ada), notebooks).get("/clusters").want(http.StatusOK),
		"another origin's preflight": from(asks, "https://evil.example").send(http.MethodOptions, "/api/v1/requests", nil).want(http.StatusNoContent),
	} {
		if got.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", name, got.Header())
		}
	}
	from(p.as(p.Ada), notebooks).postJSON("/api/v1/requests", goodBody).want(http.StatusForbidden) // by cookie
	off := open(t)
	if got := from(off.token(off.adaToken), notebooks).get("/api/v1/requests").want(http.StatusOK); got.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("origins are shared although none is configured")
	}
}

// TestAPIDocs serves the specification to everybody and its page to who is signed in, with scripts and styles of our own only.
func TestAPIDocs(t *testing.T) {
	t.Parallel()
	p := open(t)
	text := p.nobody().get("/api/openapi.yaml").want(http.StatusOK)
	if !strings.HasPrefix(text.Body.String(), "openapi: 3.1.0") || text.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("%v", text.Header())
	}
	var spec struct{ OpenAPI string }
	p.nobody().get("/api/openapi.json").want(http.StatusOK).decode(&spec)
	if spec.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", spec.OpenAPI)
	}
	p.nobody().with("If-None-Match", text.Header().Get("ETag")).get("/api/openapi.yaml").want(http.StatusNotModified)
	p.nobody().get("/api/docs").want(http.StatusSeeOther)
	docs := p.as(p.Ada).get("/api/docs").want(http.StatusOK)
	policy := docs.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "img-src 'self' data:;") || !strings.Contains(policy, "script-src 'self';") || !strings.Contains(policy, "style-src 'self';") {
		t.Errorf("policy %q", policy)
	}
	page := docs.page()
	if found := page.Find("#api-docs[data-spec='/api/openapi.json']").Length(); found != 1 {
		t.Errorf("%d places for the specification", found)
	}
	page.Find("script, link[rel=stylesheet]").Each(func(_ int, s *goquery.Selection) {
		if address := s.AttrOr("src", s.AttrOr("href", "")); !strings.HasPrefix(address, "/static/") || s.Text() != "" {
			t.Errorf("script or style %q %q", address, s.Text())
		}
	})
}

// FuzzParameters sends anything as parameters of lists and waits: they are refused by name or read within their bounds.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{"60", "-1", "61", "1e3", "٨", " 8", "9223372036854775808", "", "0x10", "\x00", "W/\"a\"", "*", "live", "cursor"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if wait, err := readWait(&text); err == nil && (wait < 0 || wait > maxWait) {
			t.Errorf("wait=%q is %s", text, wait)
		}
		matchesETag(text, `W/"0123456789abcdef"`)
		for _, name := range []string{"limit", "cursor", "q", "state", "team", "mine"} {
			filter, err := readFilter(rayslice.User{ID: 1}, url.Values{name: {text}}, listLength)
			if err == nil && (filter.Limit < 1 || filter.Limit > maxListLength) {
				t.Errorf("%s=%q: limit %d", name, text, filter.Limit)
			}
			if _, problem := explain(err); err != nil && (len(problem.Fields) == 0 || problem.Fields[0].Field != name) {
				t.Errorf("%s=%q is refused with %v", name, text, err)
			}
		}
	})
}
