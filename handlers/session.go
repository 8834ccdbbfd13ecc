package handlers

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// sessionLifetime is how long a sign-in holds, whatever happens.
const sessionLifetime = 12 * time.Hour

// sessionUser is the session's only value: the id of the user.
const sessionUser = "user"

// languageCookie remembers the language a visitor chose.
const languageCookie = "lang"

// newSessions returns the session manager. It is built by hand because scs.New starts an in-memory store, with a
// goroutine that nothing ends. Only the hash of a token is stored.
func newSessions(pool *pgxpool.Pool, secure bool) *scs.SessionManager {
	cookie := scs.SessionCookie{Name: "rayslice_session", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Persist: true}
	if secure {
		cookie.Name, cookie.Secure = "__Host-rayslice_session", true
	}
	return &scs.SessionManager{
		Lifetime:         sessionLifetime,
		Cookie:           cookie,
		Codec:            scs.GobCodec{},
		Store:            sessionStore{pool},
		HashTokenInStore: true,
	}
}

// bearerToken returns the API token of a request, "" when it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// identityOf finds out who sent a request. A wrong token is refused; an old or unknown cookie is nobody.
func (s *Server) identityOf(r *http.Request) (identity, error) {
	if token := bearerToken(r); token != "" {
		return s.recognise(r.Context(), identity{bearer: token})
	}
	cookie, err := r.Cookie(s.sessions.Cookie.Name)
	if err != nil {
		return identity{}, nil
	}
	return s.recognise(r.Context(), identity{session: cookie.Value})
}

// recognise looks up who a token or session stands for now. Event streams call it again and again, so it must not
// trust what was true when the stream opened.
func (s *Server) recognise(ctx context.Context, id identity) (identity, error) {
	userID, err := s.userIDOf(ctx, id)
	if err != nil || userID == 0 {
		return identity{}, err
	}
	id.user, err = s.config.Store.User(ctx, rayslice.System, userID)
	switch rayslice.KindOf(err) {
	case rayslice.KindForbidden, rayslice.KindNotFound: // disabled or gone
		return identity{}, refuseToken(id, err)
	}
	return id, err
}

func (s *Server) userIDOf(ctx context.Context, id identity) (int64, error) {
	if id.bearer != "" {
		if userID := s.tokens[sha256.Sum256([]byte(id.bearer))]; userID != 0 {
			return userID, nil
		}
		return 0, refuseToken(id, nil)
	}
	loaded, err := s.sessions.Load(ctx, id.session)
	if err != nil {
		return 0, err
	}
	return s.sessions.GetInt64(loaded, sessionUser), nil
}

// refuseToken refuses a bearer token; a cookie that stands for nobody is no fault.
func refuseToken(id identity, cause error) error {
	if id.bearer == "" {
		return nil
	}
	return refuse(http.StatusUnauthorized, "bad_token", nil, cause)
}

// showSignIn shows who one can be.
func (s *Server) showSignIn(c echo.Context) error {
	p := web.SignInPage{Frame: s.frame(c), Next: localPath(c.QueryParam("next"))}
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
	if !slices.ContainsFunc(personas, func(u rayslice.User) bool { return u.ID == chosen }) {
		return rayslice.Invalid(rayslice.FieldError{Field: "user", Code: rayslice.CodeRequired})
	}
	if err := s.beginSession(c, chosen); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, localPath(form.Get("next")))
}

func (s *Server) beginSession(c echo.Context, userID int64) error {
	ctx, err := s.sessions.Load(c.Request().Context(), s.sessionToken(c))
	if err != nil {
		return err
	}
	if err := s.sessions.RenewToken(ctx); err != nil {
		return err
	}
	s.sessions.Put(ctx, sessionUser, userID)
	token, expiry, err := s.sessions.Commit(ctx)
	if err != nil {
		return err
	}
	s.sessions.WriteSessionCookie(ctx, c.Response(), token, expiry)
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

// maxKeptForm is the longest address that carries a form through the sign-in page.
const maxKeptForm = 4096

// returnTo says where to go after sign-in: the page that was asked for. A form that was sent after the session had
// ended comes back filled in, and nothing has been submitted (jupyterhub/jupyterhub#5229).
func returnTo(r *http.Request) string {
	if safeMethod(r.Method) {
		return r.URL.RequestURI()
	}
	if r.URL.Path != "/clusters" || r.ParseForm() != nil {
		return "/clusters"
	}
	if kept := "/clusters/new?" + r.PostForm.Encode(); len(kept) <= maxKeptForm {
		return kept
	}
	return "/clusters/new"
}
