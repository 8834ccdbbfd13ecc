// Package api holds the portal's interface for programs: openapi.yaml, which is its source, and the types and the strict
// server that oapi-codegen makes from it.
package api

import (
	_ "embed" // openapi.yaml
	"io"

	"github.com/labstack/echo/v4"
)

// Spec is the specification, OpenAPI 3.1 as YAML.
//
//go:embed openapi.yaml
var Spec []byte

// Body is a request's body as it came. Reading it is left to whoever knows the caller's rights and the draft's defaults: a
// generated type takes a field left out for a 0, and names no field it trips over.
type Body struct {
	JSON []byte // or whatever was sent
}

// Binder reads bodies for the generated server, and nothing else.
type Binder struct{}

// Bind implements echo.Binder.
func (Binder) Bind(dst any, c echo.Context) error {
	body, ok := dst.(*Body)
	if !ok {
		return (&echo.DefaultBinder{}).BindBody(c, dst)
	}
	var err error
	body.JSON, err = io.ReadAll(c.Request().Body)
	return err
}
