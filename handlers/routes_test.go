package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice/store/storetest"
)

// TestWhoMayDoWhat is T29: every route, asked by everybody, against the written table. A new route without an entry fails.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	type row struct{ anonymous, member, stranger, admin int }
	const signIn = http.StatusSeeOther
	everybody := func(status int) row { return row{status, status, status, status} }
	table := map[string]row{
		"GET /healthz":   everybody(200),
		"GET /readyz":    everybody(200),
		"GET /metrics":   everybody(200),
		"GET /static/*":  everybody(200),
		"GET /signin":    everybody(200),
		"POST /signin":   everybody(422), // no persona chosen
		"POST /signout":  everybody(303),
		"POST /language": everybody(422), // no language chosen

		"GET /":                    {signIn, 303, 303, 303},
		"GET /clusters":            {signIn, 200, 200, 200},
		"GET /clusters/new":        {signIn, 200, 200, 200},
		"GET /clusters/events":     {signIn, 200, 200, 200},
		"POST /clusters":           {signIn, 422, 422, 422}, // an empty form
		"POST /clusters/preview":   {signIn, 422, 422, 422},
		"GET /clusters/:id":        {signIn, 200, 404, 200},
		"GET /clusters/:id/events": {signIn, 200, 404, 200},
		"GET /clusters/:id/yaml":   {signIn, 200, 404, 200},
		"POST /clusters/:id/stop":  {signIn, 303, 404, 303},
		"GET /teams/:name":         {signIn, 200, 404, 200},

		"GET /notifications":               {signIn, 200, 200, 200},
		"POST /notifications/read":         {signIn, 422, 422, 422}, // none named
		"GET /account/notifications":       {signIn, 200, 200, 200},
		"POST /account/notifications":      {signIn, 422, 422, 422}, // no form of webhook chosen
		"POST /account/notifications/test": {signIn, 303, 303, 303},

		"GET /api/v1/requests":           {401, 200, 200, 200},
		"POST /api/v1/requests":          {401, 415, 415, 415}, // a form is not JSON
		"GET /api/v1/requests/:id":       {401, 200, 404, 200},
		"POST /api/v1/requests/:id/stop": {401, 200, 404, 200},
	}
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	path := strings.NewReplacer(":id", request.ID, ":name", "vision", "static/*", "static/app.css")
	var seen []string
	for _, route := range p.server.echo.Routes() {
		method := route.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		name := method + " " + route.Path
		want, ok := table[name]
		if !ok {
			if route.Method != "echo_route_not_found" {
				t.Errorf("%s is not in the table", name)
			}
			continue
		}
		seen = append(seen, name)
		for who, tc := range map[string]struct {
			visitor visitor
			want    int
		}{
			"anonymous": {p.nobody(), want.anonymous},
			"member":    {p.as(p.Ada), want.member},
			"stranger":  {p.as(p.Sam), want.stranger},
			"admin":     {p.as(p.Root), want.admin},
		} {
			send := tc.visitor.post
			if method == http.MethodGet { // HEAD, so that event streams end at once
				got := tc.visitor.send(http.MethodHead, path.Replace(route.Path), nil)
				if got.Code != tc.want {
					t.Errorf("%s by %s: %d, want %d", name, who, got.Code, tc.want)
				}
				continue
			}
			if got := send(path.Replace(route.Path), nil); got.Code != tc.want {
				t.Errorf("%s by %s: %d, want %d", name, who, got.Code, tc.want)
			}
		}
	}
	for name := range table {
		if !slices.Contains(seen, name) {
			t.Errorf("%s is in the table and no route", name)
		}
	}
}

// TestMethods expects 405 with Allow wherever a path is known and the method is not: nothing changes by GET.
func TestMethods(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada := p.as(p.Ada)
	for _, tc := range []struct{ method, path string }{
		{http.MethodGet, "/clusters/" + request.ID + "/stop"}, {http.MethodGet, "/signout"}, {http.MethodGet, "/language"},
		{http.MethodGet, "/api/v1/requests/" + request.ID + "/stop"}, {http.MethodHead, "/clusters/" + request.ID + "/stop"},
		{http.MethodPut, "/clusters"}, {http.MethodDelete, "/api/v1/requests/" + request.ID}, {http.MethodPatch, "/clusters/" + request.ID},
		{http.MethodPost, "/healthz"},
	} {
		got := ada.send(tc.method, tc.path, nil)
		if got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") == "" {
			t.Errorf("%s %s: %d, Allow %q, want 405 with Allow", tc.method, tc.path, got.Code, got.Header().Get("Allow"))
		}
	}
	now, err := p.store.Request(t.Context(), p.Ada, request.ID)
	if err != nil || now.State != request.State {
		t.Errorf("state %s (%v), want it unchanged", now.State, err)
	}
}

// TestAnotherTeamsObject is T30: an id of another team is answered word for word like one that does not exist.
func TestAnotherTeamsObject(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	sam, token := p.as(p.Sam).with("X-Request-Id", "the-same-id"), p.token(samToken).with("X-Request-Id", "the-same-id")
	const unknown = "aaaaaaaaaaaa"
	same := func(v visitor, method, path, theirs, nobodys string) {
		t.Helper()
		a, b := v.send(method, strings.Replace(path, "*", theirs, 1), nil), v.send(method, strings.Replace(path, "*", nobodys, 1), nil)
		if a.Code != http.StatusNotFound || b.Code != http.StatusNotFound ||
			strings.ReplaceAll(a.Body.String(), theirs, "") != strings.ReplaceAll(b.Body.String(), nobodys, "") {
			t.Errorf("%s %s: %d and %d, bodies\n%s\n%s", method, path, a.Code, b.Code, a.Body, b.Body)
		}
	}
	for _, path := range []string{"/clusters/*", "/clusters/*/events", "/clusters/*/yaml", "/clusters/new?from=*"} {
		same(sam, http.MethodGet, path, request.ID, unknown)
	}
	same(sam, http.MethodGet, "/teams/*", "vision", "no-such")
	same(sam, http.MethodPost, "/clusters/*/stop", request.ID, unknown)
	same(token, http.MethodGet, "/api/v1/requests/*", request.ID, unknown)
	same(token, http.MethodPost, "/api/v1/requests/*/stop", request.ID, unknown)
	for _, id := range []string{"%00", "..", "%2e%2e", "x", strings.Repeat("a", 4000), "AAAAAAAAAAAA", "%ff"} {
		sam.get("/clusters/" + id).want(http.StatusNotFound)
	}
}
