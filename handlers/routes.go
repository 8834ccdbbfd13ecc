package handlers

import (
	"net/http"

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
	get(notificationsPath, s.showNotifications, signedIn...)
	e.POST("/notifications/read", s.readNotifications, signedIn...)
	get(settingsPath, s.showNotificationSettings, signedIn...)
	e.POST(settingsPath, s.saveNotificationSettings, signedIn...)
	e.POST("/account/notifications/test", s.tryNotification, signedIn...)

	// For programs.
	get("/api/v1/requests", s.apiRequests, signedIn...)
	e.POST("/api/v1/requests", s.apiCreateRequest, signedIn...)
	get("/api/v1/requests/:id", s.apiRequest, signedIn...)
	e.POST("/api/v1/requests/:id/stop", s.apiStopRequest, signedIn...)
	return e
}

func showFront(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/clusters") }
