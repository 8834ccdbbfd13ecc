package handlers

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// How long a sign-in holds: unused, and whatever happens.
const (
	sessionIdle     = 8 * time.Hour
	sessionLifetime = 24 * time.Hour
)

// touchEvery is how exactly the use of a session is noted.
const touchEvery = 5 * time.Minute

// What a session holds.
const (
	sessionUser    = "user"    // int64: id of the user
	sessionEpoch   = "epoch"   // int: the user's when it began; a later one ends it
	sessionIssuer  = "issuer"  // string: of the identity provider; "" = a persona of the demo
	sessionSubject = "subject" // string: who it is there
	sessionRefresh = "refresh" // []byte: sealed refresh token; empty = the provider gave none
	sessionChecked = "checked" // int64: when the provider last spoke for it, Unix seconds
)

// languageCookie remembers the language a visitor chose.
const languageCookie = "lang"

// newSessions returns the session manager. It is built by hand because scs.New starts an in-memory store, with a
// goroutine that nothing ends. Only the hash of a token is stored.
func newSessions(store sessionStore, secure bool) *scs.SessionManager {
	cookie := scs.SessionCookie{Name: "rayslice_session", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Persist: true}
	if secure {
		cookie.Name, cookie.Secure = "__Host-rayslice_session", true
	}
	return &scs.SessionManager{
		Lifetime:         sessionLifetime,
		IdleTimeout:      sessionIdle,
		Cookie:           cookie,
		Codec:            scs.GobCodec{},
		Store:            store,
		HashTokenInStore: true,
	}
}

// showSignIn shows who one can be.
func (s *Server) showSignIn(c echo.Context) error {
	p := web.SignInPage{Frame: s.frame(c), Next: localPath(c.QueryParam("next")), Provider: s.provider.host()}
	if s.config.Demo {
		var err error
		if p.Personas, err = s.config.Store.Personas(c.Request().Context(), rayslice.System); err != nil {
			return err
		}
	}
	return page(c, http.StatusOK, web.SignInView(p))
}

// signIn begins a session as one of the demo's personas, under a new id: one that was planted before is worthless.
func (s *Server) signIn(c echo.Context) error {
	ctx := c.Request().Context()
	if !s.config.Demo {
		return rayslice.NotFound("page")
	}
	form, err := formValues(c)
	if err != nil {
		return err
	}
	personas, err := s.config.Store.Personas(ctx, rayslice.System)
	if err != nil {
		return err
	}
	chosen, _ := strconv.ParseInt(form.Get("user"), 10, 64)
	at := slices.IndexFunc(personas, func(u rayslice.User) bool { return u.ID == chosen })
	if at < 0 {
		return rayslice.Invalid(rayslice.FieldError{Field: "user", Code: rayslice.CodeRequired})
	}
	if err := s.config.Store.SignInPersona(ctx, rayslice.System, personas[at].ID); err != nil {
		return err
	}
	if err := s.beginSession(c, personas[at], nil); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, localPath(form.Get("next")))
}

// visa is what an identity provider gave for a session.
type visa struct {
	issuer, subject string
	refresh         string // refresh token; "" = none
}

// beginSession begins a session under a new id. visa is nil for a persona.
func (s *Server) beginSession(c echo.Context, u rayslice.User, v *visa) error {
	ctx, err := s.sessions.Load(c.Request().Context(), s.sessionToken(c))
	if err != nil {
		return err
	}
	if err := s.sessions.Clear(ctx); err != nil { // what an earlier visitor of this browser left
		return err
	}
	if err := s.sessions.RenewToken(ctx); err != nil {
		return err
	}
	s.sessions.Put(ctx, sessionUser, u.ID)
	s.sessions.Put(ctx, sessionEpoch, u.Epoch)
	if v != nil {
		sealed, err := seal(s.sessions.Token(ctx), v.refresh)
		if err != nil {
			return err
		}
		s.sessions.Put(ctx, sessionIssuer, v.issuer)
		s.sessions.Put(ctx, sessionSubject, v.subject)
		s.sessions.Put(ctx, sessionRefresh, sealed)
		s.sessions.Put(ctx, sessionChecked, s.now().Unix())
	}
	token, _, err := s.sessions.Commit(ctx)
	if err != nil {
		return err
	}
	s.sessions.WriteSessionCookie(ctx, c.Response(), token, s.sessions.Deadline(ctx)) // not the idle time, which moves
	return nil
}

