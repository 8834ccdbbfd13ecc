package handlers

import (
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"github.com/rayslice/rayslice"
)

// callbackPath is where the identity provider sends people back to.
const callbackPath = "/signin/callback"

// flow is one sign-in that is under way at the identity provider. It lives in a cookie of the browser that began it, so
// that nobody else's answer can end it.
type flow struct {
	state    string // comes back in the address
	nonce    string // comes back in the ID token
	verifier string // of PKCE: whoever steals the code lacks it
	next     string // local path to go to afterwards
}

// flowLifetime is how long somebody may take at the provider.
const flowLifetime = 10 * time.Minute

func (f flow) String() string {
	return strings.Join([]string{f.state, f.nonce, f.verifier, f.next}, ".")
}

// parseFlow reads a cookie's value; ok is false when it is none of ours.
func parseFlow(text string) (f flow, ok bool) {
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 4 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return flow{}, false
	}
	return flow{parts[0], parts[1], parts[2], parts[3]}, true
}

// flowCookie returns the cookie that carries a flow; an empty one removes it.
func (s *Server) flowCookie(value string, age time.Duration) *http.Cookie {
	cookie := &http.Cookie{
		Name: "rayslice_signin", Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true,
		Secure: s.sessions.Cookie.Secure, SameSite: http.SameSiteLaxMode, // the way back from the provider is a cross-site link
	}
	if cookie.Secure {
		cookie.Name = "__Host-" + cookie.Name
	}
	return cookie
}

// cookieSafe returns next when a cookie can carry it, else the front page. Browsers escape everything else themselves.
func cookieSafe(next string) string {
	next = localPath(next)
	unsafe := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`",;\`, r) }
	if strings.ContainsFunc(next, unsafe) || len(next) > maxNext {
		return localPath("")
	}
	return next
}

// beginSignIn sends the visitor to the identity provider.
func (s *Server) beginSignIn(c echo.Context) error {
	if s.provider == nil {
		return rayslice.NotFound("page")
	}
	found, err := s.provider.discover(c.Request().Context())
	if err != nil {
		return err
	}
	f := flow{state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), next: cookieSafe(c.QueryParam("next"))}
	c.SetCookie(s.flowCookie(f.String(), flowLifetime))
	return c.Redirect(http.StatusSeeOther, s.provider.oauth(found).AuthCodeURL(f.state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)))
}

// finishSignIn is where the provider sends the visitor back to.
func (s *Server) finishSignIn(c echo.Context) error {
	ctx := c.Request().Context()
	if s.provider == nil {
		return rayslice.NotFound("page")
	}
	f, err := s.flowOf(c)
	if err != nil {
		return err
	}
	c.SetCookie(s.flowCookie("", -time.Second)) // whatever happens, it cannot be used again
	if problem := c.QueryParam("error"); problem != "" {
		return s.refusedByProvider(problem, c.QueryParam("error_description"))
	}
	token, got, err := s.provider.exchange(ctx, c.QueryParam("code"), f)
	if err != nil {
		return err
	}
	if !got.HasGroups && len(s.provider.config.Groups) > 0 {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the identity provider said nothing about groups: roles stay as they are",
			slog.String("request_id", visitOf(c).id), slog.String("claim", s.provider.config.GroupsClaim))
	}
	user, err := s.config.Store.SignIn(ctx, rayslice.System, s.provider.identity(got))
	if err != nil {
		return err
	}
	if err := s.beginSession(c, user, &visa{issuer: s.provider.config.Issuer, subject: got.Subject, refresh: token.RefreshToken}); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, localPath(f.next))
}

// flowOf returns the flow that this browser began, if the answer belongs to it.
func (s *Server) flowOf(c echo.Context) (flow, error) {
	var f flow
	cookie, err := c.Cookie(s.flowCookie("", 0).Name)
	ok := err == nil
	if ok {
		f, ok = parseFlow(cookie.Value)
	}
	if !ok || subtle.ConstantTimeCompare([]byte(f.state), []byte(c.QueryParam("state"))) != 1 {
		return flow{}, refuse(http.StatusBadRequest, "signin_state", nil, nil)
	}
	if iss := c.QueryParam("iss"); iss != "" && iss != s.provider.config.Issuer { // RFC 9207
		return flow{}, refuse(http.StatusBadRequest, "signin_state", nil, nil)
	}
	return f, nil
}

// refusedByProvider says that the provider let nobody in. Its own words are for the log only.
func (s *Server) refusedByProvider(code, description string) error {
	cause := &oauth2.RetrieveError{ErrorCode: clean(code), ErrorDescription: clean(description)}
	if code == "temporarily_unavailable" || code == "server_error" {
		return errProviderAway(cause)
	}
	return refuse(http.StatusForbidden, "signin_refused", nil, cause)
}
