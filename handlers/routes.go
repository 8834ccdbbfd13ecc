package handlers

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice/static"
)

// routes lists every address of the portal. GET never changes anything; what changes something is a POST.
func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(s.begin, s.secure, s.record, s.recoverPanic, s.refuseForeignHost, s.limitBody, s.refuseCrossOrigin)
	signedIn := []echo.MiddlewareFunc{s.identify, requireUser}
	get := func(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
		e.Match([]string{http.MethodGet, http.MethodHead}, path, h, m...)
	}

	// For everybody.
	get("/healthz", s.showAlive)
	get("/readyz", s.showReady)
	get("/metrics", echo.WrapHandler(s.metrics.handler))
	get(static.Prefix+"*", showStatic)
	get("/signin", s.showSignIn)
	e.POST("/signin", s.signIn)
	e.POST("/signout", s.signOut)
	e.POST("/language", s.setLanguage)

	// Pages.
	get("/", showFront, signedIn...)
	get("/clusters", s.showClusters, signedIn...)
	get("/clusters/events", s.streamClusters, signedIn...)
	get("/clusters/new", s.newRequest, signedIn...)
	e.POST("/clusters/preview", s.previewRequest, signedIn...)
	e.POST("/clusters", s.createRequest, signedIn...)
	get("/clusters/:id", s.showRequest, signedIn...)
	get("/clusters/:id/events", s.streamRequest, signedIn...)
	get("/clusters/:id/yaml", s.showYAML, signedIn...)
	e.POST("/clusters/:id/stop", s.stopRequest, signedIn...)
	get("/teams/:name", s.showTeam, signedIn...)
	get("/teams/:name/rules", s.showRules, signedIn...)
	e.POST("/teams/:name/rules", s.setRules, signedIn...)
	e.POST("/teams/:name/limit", s.setLimit, signedIn...)
	e.POST("/teams/:name/grants/:grant/end", s.endGrant, signedIn...)
	e.POST("/teams/:name/raises", s.askRaise, signedIn...)
	e.POST("/teams/:name/raises/:raise/withdraw", s.withdrawRaise, signedIn...)
	e.POST("/teams/:name/deputies", s.nameDeputy, signedIn...)
	e.POST("/teams/:name/deputies/:user/end", s.endDeputy, signedIn...)
	get("/teams/:name/audit", s.showAudit, signedIn...)
	get("/teams/:name/audit.csv", s.exportAudit, signedIn...)

	// For admins.
	admin := append(slices.Clone(signedIn), s.requireAdmin)
	get("/admin", s.showAdmin, admin...)
	get("/admin/teams", s.showAdminTeams, admin...)
	e.POST("/admin/teams", s.createTeam, admin...)
	get("/admin/raises", s.showAdminRaises, admin...)
	get("/admin/raises/:raise", s.showAdminRaise, admin...)
	e.POST("/admin/raises/:raise", s.decideRaise, admin...)
	get("/admin/audit", s.showAudit, admin...)
	get("/admin/audit.csv", s.exportAudit, admin...)

	// For programs.
	get("/api/v1/requests", s.apiRequests, signedIn...)
	e.POST("/api/v1/requests", s.apiCreateRequest, signedIn...)
	get("/api/v1/requests/:id", s.apiRequest, signedIn...)
	e.POST("/api/v1/requests/:id/stop", s.apiStopRequest, signedIn...)
	return e
}

func showFront(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/clusters") }
