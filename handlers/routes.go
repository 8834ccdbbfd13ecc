package handlers

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/static"
)

// routes lists every address of the portal. GET never changes anything; what changes something is a POST.
func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(s.begin, s.secure, s.record, s.recoverPanic, s.refuseForeignHost, s.limitBody, s.refuseCrossOrigin)
	signedIn := []echo.MiddlewareFunc{s.identify, requireUser, s.limitUser, requireChecked}
	mayRequest, mayStop := append(slices.Clip(signedIn), needs(rayslice.ScopeRequest)), append(slices.Clip(signedIn), needs(rayslice.ScopeStop))
	get := func(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
		e.Match([]string{http.MethodGet, http.MethodHead}, path, h, m...)
	}

	// For everybody.
	get("/healthz", s.showAlive)
	get("/readyz", s.showReady)
	get("/metrics", echo.WrapHandler(s.metrics.handler))
	get(static.Prefix+"*", showStatic)
	get("/signin", s.showSignIn)
	e.POST("/signin", s.signIn, s.limitSignIns)
	get("/signin/oidc", s.beginSignIn, s.limitSignIns)
	get(callbackPath, s.finishSignIn, s.limitSignIns)
	e.POST("/signout", s.signOut)
	e.POST("/language", s.setLanguage)

	// Pages.
	get("/", showFront, signedIn...)
	get("/clusters", s.showClusters, signedIn...)
	get("/clusters/events", s.streamClusters, signedIn...)
	get("/clusters/new", s.newRequest, signedIn...)
	e.POST("/clusters/preview", s.previewRequest, mayRequest...)
	e.POST("/clusters", s.createRequest, mayRequest...)
	get("/clusters/:id", s.showRequest, signedIn...)
	get("/clusters/:id/events", s.streamRequest, signedIn...)
	get("/clusters/:id/yaml", s.showYAML, signedIn...)
	e.POST("/clusters/:id/stop", s.stopRequest, mayStop...)
	get("/teams/:name", s.showTeam, signedIn...)

	s.peopleRoutes(e, get, signedIn)

	// For programs.
	get("/api/v1/requests", s.apiRequests, signedIn...)
	e.POST("/api/v1/requests", s.apiCreateRequest, mayRequest...)
	get("/api/v1/requests/:id", s.apiRequest, signedIn...)
	e.POST("/api/v1/requests/:id/stop", s.apiStopRequest, mayStop...)
	return e
}

// peopleRoutes are one's own account, and everybody's for admins.
func (s *Server) peopleRoutes(e *echo.Echo, get func(string, echo.HandlerFunc, ...echo.MiddlewareFunc), signedIn []echo.MiddlewareFunc) {
	get("/account", s.showAccount, signedIn...)
	e.POST("/account/tokens", s.createToken, signedIn...)
	e.POST("/account/tokens/:token/revoke", s.revokeToken, signedIn...)
	e.POST("/account/sessions/end", s.endOwnSessions, signedIn...)
	get("/admin/people", s.showPeople, signedIn...)
	get("/admin/people/:user", s.showPerson, signedIn...)
	e.POST("/admin/people/:user/roles", s.changePerson(s.grantRole), signedIn...)
	e.POST("/admin/people/:user/roles/revoke", s.changePerson(s.revokeRole), signedIn...)
	e.POST("/admin/people/:user/disable", s.changePerson(s.disablePerson), signedIn...)
	e.POST("/admin/people/:user/enable", s.changePerson(s.enablePerson), signedIn...)
	e.POST("/admin/people/:user/tokens/:token/revoke", s.changePerson(s.revokePersonToken), signedIn...)
	e.POST("/admin/people/:user/sessions/end", s.changePerson(s.endSessions), signedIn...)
}

func showFront(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/clusters") }
