package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestWhoMayDoWhat is T29: every route, asked by everybody, against the written table. A new route without an entry fails.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	// member is Ada, whose request it is; reader and token are API tokens of hers, to read only and with every scope.
	type row struct{ anonymous, member, stranger, lead, admin, reader, token int }
	const signIn = http.StatusSeeOther
	everybody := func(status int) row { return row{status, status, status, status, status, status, status} }
	table := map[string]row{
		"GET /healthz":   everybody(200),
		"GET /readyz":    everybody(200),
		"GET /metrics":   everybody(200),
		"GET /static/*":  everybody(200),
		"GET /signin":    everybody(200),
		"POST /signin":   everybody(422), // no persona chosen
		"POST /signout":  everybody(303),
		"POST /language": everybody(422), // no language chosen

		"GET /signin/oidc":     everybody(404), // no identity provider
		"GET /signin/callback": everybody(404),

		"GET /":                    {signIn, 303, 303, 303, 303, 303, 303},
		"GET /clusters":            {signIn, 200, 200, 200, 200, 200, 200},
		"GET /clusters/new":        {signIn, 200, 200, 200, 200, 200, 200},
		"GET /clusters/events":     {signIn, 200, 200, 200, 200, 200, 200},
		"POST /clusters":           {signIn, 422, 422, 422, 422, 403, 422}, // an empty form
		"GET /clusters/import":     {signIn, 200, 200, 200, 200, 200, 200},
		"POST /clusters/import":    {signIn, 422, 422, 422, 422, 422, 422}, // an empty form
		"POST /clusters/preview":   {signIn, 422, 422, 422, 422, 403, 422},
		"GET /clusters/:id":        {signIn, 200, 404, 200, 200, 200, 200},
		"GET /clusters/:id/events": {signIn, 200, 404, 200, 200, 200, 200},
		"GET /clusters/:id/yaml":   {signIn, 200, 404, 200, 200, 200, 200},
		"POST /clusters/:id/stop":  {signIn, 303, 404, 303, 303, 403, 303},
		"POST /clusters/:id/open":  {signIn, 404, 404, 404, 404, 403, 403}, // clusters have no hosts here; TestWhoMayDoWhatOnAClustersHost has some
		"GET /teams/:name":         {signIn, 200, 404, 200, 200, 200, 200},

		"GET /teams/:name/rules":                   {signIn, 403, 404, 200, 200, 403, 403},
		"POST /teams/:name/rules":                  {signIn, 403, 404, 422, 422, 403, 403}, // an empty form
		"POST /teams/:name/limit":                  {signIn, 403, 404, 403, 422, 403, 403}, // an empty form
		"POST /teams/:name/grants/:grant/end":      {signIn, 403, 404, 403, 409, 403, 403}, // the base
		"POST /teams/:name/raises":                 {signIn, 403, 404, 422, 422, 403, 403},
		"POST /teams/:name/raises/:raise/withdraw": {signIn, 403, 404, 303, 409, 403, 403}, // withdrawn by then
		"POST /teams/:name/deputies":               {signIn, 403, 404, 422, 422, 403, 403},
		"POST /teams/:name/deputies/:user/end":     {signIn, 403, 404, 303, 303, 403, 403},
		"GET /teams/:name/audit":                   {signIn, 403, 404, 200, 200, 403, 403},
		"GET /teams/:name/audit.csv":               {signIn, 403, 404, 200, 200, 403, 403},
		"GET /admin":                               {signIn, 403, 403, 403, 200, 403, 403},
		"GET /admin/teams":                         {signIn, 403, 403, 403, 200, 403, 403},
		"POST /admin/teams":                        {signIn, 403, 403, 403, 422, 403, 403},
		"GET /admin/raises":                        {signIn, 403, 403, 403, 200, 403, 403},
		"GET /admin/raises/:raise":                 {signIn, 403, 403, 403, 200, 403, 403},
		"POST /admin/raises/:raise":                {signIn, 403, 403, 403, 422, 403, 403},
		"GET /admin/audit":                         {signIn, 403, 403, 403, 200, 403, 403},
		"GET /admin/audit.csv":                     {signIn, 403, 403, 403, 200, 403, 403},

		"GET /account":                                  {signIn, 200, 200, 200, 200, 403, 403},
		"POST /account/tokens":                          {signIn, 422, 422, 422, 422, 403, 403}, // an empty form
		"POST /account/tokens/:token/revoke":            {signIn, 404, 404, 404, 404, 403, 403}, // Bob's
		"POST /account/sessions/end":                    {signIn, 303, 303, 303, 303, 403, 403},
		"GET /notifications":                            {signIn, 200, 200, 200, 200, 403, 403},
		"POST /notifications/read":                      {signIn, 422, 422, 422, 422, 403, 403}, // none named
		"GET /account/notifications":                    {signIn, 200, 200, 200, 200, 403, 403},
		"POST /account/notifications":                   {signIn, 422, 422, 422, 422, 403, 403}, // no form of webhook chosen
		"POST /account/notifications/test":              {signIn, 303, 303, 303, 303, 403, 403},
		"GET /admin/people":                             {signIn, 403, 403, 403, 200, 403, 403},
		"GET /admin/people/:user":                       {signIn, 403, 403, 403, 200, 403, 403},
		"POST /admin/people/:user/roles":                {signIn, 403, 403, 403, 422, 403, 403}, // no role chosen
		"POST /admin/people/:user/roles/revoke":         {signIn, 403, 403, 403, 303, 403, 403},
		"POST /admin/people/:user/disable":              {signIn, 403, 403, 403, 303, 403, 403},
		"POST /admin/people/:user/enable":               {signIn, 403, 403, 403, 303, 403, 403},
		"POST /admin/people/:user/tokens/:token/revoke": {signIn, 403, 403, 403, 303, 403, 403},
		"POST /admin/people/:user/sessions/end":         {signIn, 403, 403, 403, 303, 403, 403},

		"GET /clusters/:id/edit":     {signIn, 409, 404, 403, 403, 403, 409}, // it is decided already
		"POST /clusters/:id/edit":    {signIn, 409, 404, 403, 403, 403, 409},
		"POST /clusters/:id/preview": {signIn, 422, 404, 403, 403, 403, 422},
		"POST /clusters/:id/reply":   {signIn, 409, 404, 403, 403, 403, 409},
		"GET /fleet":                 {signIn, 200, 200, 200, 200, 200, 200},
		"GET /fleet/events":          {signIn, 200, 200, 200, 200, 200, 200},
		"GET /approvals":             {signIn, 403, 403, 200, 200, 403, 403},
		"POST /approvals":            {signIn, 403, 403, 422, 422, 403, 403}, // nothing chosen
		"GET /approvals/events":      {signIn, 403, 403, 200, 200, 403, 403},
		"POST /approvals/:id":        {signIn, 403, 404, 409, 409, 403, 403},
		"GET /approvals/:id/preview": {signIn, 403, 404, 200, 200, 403, 403},

		"GET /api/v1/requests":           {401, 200, 200, 200, 200, 200, 200},
		"POST /api/v1/requests":          {401, 415, 415, 415, 415, 403, 415}, // a form is not JSON
		"GET /api/v1/requests/:id":       {401, 200, 404, 200, 200, 200, 200},
		"POST /api/v1/requests/:id/stop": {401, 200, 404, 200, 200, 403, 200},

		"GET /api/docs":                          {signIn, 200, 200, 200, 200, 200, 200},
		"GET /api/openapi.yaml":                  {200, 200, 200, 200, 200, 200, 200},
		"GET /api/openapi.json":                  {200, 200, 200, 200, 200, 200, 200},
		"GET /api/v1/options":                    {401, 200, 200, 200, 200, 200, 200},
		"GET /api/v1/requests/:id/audit":         {401, 200, 404, 200, 200, 200, 200},
		"POST /api/v1/requests/:id/reply":        {401, 415, 404, 403, 403, 403, 415},
		"POST /clusters/:id/verify":              {signIn, 409, 404, 409, 409, 403, 409}, // it does not run
		"GET /api/v1/clusters/:id/verification":  {401, 200, 404, 200, 200, 200, 200},
		"POST /api/v1/clusters/:id/verification": {401, 409, 404, 409, 409, 403, 409},
		"GET /api/v1/capacity":                   {401, 200, 200, 200, 200, 200, 200},
		"GET /api/v1/clusters/:id/events":        {401, 200, 404, 200, 200, 200, 200},
		"GET /api/v1/clusters/:id/usage":         {401, 200, 404, 200, 200, 200, 200},

		"PUT /api/v1/requests/:id":           {401, 415, 404, 403, 403, 403, 415},
		"POST /api/v1/lint":                  {401, 415, 415, 415, 415, 415, 415},
		"POST /api/v1/requests/:id/decision": {401, 403, 404, 415, 415, 403, 403},

		"GET /api/v1/teams":                              {401, 200, 200, 200, 200, 200, 200},
		"POST /api/v1/teams":                             {401, 403, 403, 403, 415, 403, 403},
		"GET /api/v1/teams/:name":                        {401, 200, 404, 200, 200, 200, 200},
		"GET /api/v1/teams/:name/grants":                 {401, 200, 404, 200, 200, 200, 200},
		"GET /api/v1/teams/:name/usage":                  {401, 200, 404, 200, 200, 200, 200},
		"GET /api/v1/teams/:name/audit":                  {401, 403, 404, 200, 200, 403, 403},
		"PUT /api/v1/teams/:name/limit":                  {401, 403, 404, 403, 415, 403, 403},
		"PUT /api/v1/teams/:name/rules":                  {401, 403, 404, 415, 415, 403, 403},
		"POST /api/v1/teams/:name/grants/:grant/end":     {401, 403, 404, 403, 409, 403, 403}, // the base
		"POST /api/v1/teams/:name/raises":                {401, 403, 404, 415, 415, 403, 403},
		"POST /api/v1/teams/:name/deputies":              {401, 403, 404, 415, 415, 403, 403},
		"POST /api/v1/teams/:name/deputies/:user/end":    {401, 403, 404, 204, 204, 403, 403},
		"GET /api/v1/raises":                             {401, 200, 200, 200, 200, 200, 200},
		"GET /api/v1/raises/:raise":                      {401, 200, 404, 200, 200, 200, 200},
		"POST /api/v1/raises/:raise/withdraw":            {401, 403, 404, 200, 409, 403, 403}, // withdrawn by then
		"POST /api/v1/raises/:raise/decision":            {401, 403, 404, 403, 415, 403, 403},
		"GET /api/v1/approvals":                          {401, 403, 403, 200, 200, 403, 403},
		"GET /api/v1/approvals/:id":                      {401, 403, 404, 200, 200, 403, 403},
		"GET /api/v1/admin":                              {401, 403, 403, 403, 200, 403, 403},
		"GET /api/v1/audit":                              {401, 403, 403, 403, 200, 403, 403},
		"GET /api/v1/people":                             {401, 403, 403, 403, 200, 403, 403},
		"GET /api/v1/people/:user":                       {401, 403, 403, 403, 200, 403, 403},
		"POST /api/v1/people/:user/roles":                {401, 403, 403, 403, 415, 403, 403},
		"POST /api/v1/people/:user/roles/revoke":         {401, 403, 403, 403, 415, 403, 403},
		"POST /api/v1/people/:user/disable":              {401, 403, 403, 403, 200, 403, 403},
		"POST /api/v1/people/:user/enable":               {401, 403, 403, 403, 200, 403, 403},
		"POST /api/v1/people/:user/sessions/end":         {401, 403, 403, 403, 204, 403, 403},
		"POST /api/v1/people/:user/tokens/:token/revoke": {401, 403, 403, 403, 204, 403, 403},
		"GET /api/v1/account":                            {401, 200, 200, 200, 200, 200, 200},
		"GET /api/v1/account/tokens":                     {401, 200, 200, 200, 200, 403, 403},
		"POST /api/v1/account/tokens":                    {401, 415, 415, 415, 415, 403, 403},
		"POST /api/v1/account/tokens/:token/revoke":      {401, 404, 404, 404, 404, 403, 403}, // Bob's
		"POST /api/v1/account/sessions/end":              {401, 204, 204, 204, 204, 403, 403},
		"GET /api/v1/account/notifications":              {401, 200, 200, 200, 200, 403, 403},
		"PUT /api/v1/account/notifications":              {401, 415, 415, 415, 415, 403, 403},
		"POST /api/v1/account/notifications/test":        {401, 204, 204, 204, 204, 403, 403},
		"GET /api/v1/notifications":                      {401, 200, 200, 200, 200, 403, 403},
		"POST /api/v1/notifications/read":                {401, 415, 415, 415, 415, 403, 403},
	}
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	raises := map[bool]rayslice.Raise{true: p.raise(rayslice.Charge{GiB: 8}), false: p.raise(rayslice.Charge{GiB: 9})} // for programs and for people
	p.newToken(p.Bob)
	bobs, err := p.store.Tokens(t.Context(), p.Bob)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.NewReplacer(":id", request.ID, ":user", fmt.Sprint(p.Bob.ID), ":token", fmt.Sprint(bobs[0].ID), ":name", "vision", ":grant", fmt.Sprint(p.base("vision")), "static/*", "static/app.css")
	reader := p.token(p.newToken(p.Ada, rayslice.ScopeRead))
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
		address := strings.ReplaceAll(path.Replace(route.Path), ":raise", fmt.Sprint(raises[strings.HasPrefix(route.Path, "/api/")].ID))
		for _, tc := range []struct {
			who     string
			visitor visitor
			want    int
		}{
			{"anonymous", p.nobody(), want.anonymous},
			{"member", p.as(p.Ada), want.member},
			{"stranger", p.as(p.Sam), want.stranger},
			{"lead", p.as(p.Lea), want.lead},
			{"admin", p.as(p.Root), want.admin},
			{"reader", reader, want.reader},
			{"token", p.token(p.adaToken), want.token},
		} {
			var got answer
			if method == http.MethodGet { // HEAD, so that event streams end at once
				got = tc.visitor.send(http.MethodHead, address, nil)
			} else {
				got = tc.visitor.with("Content-Type", "application/x-www-form-urlencoded").send(method, address, strings.NewReader(""))
			}
			if got.Code != tc.want {
				t.Errorf("%s by %s: %d, want %d", name, tc.who, got.Code, tc.want)
			}
		}
	}
	for name := range table {
		if !slices.Contains(seen, name) {
			t.Errorf("%s is in the table and no route", name)
		}
	}
}

