package handlers

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/static"
)

// routes lists every address of the portal. GET never changes anything; what changes something is a POST.
func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = extractor(s.config.TrustedProxies)
	e.Use(s.begin, s.secure, s.record, s.recoverPanic, s.refuseForeignHost, s.shareOrigins, s.limitBody, s.refuseCrossOrigin, s.readBody)
	e.Binder = api.Binder{}
	signedIn := []echo.MiddlewareFunc{nameParameter, s.identify, requireUser, s.limitUser, requireChecked, knownQuery}
	mayRequest, mayStop := append(slices.Clip(signedIn), s.needs(rayslice.ScopeRequest)), append(slices.Clip(signedIn), s.needs(rayslice.ScopeStop))
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
	get(callbackPath, s.finishSignIn, s.limitCallbacks)
	e.POST("/signout", s.signOut)
	e.POST("/language", s.setLanguage)

	// Pages.
	get("/", showFront, signedIn...)
	get("/clusters", s.showClusters, signedIn...)
	get("/clusters/events", s.streamClusters, signedIn...)
	get("/clusters/new", s.newRequest, signedIn...)
	get(importPath, s.showImport, signedIn...)
	e.POST(importPath, s.importYAML, signedIn...)
	e.POST("/clusters/preview", s.previewRequest, mayRequest...)
	e.POST("/clusters", s.createRequest, mayRequest...)
	get("/clusters/:id", s.showRequest, signedIn...)
	get("/clusters/:id/events", s.streamRequest, signedIn...)
	get("/clusters/:id/yaml", s.showYAML, signedIn...)
	e.POST("/clusters/:id/stop", s.stopRequest, mayStop...)
	e.POST("/clusters/:id/verify", s.verifyCluster, mayRequest...)
	e.POST("/clusters/:id/open", s.openCluster, append(slices.Clip(signedIn), s.inPerson)...)
	get("/clusters/:id/edit", s.editRequest, signedIn...)
	e.POST("/clusters/:id/edit", s.resendRequest, mayRequest...)
	e.POST("/clusters/:id/preview", s.previewEdit, mayRequest...)
	e.POST("/clusters/:id/reply", s.replyToLead, mayRequest...)
	get("/fleet", s.showFleet, signedIn...)
	get("/fleet/events", s.streamFleet, signedIn...)
	get("/approvals", s.showApprovals, signedIn...)
	e.POST("/approvals", s.decideSeveral, signedIn...)
	get("/approvals/events", s.streamApprovals, signedIn...)
	e.POST("/approvals/:id", s.decideRequest, signedIn...)
	get("/approvals/:id/preview", s.previewDecision, signedIn...)
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

	// One's own account, which no program needs, and everybody's for admins.
	own := append(slices.Clone(signedIn), s.inPerson)
	get("/account", s.showAccount, own...)
	e.POST("/account/tokens", s.createToken, own...)
	e.POST("/account/tokens/:token/revoke", s.revokeToken, own...)
	e.POST("/account/sessions/end", s.endOwnSessions, own...)
	get(notificationsPath, s.showNotifications, own...)
	e.POST("/notifications/read", s.readNotifications, own...)
	get(settingsPath, s.showNotificationSettings, own...)
	e.POST(settingsPath, s.saveNotificationSettings, own...)
	e.POST("/account/notifications/test", s.tryNotification, own...)
	get("/admin/people", s.showPeople, admin...)
	get("/admin/people/:user", s.showPerson, admin...)
	e.POST("/admin/people/:user/roles", s.changePerson("role_given", s.grantRole), admin...)
	e.POST("/admin/people/:user/roles/revoke", s.changePerson("role_taken", s.revokeRole), admin...)
	e.POST("/admin/people/:user/disable", s.changePerson("disabled", s.disablePerson), admin...)
	e.POST("/admin/people/:user/enable", s.changePerson("enabled", s.enablePerson), admin...)
	e.POST("/admin/people/:user/tokens/:token/revoke", s.changePerson("token_revoked", s.revokePersonToken), admin...)
	e.POST("/admin/people/:user/sessions/end", s.changePerson("sessions_ended", s.endSessions), admin...)

	// For programs, as handlers/api/openapi.yaml says.
	apis := newProgram(s)
	get("/api/docs", s.showAPIDocs, signedIn...)
	get("/api/openapi.yaml", showSpec)
	get("/api/openapi.json", showSpecJSON)
	get("/api/v1/options", apis.ShowOptions, signedIn...)
	get("/api/v1/requests", apis.ListRequests, signedIn...)
	e.POST("/api/v1/requests", apis.CreateRequest, mayRequest...)
	get("/api/v1/requests/:id", apis.ShowRequest, signedIn...)
	e.PUT("/api/v1/requests/:id", apis.ResendRequest, mayRequest...)
	e.POST("/api/v1/requests/:id/reply", apis.ReplyToLead, mayRequest...)
	e.POST("/api/v1/requests/:id/decision", apis.DecideRequest, signedIn...)
	e.POST("/api/v1/requests/:id/stop", apis.StopRequest, mayStop...)
	get("/api/v1/requests/:id/audit", apis.ShowRequestAudit, signedIn...)
	e.POST("/api/v1/lint", s.apiLint, signedIn...)
	get("/api/v1/clusters/:id/verification", s.apiVerification, signedIn...)
	e.POST("/api/v1/clusters/:id/verification", s.apiVerify, mayRequest...)
	get("/api/v1/capacity", s.apiCapacity, signedIn...)
	get("/api/v1/clusters/:id/events", s.apiEvents, signedIn...)
	get("/api/v1/clusters/:id/usage", s.apiUsage, signedIn...)
	get("/api/v1/teams", apis.ListTeams, signedIn...)
	get("/api/v1/teams/:name", apis.ShowTeam, signedIn...)
	get("/api/v1/teams/:name/grants", apis.ListGrants, signedIn...)
	get("/api/v1/teams/:name/usage", apis.ShowTeamUse, signedIn...)
	get("/api/v1/teams/:name/audit", apis.ListTeamAudit, signedIn...)
	e.PUT("/api/v1/teams/:name/limit", apis.SetLimit, signedIn...)
	e.PUT("/api/v1/teams/:name/rules", apis.SetRules, signedIn...)
	e.POST("/api/v1/teams/:name/grants/:grant/end", apis.EndGrant, signedIn...)
	e.POST("/api/v1/teams/:name/raises", apis.AskRaise, signedIn...)
	e.POST("/api/v1/teams/:name/deputies", apis.NameDeputy, signedIn...)
	e.POST("/api/v1/teams/:name/deputies/:user/end", apis.EndDeputy, signedIn...)
	get("/api/v1/raises", apis.ListRaises, signedIn...)
	get("/api/v1/raises/:raise", apis.ShowRaise, signedIn...)
	e.POST("/api/v1/raises/:raise/withdraw", apis.WithdrawRaise, signedIn...)
	e.POST("/api/v1/raises/:raise/decision", apis.DecideRaise, signedIn...)
	get("/api/v1/approvals", apis.ListApprovals, signedIn...)
	get("/api/v1/approvals/:id", apis.ShowApproval, signedIn...)
	get("/api/v1/admin", apis.ShowAdmin, admin...)
	e.POST("/api/v1/teams", apis.CreateTeam, admin...)
	get("/api/v1/audit", apis.ListAudit, admin...)
	get("/api/v1/people", apis.ListPeople, admin...)
	get("/api/v1/people/:user", apis.ShowPerson, admin...)
	e.POST("/api/v1/people/:user/roles", apis.GrantRole, admin...)
	e.POST("/api/v1/people/:user/roles/revoke", apis.RevokeRole, admin...)
	e.POST("/api/v1/people/:user/disable", apis.DisablePerson, admin...)
	e.POST("/api/v1/people/:user/enable", apis.EnablePerson, admin...)
	e.POST("/api/v1/people/:user/sessions/end", apis.EndSessions, admin...)
	e.POST("/api/v1/people/:user/tokens/:token/revoke", apis.RevokePersonToken, admin...)
	get("/api/v1/account", apis.ShowAccount, signedIn...)
	get("/api/v1/account/tokens", apis.ListTokens, own...)
	e.POST("/api/v1/account/tokens", apis.CreateToken, own...)
	e.POST("/api/v1/account/tokens/:token/revoke", apis.RevokeToken, own...)
	e.POST("/api/v1/account/sessions/end", apis.EndOwnSessions, own...)
	get("/api/v1/account/notifications", apis.ShowNotificationSettings, own...)
	e.PUT("/api/v1/account/notifications", apis.SetNotificationSettings, own...)
	e.POST("/api/v1/account/notifications/test", apis.TryNotification, own...)
	get("/api/v1/notifications", apis.ListNotifications, own...)
	e.POST("/api/v1/notifications/read", apis.ReadNotifications, own...)
	return e
}

func showFront(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/clusters") }
