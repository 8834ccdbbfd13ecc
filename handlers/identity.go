package handlers

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
)

// identity is who asks, and by what.
type identity struct {
	user      rayslice.User // zero = nobody
	session   string        // token of the cookie's session; "" = none
	bearer    string        // API token; "" = none, and then the cookie counts
	expiry    time.Time     // when the session ends unless it is used
	deadline  time.Time     // when it ends whatever happens
	again     bool          // nobody, until they have passed the identity provider once more
	unchecked bool          // the identity provider should have been asked again and could not be
}

// bearerToken returns the API token of a request, "" when it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// identityOf finds out who sent a request. A wrong token is refused; an old or unknown cookie is nobody. With both, the
// cookie is ignored (jupyterhub/jupyterhub#4604).
func (s *Server) identityOf(r *http.Request) (identity, error) {
	if token := bearerToken(r); token != "" {
		return s.recognise(r.Context(), identity{bearer: token})
	}
	cookie, err := r.Cookie(s.sessions.Cookie.Name)
	if err != nil || cookie.Value == "" {
		return identity{}, nil
	}
	return s.recognise(r.Context(), identity{session: cookie.Value})
}

// recognise looks up who a token or session stands for now. Event streams call it again and again, so it must not
// trust what was true when the stream opened.
func (s *Server) recognise(ctx context.Context, id identity) (identity, error) {
	if id.bearer != "" {
		return s.recogniseToken(ctx, id)
	}
	found, err := s.findSession(ctx, id.session)
	if err != nil || found.user == 0 {
		return identity{}, err
	}
	id.user, err = s.config.Store.User(ctx, rayslice.System, found.user)
	switch rayslice.KindOf(err) {
	case rayslice.KindForbidden, rayslice.KindNotFound: // disabled or gone
		return identity{}, nil
	}
	if err != nil || id.user.Epoch != found.epoch || !s.lets(id.user, found) {
		return identity{}, err
	}
	id.expiry, id.deadline = found.expiry, found.deadline
	if found.issuer == "" {
		return id, nil
	}
	return s.recheck(ctx, id, found)
}

var errBadToken = refuse(http.StatusUnauthorized, "bad_token", nil, nil)

func (s *Server) recogniseToken(ctx context.Context, id identity) (identity, error) {
	if !rayslice.CheckToken(id.bearer) {
		return identity{}, errBadToken
	}
	var err error
	id.user, err = s.config.Store.Token(ctx, rayslice.System, rayslice.HashToken(id.bearer))
	if rayslice.KindOf(err) == rayslice.KindNotFound || err == nil && id.user.Persona && !s.config.Demo {
		return identity{}, errBadToken
	}
	return id, err
}

// lets reports whether the portal, as it is configured now, lets in whoever the session was begun for.
func (s *Server) lets(u rayslice.User, found session) bool {
	if found.issuer == "" {
		return s.config.Demo && u.Persona
	}
	return s.provider != nil && s.provider.config.Issuer == found.issuer
}

// session is a sign-in as Postgres holds it.
type session struct {
	user     int64 // 0 = there is none
	epoch    int
	issuer   string
	subject  string
	refresh  []byte
	checked  time.Time
	expiry   time.Time
	deadline time.Time
}

func (s *Server) findSession(ctx context.Context, token string) (session, error) {
	data, expiry, err := s.sessionStore.find(ctx, storedAs(token))
	if err != nil || expiry.IsZero() {
		return session{}, err
	}
	found, err := s.readSession(data)
	found.expiry = expiry
	return found, err
}

// storedAs is the name of a session in Postgres, as scs makes it from the cookie's value.
func storedAs(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (s *Server) readSession(data []byte) (session, error) {
	deadline, values, err := s.sessions.Codec.Decode(data)
	if err != nil {
		return session{}, err
	}
	found := session{deadline: deadline}
	found.user, _ = values[sessionUser].(int64)
	found.epoch, _ = values[sessionEpoch].(int)
	found.issuer, _ = values[sessionIssuer].(string)
	found.subject, _ = values[sessionSubject].(string)
	found.refresh, _ = values[sessionRefresh].([]byte)
	checked, _ := values[sessionChecked].(int64)
	found.checked = time.Unix(checked, 0)
	return found, nil
}

func (s *Server) writeSession(x session) ([]byte, error) {
	return s.sessions.Codec.Encode(x.deadline, map[string]any{
		sessionUser: x.user, sessionEpoch: x.epoch, sessionIssuer: x.issuer, sessionSubject: x.subject,
		sessionRefresh: x.refresh, sessionChecked: x.checked.Unix(),
	})
}

// touch notes that a session is used. Event streams are no use: an open page would hold it for ever.
func (s *Server) touch(c echo.Context, id identity) {
	expiry := s.now().Add(sessionIdle)
	if expiry.After(id.deadline) {
		expiry = id.deadline
	}
	if id.session == "" || id.user.ID == 0 || isStream(c.Request()) || expiry.Sub(id.expiry) < touchEvery {
		return
	}
	if err := s.sessionStore.touch(c.Request().Context(), storedAs(id.session), expiry); err != nil {
		s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "noting the use of a session failed",
			slog.String("request_id", visitOf(c).id), slog.String("error", err.Error()))
	}
}

