package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// realRay is a real Ray cluster on this machine: a head without GPUs, and two workers with one each, whose driver is the
// stand-in. Both are on one simulated card.
type realRay struct {
	python  string
	api     string // of the head
	address string
	workers []realWorker
}

type realWorker struct {
	ip   string
	conf string // the stand-in's settings, read anew by every process
	card string
}

// rayTimeout is for whatever Ray has to do; a loaded machine with two cores needs more than a minute to start a head.
const rayTimeout = 4 * time.Minute

const limitByEnvironment = 1 // the worker whose raylet has a limit among its variables

// startRay starts the cluster, and stops it with the test.
func startRay(t *testing.T) *realRay {
	t.Helper()
	python := os.Getenv("RAY_PYTHON")
	if python == "apart" {
		t.Skip("make test-ray runs it")
	}
	if python == "" {
		const missing = "RAY_PYTHON does not name a Python with Ray: run `make test-ray`"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	temp, err := os.MkdirTemp("/tmp", "ray-") //nolint:usetesting // short: Ray puts sockets into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	port, dashboard := freePort(t), freePort(t)
	r := &realRay{python: python, address: "127.0.0.1:" + port, api: "http://127.0.0.1:" + dashboard}
	r.start(t, nil, "--head", "--port="+port, "--dashboard-host=127.0.0.1", "--dashboard-port="+dashboard, "--temp-dir="+temp,
		"--node-ip-address=127.0.0.1", "--num-cpus=0", "--num-gpus=0")
	r.await(t, "the head", func() error { _, err := r.call(http.MethodGet, "/api/version", nil); return err })
	for i := range 2 {
		environment := stub(t, nil)
		dir := strings.TrimPrefix(environment[1], "LD_LIBRARY_PATH=")
		w := realWorker{ip: fmt.Sprintf("127.0.0.%d", i+2), conf: filepath.Join(dir, "stub.conf"), card: filepath.Join(temp, "card")}
		if i == limitByEnvironment {
			environment = append(environment, "STUB_SLICE_MIB=8373")
		}
		environment = append(environment, "ALIYUN_COM_GPU_MEM_CONTAINER=8", "ALIYUN_COM_GPU_MEM_DEV=22", "ALIYUN_COM_GPU_MEM_UNIT=GiB")
		r.start(t, environment, "--address="+r.address, "--node-ip-address="+w.ip, "--num-cpus=1", "--num-gpus=1")
		r.workers = append(r.workers, w)
		r.awaitNodes(t, i+2) // two that start at once would take the same sockets
	}
	return r
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

// start runs one Ray node until the test ends.
func (r *realRay) start(t *testing.T, environment []string, arguments ...string) {
	t.Helper()
	arguments = append([]string{"-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", "--object-store-memory=100000000",
		"--dashboard-agent-listen-port=" + freePort(t), "--dashboard-agent-grpc-port=" + freePort(t), "--metrics-export-port=" + freePort(t),
		"--runtime-env-agent-port=" + freePort(t)}, arguments...)
	command := exec.Command(r.python, arguments...)
	path := filepath.Dir(r.python) + ":" + os.Getenv("PATH")
	for i, variable := range environment {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			environment[i] = "PATH=" + filepath.Dir(r.python) + ":" + value
		}
	}
	command.Env = append(append(os.Environ(), "PATH="+path, "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=180"), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(t.TempDir(), "ray.log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { _ = command.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // all of the node is in its group
		if raw, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("ray %s:\n%s", arguments[len(arguments)-1], raw)
		}
		log.Close()
	})
}

func (r *realRay) await(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rayTimeout)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func (r *realRay) awaitNodes(t *testing.T, want int) {
	t.Helper()
	r.await(t, "Ray's nodes", func() error {
		raw, err := r.call(http.MethodGet, "/nodes?view=summary", nil)
		if err != nil {
			return err
		}
		if alive := bytes.Count(raw, []byte(`"ALIVE"`)); alive != want {
			return fmt.Errorf("%d of %d are alive", alive, want)
		}
		return nil
	})
}

func (r *realRay) call(method, path string, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.api+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return answer, err
}

