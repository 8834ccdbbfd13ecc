package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// rayPatience is how long Ray may take for one thing; on an idle machine it takes seconds.
const rayPatience = 5 * time.Minute

// rayPython returns a Python that has Ray. Without it tests skip, and fail where CI=true.
func rayPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("RAY_PYTHON")
	switch {
	case python == "apart":
		t.Skip("make test-ray runs it")
	case python != "":
	case os.Getenv("CI") == "true":
		t.Fatal("RAY_PYTHON is not set: CI needs a Python with ray[default]")
	default:
		t.Skip("RAY_PYTHON is not set: no Python with ray[default]")
	}
	absolute, err := filepath.Abs(python)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}

// freePort returns a port that nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// startRay starts a real Ray head and returns where its dashboard listens. It ends with the test.
func startRay(t *testing.T, python string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ray") //nolint:usetesting // short: Ray puts sockets into it
	if err != nil {
		t.Fatal(err)
	}
	dashboard := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	_, port, _ := net.SplitHostPort(dashboard)
	cmd := exec.Command(python, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats", "--node-ip-address=127.0.0.1",
		"--dashboard-host=127.0.0.1", "--dashboard-port="+port, "--num-cpus=2", "--object-store-memory=80000000", "--temp-dir="+dir,
		fmt.Sprint("--port=", freePort(t)), fmt.Sprint("--ray-client-server-port=", freePort(t)), fmt.Sprint("--dashboard-agent-listen-port=", freePort(t)),
		fmt.Sprint("--metrics-export-port=", freePort(t)), fmt.Sprint("--dashboard-agent-grpc-port=", freePort(t)))
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Second
	cmd.Env = append(os.Environ(), "RAY_memory_monitor_refresh_ms=0", "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=240", "RAY_DASHBOARD_STARTUP_TIMEOUT_S=240") // 30 s and 60 s are too short for a busy machine
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		_ = os.RemoveAll(dir)
	})
	deadline, tick := time.After(rayPatience), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for {
		if got, err := http.Get("http://" + dashboard + "/api/version"); err == nil {
			_ = got.Body.Close()
			if got.StatusCode == http.StatusOK {
				return dashboard
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("Ray ended: %v", cmd.ProcessState)
		case <-deadline:
			t.Fatal("Ray does not answer")
		}
	}
}

// TestRealRay sends jobs to a real Ray head through the portal by Ray's own client and its command line, with an API token.
func TestRealRay(t *testing.T) {
	python := rayPython(t)
	c := openClusters(t, nil, func(config *Config) { config.ClustersDomain = "clusters.localhost" })
	c.address = startRay(t, python)
	web := c.serve(func(*timing) {})
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	address := "http://" + c.request.ID + ".clusters.localhost:" + port
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "word.txt"), []byte("carried over\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(headers map[string]string, args ...string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), rayPatience)
		defer cancel()
		text, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "HEADERS", string(text))
		}
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "HEADERS="+string(text), "PYTHONPATH=testdata/ray/resolver", "RAY_ADDRESS="), t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	lastLine := func(out []byte, dst any) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), dst); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	printed := func(log string) bool { // Ray's own line about the entrypoint comes before, between or after the job's
		return strings.Contains(log, "\ncarried over\n") && strings.Contains(log, "\ndone\n")
	}
	token := func(secret string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + secret}
	}

	var saw struct{ Tail, Logs, Status, Refused string }
	lastLine(run(token(c.adaToken), "testdata/ray/jobs.py", address, work), &saw)
	if saw.Status != "SUCCEEDED" || !printed(saw.Logs) || !printed(saw.Tail) {
		t.Errorf("the client saw %+v", saw)
	}
	byHost := token(c.adaToken)
	byHost["Host"] = c.request.ID + ".clusters.localhost:" + port // where names below localhost do not resolve
	saw.Status = ""
	lastLine(run(byHost, "testdata/ray/jobs.py", web.URL, work), &saw)
	if saw.Status != "SUCCEEDED" || !printed(saw.Tail) {
		t.Errorf("the client, by a header, saw %+v", saw)
	}
	out := run(token(c.adaToken), "-m", "ray.scripts.scripts", "job", "submit", "--address", address, "--headers", "HEADERS", "--", "echo", "by-line")
	if !strings.Contains(string(out), "\nby-line\n") || !strings.Contains(string(out), "succeeded") {
		t.Errorf("the command line says\n%s", out)
	}
	var refused struct {
		Refused string
		Jobs    int
	}
	lastLine(run(token(c.newToken(c.Ada, rayslice.ScopeRead)), "testdata/ray/jobs.py", address, work), &refused)
	if !strings.Contains(refused.Refused, "403") || !strings.Contains(refused.Refused, "token_scope") || refused.Jobs < 3 {
		t.Errorf("a token to read: %+v", refused)
	}
}
