package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice/store/storetest"
)

// TestSignIn begins and ends a session.
func TestSignIn(t *testing.T) {
	t.Parallel()
	p := open(t)
	nobody := p.nobody()
	if got := nobody.get("/clusters?state=live").want(http.StatusSeeOther).location(); got != "/signin?next=%2Fclusters%3Fstate%3Dlive" {
		t.Errorf("sent to %q", got)
	}
	page := nobody.get("/signin?next=/teams/vision").want(http.StatusOK).page()
	if n := page.Find("button[name=user]").Length(); n != 5 {
		t.Errorf("%d personas, want 5", n)
	}
	if got, _ := page.Find("input[name=next]").Last().Attr("value"); got != "/teams/vision" {
		t.Errorf("next %q", got)
	}

	in := nobody.post("/signin", url.Values{"user": {fmt.Sprint(p.Ada.ID)}, "next": {"/teams/vision"}}).want(http.StatusSeeOther)
	cookie := in.Result().Cookies()[0]
	if in.location() != "/teams/vision" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("sent to %q with %v", in.location(), cookie)
	}
	ada := nobody.with("Cookie", cookie.Name+"="+cookie.Value)
	if got := ada.get("/clusters").want(http.StatusOK).page().Find(".who").Text(); got != "Ada" {
		t.Errorf("signed in as %q", got)
	}
	out := ada.post("/signout", nil).want(http.StatusSeeOther)
	if c := out.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("sign-out leaves %v", c)
	}
	if got := ada.get("/clusters").want(http.StatusSeeOther).location(); !strings.HasPrefix(got, "/signin") {
		t.Errorf("the old cookie still leads to %q", got)
	}
	for _, user := range []string{"", "0", "99999", "ada", "-1", "9223372036854775808"} {
		nobody.post("/signin", url.Values{"user": {user}}).want(http.StatusUnprocessableEntity)
	}
}

// TestSignInOverTLS expects a cookie that only this host can set and that never travels in the clear.
func TestSignInOverTLS(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) { c.PublicURL = "https://portal.example" })
	got := p.nobody().post("/signin", url.Values{"user": {fmt.Sprint(p.Ada.ID)}}).want(http.StatusSeeOther)
	if cookie := got.Result().Cookies()[0]; !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure {
		t.Errorf("cookie %v", cookie)
	}
	if got.Header().Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
}

// TestNoPersonasOutsideTheDemo expects neither personas nor tokens without demo mode.
func TestNoPersonasOutsideTheDemo(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) { c.Demo = false })
	if n := p.nobody().get("/signin").want(http.StatusOK).page().Find("button[name=user]").Length(); n != 0 {
		t.Errorf("%d personas shown", n)
	}
	p.nobody().post("/signin", url.Values{"user": {fmt.Sprint(p.Ada.ID)}}).want(http.StatusNotFound)
	p.token(p.adaToken).get("/api/v1/requests").want(http.StatusUnauthorized)
}

// TestSessionsEnd is T34's absolute time-out: an old session is nobody, and the next sign-in sweeps it out.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	storetest.Exec(t, `UPDATE sessions SET expiry = now() - interval '1 second'`)
	ada.get("/clusters").want(http.StatusSeeOther)
	p.as(p.Bob)
	var left int
	if err := p.server.config.Sessions.QueryRow(t.Context(), `SELECT count(*) FROM sessions`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d sessions are left (%v), want Bob's", left, err)
	}
}