// submit starts a job under the id.
func (r *realRay) submit(t *testing.T, id, entrypoint string) {
	t.Helper()
	r.await(t, "submit "+id, func() error {
		_, err := r.call(http.MethodPost, "/api/jobs/", map[string]any{"entrypoint": entrypoint, "submission_id": id})
		if err != nil && !strings.Contains(err.Error(), "No available agent") { // as long as the head is still starting
			t.Fatal(err)
		}
		return err
	})
}

// finished waits for the job's end and returns its log.
func (r *realRay) finished(t *testing.T, id string) string {
	t.Helper()
	r.await(t, "job "+id, func() error {
		raw, err := r.call(http.MethodGet, "/api/jobs/"+id, nil)
		if err != nil {
			return err
		}
		var job struct{ Status, Message string }
		if err := json.Unmarshal(raw, &job); err != nil {
			return err
		}
		if !slices.Contains([]string{"SUCCEEDED", "FAILED", "STOPPED"}, job.Status) {
			return errors.New("it is " + job.Status + " " + job.Message)
		}
		return nil
	})
	return r.log(t, id)
}

func (r *realRay) log(t *testing.T, id string) string {
	t.Helper()
	raw, err := r.call(http.MethodGet, "/api/jobs/"+id+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Logs string }
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Logs
}

