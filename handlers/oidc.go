package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rayslice/rayslice"
)

// OIDC is how people sign in with an identity provider.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string                          // "" = a public client, which PKCE alone protects
	Scopes       []string                        // beside openid
	GroupsClaim  string                          // name of the claim that lists a person's groups
	Groups       map[string][]rayslice.RoleGrant // group → roles (Team and Role); empty = groups do not count
	Admins       []string                        // subjects that are admins, whatever their groups
	TrustEmail   bool                            // addresses count although the provider does not say that it verified them
}

const (
	providerWait  = 5 * time.Second // longest wait for one answer of the provider
	providerPause = 5 * time.Second // after it could not be reached, before it is tried again
	maxProvider   = 1 << 20         // bytes of one answer
	clockSkew     = 2 * time.Minute // how far the provider's clock may be ahead
)

// asymmetric are the algorithms of an ID token that prove who signed it. With a shared secret whoever knows the public
// key could sign too.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// provider talks to the identity provider. It is looked up at the first use, so that the portal starts without it.
type provider struct {
	config   OIDC
	redirect string
	client   *http.Client
	now      func() time.Time

	mu     sync.Mutex
	found  *oidc.Provider
	failed time.Time // when it last could not be reached
	err    error
}

func newProvider(config OIDC, redirect string) *provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &provider{config: config, redirect: redirect, now: time.Now, client: &http.Client{
		Transport:     limitedTransport{transport},
		Timeout:       providerWait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// limitedTransport bounds every answer: the libraries read to the end.
type limitedTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxProvider), response.Body}
	}
	return response, err
}

// host is what people call the provider by; "" without one.
func (p *provider) host() string {
	if p == nil {
		return ""
	}
	u, err := url.Parse(p.config.Issuer)
	if err != nil {
		return ""
	}
	return u.Host
}

func (p *provider) close() { p.client.CloseIdleConnections() }

// errProviderAway is what people hear when the provider cannot be asked.
func errProviderAway(cause error) error {
	return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "provider_away", Err: cause}
}

// discover reads the provider's own description, once.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	if p.err != nil && p.now().Sub(p.failed) < providerPause {
		return nil, errProviderAway(p.err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerWait)
	defer cancel()
	p.found, p.err = oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if p.err != nil {
		p.failed = p.now()
		return nil, errProviderAway(p.err)
	}
	return p.found, nil
}

func (p *provider) oauth(found *oidc.Provider) *oauth2.Config {
	endpoint := found.Endpoint()
	endpoint.AuthStyle = p.authStyle(found)
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(p.config.Scopes), isOpenID)...),
	}
}

func isOpenID(scope string) bool { return scope == oidc.ScopeOpenID }

