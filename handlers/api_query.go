package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
)

// parameter is one of the specification's.
type parameter struct {
	Ref    string `json:"$ref"`
	Name   string `json:"name"`
	In     string `json:"in"`
	Schema struct {
		Type any `json:"type"` // a name, or a list of them
	} `json:"schema"`
}

// operation is one of the specification's, as far as its parameters go.
type operation struct {
	Parameters []parameter `json:"parameters"`
}

// queries has the query parameters of each of the specification's operations, by method and address as routes write them.
// true = it may stand there several times.
var queries = sync.OnceValue(func() map[string]map[string]bool {
	var spec struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Parameters map[string]parameter `json:"parameters"`
		} `json:"components"`
	}
	if err := yaml.Unmarshal(api.Spec, &spec); err != nil {
		panic(err) // the tests read it
	}
	known := map[string]map[string]bool{}
	for address, item := range spec.Paths {
		for method, content := range item {
			if method == "parameters" {
				continue // they are in the path
			}
			names := map[string]bool{}
			for _, p := range parametersOf(content) {
				if name, shared := strings.CutPrefix(p.Ref, "#/components/parameters/"); shared {
					p = spec.Components.Parameters[name]
				}
				if p.In == "query" {
					names[p.Name] = p.Schema.Type == "array"
				}
			}
			known[strings.ToUpper(method)+" "+specParam.Replace(address)] = names
		}
	}
	return known
})

// specParam writes the parameters of a path as routes do.
var specParam = strings.NewReplacer("{", ":", "}", "")

func parametersOf(content any) []parameter {
	var o operation
	text, err := yaml.Marshal(content)
	if err == nil {
		err = yaml.Unmarshal(text, &o)
	}
	if err != nil {
		panic(err) // the tests read it
	}
	return o.Parameters
}

// knownQuery refuses query parameters that an operation of the API does not have, and those that it has once and are there
// twice: whoever misspells a filter must not take everything for what they have filtered.
func knownQuery(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		method := c.Request().Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if known, ok := queries()[method+" "+c.Path()]; ok {
			if err := checkQuery(c.Request().URL.RawQuery, known); err != nil {
				return err
			}
		}
		return next(c)
	}
}

func checkQuery(raw string, known map[string]bool) error {
	query, err := url.ParseQuery(raw)
	if err != nil { // the parts that cannot be read would be taken for left out
		return rayslice.Invalid(rayslice.FieldError{Field: "query", Code: rayslice.CodeCharacters})
	}
	var bad []rayslice.FieldError
	for name, values := range query {
		switch several, ok := known[name]; {
		case name == "":
			bad = append(bad, rayslice.FieldError{Field: "query", Code: rayslice.CodeCharacters})
		case !ok:
			bad = append(bad, rayslice.FieldError{Field: name, Code: rayslice.CodeUnknownField})
		case !several && len(values) > 1:
			bad = append(bad, rayslice.FieldError{Field: name, Code: rayslice.CodeDuplicate, Args: map[string]any{"value": name}})
		}
	}
	slices.SortFunc(bad, func(a, b rayslice.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return rayslice.Invalid(bad...)
}