// TestIdleSessions is T34's other time-out: using the portal keeps a session, an open page does not, and nothing keeps it
// for more than a day.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	left := func() (left time.Duration) {
		t.Helper()
		var seconds float64
		storetest.Query(t, &seconds, `SELECT extract(epoch FROM expiry - now())::float8 FROM sessions`)
		return time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	}
	if got := left(); got != sessionIdle {
		t.Errorf("a new session has %s", got)
	}
	almost := func() { storetest.Exec(t, `UPDATE sessions SET expiry = now() + interval '1 hour'`) }
	almost()
	ada.send(http.MethodHead, "/clusters/events", nil).want(http.StatusOK)
	if got := left(); got != time.Hour {
		t.Errorf("an event stream keeps the session: %s left", got)
	}
	ada.get("/clusters").want(http.StatusOK)
	if got := left(); got != sessionIdle {
		t.Errorf("after use %s are left", got)
	}
	p.later(20 * time.Hour)
	ada.get("/clusters").want(http.StatusOK)
	if got := left(); got != sessionLifetime {
		t.Errorf("%s are left, want no more than a day from sign-in", got)
	}
	storetest.Exec(t, `UPDATE sessions SET expiry = now()`)
	ada.get("/clusters").want(http.StatusSeeOther)
}

// TestSessionFixation is T33: a planted session id is worthless after sign-in, and so is the one before.
func TestSessionFixation(t *testing.T) {
	t.Parallel()
	p := open(t)
	before := p.as(p.Ada)
	name, planted, _ := strings.Cut(before.header.Get("Cookie"), "=")
	for _, v := range []visitor{before, p.nobody().with("Cookie", name+"=made-up-by-an-attacker")} {
		got := v.post("/signin", url.Values{"user": {fmt.Sprint(p.Bob.ID)}}).want(http.StatusSeeOther)
		if id := got.Result().Cookies()[0].Value; id == planted || id == "made-up-by-an-attacker" {
			t.Error("the id before sign-in still holds")
		}
		v.get("/clusters").want(http.StatusSeeOther)
	}
}

// TestDisabledUser loses cookie and token at once.
func TestDisabledUser(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada, token := p.as(p.Ada), p.token(p.adaToken)
	storetest.Exec(t, `UPDATE users SET disabled = true WHERE id = $1`, p.Ada.ID)
	ada.get("/clusters").want(http.StatusSeeOther)
	if got := token.get("/api/v1/requests").want(http.StatusUnauthorized); got.problem().Code != "bad_token" || got.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("got %s", got.Body)
	}
}

// TestBearerBeatsCookie is B127: with both, the cookie is ignored; a bad token is never mended by a good cookie.
func TestBearerBeatsCookie(t *testing.T) {
	t.Parallel()
	p := open(t)
	both := p.as(p.Ada).with("Authorization", "Bearer "+p.samToken)
	if got := both.get("/clusters").want(http.StatusOK).page().Find(".who").Text(); got != "Sam" {
		t.Errorf("taken for %q, want Sam", got)
	}
	both.with("Sec-Fetch-Site", "cross-site").postJSON("/api/v1/requests", strings.Replace(goodBody, "vision", "speech", 1)).want(http.StatusCreated)
	p.as(p.Ada).with("Authorization", "Bearer wrong").get("/api/v1/requests").want(http.StatusUnauthorized)
	if got := p.as(p.Ada).with("Authorization", "Bearer wrong").get("/clusters").want(http.StatusUnauthorized).problem(); got.Code != "bad_token" {
		t.Errorf("got %+v", got)
	}
	p.as(p.Ada).with("Authorization", "Bearer ").get("/api/v1/requests").want(http.StatusOK) // no token at all
}

