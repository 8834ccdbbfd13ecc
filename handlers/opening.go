package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

// clusterCookieLife is how long a browser keeps the cookie of a cluster's host. Session and Postgres may end it before.
const clusterCookieLife = 8 * time.Hour

// openCluster sends the visitor on to the cluster's host with a code that works once. The portal's cookie does not go there.
func (s *Server) openCluster(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	id, err := requestID(c)
	if err != nil {
		return err
	}
	if s.clusters == nil {
		return rayslice.NotFound("page")
	}
	if _, _, err := s.destination(ctx, actor, id); err != nil {
		return err
	}
	session, code := visitOf(c).identity.session, rand.Text()
	sealed, err := seal(code, session)
	if err != nil {
		return err
	}
	opening := store.Opening{RequestID: id, Session: storedAs(session), Code: rayslice.HashToken(code), Sealed: sealed}
	if _, err := s.config.Store.OpenCluster(ctx, actor, opening); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, s.clusters.origin(id)+openPath+"?"+url.Values{"code": {code}}.Encode())
}

// letOpen lets the form of a cluster's page end up on the cluster's host, which the policy of other pages forbids.
func (s *Server) letOpen(c echo.Context, id string) {
	if s.clusters == nil {
		return
	}
	const name = "Content-Security-Policy"
	policy := c.Response().Header().Get(name)
	c.Response().Header().Set(name, strings.Replace(policy, "form-action 'self'", "form-action 'self' "+s.clusters.origin(id), 1))
}

// finishOpening trades the code for a cookie of the cluster's host and leaves the address without it.
func (s *Server) finishOpening(c echo.Context) error {
	ctx, id, code := c.Request().Context(), visitOf(c).cluster, c.QueryParam("code")
	opening, err := s.config.Store.TakeOpening(ctx, rayslice.System, id, rayslice.HashToken(code))
	if rayslice.KindOf(err) == rayslice.KindNotFound {
		if !s.limits.badTokens.allow(addressOf(c)) {
			return tooManyRequests()
		}
		return errNotOpened
	}
	if err != nil {
		return err
	}
	session, err := unseal(code, opening.Sealed)
	if err != nil {
		return err
	}
	secret := rand.Text()
	sealed, err := seal(secret, session)
	if err != nil {
		return err
	}
	if err := s.config.Store.KeepOpening(ctx, rayslice.System, opening.ID, rayslice.HashToken(secret), sealed); err != nil {
		return err
	}
	c.SetCookie(&http.Cookie{
		Name: s.clusterCookie(), Value: secret, Path: "/", MaxAge: int(clusterCookieLife.Seconds()),
		HttpOnly: true, Secure: s.sessions.Cookie.Secure, SameSite: http.SameSiteLaxMode,
	})
	return c.Redirect(http.StatusSeeOther, "/")
}

// clusterCookie is the name of the cookie of a cluster's host. __Host- keeps a neighbour from setting it.
func (s *Server) clusterCookie() string {
	if s.sessions.Cookie.Secure {
		return "__Host-rayslice_cluster"
	}
	return "rayslice_cluster"
}

var errNotOpened = refuse(http.StatusUnauthorized, "not_opened", nil, nil)

// key is what somebody shows on a cluster's host: an API token, or the host's cookie.
type key struct {
	cluster string // id of its request
	bearer  string
	cookies []string // without a bearer; a neighbour may have added some on a host without TLS
}

func (s *Server) keyOf(c echo.Context) key {
	k := key{cluster: visitOf(c).cluster, bearer: bearerToken(c.Request())}
	if k.bearer != "" {
		return k
	}
	for _, cookie := range c.Request().CookiesNamed(s.clusterCookie()) {
		if cookie.Value != "" && len(k.cookies) < 4 {
			k.cookies = append(k.cookies, cookie.Value)
		}
	}
	return k
}

// recogniseKey looks up who shows a key now.
func (s *Server) recogniseKey(ctx context.Context, k key) (identity, error) {
	if k.bearer != "" {
		return s.recognise(ctx, identity{bearer: k.bearer})
	}
	for _, secret := range k.cookies {
		opening, err := s.config.Store.Opening(ctx, rayslice.System, k.cluster, rayslice.HashToken(secret))
		if rayslice.KindOf(err) == rayslice.KindNotFound {
			continue
		}
		if err != nil {
			return identity{}, err
		}
		session, err := unseal(secret, opening.Sealed)
		if err != nil {
			return identity{}, err
		}
		id, err := s.recognise(ctx, identity{session: session})
		if err != nil || id.user.ID != 0 {
			return id, err
		}
	}
	return identity{}, errNotOpened
}

// pass is what somebody may do on a cluster's host.
type pass struct {
	identity identity
	request  rayslice.Request
	access   rayslice.Access
	head     Head
	at       time.Time // when this was looked up
}

// may looks up what a key opens.
func (s *Server) may(ctx context.Context, k key) (pass, error) {
	id, err := s.recogniseKey(ctx, k)
	if err != nil {
		return pass{}, err
	}
	p := pass{identity: id, at: s.now()}
	if p.request, p.head, err = s.destination(ctx, id.user, k.cluster); err != nil {
		return p, err
	}
	if p.access = id.user.Access(p.request); p.access == rayslice.AccessNone {
		return p, rayslice.NotFound("request")
	}
	if id.bearer != "" && s.passes.entered(id.user.TokenID, k.cluster, p.at) {
		_, err = s.config.Store.EnterCluster(ctx, id.user, k.cluster)
	}
	return p, err
}

// unseenTooLong is for how long a head's address is believed: later, the pod may have gone and another have its address.
const unseenTooLong = 10 * time.Minute

// destination returns a request the actor may see and where its head is, from what Kubernetes reported about it and nothing else.
func (s *Server) destination(ctx context.Context, actor rayslice.User, id string) (rayslice.Request, Head, error) {
	request, err := s.config.Store.Request(ctx, actor, id)
	if err != nil {
		return request, Head{}, err
	}
	cluster, err := s.config.Store.Cluster(ctx, actor, id)
	if err != nil {
		return request, Head{}, err
	}
	pod := cluster.Head
	switch {
	case !request.State.Reachable():
		return request, Head{}, errNotRunning
	case pod == nil || pod.Name == "" || pod.IP == "" || pod.Deleting || pod.Phase != rayslice.PodRunning:
		return request, Head{}, errHeadAway(nil)
	case s.now().Sub(cluster.ObservedAt) > unseenTooLong:
		return request, Head{}, errHeadAway(errors.New("nothing has been heard of the cluster for too long"))
	}
	return request, Head{Namespace: request.Namespace, Pod: pod.Name, IP: pod.IP}, nil
}

var errNotRunning = &rayslice.Error{Kind: rayslice.KindConflict, Code: "cluster_not_running"}

// errHeadAway says that the head cannot be reached now.
func errHeadAway(cause error) error {
	return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "head_away", Err: cause}
}

// sameOrigin reports whether the cluster's own pages sent a request: browsers say so, and no page can say it for another.
// Neighbours are of the same site, so SameSite does not keep them out.
func sameOrigin(r *http.Request, own string) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != own {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	return r.Header.Get("Origin") == own || strings.HasPrefix(r.Header.Get("Referer"), own+"/")
}

// mayNavigate reports whether a request that is not from the cluster's own pages is one that a person may make by a link or by
// typing, and that therefore must only read.
func mayNavigate(r *http.Request) bool {
	if r.Header.Get("Origin") != "" || r.Header.Get("Upgrade") != "" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