// TestProgramsCanDoWhatPagesCan has an address for programs beside every form of the pages, or says why there is none.
func TestProgramsCanDoWhatPagesCan(t *testing.T) {
	t.Parallel()
	twin := map[string]string{
		"/clusters":                                "POST /api/v1/requests",
		"/clusters/preview":                        "POST /api/v1/requests", // ?dry_run=true
		"/clusters/:id/preview":                    "POST /api/v1/requests",
		"/clusters/import":                         "POST /api/v1/lint",
		"/clusters/:id/stop":                       "POST /api/v1/requests/:id/stop",
		"/clusters/:id/verify":                     "POST /api/v1/clusters/:id/verification",
		"/clusters/:id/edit":                       "PUT /api/v1/requests/:id",
		"/clusters/:id/reply":                      "POST /api/v1/requests/:id/reply",
		"/approvals":                               "POST /api/v1/requests/:id/decision", // one after the other
		"/approvals/:id":                           "POST /api/v1/requests/:id/decision",
		"/teams/:name/rules":                       "PUT /api/v1/teams/:name/rules",
		"/teams/:name/limit":                       "PUT /api/v1/teams/:name/limit",
		"/teams/:name/grants/:grant/end":           "POST /api/v1/teams/:name/grants/:grant/end",
		"/teams/:name/raises":                      "POST /api/v1/teams/:name/raises",
		"/teams/:name/raises/:raise/withdraw":      "POST /api/v1/raises/:raise/withdraw",
		"/teams/:name/deputies":                    "POST /api/v1/teams/:name/deputies",
		"/teams/:name/deputies/:user/end":          "POST /api/v1/teams/:name/deputies/:user/end",
		"/admin/teams":                             "POST /api/v1/teams",
		"/admin/raises/:raise":                     "POST /api/v1/raises/:raise/decision",
		"/account/tokens":                          "POST /api/v1/account/tokens",
		"/account/tokens/:token/revoke":            "POST /api/v1/account/tokens/:token/revoke",
		"/account/sessions/end":                    "POST /api/v1/account/sessions/end",
		"/account/notifications":                   "PUT /api/v1/account/notifications",
		"/account/notifications/test":              "POST /api/v1/account/notifications/test",
		"/notifications/read":                      "POST /api/v1/notifications/read",
		"/admin/people/:user/roles":                "POST /api/v1/people/:user/roles",
		"/admin/people/:user/roles/revoke":         "POST /api/v1/people/:user/roles/revoke",
		"/admin/people/:user/disable":              "POST /api/v1/people/:user/disable",
		"/admin/people/:user/enable":               "POST /api/v1/people/:user/enable",
		"/admin/people/:user/tokens/:token/revoke": "POST /api/v1/people/:user/tokens/:token/revoke",
		"/admin/people/:user/sessions/end":         "POST /api/v1/people/:user/sessions/end",

		"/signin": "", "/signout": "", // of browsers
		"/language":          "", // programs send Accept-Language
		"/clusters/:id/open": "", // programs send their token to the cluster's host
	}
	served := map[string]bool{}
	for _, route := range open(t).server.echo.Routes() {
		served[route.Method+" "+route.Path] = true
	}
	for route := range served {
		path, isPost := strings.CutPrefix(route, "POST ")
		if api, known := twin[path]; isPost && !strings.HasPrefix(path, "/api/") && (!known || api != "" && !served[api]) {
			t.Errorf("programs cannot do %s: %q", path, api)
		}
	}
}

