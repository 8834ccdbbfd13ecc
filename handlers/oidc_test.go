package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// openWith starts a portal without personas whose people sign in with the provider.
func openWith(t testing.TB, i *idp, change ...func(*Config)) *portal {
	t.Helper()
	return open(t, append([]func(*Config){func(c *Config) { c.Demo, c.OIDC = false, i.config() }}, change...)...)
}

// later moves the portal's clock.
func (p *portal) later(d time.Duration) {
	now := p.server.now
	p.server.now = func() time.Time { return now().Add(d) }
}

// TestSignInWithProvider goes the whole way, and comes back to where it began.
func TestSignInWithProvider(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	button := p.nobody().get("/signin?next=/teams/vision").want(http.StatusOK).page().Find(`a[href^="/signin/oidc"]`)
	if got := button.AttrOr("href", ""); got != "/signin/oidc?next=%2Fteams%2Fvision" {
		t.Errorf("the button leads to %q", got)
	}
	end := p.depart(i, "/teams/vision").arrive().want(http.StatusSeeOther)
	zoe := end.sessionOf(p.nobody())
	if end.location() != "/teams/vision" {
		t.Errorf("sent to %q", end.location())
	}
	if got := zoe.get("/teams/vision").want(http.StatusOK).page().Find(".who").Text(); got != "Zoe" {
		t.Errorf("signed in as %q", got)
	}
	for _, cookie := range end.Result().Cookies() {
		if strings.HasSuffix(cookie.Name, "rayslice_signin") && cookie.MaxAge >= 0 {
			t.Errorf("the flow's cookie stays: %v", cookie)
		}
	}
	for next, want := range map[string]string{"https://evil.example": "/clusters", "//evil.example": "/clusters", "/clusters?q=" + strings.Repeat("x", 5000): "/clusters"} {
		if got := p.depart(i, next).arrive().want(http.StatusSeeOther).location(); got != want {
			t.Errorf("next=%.40s leads to %q", next, got)
		}
	}
	p.nobody().post("/signin", url.Values{"user": {fmt.Sprint(p.Ada.ID)}}).want(http.StatusNotFound)
}

// TestFormSurvivesProvider is B128 with a provider in between: the form comes back filled in, and nothing was submitted.
func TestFormSurvivesProvider(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	target, err := url.Parse(p.nobody().post("/clusters", goodForm()).want(http.StatusSeeOther).location())
	if err != nil {
		t.Fatal(err)
	}
	end := p.depart(i, target.Query().Get("next")).arrive().want(http.StatusSeeOther)
	form := end.sessionOf(p.nobody()).get(end.location()).want(http.StatusOK).page()
	if got := form.Find("input[name=name]").AttrOr("value", ""); got != "ablation-7" || p.countRequests() != 0 {
		t.Errorf("name %q, %d requests", got, p.countRequests())
	}
}

