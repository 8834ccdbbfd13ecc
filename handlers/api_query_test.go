package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice/store/storetest"
)

// TestUnknownParameters asks every operation of the API with a parameter that it does not have: none takes it for one that
// was left out.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	p := open(t)
	spec, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	asked := p.create(p.Ada, storetest.Draft(1, 8))
	address := strings.NewReplacer("{id}", asked.ID, "{name}", "vision", "{user}", "1", "{raise}", "1", "{grant}", "1", "{token}", "1")
	root := p.as(p.Root).with("Content-Type", "application/json")
	for path, item := range spec.Paths.Map() {
		for method := range item.Operations() {
			got := root.send(method, address.Replace(path)+"?no_such=1", strings.NewReader("{}"))
			if got.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s %s: %d, want 422", method, path, got.Code)
				continue
			}
			if problem := got.problem(); len(problem.Errors) != 1 || problem.Errors[0].Field != "no_such" || problem.Errors[0].Code != "unknown_field" {
				t.Errorf("%s %s: %+v", method, path, problem.Errors)
			}
			if p.nobody().send(method, address.Replace(path)+"?no_such=1", nil).Code == http.StatusUnprocessableEntity {
				t.Errorf("%s %s: strangers are told", method, path)
			}
		}
	}
	for query, field := range map[string]string{
		"limit=1&limit=2": "limit", "tema=vision": "tema", "team=%zz": "query", "a;b": "query", "=1": "query", "q=a&q=": "q", "mine=1&mine=1": "mine", "Team=vision": "Team",
	} {
		problem := root.get("/api/v1/requests?" + query).want(http.StatusUnprocessableEntity).problem()
		if len(problem.Errors) != 1 || problem.Errors[0].Field != field || problem.Errors[0].Detail == "" {
			t.Errorf("?%s: %+v, want %s", query, problem.Errors, field)
		}
	}
	problem := root.get("/api/v1/capacity?b=1&a=1").want(http.StatusUnprocessableEntity).problem()
	if len(problem.Errors) != 2 || problem.Errors[0].Field != "a" {
		t.Errorf("%+v, want every one, in order", problem.Errors)
	}
	root.get("/api/v1/requests?state=live&state=stopped&limit=1").want(http.StatusOK)
	root.get("/api/v1/requests?").want(http.StatusOK)
	root.send(http.MethodHead, "/api/v1/requests?no_such=1", nil).want(http.StatusUnprocessableEntity)
}

// TestParametersOfTheSpecification finds those that stand in the operation, and those that operations share.
func TestParametersOfTheSpecification(t *testing.T) {
	for operation, want := range map[string][]string{
		"GET /api/v1/capacity": {}, "GET /api/v1/requests/:id": {"wait"}, "POST /api/v1/requests": {"dry_run"}, "GET /api/v1/teams": {"cursor", "limit", "q"},
		"GET /api/v1/clusters/:id/usage": {"from", "range", "step", "to"},
	} {
		var got []string
		for name := range queries()[operation] {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", operation, got, want)
		}
	}
	if !queries()["GET /api/v1/requests"]["state"] || queries()["GET /api/v1/requests"]["q"] {
		t.Error("which may stand there several times is not right")
	}
}
