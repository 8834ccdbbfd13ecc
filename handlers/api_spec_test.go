package handlers

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/rayslice/rayslice/handlers/api"
)

// specification is openapi.yaml as kin-openapi reads it, checked.
var specification = sync.OnceValues(func() (*openapi3.T, error) {
	spec, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		return nil, err
	}
	return spec, spec.Validate(openapi3.NewLoader().Context)
})

var specRouter = sync.OnceValues(func() (routers.Router, error) {
	spec, err := specification()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(spec)
})

// checkSpec holds one exchange with the API against the specification: every answer must be in it, and whatever is not
// refused must be allowed by it.
func checkSpec(t testing.TB, r *http.Request, body []byte, got answer) {
	t.Helper()
	router, err := specRouter()
	if err != nil {
		t.Fatal(err)
	}
	if r.Method == http.MethodHead || r.Method == http.MethodOptions || got.Code == http.StatusInternalServerError {
		return // no body to look at; a fault of ours, which nobody promises and whose test asks for it
	}
	route, params, err := router.FindRoute(r)
	if err != nil {
		if got.Code < 400 {
			t.Errorf("%s: answered with %d, and the specification has no such operation", got.what, got.Code)
		}
		return
	}
	asked := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
		ExcludeRequestBody: route.Operation.OperationID == "lint", // it takes any text, and says what is wrong with it
	}}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := openapi3filter.ValidateRequest(t.Context(), asked); err != nil && got.Code < 400 {
		t.Errorf("%s: answered with %d what the specification does not allow: %v\n%s", got.what, got.Code, err, body)
	}
	answered := &openapi3filter.ResponseValidationInput{RequestValidationInput: asked, Status: got.Code, Header: got.Header(), Options: asked.Options}
	if got.Code != http.StatusNotModified {
		answered.SetBodyBytes(got.Body.Bytes())
	}
	if err := openapi3filter.ValidateResponse(t.Context(), answered); err != nil {
		t.Errorf("%s: the answer is not in the specification: %v", got.what, err)
	}
}

// TestSpecRoutes has the same operations in the specification and in the routes.
func TestSpecRoutes(t *testing.T) {
	t.Parallel()
	spec, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	var said, served []string
	for path, item := range spec.Paths.Map() {
		for method := range item.Operations() {
			said = append(said, method+" "+path)
		}
	}
	for _, route := range open(t).server.echo.Routes() {
		if strings.HasPrefix(route.Path, "/api/v1/") && route.Method != http.MethodHead && route.Method != "echo_route_not_found" {
			served = append(served, route.Method+" "+routeParam.ReplaceAllStringFunc(route.Path, func(name string) string { return "{" + name[1:] + "}" }))
		}
	}
	slices.Sort(said)
	slices.Sort(served)
	if !slices.Equal(said, served) {
		t.Errorf("the specification has\n%s\nand the routes\n%s", strings.Join(said, "\n"), strings.Join(served, "\n"))
	}
}