// TestForgedSignIns is T42: whatever is wrong with an answer, nobody is signed in and nobody comes into being.
func TestForgedSignIns(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*idp) {
		return func(i *idp) { i.twist = func(claims map[string]any) { claims[name] = value } }
	}
	for name, tc := range map[string]struct {
		provider func(*idp)
		visitor  func(*roundTrip)
		status   int
		code     string
	}{
		"a wrong state":                   {visitor: func(r *roundTrip) { r.back.Set("state", "x") }, status: 400, code: "signin_state"},
		"no state":                        {visitor: func(r *roundTrip) { r.back.Del("state") }, status: 400, code: "signin_state"},
		"another browser":                 {visitor: func(r *roundTrip) { r.visitor = r.visitor.with("Cookie", "") }, status: 400, code: "signin_state"},
		"a made-up cookie":                {visitor: func(r *roundTrip) { r.visitor = r.visitor.with("Cookie", "rayslice_signin=...") }, status: 400, code: "signin_state"},
		"another provider's answer":       {visitor: func(r *roundTrip) { r.back.Set("iss", "https://evil.example") }, status: 400, code: "signin_state"},
		"a wrong code":                    {visitor: func(r *roundTrip) { r.back.Set("code", "x") }, status: 400, code: "signin_code"},
		"no code":                         {visitor: func(r *roundTrip) { r.back.Del("code") }, status: 400, code: "signin_code"},
		"a wrong PKCE verifier":           {visitor: func(r *roundTrip) { r.changeFlow(2, strings.Repeat("x", 43)) }, status: 400, code: "signin_code"},
		"another flow's nonce":            {visitor: func(r *roundTrip) { r.changeFlow(1, "other") }, status: 400, code: "signin_token"},
		"the provider's no":               {visitor: func(r *roundTrip) { r.back.Set("error", "access_denied") }, status: 403, code: "signin_refused"},
		"a nonce of somebody else":        {provider: claim("nonce", "stolen"), status: 400, code: "signin_token"},
		"no nonce":                        {provider: claim("nonce", ""), status: 400, code: "signin_token"},
		"another issuer":                  {provider: claim("iss", "https://evil.example"), status: 400, code: "signin_token"},
		"another audience":                {provider: claim("aud", "other"), status: 400, code: "signin_token"},
		"two audiences without a party":   {provider: claim("aud", []string{"other", idpClient}), status: 400, code: "signin_token"},
		"another authorized party":        {provider: claim("azp", "other"), status: 400, code: "signin_token"},
		"a token that is over":            {provider: claim("exp", time.Now().Add(-time.Minute).Unix()), status: 400, code: "signin_token"},
		"a token of the future":           {provider: claim("iat", time.Now().Add(time.Hour).Unix()), status: 400, code: "signin_token"},
		"nobody":                          {provider: claim("sub", ""), status: 400, code: "signin_token"},
		"a wrong access token":            {provider: claim("at_hash", "x"), status: 400, code: "signin_token"},
		"no signature":                    {provider: func(i *idp) { i.sign = unsigned }, status: 400, code: "signin_token"},
		"a signature with the public key": {provider: func(i *idp) { i.sign = i.signedWithPublicKey }, status: 400, code: "signin_token"},
		"a signature of an unknown key":   {provider: func(i *idp) { known := i.keys; i.rotate(); i.keys = known }, status: 400, code: "signin_token"},
		"userinfo about somebody else": {provider: func(i *idp) {
			delete(i.person, "groups")
			i.userinfo = map[string]any{"sub": "other", "groups": []string{"admins"}}
		}, status: 400, code: "signin_token"},
		"a provider that is away meanwhile": {provider: func(i *idp) { i.down = true }, status: 503, code: "provider_away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIDP(t)
			p := openWith(t, i)
			trip := p.depart(i, "")
			if tc.provider != nil {
				i.set(func() { tc.provider(i) })
			}
			if tc.visitor != nil {
				tc.visitor(&trip)
			}
			got := trip.arrive().want(tc.status)
			if !strings.Contains(p.log.String(), tc.code) {
				t.Errorf("refused otherwise than with %s:\n%s", tc.code, p.log)
			}
			if tc.status == http.StatusServiceUnavailable && got.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if body := got.page().Find(".lead").Text(); body == "" {
				t.Error("the page does not say what to do")
			}
			for _, cookie := range got.Result().Cookies() {
				if strings.HasSuffix(cookie.Name, "rayslice_session") {
					t.Errorf("a session begins: %v", cookie)
				}
			}
			var people int
			storetest.Query(t, &people, `SELECT count(*) FROM users WHERE iss IS NOT NULL`)
			if people != 0 {
				t.Errorf("%d people came into being", people)
			}
		})
	}
}

// changeFlow replaces one part of the flow's cookie.
func (r *roundTrip) changeFlow(part int, value string) {
	name, text, _ := strings.Cut(r.visitor.header.Get("Cookie"), "=")
	parts := strings.SplitN(text, ".", 4)
	parts[part] = value
	r.visitor = r.visitor.with("Cookie", name+"="+strings.Join(parts, "."))
}

// TestCodeReplay is T42: the same answer works once, cookie or not.
func TestCodeReplay(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	trip := p.depart(i, "")
	trip.arrive().want(http.StatusSeeOther)
	trip.arrive().want(http.StatusBadRequest)
	trip.visitor = p.nobody()
	trip.arrive().want(http.StatusBadRequest)
}

// TestKeyRotation is T42: a new key works at once, without a restart.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	first := p.who(p.through(i))
	i.set(i.rotate)
	if second := p.who(p.through(i)); second.ID != first.ID {
		t.Errorf("%+v came back as %+v", first, second)
	}
	i.set(func() { // a provider may have several, of other kinds too
		old := i.keys
		i.rotate()
		i.keys = append(old, i.keys...)
		i.keys = append(i.keys, jose.JSONWebKey{Key: []byte("symmetric"), KeyID: "x", Algorithm: string(jose.HS256)})
	})
	p.through(i)
}

