package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/web"
)

// showAPIDocs shows the specification with a try-out. swagger-ui draws its icons from data: addresses in its stylesheet,
// so this page may load pictures from there; scripts and styles stay as strict as everywhere.
func (s *Server) showAPIDocs(c echo.Context) error {
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	policy := strings.Replace(c.Response().Header().Get("Content-Security-Policy"), "img-src 'self'", "img-src 'self' data:", 1)
	c.Response().Header().Set("Content-Security-Policy", policy)
	return page(c, http.StatusOK, web.APIDocsView(frame))
}

// specJSON is the specification as JSON.
var specJSON = sync.OnceValue(func() []byte {
	text, err := yaml.YAMLToJSON(api.Spec)
	if err != nil {
		panic(err) // the tests read it
	}
	return text
})

func showSpec(c echo.Context) error { return answerSpec(c, "application/yaml", api.Spec) }

func showSpecJSON(c echo.Context) error { return answerSpec(c, echo.MIMEApplicationJSON, specJSON()) }

func answerSpec(c echo.Context, contentType string, text []byte) error {
	sum := sha256.Sum256(text)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, strings.NewReader(string(text)))
	return nil
}