// TestMethods expects 405 with Allow wherever a path is known and the method is not: nothing changes by GET. A browser that
// loads the answer to a form again is led to the page of the form.
func TestMethods(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada := p.as(p.Ada)
	for _, tc := range []struct{ method, path string }{
		{http.MethodGet, "/api/v1/requests/" + request.ID + "/stop"}, {http.MethodPut, "/clusters/" + request.ID + "/stop"},
		{http.MethodPut, "/clusters"}, {http.MethodDelete, "/api/v1/requests/" + request.ID}, {http.MethodPatch, "/clusters/" + request.ID},
		{http.MethodPost, "/healthz"}, {http.MethodPost, "/signin/callback"}, {http.MethodPut, "/account/tokens"},
	} {
		got := ada.send(tc.method, tc.path, nil)
		if got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") == "" {
			t.Errorf("%s %s: %d, Allow %q, want 405 with Allow", tc.method, tc.path, got.Code, got.Header().Get("Allow"))
		}
	}
	p.token(p.adaToken).get("/clusters/" + request.ID + "/stop").want(http.StatusMethodNotAllowed)
	for path, page := range map[string]string{
		"/clusters/" + request.ID + "/stop": "/clusters/" + request.ID, "/clusters/" + request.ID + "/reply": "/clusters/" + request.ID,
		"/approvals/" + request.ID: "/approvals", "/signout": "/", "/language": "/",
		"/teams/vision/limit": "/teams/vision", "/teams/vision/raises/1/withdraw": "/teams/vision", "/teams/vision/deputies/1/end": "/teams/vision",
		"/account/tokens": "/account", "/account/tokens/1/revoke": "/account", "/account/sessions/end": "/account",
		"/account/notifications/test": "/account/notifications", "/notifications/read": "/notifications",
		"/admin/people/1/roles": "/admin/people/1", "/admin/people/1/tokens/2/revoke": "/admin/people/1", "/teams/%2F%2Fexample.org/limit": "/teams/%2F%2Fexample.org",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got := ada.send(method, path, nil).want(http.StatusSeeOther).location(); got != page {
				t.Errorf("%s %s leads to %s, want %s", method, path, got, page)
			}
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
	sam, token := p.as(p.Sam).with("X-Request-Id", "the-same-id"), p.token(p.samToken).with("X-Request-Id", "the-same-id")
	const unknown = "aaaaaaaaaaaa"
	same := func(v visitor, method, path, theirs, nobodys string) {
		t.Helper()
		a, b := v.send(method, strings.Replace(path, "*", theirs, 1), nil), v.send(method, strings.Replace(path, "*", nobodys, 1), nil)
		if a.Code != http.StatusNotFound || b.Code != http.StatusNotFound ||
			strings.ReplaceAll(a.Body.String(), theirs, "") != strings.ReplaceAll(b.Body.String(), nobodys, "") {
			t.Errorf("%s %s: %d and %d, bodies\n%s\n%s", method, path, a.Code, b.Code, a.Body, b.Body)
		}
	}
	for _, path := range []string{"/clusters/*", "/clusters/*/events", "/clusters/*/yaml", "/clusters/new?from=*", "/api/v1/clusters/*/events", "/api/v1/clusters/*/usage?range=nonsense"} {
		same(sam, http.MethodGet, path, request.ID, unknown)
	}
	for _, path := range []string{"", "/rules", "/audit", "/audit.csv", "/audit?from=2026-01-01", "/audit.csv?actor=Ada"} {
		same(sam, http.MethodGet, "/teams/*"+path, "vision", "no-such")
	}
	raise, grant := fmt.Sprint(p.raise(rayslice.Charge{GiB: 8}).ID), fmt.Sprint(p.base("vision"))
	for _, path := range []string{"/rules", "/limit", "/raises", "/deputies", "/deputies/1/end", "/raises/" + raise + "/withdraw", "/grants/" + grant + "/end"} {
		same(sam.with("Content-Type", "application/x-www-form-urlencoded"), http.MethodPost, "/teams/*"+path, "vision", "no-such")
	}
	same(sam, http.MethodPost, "/teams/speech/*", "raises/"+raise+"/withdraw", "raises/999999/withdraw")
	same(sam, http.MethodPost, "/teams/speech/*", "grants/"+grant+"/end", "grants/999999/end")
	for _, path := range []string{"", "/grants?cursor=x", "/audit?cursor=x", "/usage?from=x"} {
		same(sam, http.MethodGet, "/api/v1/teams/*"+path, "vision", "no-such")
	}
	for _, path := range []string{"/raises", "/deputies", "/deputies/1/end", "/grants/" + grant + "/end"} {
		same(sam, http.MethodPost, "/api/v1/teams/*"+path, "vision", "no-such")
	}
	for _, path := range []string{"/limit", "/rules"} {
		same(sam, http.MethodPut, "/api/v1/teams/*"+path, "vision", "no-such")
	}
	same(sam, http.MethodGet, "/api/v1/raises/*", raise, "999999")
	same(sam, http.MethodPost, "/api/v1/raises/*/withdraw", raise, "999999")
	same(sam, http.MethodPost, "/api/v1/raises/*/decision", raise, "999999")
	same(sam, http.MethodGet, "/api/v1/approvals/*", request.ID, unknown)
	same(sam, http.MethodPost, "/clusters/*/stop", request.ID, unknown)
	same(token, http.MethodGet, "/api/v1/requests/*", request.ID, unknown)
	same(token, http.MethodPost, "/api/v1/requests/*/stop", request.ID, unknown)
	for _, id := range []string{"%00", "..", "%2e%2e", "x", strings.Repeat("a", 4000), "AAAAAAAAAAAA", "%ff"} {
		sam.get("/clusters/" + id).want(http.StatusNotFound)
	}
}

