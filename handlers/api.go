package handlers

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
)

// program answers programs, in the types of the specification.
type program struct{ *Server }

// newProgram returns the generated server over the portal's answers. Routes, and who may, are left to routes.
func newProgram(s *Server) api.ServerInterfaceWrapper {
	return api.ServerInterfaceWrapper{Handler: api.NewStrictHandler(program{s}, []api.StrictMiddlewareFunc{carryContext})}
}

// readJSON reads the body of a call into dst, as rayslice.Decode does.
func readJSON(c echo.Context, body *api.Body, dst any, required ...string) error {
	if err := wantJSON(c); err != nil {
		return err
	}
	return rayslice.Decode(bytes.NewReader(body.JSON), dst, required...)
}

// choose refuses what is none of the choices.
func choose[T ~string](field string, choices []T, chosen ...T) error {
	for _, c := range chosen {
		if !slices.Contains(choices, c) {
			names := make([]string, len(choices))
			for i, choice := range choices {
				names[i] = string(choice)
			}
			return rayslice.Invalid(rayslice.FieldError{Field: field, Code: codeChoice, Args: map[string]any{"choices": strings.Join(names, ", ")}})
		}
	}
	return nil
}

// codeChoice is the field code of what is none of a fixed list; Args: choices.
const codeChoice = "choice"

// each returns what the function makes of each; empty, and never nil, for none: JSON has no other word for an empty list.
func each[T, U any](of []T, makes func(T) U) []U {
	all := make([]U, len(of))
	for i, one := range of {
		all[i] = makes(one)
	}
	return all
}

// orNone returns "" for what was left out.
func orNone(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

type echoContext struct{}

// carryContext hands the echo context on to answers, which the generated server calls with a plain one.
func carryContext(next api.StrictHandlerFunc, _ string) api.StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), echoContext{}, c)))
		return next(c, request)
	}
}

func echoOf(ctx context.Context) echo.Context { return ctx.Value(echoContext{}).(echo.Context) }

// boundParameter finds the name in what the generated server says about a parameter.
var boundParameter = regexp.MustCompile(`(?:parameter|value for|parameter:) ([A-Za-z_-]+)`)

// nameParameter turns the generated server's refusals of parameters into bad fields, like all others.
func nameParameter(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		var refused *echo.HTTPError
		if !errors.As(err, &refused) || refused.Code != http.StatusBadRequest {
			return err
		}
		said, _ := refused.Message.(string)
		field := "query"
		if found := boundParameter.FindStringSubmatch(said); found != nil {
			field = found[1]
		}
		return rayslice.Invalid(rayslice.FieldError{Field: field, Code: rayslice.CodeCharacters})
	}
}
