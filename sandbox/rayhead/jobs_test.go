package rayhead

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// jobsOn serves the Jobs API of a head whose jobs really run.
func jobsOn(t *testing.T, look func() cluster) (string, *jobs) {
	t.Helper()
	for _, program := range []string{"cc", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	machine, err := NewMachine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := newJobs(machine, "head", look)
	server := httptest.NewServer(handler(look, own))
	t.Cleanup(func() {
		server.Close()
		own.stopAll()
		if left := processesIn(machine.dir); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	return server.URL, own
}

func call(t *testing.T, method, url string, body any) (int, map[string]any, string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	_ = json.Unmarshal(text, &answer) // errors are plain text, as Ray's
	return response.StatusCode, answer, string(text)
}

func submit(t *testing.T, url, id, entrypoint string) {
	t.Helper()
	status, answer, text := call(t, http.MethodPost, url+"/api/jobs/", map[string]any{"entrypoint": entrypoint, "submission_id": id})
	if status != http.StatusOK || answer["submission_id"] != id {
		t.Fatalf("%d %s", status, text)
	}
}

// ended waits for the job and returns its status and log.
func ended(t *testing.T, url, id string, own *jobs) (status, log string) {
	t.Helper()
	select {
	case <-own.find(id).ended:
	case <-time.After(time.Minute):
		t.Fatal(id, "does not end")
	}
	_, details, _ := call(t, http.MethodGet, url+"/api/jobs/"+id, nil)
	_, logs, _ := call(t, http.MethodGet, url+"/api/jobs/"+id+"/logs", nil)
	return details["status"].(string), logs["logs"].(string)
}

func TestJobs(t *testing.T) {
	url, own := jobsOn(t, lookAt(later, []*corev1.Node{cpu(), a10(nil)}, headPod(), sliceWorker("w-1", `{"0":{"0":8}}`)))

	submit(t, url, "hello", `echo hello from $HOSTNAME; python3 -c "import ray; print(len(ray.nodes()), ray.__version__)"`)
	if status, log := ended(t, url, "hello", own); status != jobSucceeded || log != "hello from train-head\n2 2.52.0\n" {
		t.Errorf("%s %q", status, log)
	}
	submit(t, url, "fails", "exit 3")
	if status, _ := ended(t, url, "fails", own); status != jobFailed {
		t.Errorf("exit 3 is %s", status)
	}
	if status, _, text := call(t, http.MethodPost, url+"/api/jobs/", map[string]any{"entrypoint": "true", "submission_id": "hello"}); status != http.StatusInternalServerError || !strings.Contains(text, "already exists") {
		t.Errorf("a second hello: %d %s", status, text)
	}
	if status, _, _ := call(t, http.MethodPost, url+"/api/jobs/", map[string]any{"submission_id": "nothing"}); status != http.StatusBadRequest {
		t.Errorf("no entrypoint: %d", status)
	}
	if status, _, text := call(t, http.MethodPost, url+"/api/jobs/", map[string]any{"entrypoint": "true", "submission_id": "../out"}); status != http.StatusInternalServerError {
		t.Errorf("a path: %d %s", status, text)
	}

	submit(t, url, "long", "setsid sleep 300 & setsid sleep 300")
	if status, _, _ := call(t, http.MethodDelete, url+"/api/jobs/long", nil); status != http.StatusInternalServerError {
		t.Errorf("a running job is deleted: %d", status)
	}
	if _, answer, _ := call(t, http.MethodPost, url+"/api/jobs/long/stop", nil); answer["stopped"] != true {
		t.Errorf("stop: %v", answer)
	}
	if status, _ := ended(t, url, "long", own); status != jobStopped {
		t.Errorf("a stopped job is %s", status)
	}
	if left := processesIn(own.find("long").dir); len(left) > 0 {
		t.Errorf("processes %v outlive it", left)
	}
	if _, answer, _ := call(t, http.MethodDelete, url+"/api/jobs/long", nil); answer["deleted"] != true {
		t.Errorf("delete: %v", answer)
	}
	if status, _, text := call(t, http.MethodGet, url+"/api/jobs/long", nil); status != http.StatusNotFound || text != "Job long does not exist" {
		t.Errorf("a deleted job: %d %s", status, text)
	}
	submit(t, url, "last", "sleep 300") // ends with the head
}

func TestJobFaults(t *testing.T) {
	for fault, want := range map[string]func(t *testing.T, url string, own *jobs){
		JobsDown: func(t *testing.T, url string, _ *jobs) {
			if status, _, _ := call(t, http.MethodPost, url+"/api/jobs/", map[string]any{"entrypoint": "true"}); status != http.StatusInternalServerError {
				t.Errorf("it answers %d", status)
			}
		},
		JobsStuck: func(t *testing.T, url string, _ *jobs) {
			submit(t, url, "one", "true")
			if _, answer, _ := call(t, http.MethodGet, url+"/api/jobs/one", nil); answer["status"] != jobPending {
				t.Errorf("it is %s", answer["status"])
			}
			if _, answer, _ := call(t, http.MethodPost, url+"/api/jobs/one/stop", nil); answer["stopped"] != true {
				t.Errorf("stop: %v", answer)
			}
		},
		JobsNoisy: func(t *testing.T, url string, own *jobs) {
			submit(t, url, "one", "echo found")
			if _, log := ended(t, url, "one", own); len(log) < 10<<20-100 || !strings.HasSuffix(log, "\nfound\n") {
				t.Errorf("%d bytes", len(log))
			}
		},
		JobsHalf: func(t *testing.T, url string, own *jobs) {
			submit(t, url, "one", "echo 123456789")
			if _, log := ended(t, url, "one", own); log != "12345" {
				t.Errorf("%q", log)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			url, own := jobsOn(t, lookAt(later, []*corev1.Node{cpu(fault)}, headPod()))
			want(t, url, own)
		})
	}
}

// The product's own probe, through the Jobs API, sees each worker as the simulation has it.
func TestProbeSeesTheSimulation(t *testing.T) {
	probe, err := filepath.Abs("../../k8s/probe/probe.py")
	if err != nil {
		t.Fatal(err)
	}
	const beyond = 9429
	for name, test := range map[string]struct {
		labels    map[string]string
		faults    []string
		wantTotal float64 // MiB that nvidia-smi shows
		wantServe float64 // MiB that growing beyond the slice was given
		wantClean float64 // the same without variables
		wantSMI   string  // code of the step
		wantCode  string  // code of the attempts
	}{
		"cgpu":                {wantTotal: 8373, wantServe: 7936, wantClean: 7936},
		"share":               {labels: map[string]string{"ack.node.gpu.schedule": "share"}, wantTotal: 23028, wantServe: beyond, wantClean: beyond},
		"isolation off":       {labels: map[string]string{"cgpu.disable.isolation": "true"}, wantTotal: 23028, wantServe: beyond, wantClean: beyond},
		IsolationOff:          {faults: []string{IsolationOff}, wantTotal: 23028, wantServe: beyond, wantClean: beyond},
		LimitLost:             {faults: []string{LimitLost}, wantTotal: 8373, wantServe: beyond, wantClean: beyond},
		LimitInEnvironment:    {faults: []string{LimitInEnvironment}, wantTotal: 8373, wantServe: 7936, wantClean: beyond},
		NoisyDriver:           {faults: []string{NoisyDriver}, wantTotal: 8373, wantServe: 7936, wantClean: 7936},
		WrongNumbers:          {faults: []string{WrongNumbers}, wantTotal: 8373, wantServe: 7936, wantClean: 7936},
		DriverBroken:          {faults: []string{DriverBroken}, wantSMI: "smi_failed", wantCode: "cuda_failed"},
		GPULost:               {faults: []string{GPULost}, wantSMI: "smi_failed", wantCode: "cuda_failed"},
		"a neighbour of ours": {wantTotal: 8373, wantServe: 7936, wantClean: 7936},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := a10(test.labels, append(test.faults, Idle)...)
			node.Labels["aliyun.accelerator/nvidia_mem"] = "23028MiB"
			workers := []*corev1.Pod{headPod(), sliceWorker("w-1", `{"0":{"0":8}}`)}
			if name == "a neighbour of ours" {
				workers = append(workers, sliceWorker("w-2", `{"0":{"0":8}}`))
			}
			url, own := jobsOn(t, lookAt(later, []*corev1.Node{cpu(), node}, workers...))
			var asked []map[string]any
			for _, worker := range workers[1:] {
				asked = append(asked, map[string]any{"pod": worker.Name, "slice_gib": 8, "slice_mib": 8405, "card_mib": 23028, "neighbours_mib": 0})
			}
			spec, err := json.Marshal(map[string]any{"mode": "cluster", "run": "run", "workers": asked, "gpus": len(asked), "wait_seconds": 1, "call_seconds": 5})
			if err != nil {
				t.Fatal(err)
			}
			submit(t, url, "run", fmt.Sprintf("python3 '%s' '%s'", probe, spec))
			status, log := ended(t, url, "run", own)
			document := documentOf(t, log)
			if status != jobSucceeded || document["error"] != nil {
				t.Fatalf("%s %v", status, document["error"])
			}
			for _, worker := range document["workers"].([]any) {
				checkWorker(t, worker.(map[string]any), test.wantTotal, test.wantServe, test.wantClean, test.wantSMI, test.wantCode)
				neighbours := worker.(map[string]any)["neighbours"].(map[string]any)
				if with := len(workers) - 2; len(neighbours["with"].([]any)) != with || with > 0 && neighbours["held_mib"] != 7680.0 {
					t.Errorf("neighbours %v", neighbours)
				}
			}
		})
	}
}

func checkWorker(t *testing.T, worker map[string]any, total, served, clean float64, smiCode, code string) {
	t.Helper()
	smi := worker["smi"].(map[string]any)
	if smi["code"] != smiCode {
		t.Errorf("nvidia-smi: %v", smi)
	}
	for _, card := range smi["cards"].([]any) {
		if card := card.(map[string]any); card["total_mib"] != total {
			t.Errorf("total %v, want %v", card["total_mib"], total)
		}
	}
	variables := worker["variables"].(map[string]any)["values"].(map[string]any)
	if variables["ALIYUN_COM_GPU_MEM_CONTAINER"] != "8" || variables["ALIYUN_COM_GPU_MEM_DEV"] != "22" {
		t.Errorf("variables %v", variables)
	}
	for _, attempt := range worker["allocation"].([]any) {
		a := attempt.(map[string]any)
		if a["purpose"] != "grow" {
			continue
		}
		want := served
		if a["process"] == "clean" {
			want = clean
		}
		if a["code"] != code || a["served"] != want {
			t.Errorf("%s %s: %v MiB %q, want %v %q", a["process"], a["api"], a["served"], a["code"], want, code)
		}
	}
}

func documentOf(t *testing.T, log string) map[string]any {
	t.Helper()
	_, rest, _ := strings.Cut(log, "-----BEGIN RAYSLICE PROBE run-----")
	text, _, _ := strings.Cut(rest, "-----END")
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return document
}

// What other clusters' work holds on a card is not free for this one's.
func TestNeighboursHoldTheirMemory(t *testing.T) {
	nodes := []*corev1.Node{cpu(), a10(nil)}
	mine, other := sliceWorker("w-1", `{"0":{"0":8}}`), sliceWorker("other-1", `{"0":{"0":8}}`)
	look := lookAt(later, nodes, headPod(), mine)
	c := neighbours(look(), []*corev1.Pod{mine, other}, func(name string) *corev1.Node {
		if name == "a10-1" {
			return nodes[1]
		}
		return nodes[0]
	})
	if got := c.nodes[1].cards[0].othersMiB; got <= 1000 || got > 8373 {
		t.Errorf("the other one holds %d MiB", got)
	}
	if limits := other.Spec.Containers[0].Resources.Limits["aliyun.com/gpu-mem"]; limits.Cmp(resource.MustParse("8")) != 0 {
		t.Errorf("it asked for %s", limits.String())
	}
}
