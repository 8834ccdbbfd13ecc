package simulation

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// config leads to the sandbox that all tests of the package share; nil when there is none.
var config *rest.Config

const noSandbox = "SANDBOX_BIN does not name the folder with the sandbox's programs: run `make sandbox` and set it"

func TestMain(m *testing.M) {
	code, err := withSandbox(m.Run)
	if err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

// needSandbox skips on a laptop without the programs, and fails where tests have to run.
func needSandbox(t *testing.T) {
	t.Helper()
	switch {
	case config != nil:
	case os.Getenv("CI") == "true":
		t.Fatal(noSandbox)
	default:
		t.Skip(noSandbox)
	}
}

func withSandbox(run func() int) (int, error) {
	bin := os.Getenv("SANDBOX_BIN")
	if bin == "" {
		return run(), nil
	}
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	stop, err := up(bin, dir)
	if err != nil {
		return 1, err
	}
	defer stop()
	return run(), nil
}

// up starts a sandbox without Postgres and waits until it is ready. The returned function stops it and waits for its end.
func up(bin, dir string) (stop func(), err error) {
	command := exec.Command(filepath.Join(bin, "sandbox"), "up", "--dir", dir, "--bin", bin, "--no-postgres", "--no-fsync")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop = func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the sandbox ended:", err)
		}
	}
	giveUp := time.After(3 * time.Minute)
	for {
		if config, err = ready(dir); err == nil {
			return stop, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the sandbox ended before it was ready: %w", err)
		case <-giveUp:
			stop()
			return nil, fmt.Errorf("the sandbox is not ready: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ready reads the sandbox's own state file.
func ready(dir string) (*rest.Config, error) {
	content, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return nil, err
	}
	var state struct{ Phase, Kubeconfig string }
	if err := json.Unmarshal(content, &state); err != nil {
		return nil, err
	}
	if state.Phase != "ready" {
		return nil, fmt.Errorf("its phase is %s", state.Phase)
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	return config, nil
}