// authStyle says how the provider wants to see the client's secret. Trying both would spend a code or refresh token twice.
func (p *provider) authStyle(found *oidc.Provider) oauth2.AuthStyle {
	var about struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = found.Claims(&about) // without it the standard's default holds
	if p.config.ClientSecret == "" || (len(about.Methods) > 0 && !slices.Contains(about.Methods, "client_secret_basic")) {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// exchange turns a code into tokens and claims. The nonce must be the flow's.
func (p *provider) exchange(ctx context.Context, code string, f flow) (*oauth2.Token, claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, claims{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(found).Exchange(ctx, code, oauth2.VerifierOption(f.verifier))
	if err != nil {
		if err = answerOf(err); errors.Is(err, errRefused) {
			err = refuse(http.StatusBadRequest, "signin_code", nil, err)
		}
		return nil, claims{}, err
	}
	got, err := p.claims(ctx, found, token, &f)
	if err == nil && got.Subject == "" {
		err = errors.New("no id_token in the provider's answer")
	}
	if err != nil && rayslice.KindOf(err) == "" {
		err = refuse(http.StatusBadRequest, "signin_token", nil, err)
	}
	return token, got, err
}

// refresh asks the provider whether a session may go on, and what it says now. errRefused: it may not. Claims without a
// subject mean that the provider said nothing new. The tokens count also with another error: the old ones are spent.
func (p *provider) refresh(ctx context.Context, refreshToken string) (*oauth2.Token, claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, claims{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(found).TokenSource(ctx, &oauth2.Token{RefreshToken: refreshToken}).Token()
	if err != nil {
		return nil, claims{}, answerOf(err)
	}
	got, err := p.claims(ctx, found, token, nil)
	return token, got, err
}

// errRefused is the provider's no to a code or a refresh token.
var errRefused = errors.New("the provider says no")

// answerOf tells the provider's no, errRefused, from a provider that cannot be asked.
func answerOf(err error) error {
	var answer *oauth2.RetrieveError
	ours := []string{"invalid_client", "unauthorized_client", "server_error", "temporarily_unavailable", "slow_down"} // not the person's fault
	if !errors.As(err, &answer) || answer.Response.StatusCode < 400 || answer.Response.StatusCode >= 500 ||
		answer.Response.StatusCode == http.StatusTooManyRequests || slices.Contains(ours, answer.ErrorCode) {
		return errProviderAway(err)
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// claims are what the provider says about somebody.
type claims struct {
	Subject       string
	Name          string
	Email         string
	EmailVerified bool
	Groups        []string
	HasGroups     bool // else it said nothing about groups
}

// claims reads the ID token, and the userinfo endpoint where the ID token is missing or has no groups. f is the sign-in's
// flow, nil when a session is refreshed.
func (p *provider) claims(ctx context.Context, found *oidc.Provider, token *oauth2.Token, f *flow) (claims, error) {
	said := map[string]json.RawMessage{}
	if raw, ok := token.Extra("id_token").(string); ok && raw != "" {
		if err := p.verify(ctx, found, token, raw, f, &said); err != nil {
			return claims{}, err
		}
	} else if f != nil {
		return claims{}, errors.New("no id_token in the provider's answer")
	}
	if _, ok := said[p.config.GroupsClaim]; !ok && found.UserInfoEndpoint() != "" {
		if err := addUserInfo(ctx, found, token, said); err != nil {
			return claims{}, err
		}
	}
	return p.read(said), nil
}

// verify checks an ID token in full; what go-oidc leaves to its callers stands here.
func (p *provider) verify(ctx context.Context, found *oidc.Provider, token *oauth2.Token, raw string, f *flow, said *map[string]json.RawMessage) error {
	id, err := found.Verifier(&oidc.Config{ClientID: p.config.ClientID, SupportedSigningAlgs: asymmetric}).Verify(ctx, raw)
	if err != nil && strings.Contains(err.Error(), "fetching keys") { // go-oidc says it in words only
		return errProviderAway(err)
	}
	if err != nil {
		return err
	}
	if err := id.Claims(said); err != nil {
		return err
	}
	var azp string
	if given, ok := (*said)["azp"]; ok {
		if err := json.Unmarshal(given, &azp); err != nil {
			return err
		}
	}
	switch {
	case id.Subject == "":
		return errors.New("id_token without a subject")
	case f != nil && id.Nonce != f.nonce:
		return errors.New("id_token is not of this sign-in: wrong nonce")
	case id.IssuedAt.After(p.now().Add(clockSkew)):
		return fmt.Errorf("id_token of the future: issued at %s", id.IssuedAt)
	case azp != "" && azp != p.config.ClientID, azp == "" && len(id.Audience) > 1:
		return fmt.Errorf("id_token is for somebody else: authorized party %q", azp)
	case id.AccessTokenHash != "":
		return id.VerifyAccessToken(token.AccessToken)
	}
	return nil
}

// addUserInfo adds what the ID token did not say. It must be about the same person.
func addUserInfo(ctx context.Context, found *oidc.Provider, token *oauth2.Token, said map[string]json.RawMessage) error {
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return errProviderAway(err)
	}
	more := map[string]json.RawMessage{}
	if err := info.Claims(&more); err != nil {
		return err
	}
	if mine, ok := said["sub"]; ok && string(mine) != string(more["sub"]) {
		return errors.New("userinfo is about somebody else")
	}
	for name, value := range more {
		if _, ok := said[name]; !ok {
			said[name] = value
		}
	}
	return nil
}

// read picks what counts. Text that is no text, and groups that are no list, count as not said. Groups stay as they are: they
// are compared with the operator's and never kept, and cleaned one could pass for another.
func (p *provider) read(said map[string]json.RawMessage) claims {
	text := func(name string) (s string) { _ = json.Unmarshal(said[name], &s); return strings.TrimSpace(s) }
	got := claims{Subject: text("sub"), Email: text("email")}
	if clean(got.Email) != got.Email {
		got.Email = "" // cleaned, it could be somebody else's
	}
	for _, name := range []string{"name", "preferred_username", "email", "sub"} {
		if got.Name == "" {
			got.Name = clean(text(name))
		}
	}
	if json.Unmarshal(said["email_verified"], &got.EmailVerified) != nil {
		got.EmailVerified = text("email_verified") == "true" // some send text
	}
	var one string
	switch raw := said[p.config.GroupsClaim]; {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &got.Groups) == nil:
		got.HasGroups = true
	case json.Unmarshal(raw, &one) == nil:
		got.Groups, got.HasGroups = []string{one}, true
	}
	return got
}

// maxClaim is how many characters of a name or an address are kept.
const maxClaim = 200

// identity is the claims as the store takes them. An address that the provider does not vouch for is not kept at all:
// messages would go to whoever it really belongs to.
func (p *provider) identity(c claims) rayslice.Identity {
	id := rayslice.Identity{Issuer: p.config.Issuer, Subject: c.Subject, Name: c.Name, Admin: slices.Contains(p.config.Admins, c.Subject)}
	if c.EmailVerified || p.config.TrustEmail {
		id.Email = c.Email
	}
	if !c.HasGroups || len(p.config.Groups) == 0 {
		return id
	}
	id.Roles = []rayslice.RoleGrant{}
	for _, group := range c.Groups {
		for _, g := range p.config.Groups[group] {
			if !slices.Contains(id.Roles, g) {
				id.Roles = append(id.Roles, g)
			}
		}
	}
	return id
}

// clean makes foreign text fit to be kept and shown on one line, as what it is: without what nobody sees, which could make it
// look like somebody else's name, and without what turns the direction of the text around it.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxClaim {
		s = strings.TrimSpace(string(runes[:maxClaim]))
	}
	return s
}
