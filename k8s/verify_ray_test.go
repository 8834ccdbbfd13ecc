package k8s

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// TestRealRay has the verifier itself verify a worker of a real Ray, through the real Jobs API, with a stand-in for the GPU driver:
// once where the driver holds the slice, and once where nothing does.
func TestRealRay(t *testing.T) {
	python := os.Getenv("RAY_PYTHON")
	switch {
	case python == "apart":
		t.Skip("make test-ray runs it")
	case python == "" && os.Getenv("CI") == "true":
		t.Fatal("RAY_PYTHON does not name a Python with Ray: run `make test-ray`")
	case python == "":
		t.Skip("RAY_PYTHON does not name a Python with Ray: run `make test-ray`")
	}
	v := newVerifying(t, http.NotFound)
	v.have.Workers[0].Slice = rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}
	v.have.Workers[0].IP = "127.0.0.2"
	v.targets = func(have rayslice.Cluster, _ []string) []rayslice.Target {
		w, neighbours := have.Workers[0], 0
		return []rayslice.Target{{Pod: w.Name, PodUID: w.UID, IP: w.IP, Node: w.Node, Mode: rayslice.ModeCGPU, Slice: w.Slice,
			CardGiB: 22, CardMiB: 23028, NeighboursMiB: &neighbours, GPUWorkers: 1}}
	}
	v.least = 4 * time.Minute // Ray is slow on a loaded machine
	driver := standIn(t)
	v.jobs.heads = realHead(t, python, driver)
	for _, tc := range []struct {
		settings string
		want     rayslice.Enforcement
		why      string
	}{
		{"STUB_SLICE_MIB=8373", rayslice.Enforced, ""},
		{"STUB_TOTAL_MIB=8373", rayslice.NotEnforced, rayslice.WhyServed},
	} {
		if err := os.WriteFile(filepath.Join(driver, "stub.conf"), []byte("STUB_STATE="+driver+"/card\nSTUB_POD=w\n"+tc.settings+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := v.kept.AskVerification(t.Context(), v.people.Ada, v.request.ID); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		v.look(t)
		c := v.certificate(t)
		t.Logf("%s: %.1f s", tc.want, time.Since(began).Seconds())
		if c.Judgement.Enforcement != tc.want || c.Judgement.Reason.Code != tc.why || c.Target.GPUWorkers != 1 {
			t.Errorf("%s %+v, want %s %q\n%+v", c.Judgement.Enforcement, c.Judgement.Reason, tc.want, tc.why, c.Judgement.Rows)
		}
	}
}

// standIn builds a driver that counts what is allocated, and returns its folder.
func standIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, flags := range map[string][]string{"libcuda.so.1": {"-shared", "-fPIC"}, "nvidia-smi": {"-DSMI"}} {
		arguments := append(flags, "-O1", "-o", filepath.Join(dir, name), filepath.Join("..", "sandbox", "stubgpu", "stub.c"))
		if out, err := exec.Command("cc", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
	}
	return dir
}

// realHead starts a head without GPUs and a worker with one, and returns the way to the head when both have joined.
func realHead(t *testing.T, python, driver string) *Heads {
	t.Helper()
	temp, err := os.MkdirTemp("/tmp", "ray-") //nolint:usetesting // short: Ray puts sockets into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	port, dashboard := freePort(t), freePort(t)
	startNode(t, python, "", "--head", "--port="+port, "--dashboard-host=127.0.0.1", "--dashboard-port="+dashboard, "--temp-dir="+temp,
		"--node-ip-address=127.0.0.1", "--num-cpus=0", "--num-gpus=0")
	heads := headsTo(t, http.NotFound)
	heads.dial = func(ctx context.Context, _ HeadAddress) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+dashboard)
	}
	awaitAlive(t, heads, 1)
	startNode(t, python, driver, "--address=127.0.0.1:"+port, "--node-ip-address=127.0.0.2", "--num-cpus=1", "--num-gpus=1")
	awaitAlive(t, heads, 2)
	return heads
}

func awaitAlive(t *testing.T, heads *Heads, want int) {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	late := time.After(4 * time.Minute)
	for {
		raw, err := heads.Get(t.Context(), HeadAddress{}, "/nodes?view=summary")
		if err == nil && strings.Count(string(raw), `"ALIVE"`) == want {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("Ray has not %d nodes: %v %s", want, err, raw)
		}
	}
}

// startNode runs one node of Ray's until the test ends, with the driver in the folder if there is one.
func startNode(t *testing.T, python, driver string, arguments ...string) {
	t.Helper()
	arguments = append([]string{"-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", "--object-store-memory=100000000",
		"--dashboard-agent-listen-port=" + freePort(t), "--dashboard-agent-grpc-port=" + freePort(t), "--metrics-export-port=" + freePort(t),
		"--runtime-env-agent-port=" + freePort(t)}, arguments...)
	command := exec.Command(python, arguments...)
	path := filepath.Dir(python) + ":" + os.Getenv("PATH")
	command.Env = append(os.Environ(), "PATH="+path, "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=180")
	if driver != "" {
		command.Env = append(command.Env, fmt.Sprintf("PATH=%s:%s", driver, path), "LD_LIBRARY_PATH="+driver,
			"ALIYUN_COM_GPU_MEM_CONTAINER=8", "ALIYUN_COM_GPU_MEM_DEV=22", "ALIYUN_COM_GPU_MEM_UNIT=GiB")
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // all of the node is in its group
		_ = command.Wait()
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
