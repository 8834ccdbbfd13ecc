package handlers

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
)

// shareOrigins lets programs in pages of the configured origins, e.g. notebooks in the browser, use the API with a token.
// Cookies are never shared: a browser withholds an answer that came by one, as Access-Control-Allow-Credentials is not sent.
func (s *Server) shareOrigins(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, h := c.Request(), c.Response().Header()
		if !isAPI(r) || len(s.config.CORSOrigins) == 0 {
			return next(c)
		}
		h.Add(echo.HeaderVary, echo.HeaderOrigin)
		origin := r.Header.Get(echo.HeaderOrigin)
		if !slices.Contains(s.config.CORSOrigins, origin) {
			return next(c)
		}
		h.Set(echo.HeaderAccessControlAllowOrigin, origin)
		h.Set(echo.HeaderAccessControlExposeHeaders, "ETag, Location, Retry-After, X-Request-Id")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method != http.MethodOptions || r.Header.Get(echo.HeaderAccessControlRequestMethod) == "" {
			return next(c)
		}
		h.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PUT")
		h.Set(echo.HeaderAccessControlAllowHeaders, "Accept-Language, Authorization, Content-Type, Idempotency-Key, If-None-Match")
		h.Set(echo.HeaderAccessControlMaxAge, "600")
		return c.NoContent(http.StatusNoContent)
	}
}