// set gives a worker the stand-in's settings.
func (r *realRay) set(t *testing.T, i int, s settings) {
	t.Helper()
	w := r.workers[i]
	conf := fmt.Sprintf("STUB_STATE=%s\nSTUB_POD=w-%d\n", w.card, i)
	for name, value := range s {
		conf += "STUB_" + name + "=" + value + "\n"
	}
	if err := os.WriteFile(w.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
}

// targets are the two workers, each of which asked for 8 of 22 GiB.
func (r *realRay) targets() []rayslice.Target {
	var targets []rayslice.Target
	for i, w := range r.workers {
		target := targetOf(seed(), rayslice.ModeCGPU)
		target.Pod, target.IP, target.GPUWorkers = fmt.Sprintf("w-%d", i), w.ip, 2
		targets = append(targets, target)
	}
	return targets
}

// verify asks through the Jobs API and judges the answer.
func (r *realRay) verify(t *testing.T, run string, targets []rayslice.Target) (rayslice.Evidence, []rayslice.Judgement) {
	t.Helper()
	spec := SpecOf(run, targets)
	spec.Seconds, spec.WaitSeconds, spec.CallSeconds = int(rayTimeout.Seconds()), 10, 5
	entrypoint, err := Entrypoint(spec)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.submit(t, run, entrypoint)
	log := r.finished(t, run)
	t.Logf("%s: %.1f s", run, time.Since(began).Seconds())
	evidence, err := rayslice.DecodeEvidence(strings.NewReader(log), run)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	var judgements []rayslice.Judgement
	for _, target := range targets {
		judgements = append(judgements, rayslice.Judge(target, evidence))
	}
	return evidence, judgements
}

// Every verdict is reached on real Ray, by one job for two workers each.
func TestRealRay(t *testing.T) {
	r := startRay(t)
	type worker struct {
		stub    settings
		change  func(*rayslice.Target)
		want    rayslice.Enforcement
		wantWhy string
	}
	slice := settings{"SLICE_MIB": "8373"}
	for i, test := range []struct {
		name    string
		workers [2]worker
	}{
		{"enforced, side by side on one card", [2]worker{{stub: slice, want: rayslice.Enforced}, {stub: slice, want: rayslice.Enforced}}},
		{"nothing holds one, a variable the other", [2]worker{
			{stub: settings{"TOTAL_MIB": "8373"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyServed},
			{stub: settings{"TOTAL_MIB": "8373"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyEnvironment}}},
		{"a broken driver, and one that hangs", [2]worker{
			{stub: settings{"BROKEN": "999"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyGPULost},
			{stub: settings{"SLICE_MIB": "8373", "HANG": "cuMemCreate"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyStuck}}},
		{"a share pool, and a full card", [2]worker{
			{change: func(t *rayslice.Target) { t.Mode = rayslice.ModeShare }, want: rayslice.NotEnforced, wantWhy: rayslice.WhyShareMode},
			{stub: settings{"SLICE_MIB": "8373", "NEIGHBOURS_MIB": "14000"}, change: func(t *rayslice.Target) { t.NeighboursMiB = new(14000) },
				want: rayslice.Inconclusive, wantWhy: rayslice.WhyCardFull}}},
		{"a whole card, and a worker that is not there", [2]worker{
			{change: func(t *rayslice.Target) { t.Mode, t.Slice = rayslice.ModeWhole, rayslice.Slice{Pool: "a100", Cards: 1} },
				want: rayslice.Inconclusive, wantWhy: rayslice.WhyWholeCard},
			{change: func(t *rayslice.Target) { t.IP = "127.0.0.99" }, want: rayslice.Inconclusive, wantWhy: rayslice.WhyProbeFailed}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			targets := r.targets()
			for i, w := range test.workers {
				r.set(t, i, w.stub)
				if w.change != nil {
					w.change(&targets[i])
				}
			}
			evidence, got := r.verify(t, fmt.Sprintf("run-%d", i), targets)
			for i, w := range test.workers {
				if got[i].Enforcement != w.want || got[i].Reason.Code != w.wantWhy {
					t.Errorf("worker %d: %s %+v, want %s %q\n%s", i, got[i].Enforcement, got[i].Reason, w.want, w.wantWhy, asJSON(t, evidence.Workers[i]))
				}
			}
			if i == 0 {
				checkEnforced(t, evidence, got)
			}
		})
	}
	t.Run("a user's actor", func(t *testing.T) { r.checkInUse(t) })
	t.Run("the same run twice", func(t *testing.T) {
		_, err := r.call(http.MethodPost, "/api/jobs/", map[string]any{"entrypoint": "true", "submission_id": "run-0"})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("Ray says %v", err)
		}
	})
}

// checkEnforced looks at what a run through Ray must say beside the verdict.
func checkEnforced(t *testing.T, evidence rayslice.Evidence, got []rayslice.Judgement) {
	t.Helper()
	if evidence.Ray == nil || evidence.Ray.GPUs != 2 || len(evidence.Ray.Nodes) != 3 || evidence.Ray.Problem != "" {
		t.Errorf("Ray: %+v", evidence.Ray)
	}
	for i, w := range evidence.Workers {
		if !slices.Contains(w.Variables.Restored, "CUDA_VISIBLE_DEVICES") || !strings.Contains(w.Variables.Read, "raylet") {
			t.Errorf("worker %d: restored %v, read %s", i, w.Variables.Restored, w.Variables.Read)
		}
		if !w.Neighbours.Ran() || w.Neighbours.HeldMiB != w.Neighbours.AskedMiB || w.Neighbours.AskedMiB < 7000 || w.Neighbours.Overlap < 1 {
			t.Errorf("worker %d: neighbours %+v", i, w.Neighbours)
		}
		for _, row := range got[i].Rows {
			if row.Result != rayslice.CheckPassed && row.Check != rayslice.CheckManaged {
				t.Errorf("worker %d: %s is %s: %+v", i, row.Check, row.Result, row.Reason)
			}
		}
	}
}

// checkInUse holds one worker's GPU by an actor: the probe neither waits for it nor allocates beside it.
func (r *realRay) checkInUse(t *testing.T) {
	t.Helper()
	for i := range r.workers {
		r.set(t, i, settings{"SLICE_MIB": "8373"})
	}
	r.submit(t, "actor", "python3 -c '"+`import ray, time
ray.init()
@ray.remote(num_gpus=1)
class Holder:
    def ready(self): return True
holder = Holder.remote()
ray.get(holder.ready.remote())
print("held", flush=True)
time.sleep(300)`+"'")
	r.await(t, "the actor", func() error {
		if log := r.log(t, "actor"); !strings.Contains(log, "held") {
			return errors.New(log)
		}
		return nil
	})
	_, got := r.verify(t, "in-use", r.targets())
	var found []string
	for _, judgement := range got {
		found = append(found, string(judgement.Enforcement)+" "+judgement.Reason.Code)
	}
	slices.Sort(found)
	if want := []string{"enforced ", "inconclusive in_use"}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	if _, err := r.call(http.MethodPost, "/api/jobs/actor/stop", nil); err != nil {
		t.Error(err)
	}
	r.finished(t, "actor")
}