// TestStartWithoutProvider is T42: the portal starts, says what is missing, and needs no restart when it is there.
func TestStartWithoutProvider(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	i.down = true
	p := openWith(t, i)
	p.nobody().get("/signin").want(http.StatusOK)
	got := p.nobody().get("/signin/oidc").want(http.StatusServiceUnavailable)
	if got.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if body := got.page().Find(".lead").Text(); !strings.Contains(body, "identity provider") {
		t.Errorf("the page says %q", body)
	}
	i.set(func() { i.down = false })
	p.nobody().get("/signin/oidc").want(http.StatusServiceUnavailable) // not asked again at once
	p.server.provider.now = func() time.Time { return time.Now().Add(time.Minute) }
	p.through(i)
}

// TestNoMerge is T42: an address makes nobody somebody else, and one that was not verified is not kept.
func TestNoMerge(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	i.person["email"] = "ada@example.org"
	first := p.who(p.through(i))
	i.set(func() { i.person["sub"] = "another" })
	second := p.who(p.through(i))
	if first.ID == second.ID || first.ID == p.Ada.ID || second.ID == p.Ada.ID || second.Email != "ada@example.org" {
		t.Errorf("became %+v and %+v", first, second)
	}
	for _, verified := range []any{false, "false", nil, 1} {
		i.set(func() { i.person["email_verified"] = verified })
		if u := p.who(p.through(i)); u.Email != "" {
			t.Errorf("email_verified %v: kept %q", verified, u.Email)
		}
	}
}

// TestGroups is T42 and B124 at the door: absent changes nothing and warns, empty takes away, many are no trouble.
func TestGroups(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	with := func(groups any) rayslice.User {
		t.Helper()
		i.set(func() {
			delete(i.person, "groups")
			if groups != nil {
				i.person["groups"] = groups
			}
		})
		return p.who(p.through(i))
	}
	many := []string{"leads", "admins"}
	for n := range 500 {
		many = append(many, fmt.Sprintf("group-%d", n))
	}
	if u := with(many); !u.CanAdmin() || !u.CanLead("vision") {
		t.Errorf("of 500 groups: %+v", u)
	}
	if strings.Contains(p.log.String(), "said nothing about groups") {
		t.Error("a warning for nothing")
	}
	if u := with(nil); !u.CanAdmin() || !u.CanLead("vision") || !strings.Contains(p.log.String(), "said nothing about groups") {
		t.Errorf("without the claim: %+v", u)
	}
	if u := with([]string{}); u.CanAdmin() || len(u.Roles) != 0 {
		t.Errorf("with an empty one: %+v", u)
	}
	if u := with("research"); u.Roles["vision"] != rayslice.RoleMember {
		t.Errorf("with one as text: %+v", u)
	}
	i.set(func() { i.userinfo = map[string]any{"groups": []string{"leads"}} })
	if u := with(nil); !u.CanLead("vision") {
		t.Errorf("with groups in userinfo only: %+v", u)
	}
}

// TestRoleLostWhilePageIsOpen is T34: a lead who loses the group stops being one within the age of the re-check, without
// signing in again, and approves nothing any more.
func TestRoleLostWhilePageIsOpen(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	i.person["groups"] = []string{"leads"}
	p := openWith(t, i)
	lead := p.through(i)
	if !p.who(lead).CanLead("vision") {
		t.Fatal("is no lead")
	}
	i.set(func() { i.person["groups"] = []string{"research"} })
	p.later(9 * time.Minute)
	if asked := i.asked; !p.who(lead).CanLead("vision") || i.asked != asked {
		t.Error("the provider is asked all the time")
	}
	p.later(5 * time.Minute)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	now := p.who(lead)
	if now.CanLead("vision") || !now.MemberOf("vision") {
		t.Errorf("after 14 minutes: %+v", now)
	}
	_, err := p.store.DecideRequest(t.Context(), now, request.ID, rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: 1, Answer: "no"})
	if rayslice.KindOf(err) != rayslice.KindForbidden {
		t.Errorf("decides all the same: %v", err)
	}
}

