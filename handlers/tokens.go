package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
)

// needs refuses API tokens that lack the scope. Without a token every scope is there.
func (s *Server) needs(scope rayslice.Scope) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !user(c).Within(scope) {
				return s.refuseAttempt(c, &rayslice.Error{Kind: rayslice.KindForbidden, Code: "token_scope", Args: map[string]any{"scope": string(scope)}})
			}
			return next(c)
		}
	}
}

// inPerson refuses API tokens whatever they may do elsewhere: an account shows more than a token's team, and ways to reach the
// person.
func (s *Server) inPerson(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if visitOf(c).identity.bearer != "" {
			return s.refuseAttempt(c, rayslice.Forbidden("not_by_token"))
		}
		return next(c)
	}
}

// refuseAttempt records a refusal that needs no look at what it is about, and returns it.
func (s *Server) refuseAttempt(c echo.Context, refusal error) error {
	return s.config.Store.Refuse(c.Request().Context(), user(c), rayslice.AuditEntry{Subject: attempt(c.Request())}, refusal)
}

// maxAttempt is how much of an address the audit log keeps.
const maxAttempt = 200

// attempt is what somebody tried, for the audit log: "POST /admin/teams".
func attempt(r *http.Request) string {
	path := r.URL.EscapedPath() // ASCII, whatever was sent
	return r.Method + " " + path[:min(len(path), maxAttempt)]
}