func (s *Server) sessionToken(c echo.Context) string {
	cookie, err := c.Cookie(s.sessions.Cookie.Name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// signOut ends the session, here and in the database. Its event streams end at their next check.
func (s *Server) signOut(c echo.Context) error {
	if token := s.sessionToken(c); token != "" {
		ctx, err := s.sessions.Load(c.Request().Context(), token)
		if err != nil {
			return err
		}
		if err := s.sessions.Destroy(ctx); err != nil {
			return err
		}
		s.sessions.WriteSessionCookie(ctx, c.Response(), "", time.Time{})
	}
	return c.Redirect(http.StatusSeeOther, "/signin")
}

// setLanguage remembers the visitor's language and returns to the page they came from.
func (s *Server) setLanguage(c echo.Context) error {
	form, err := formValues(c)
	if err != nil {
		return err
	}
	chosen := form.Get("lang")
	if !slices.ContainsFunc(web.Languages(), func(l web.Language) bool { return l.Code == chosen }) {
		return rayslice.Invalid(rayslice.FieldError{Field: "lang", Code: rayslice.CodeRequired})
	}
	c.SetCookie(&http.Cookie{
		Name: languageCookie, Value: chosen, Path: "/", MaxAge: 365 * 24 * 3600,
		HttpOnly: true, Secure: s.sessions.Cookie.Secure, SameSite: http.SameSiteLaxMode,
	})
	s.rememberLanguage(c, chosen)
	return c.Redirect(http.StatusSeeOther, localPath(form.Get("next")))
}

// localizer returns the visitor's language: the chosen one, else what the browser prefers.
func localizer(r *http.Request) *web.Localizer {
	chosen := ""
	if cookie, err := r.Cookie(languageCookie); err == nil {
		chosen = cookie.Value
	}
	return web.NewLocalizer(chosen, r.Header.Get("Accept-Language"))
}

// localPath returns next when it is a path on this portal, else the front page: nobody is sent to another site.
func localPath(next string) string {
	const home = "/clusters"
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\") {
		return home
	}
	return next
}

// maxNext is the longest address that the cookie of a sign-in carries: browsers drop one above 4 KiB. So it also bounds
// the form that an address carries through the sign-in.
const maxNext = 3500

// returnTo says where to go after sign-in: the page that was asked for. A form that was sent after the session had
// ended comes back filled in, and nothing has been submitted (jupyterhub/jupyterhub#5229).
func returnTo(r *http.Request) string {
	if safeMethod(r.Method) {
		return r.URL.RequestURI()
	}
	if strings.HasPrefix(r.URL.Path, "/approvals") {
		return "/approvals"
	}
	if r.URL.Path == "/clusters/import" {
		return r.URL.Path // what was pasted has no place in an address
	}
	if r.URL.Path != "/clusters" || r.ParseForm() != nil {
		return "/clusters"
	}
	if kept := "/clusters/new?" + keptForm(r.PostForm).Encode(); len(kept) <= maxNext {
		return kept
	}
	return "/clusters/new"
}

// envLost is the query parameter of a form that came back without its environment.
const envLost = "env_lost"

// keptForm is what of a form an address may hold: not the environment, where people keep passwords and keys, as addresses
// stay in the history of browsers and in the logs of proxies.
func keptForm(form url.Values) url.Values {
	kept := maps.Clone(form)
	for _, name := range []string{"env", "idempotency_key"} {
		kept.Del(name)
	}
	if strings.TrimSpace(form.Get("env")) != "" {
		kept.Set(envLost, "1")
	}
	return kept
}