// TestPathsBelongTogether does nothing to a team's grant or a person's token by an address that names another's.
func TestPathsBelongTogether(t *testing.T) {
	t.Parallel()
	p := open(t)
	root := p.as(p.Root)
	storetest.Exec(t, `INSERT INTO grants (team, gib, cards, base, until_at, granted_by) VALUES ('vision', 1, 0, false, now() + interval '1 hour', 'Root')`)
	var grant, token int64
	storetest.Query(t, &grant, `SELECT max(id) FROM grants`)
	storetest.Query(t, &token, `SELECT id FROM tokens WHERE user_id = $1`, p.Sam.ID)
	person := func(u rayslice.User) string { return fmt.Sprintf("/admin/people/%d/tokens/%d/revoke", u.ID, token) }
	root.post("/teams/speech/grants/"+itoa(grant)+"/end", nil).want(http.StatusNotFound)
	root.post("/teams/no-such/grants/"+itoa(grant)+"/end", nil).want(http.StatusNotFound)
	root.post(person(p.Ada), nil).want(http.StatusNotFound)
	root.post("/account/tokens/"+itoa(token)+"/revoke", nil).want(http.StatusNotFound)
	var ended, revoked bool
	storetest.Query(t, &ended, `SELECT ended_at IS NOT NULL FROM grants WHERE id = $1`, grant)
	storetest.Query(t, &revoked, `SELECT revoked_at IS NOT NULL FROM tokens WHERE id = $1`, token)
	if ended || revoked {
		t.Errorf("the grant is ended: %t, the token revoked: %t", ended, revoked)
	}
	root.post("/teams/vision/grants/"+itoa(grant)+"/end", nil).want(http.StatusSeeOther)
	root.post(person(p.Sam), nil).want(http.StatusSeeOther)
}