// TestNextStaysHere sends nobody to another site.
func TestNextStaysHere(t *testing.T) {
	for next, want := range map[string]string{
		"/teams/vision": "/teams/vision", "/clusters?q=a#b": "/clusters?q=a#b", "": "/clusters", "teams": "/clusters",
		"https://evil.example": "/clusters", "//evil.example": "/clusters", `/\evil.example`: "/clusters", `\\evil.example`: "/clusters",
		"/\t/evil.example": "/clusters", "javascript:alert(1)": "/clusters", "/a\r\nSet-Cookie: x=y": "/clusters", "///evil.example": "/clusters",
		"/%0d%0ax": "/%0d%0ax",
	} {
		if got := localPath(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

// TestFormAfterTheSessionEnded is B128: the form comes back filled in after sign-in, and nothing was submitted.
func TestFormAfterTheSessionEnded(t *testing.T) {
	t.Parallel()
	p := open(t)
	target := p.nobody().post("/clusters", goodForm()).want(http.StatusSeeOther).location()
	u, err := url.Parse(target)
	if err != nil || u.Path != "/signin" {
		t.Fatalf("sent to %q", target)
	}
	form := p.as(p.Ada).get(u.Query().Get("next")).want(http.StatusOK).page()
	if got, _ := form.Find("input[name=name]").Attr("value"); got != "ablation-7" {
		t.Errorf("name %q, want it kept", got)
	}
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
	htmx := p.nobody().with("HX-Request", "true").post("/clusters/preview", goodForm()).want(http.StatusUnauthorized)
	if got := htmx.Header().Get("HX-Redirect"); !strings.HasPrefix(got, "/signin?next=") {
		t.Errorf("htmx is sent to %q", got)
	}
}

// TestTheEnvironmentStaysOutOfAddresses: a form that outlives its session keeps everything but what may be secret, and says so.
func TestTheEnvironmentStaysOutOfAddresses(t *testing.T) {
	t.Parallel()
	p := open(t)
	form := goodForm()
	form.Set("env", "HF_TOKEN=hf_secret")
	target := p.nobody().post("/clusters", form).want(http.StatusSeeOther).location()
	htmx := p.nobody().with("HX-Request", "true").post("/clusters/preview", form).want(http.StatusUnauthorized).Header().Get("HX-Redirect")
	if strings.Contains(target+htmx, "hf_secret") || strings.Contains(target+htmx, "HF_TOKEN") {
		t.Errorf("sent to %q and %q", target, htmx)
	}
	u, _ := url.Parse(target)
	page := p.as(p.Ada).get(u.Query().Get("next")).want(http.StatusOK).page()
	if page.Find(`.note.warn a[href="#f-env"]`).Length() != 1 || page.Find("details.more[open]").Length() != 1 || page.Find("input[name=name]").AttrOr("value", "") != "ablation-7" {
		t.Error("the form does not say what was not kept")
	}
	u, _ = url.Parse(p.nobody().post("/clusters", goodForm()).location())
	if p.as(p.Ada).get(u.Query().Get("next")).page().Find(`.note.warn a[href="#f-env"]`).Length() != 0 {
		t.Error("there was no environment to keep")
	}
}

// TestPersonasAreSeen: an admin sees when somebody last signed in, in the demo too.
func TestPersonasAreSeen(t *testing.T) {
	t.Parallel()
	p := open(t)
	seen := func() int {
		return p.as(p.Root).get("/admin/people/" + itoa(p.Bob.ID)).want(http.StatusOK).page().Find(".title time").Length()
	}
	if seen() != 0 {
		t.Error("nobody has signed in")
	}
	p.nobody().post("/signin", url.Values{"user": {itoa(p.Bob.ID)}}).want(http.StatusSeeOther)
	if seen() != 1 {
		t.Error("the sign-in is not shown")
	}
}

// TestLanguage follows the browser, then the visitor's own choice.
func TestLanguage(t *testing.T) {
	t.Parallel()
	p := open(t)
	language := func(v visitor) string {
		code, _ := v.get("/signin").want(http.StatusOK).page().Find("html").Attr("lang")
		return code
	}
	for accept, want := range map[string]string{"": "en", "fr": "en", "zh": "zh-CN", "fr, zh-CN;q=0.8, en;q=0.5": "zh-CN", ";;;": "en"} {
		if got := language(p.nobody().with("Accept-Language", accept)); got != want {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
	chosen := p.nobody().post("/language", url.Values{"lang": {"zh-CN"}, "next": {"/signin"}}).want(http.StatusSeeOther)
	cookie := chosen.Result().Cookies()[0]
	if chosen.location() != "/signin" || language(p.nobody().with("Cookie", cookie.Name+"="+cookie.Value)) != "zh-CN" {
		t.Errorf("sent to %q with %v", chosen.location(), cookie)
	}
	for _, lang := range []string{"", "tlh", "zh-CN\r\n"} {
		p.nobody().post("/language", url.Values{"lang": {lang}}).want(http.StatusUnprocessableEntity)
	}
}