func isStream(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/events") || strings.HasPrefix(r.Header.Get(echo.HeaderAccept), eventStreamType)
}

// When the identity provider is asked again whether a session may go on, and what roles it has.
const (
	recheckAfter  = 10 * time.Minute // from then on it is asked
	recheckWithin = 15 * time.Minute // by then it must have answered
	recheckWait   = 8 * time.Second  // longest one page waits for it
)

// recheck asks the identity provider again when it is time. While it cannot be asked, reading goes on for as long as the
// session lives, and changing anything ends after recheckWithin.
func (s *Server) recheck(ctx context.Context, id identity, found session) (identity, error) {
	age := s.now().Sub(found.checked)
	switch {
	case age < recheckAfter, len(found.refresh) == 0 && age < recheckWithin:
		return id, nil
	case len(found.refresh) == 0:
		return identity{again: true}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recheckWait) // a visitor who leaves must not lose the new refresh token
	defer cancel()
	user, err := s.askProvider(ctx, id)
	switch {
	case err == nil && user.ID != 0:
		id.user = user
	case err == nil: // somebody else is asking
		id.unchecked = age >= recheckWithin
	case rayslice.KindOf(err) == rayslice.KindUnavailable:
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the identity provider cannot be asked", slog.Int64("user", id.user.ID), slog.String("error", err.Error()))
		id.unchecked = age >= recheckWithin
	default:
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "the identity provider ends a session", slog.Int64("user", id.user.ID), slog.String("error", err.Error()))
		return identity{}, s.sessionStore.DeleteCtx(ctx, storedAs(id.session))
	}
	return id, nil
}

// askProvider has the provider speak for the session once more and returns the person as they are now; nobody when
// another request is asking at this moment.
func (s *Server) askProvider(ctx context.Context, id identity) (rayslice.User, error) {
	data, err := s.sessionStore.claim(ctx, storedAs(id.session))
	if err != nil || data == nil {
		return rayslice.User{}, err
	}
	found, err := s.readSession(data)
	if err != nil {
		return rayslice.User{}, err
	}
	if s.now().Sub(found.checked) < recheckAfter { // another request was faster
		if err := s.keep(ctx, id, found, true); err != nil {
			return rayslice.User{}, err
		}
		return s.config.Store.User(ctx, rayslice.System, found.user)
	}
	user, refresh, err := s.refreshUser(ctx, id, found)
	if refresh != "" {
		var failed error
		if found.refresh, failed = seal(id.session, refresh); failed != nil {
			return rayslice.User{}, failed
		}
	}
	if err != nil {
		return rayslice.User{}, errors.Join(err, s.keep(ctx, id, found, false))
	}
	found.checked = s.now()
	return user, s.keep(ctx, id, found, true)
}

// keep writes a session; answered says that the provider has spoken, so that others need not wait for their turn.
func (s *Server) keep(ctx context.Context, id identity, found session, answered bool) error {
	data, err := s.writeSession(found)
	if err != nil {
		return err
	}
	return s.sessionStore.save(ctx, storedAs(id.session), data, answered)
}

var errSomebodyElse = errors.New("the provider speaks of somebody else now")

// refreshUser trades the session's refresh token in and syncs what the provider says. refresh is the new refresh token,
// "" = the old one goes on.
func (s *Server) refreshUser(ctx context.Context, id identity, found session) (u rayslice.User, refresh string, err error) {
	old, err := unseal(id.session, found.refresh)
	if err != nil {
		return rayslice.User{}, "", err
	}
	token, got, err := s.provider.refresh(ctx, old)
	if token != nil && token.RefreshToken != old {
		refresh = token.RefreshToken
	}
	switch {
	case err != nil:
	case got.Subject == "":
		u = id.user // it may go on; nothing else was said
	case got.Subject == found.subject:
		u, err = s.config.Store.SignIn(ctx, rayslice.System, s.provider.identity(got))
	default:
		err = errSomebodyElse
	}
	return u, refresh, err
}

// sessionCipher is for what a session keeps secret from the database: its key comes from the cookie's value, of which the
// database has a hash.
func sessionCipher(token string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "rayslice session", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts text under a session's token; nothing stays nothing.
func seal(token, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	aead, err := sessionCipher(token)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, []byte(text), nil), nil
}

func unseal(token string, sealed []byte) (string, error) {
	aead, err := sessionCipher(token)
	if err != nil {
		return "", err
	}
	if len(sealed) < aead.NonceSize() {
		return "", errors.New("sealed text is too short")
	}
	text, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], nil)
	return string(text), err
}
