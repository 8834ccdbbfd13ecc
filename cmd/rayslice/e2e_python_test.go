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

// testPython is the interpreter that make test-python makes.
func testPython(t *testing.T) string {
	t.Helper()
	interpreter := os.Getenv("TEST_PYTHON")
	if interpreter == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TEST_PYTHON is not set: .ci/python makes one")
		}
		t.Skip("TEST_PYTHON is not set: make test-python sets it")
	}
	return interpreter
}

// python returns a command of a Python, at the root of the project.
func python(t *testing.T, interpreter string, limit time.Duration, args ...string) *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, interpreter, args...)
	c.Dir, c.Stdout, c.Stderr = root, t.Output(), t.Output()
	c.WaitDelay = 10 * time.Second
	c.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PATH="+filepath.Dir(interpreter)+":"+os.Getenv("PATH"))
	return c
}

// python returns a command of a Python that calls the portal as Mei Lin.
func (i *installation) python(interpreter string, limit time.Duration, args ...string) *exec.Cmd {
	i.Helper()
	c := python(i.T, interpreter, limit, args...)
	c.Env = append(c.Env, "RAYSLICE_URL="+i.url, "RAYSLICE_TOKEN="+i.portal.token)
	return c
}

// TestPythonSources holds the client's sources against the oldest Python that it runs on: syntax, modules and functions by
// vermin, types, which it promises to have, by mypy. Where there is such a Python, TestPythonClient runs them on it.
func TestPythonSources(t *testing.T) {
	t.Parallel()
	interpreter := testPython(t)
	for name, args := range map[string][]string{
		"vermin": {"-c", "from vermin import main; raise SystemExit(main())", "--target=3.9-", "--violations", "--eval-annotations", "--no-tips", "clients/python/src"},
		"mypy":   {"-m", "mypy", "--python-version", "3.9", "--strict", "--cache-dir", t.TempDir(), "clients/python/src/rayslice"},
	} {
		if err := python(t, interpreter, 2*time.Minute, args...).Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPythonClient runs the client's own tests, its README's example and docs/notebook.ipynb against a portal with a real
// control plane; and on the oldest Python that there is, all but the notebook, for which Jupyter is too new there.
func TestPythonClient(t *testing.T) {
	newest, oldest := testPython(t), os.Getenv("TEST_PYTHON_OLDEST")
	i := install(t)
	i.start()
	i.leads()
	if err := i.python(newest, 8*time.Minute, "-m", "pytest", "-p", "no:cacheprovider", "clients/python").Run(); err != nil {
		t.Errorf("pytest: %v", err)
	}
	if oldest == "" {
		t.Log("there is no Python 3.9 here: the client was not run on it")
		return
	}
	if err := i.python(oldest, 6*time.Minute, "-m", "pytest", "-p", "no:cacheprovider", "clients/python", "-k", "not notebook").Run(); err != nil {
		t.Errorf("pytest on Python 3.9: %v", err)
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
	interpreter := testPython(t)
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
	i.schemathesis(interpreter, config, "75", "--header", "Authorization: Bearer "+i.portal.token)
	i.schemathesis(interpreter, config, "60", "--header", "Cookie: "+i.signIn(people["Wei Zhang"]), "--header", "Sec-Fetch-Site: same-origin",
		"--include-tag", "teams", "--include-tag", "approvals", "--include-tag", "admin", "--include-tag", "account",
		"--exclude-operation-id", "endOwnSessions", "--exclude-operation-id", "setNotificationSettings", "--exclude-operation-id", "tryNotification")
}

// schemathesis makes up requests for so many seconds.
func (i *installation) schemathesis(interpreter string, config []byte, seconds string, who ...string) {
	i.Helper()
	c := i.python(interpreter, 3*time.Minute, append([]string{"-m", "schemathesis.cli", "run", i.url + "/api/openapi.json",
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
