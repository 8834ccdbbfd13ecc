package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// python returns a command of the tests' Python, at the root of the project, that calls the portal as Mei Lin.
func (i *installation) python(limit time.Duration, args ...string) *exec.Cmd {
	i.Helper()
	interpreter := os.Getenv("TEST_PYTHON")
	if interpreter == "" {
		if os.Getenv("CI") == "true" {
			i.Fatal("TEST_PYTHON is not set: .ci/python makes one")
		}
		i.Skip("TEST_PYTHON is not set: make test-python sets it")
	}
	root, err := filepath.Abs("../..")
	i.must(err)
	ctx, cancel := context.WithTimeout(i.Context(), limit)
	i.Cleanup(cancel)
	c := exec.CommandContext(ctx, interpreter, args...)
	c.Dir, c.Stdout, c.Stderr = root, i.Output(), i.Output()
	c.WaitDelay = 10 * time.Second
	c.Env = append(os.Environ(), "RAYSLICE_URL="+i.url, "RAYSLICE_TOKEN="+i.portal.token, "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Dir(interpreter)+":"+os.Getenv("PATH"))
	return c
}

// TestPythonClient runs the client's own tests, its README's example and docs/notebook.ipynb against a portal with a real
// control plane.
func TestPythonClient(t *testing.T) {
	i := install(t)
	i.start()
	i.leads()
	if err := i.python(8*time.Minute, "-m", "pytest", "-p", "no:cacheprovider", "clients/python").Run(); err != nil {
		t.Errorf("pytest: %v", err)
	}
}

// schemathesisConfig has the made-up requests be about things that there are, and none wait long.
const schemathesisConfig = `[parameters]
"path.id" = %q
"path.name" = "vision"
"path.user" = "%d"
"query.wait" = 1
`

// TestSchemathesis makes up requests from the specification: no 5xx, no status that is not in it, no answer outside its
// schema; by a token, and as an admin who is signed in. The event stream, which does not end by itself, has tests of its own,
// and nobody is signed out or sends to made-up webhooks.
func TestSchemathesis(t *testing.T) {
	i := install(t)
	i.start()
	draft := strings.Replace(draftOf("made-up", 22), "{", `{"purpose": "to be changed", `, 1) // more than starts at once, so it waits
	asked, err := i.call(http.MethodPost, "/api/v1/requests", "", draft)
	i.must(err)
	if asked.State != rayslice.StatePending {
		t.Fatalf("%+v", asked)
	}
	people := map[string]int64{}
	personas, err := i.store.Personas(i.Context(), rayslice.System)
	i.must(err)
	for _, person := range personas {
		people[person.Name] = person.ID
	}
	config := fmt.Appendf(nil, schemathesisConfig, asked.ID, people["Sofia Berg"])
	i.schemathesis(config, "75", "--header", "Authorization: Bearer "+i.portal.token)
	i.schemathesis(config, "60", "--header", "Cookie: "+i.signIn(people["Wei Zhang"]), "--header", "Sec-Fetch-Site: same-origin",
		"--include-tag", "teams", "--include-tag", "approvals", "--include-tag", "admin", "--include-tag", "account",
		"--exclude-operation-id", "endOwnSessions", "--exclude-operation-id", "setNotificationSettings", "--exclude-operation-id", "tryNotification")
}

// schemathesis makes up requests for so many seconds.
func (i *installation) schemathesis(config []byte, seconds string, who ...string) {
	i.Helper()
	c := i.python(3*time.Minute, append([]string{"-m", "schemathesis.cli", "run", i.url + "/api/openapi.json",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance," +
			"unsupported_method,allow_header_conformance",
		"--exclude-operation-id", "streamCluster", "--max-time", seconds, "--rate-limit", "8/s", "--seed", "1", "--continue-on-failure", "--request-timeout", "30", "--no-color"},
		who...)...)
	c.Dir = i.TempDir() // it keeps notes where it runs
	i.must(os.WriteFile(filepath.Join(c.Dir, "schemathesis.toml"), config, 0o600))
	if err := c.Run(); err != nil {
		i.Errorf("schemathesis: %v", err)
	}
}

// signIn returns the cookie of a persona's session.
func (i *installation) signIn(id int64) string {
	i.Helper()
	form := url.Values{"user": {fmt.Sprint(id)}}
	r, err := http.NewRequestWithContext(i.Context(), http.MethodPost, i.url+"/signin", strings.NewReader(form.Encode()))
	i.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	got, err := http.DefaultTransport.RoundTrip(r) // the answer leads elsewhere
	i.must(err)
	i.must(got.Body.Close())
	for _, cookie := range got.Cookies() {
		return cookie.Name + "=" + cookie.Value
	}
	i.Fatalf("signing in: %s", got.Status)
	return ""
}