// TestRefusedRefresh ends the session when the provider does not stand by it any more.
func TestRefusedRefresh(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*idp){
		"the provider refuses":     func(i *idp) { i.refusal = "invalid_grant" },
		"it speaks of another":     func(i *idp) { i.person["sub"] = "another" },
		"it signs with a lost key": func(i *idp) { i.sign = unsigned },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIDP(t)
			p := openWith(t, i)
			zoe := p.through(i)
			i.set(func() { change(i) })
			p.later(11 * time.Minute)
			if got := zoe.get("/clusters").want(http.StatusSeeOther).location(); !strings.HasPrefix(got, "/signin?") {
				t.Errorf("sent to %q", got)
			}
			var left int
			storetest.Query(t, &left, `SELECT count(*) FROM sessions`)
			if left != 0 {
				t.Errorf("%d sessions are left", left)
			}
		})
	}
}

// TestProviderAway lets people read on, and change nothing after 15 minutes, until it is back.
func TestProviderAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*idp){
		"down":                     func(i *idp) { i.down = true },
		"without its keys":         func(i *idp) { i.rotate(); i.keyless = true },
		"wrongly configured by us": func(i *idp) { i.refusal = "invalid_client" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIDP(t)
			p := openWith(t, i)
			zoe := p.through(i)
			i.set(func() { away(i) })
			p.later(12 * time.Minute)
			if got := zoe.post("/clusters", goodForm()).want(http.StatusSeeOther).location(); !strings.HasPrefix(got, "/clusters/") {
				t.Errorf("sent to %q", got)
			}
			p.later(4 * time.Minute)
			for range 3 {
				zoe.get("/clusters").want(http.StatusOK)
				if got := zoe.post("/clusters", goodForm()).want(http.StatusServiceUnavailable); got.Header().Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			asked := i.asked
			zoe.get("/clusters").want(http.StatusOK)
			if i.asked != asked {
				t.Error("every page asks the provider that is away")
			}
			i.set(func() { i.down, i.refusal, i.keyless = false, "", false })
			storetest.Exec(t, `UPDATE sessions SET checking_until = now()`) // half a minute later
			if got := zoe.post("/clusters", goodForm()).want(http.StatusSeeOther).location(); !strings.HasPrefix(got, "/clusters/") {
				t.Errorf("sent to %q", got)
			}
		})
	}
}

// TestWithoutRefreshToken sends people past the provider every 15 minutes, with what they were about to do.
func TestWithoutRefreshToken(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	i.refresh = ""
	p := openWith(t, i)
	zoe := p.through(i)
	p.later(14 * time.Minute)
	zoe.get("/clusters").want(http.StatusOK)
	p.later(2 * time.Minute)
	if got := zoe.get("/clusters?q=x").want(http.StatusSeeOther).location(); got != "/signin/oidc?next=%2Fclusters%3Fq%3Dx" {
		t.Errorf("sent to %q", got)
	}
	zoe.with("Accept", eventStreamType).get("/clusters/events").want(http.StatusUnauthorized)
	if got := zoe.post("/clusters", goodForm()).want(http.StatusSeeOther).location(); !strings.HasPrefix(got, "/signin?next=%2Fclusters%2Fnew%3F") {
		t.Errorf("a form is sent to %q, and no browser lets it go on to another site", got)
	}
}

// TestOneAsksForAll lets requests that come together use a refresh token once: providers take a second use for theft.
func TestOneAsksForAll(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	zoe := p.through(i)
	for range 3 {
		p.later(11 * time.Minute)
		i.set(func() { i.asked = 0 })
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() { p.who(zoe) })
		}
		all.Wait()
		if zoe.get("/clusters").want(http.StatusOK); i.asked != 1 {
			t.Errorf("asked %d times, want once", i.asked)
		}
	}
	i.set(func() { i.silent = true }) // a refresh without an ID token, and userinfo that says no more than who it is
	p.later(11 * time.Minute)
	zoe.get("/clusters").want(http.StatusOK)
}

// TestRefreshTokenIsSealed keeps what the database holds worthless without the cookie.
func TestRefreshTokenIsSealed(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i)
	zoe := p.through(i)
	_, cookie, _ := strings.Cut(zoe.header.Get("Cookie"), "=")
	var data []byte
	var name string
	storetest.Query(t, &data, `SELECT data FROM sessions`)
	storetest.Query(t, &name, `SELECT token FROM sessions`)
	found, err := p.server.readSession(data)
	if err != nil || strings.Contains(string(data), i.refresh) || strings.Contains(string(data), cookie) || name == cookie {
		t.Fatalf("the database holds a secret (%v)", err)
	}
	if _, err := unseal(name, found.refresh); err == nil {
		t.Error("the stored name opens it")
	}
	if text, err := unseal(cookie, found.refresh); err != nil || text != i.refresh {
		t.Errorf("the cookie opens %q, %v", text, err)
	}
}

