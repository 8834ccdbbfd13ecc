package handlers

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rayslice/rayslice"
)

// idp is a small but true OpenID provider: it checks what a provider checks, codes and refresh tokens work once, and its
// keys can be rotated. What it says about the one person it knows, and how it cheats, is for the tests to set.
type idp struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	key      *ecdsa.PrivateKey
	kid      string
	keys     []jose.JSONWebKey
	codes    map[string]code
	access   map[string]bool
	refresh  string         // the one that works; "" = none is given
	person   map[string]any // claims
	userinfo map[string]any // what it says beyond the ID token; nil = nothing
	refusal  string         // OAuth error instead of tokens for a refresh
	down     bool           // answers 503 to everything
	keyless  bool           // answers 500 when asked for its keys
	twist    func(claims map[string]any)
	sign     func(claims []byte) string // nil = properly
	asked    int                        // requests to the token endpoint
	silent   bool                       // no ID token with a refresh
}

// code is an authorization code and what it was given for.
type code struct {
	challenge, nonce, redirect string
	spent                      bool
}

const (
	idpClient = "rayslice"
	idpSecret = "a secret/with + signs"
)

func newIDP(t testing.TB) *idp {
	t.Helper()
	i := &idp{t: t, codes: map[string]code{}, access: map[string]bool{}, refresh: "refresh-0", person: map[string]any{
		"sub": "248289761001", "name": "Zoe", "email": "zoe@example.org", "email_verified": true, "groups": []string{"research"},
	}}
	i.rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.describe)
	mux.HandleFunc("GET /jwks", i.showKeys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("GET /userinfo", i.showUserInfo)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// config is how the portal is told about the provider.
func (i *idp) config() *OIDC {
	return &OIDC{Issuer: i.URL, ClientID: idpClient, ClientSecret: idpSecret, Scopes: []string{"profile", "email", "offline_access"}, GroupsClaim: "groups",
		Groups: map[string][]rayslice.RoleGrant{
			"research": {{Team: "vision", Role: rayslice.RoleMember}},
			"leads":    {{Team: "vision", Role: rayslice.RoleLead}},
			"admins":   {{Role: rayslice.RoleAdmin}},
		}}
}

// set changes the provider while it runs.
func (i *idp) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// rotate signs with a fresh key from now on, and forgets the old one.
func (i *idp) rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.key, i.kid = key, rand.Text()
	i.keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: i.kid, Algorithm: string(jose.ES256), Use: "sig"}}
}

func (i *idp) describe(w http.ResponseWriter, _ *http.Request) {
	i.say(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/jwks",
		"userinfo_endpoint": i.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
	})
}

func (i *idp) showKeys(w http.ResponseWriter, _ *http.Request) {
	if i.keyless {
		http.Error(w, "no keys", http.StatusInternalServerError)
		return
	}
	i.say(w, http.StatusOK, jose.JSONWebKeySet{Keys: i.keys})
}

func (i *idp) say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

func (i *idp) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != idpClient || q.Get("response_type") != "code" || !strings.Contains(q.Get("scope"), "openid") ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	given := rand.Text()
	i.codes[given] = code{challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), redirect: q.Get("redirect_uri")}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {given}, "state": {q.Get("state")}, "iss": {i.URL}}.Encode(), http.StatusFound)
}

func (i *idp) token(w http.ResponseWriter, r *http.Request) {
	i.asked++
	refuse := func(code string) { i.say(w, http.StatusBadRequest, map[string]string{"error": code}) }
	id, secret, _ := r.BasicAuth()
	if secret, _ = url.QueryUnescape(secret); id != idpClient || secret != idpSecret {
		i.say(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	switch r.FormValue("grant_type") {
	case "authorization_code":
		c, ok := i.codes[r.FormValue("code")]
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || c.spent || c.redirect != r.FormValue("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge {
			refuse("invalid_grant")
			return
		}
		c.spent = true
		i.codes[r.FormValue("code")] = c
		i.give(w, c.nonce, true)
	case "refresh_token":
		if i.refusal != "" || i.refresh == "" || r.FormValue("refresh_token") != i.refresh {
			refuse(cmp.Or(i.refusal, "invalid_grant"))
			return
		}
		i.refresh = "refresh-" + rand.Text()
		i.give(w, "", !i.silent)
	default:
		refuse("unsupported_grant_type")
	}
}

func (i *idp) give(w http.ResponseWriter, nonce string, withID bool) {
	access := rand.Text()
	i.access[access] = true
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300}
	if i.refresh != "" {
		answer["refresh_token"] = i.refresh
	}
	if withID {
		answer["id_token"] = i.idToken(nonce)
	}
	i.say(w, http.StatusOK, answer)
}

func (i *idp) idToken(nonce string) string {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": idpClient, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	maps.Copy(claims, i.person)
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if i.twist != nil {
		i.twist(claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		i.t.Error(err)
	}
	if i.sign != nil {
		return i.sign(payload)
	}
	return i.signed(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, payload)
}

func (i *idp) signed(key jose.SigningKey, payload []byte) string {
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithHeader("kid", i.kid))
	if err != nil {
		i.t.Error(err)
		return ""
	}
	object, err := signer.Sign(payload)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	text, err := object.CompactSerialize()
	if err != nil {
		i.t.Error(err)
	}
	return text
}

// unsigned is a token of the algorithm none.
func unsigned(payload []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."
}

// signedWithPublicKey is the HS256 token of somebody who knows only what everybody knows.
func (i *idp) signedWithPublicKey(payload []byte) string {
	public, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		i.t.Error(err)
	}
	return i.signed(jose.SigningKey{Algorithm: jose.HS256, Key: public}, payload)
}

func (i *idp) showUserInfo(w http.ResponseWriter, r *http.Request) {
	if !i.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	info := map[string]any{"sub": i.person["sub"]}
	maps.Copy(info, i.userinfo)
	i.say(w, http.StatusOK, info)
}

// roundTrip is one visitor's way to the provider and back, as far as just before the end.
type roundTrip struct {
	visitor visitor    // with the cookie of the flow
	back    url.Values // what the provider sends back
}

// depart goes to the provider and returns with its answer.
func (p *portal) depart(i *idp, next string) roundTrip {
	p.t.Helper()
	v := p.nobody()
	start := v.get("/signin/oidc?" + url.Values{"next": {next}}.Encode()).want(http.StatusSeeOther)
	cookies := start.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].MaxAge > 600 {
		p.t.Fatalf("cookies %v", cookies)
	}
	client := *i.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, start.location(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || !strings.HasSuffix(back.Path, callbackPath) {
		p.t.Fatalf("the provider answers %d, %q", answer.StatusCode, answer.Header.Get("Location"))
	}
	return roundTrip{v.with("Cookie", cookies[0].Name+"="+cookies[0].Value), back.Query()}
}

// arrive ends the sign-in, as a link from another site does.
func (r roundTrip) arrive() answer {
	return r.visitor.with("Sec-Fetch-Site", "cross-site").get(callbackPath + "?" + r.back.Encode())
}

// sessionOf returns the visitor with the session that an answer begins.
func (a answer) sessionOf(v visitor) visitor {
	a.t.Helper()
	for _, cookie := range a.Result().Cookies() {
		if strings.HasSuffix(cookie.Name, "rayslice_session") && cookie.Value != "" {
			return v.with("Cookie", cookie.Name+"="+cookie.Value)
		}
	}
	a.t.Fatalf("%s begins no session: %v", a.what, a.Result().Cookies())
	return v
}

// through signs in with the provider.
func (p *portal) through(i *idp) visitor {
	p.t.Helper()
	return p.depart(i, "").arrive().want(http.StatusSeeOther).sessionOf(p.nobody())
}

// who returns the person behind a visitor, as the portal knows them now.
func (p *portal) who(v visitor) rayslice.User {
	p.t.Helper()
	id, err := p.server.identityOf(&http.Request{Header: v.header})
	if err != nil {
		p.t.Fatal(fmt.Errorf("who: %w", err))
	}
	return id.user
}