// TestSessionsOfAnotherDoor end when the portal is configured otherwise.
func TestSessionsOfAnotherDoor(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := openWith(t, i, func(c *Config) { c.Demo = true })
	ada, zoe, token := p.as(p.Ada), p.through(i), p.token(p.adaToken)
	token.get("/api/v1/requests").want(http.StatusOK)
	p.server.config.Demo = false
	ada.get("/clusters").want(http.StatusSeeOther)
	token.get("/api/v1/requests").want(http.StatusUnauthorized)
	zoe.get("/clusters").want(http.StatusOK)
	p.server.provider.config.Issuer = "https://other.example"
	zoe.get("/clusters").want(http.StatusSeeOther)
}

// TestConfiguredAdmin makes the operator's own choice an admin, and nobody else.
func TestConfiguredAdmin(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	delete(i.person, "groups")
	p := openWith(t, i, func(c *Config) { c.OIDC.Admins = []string{"boss"} })
	if p.who(p.through(i)).CanAdmin() {
		t.Error("anybody is an admin")
	}
	i.set(func() { i.person["sub"] = "boss" })
	boss := p.through(i)
	if !p.who(boss).CanAdmin() {
		t.Error("the operator's admin is none")
	}
	people := boss.get("/admin/people?q=zoe").want(http.StatusOK).page()
	if n := people.Find("table.people tbody tr").Length(); n != 2 {
		t.Errorf("%d people", n)
	}
	if slices.Contains(strings.Fields(people.Text()), idpSecret) {
		t.Error("the page shows the secret")
	}
}

// TestForeignNames are kept as what people see of them, and nothing else of them; an address that would not be the same is none.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	p := newProvider(OIDC{GroupsClaim: "groups", TrustEmail: true, Groups: map[string][]rayslice.RoleGrant{"admins": {{Role: rayslice.RoleAdmin}}}}, "")
	for name, tc := range map[string]struct{ said, name, email string }{
		"an ordinary one":               {`{"name": "Ada Lovelace", "email": "ada@example.org"}`, "Ada Lovelace", "ada@example.org"},
		"other scripts":                 {`{"name": "王小明 نور Zoë"}`, "王小明 نور Zoë", ""},
		"turned around":                 {`{"name": "\u202eAda\u202c \u2066\u200fRoot\u2069\u061c"}`, "Ada Root", ""},
		"another's, with unseen signs":  {`{"name": "Ro\u200bo\u200c\u200d\u2060\ufefft\u00ad\u034f\ufe0f"}`, "Root", ""},
		"tags and fillers":              {`{"name": "Root\udb40\udc41\u3164\uffa0\u115f"}`, "Root", ""},
		"several lines and wide spaces": {`{"name": " Ada\r\n\u2028\u00a0\u3000Root\u0000\u0007\u009b "}`, "Ada Root", ""},
		"nothing that is seen":          {`{"name": "\u200b\u202e", "preferred_username": "ada"}`, "ada", ""},
		"too long":                      {`{"name": "` + strings.Repeat("é ", 300) + `"}`, strings.TrimSpace(strings.Repeat("é ", 100)), ""},
		"an address with unseen signs":  {`{"name": "Ada", "email": "ada\u200b@example.org"}`, "Ada", ""},
		"an address that is too long":   {`{"name": "Ada", "email": "` + strings.Repeat("a", 300) + `@example.org"}`, "Ada", ""},
	} {
		var said map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tc.said), &said); err != nil {
			t.Fatal(err)
		}
		if got := p.identity(p.read(said)); got.Name != tc.name || got.Email != tc.email {
			t.Errorf("%s: kept as %q, %q; want %q, %q", name, got.Name, got.Email, tc.name, tc.email)
		}
	}
	groups := map[string]json.RawMessage{"groups": json.RawMessage(`["admins\u200b", "\u202eadmins"]`)}
	if got := p.identity(p.read(groups)); len(got.Roles) != 0 {
		t.Errorf("groups that only look like another give %v", got.Roles)
	}
}
