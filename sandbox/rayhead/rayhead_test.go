package rayhead

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var (
	start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	later = start.Add(10 * time.Minute)
)

// a10 is a simulated node with two A10 cards.
func a10(labels map[string]string, faults ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "a10-1",
		Labels: map[string]string{
			"ack.node.gpu.schedule":          "cgpu",
			"aliyun.accelerator/nvidia_name": "NVIDIA-A10",
			"aliyun.accelerator/nvidia_mem":  "23028MiB",
		},
		Annotations: map[string]string{FaultsAnnotation: strings.Join(faults, ", ")},
	}}
	for key, value := range labels {
		node.Labels[key] = value
	}
	node.Status.Allocatable = corev1.ResourceList{"aliyun.com/gpu-mem": resource.MustParse("44"), "aliyun.com/gpu-count": resource.MustParse("2")}
	return node
}

// rayPod is a running pod of cluster "train", as KubeRay builds it.
func rayPod(name, nodeType, node, startCommand string, limits corev1.ResourceList, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID("uid-of-" + name), Annotations: annotations,
			Labels: map[string]string{nodeTypeLabel: nodeType, clusterLabel: "train"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Env:       []corev1.EnvVar{{Name: "KUBERAY_GEN_RAY_START_CMD", Value: startCommand}},
			Resources: corev1.ResourceRequirements{Limits: limits},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0." + fmt.Sprint(len(name)), StartTime: &metav1.Time{Time: start}},
	}
}

func headPod() *corev1.Pod {
	return rayPod("train-head", "head", "cpu-1", "ray start --head  --num-cpus=0  --num-gpus=0 ",
		corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}, nil)
}

func sliceWorker(name, allocation string) *corev1.Pod {
	return rayPod(name, "worker", "a10-1", `ray start --address=train-head-svc:6379  --num-cpus=4  --num-gpus=1  --resources="{\"slice_gib\":8}" `,
		corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "aliyun.com/gpu-mem": resource.MustParse("8")},
		map[string]string{"scheduler.framework.gpushare.allocation": allocation})
}

// lookAt fixes what a head sees: its pods, on the given nodes, at a moment.
func lookAt(now time.Time, nodes []*corev1.Node, pods ...*corev1.Pod) func() cluster {
	find := func(name string) *corev1.Node {
		for _, node := range nodes {
			if node.Name == name {
				return node
			}
		}
		return nil
	}
	return func() cluster { return clusterOf(pods[0], pods, find, "2.52.0", now) }
}

// get asks a real listener and decodes its JSON.
func get(t *testing.T, look func() cluster, path string) map[string]any {
	t.Helper()
	server := httptest.NewServer(handler(look, newJobs(Machine{}, "head", look)))
	defer server.Close()
	response, err := http.Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "application/json; charset=utf-8" || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %s", path, response.Status, got)
	}
	var body map[string]any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return body
}

// shape lists every path of a JSON value with its type. Keys that are names of nodes count as one, and those that are
// names of resources not at all.
func shape(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		into[path] = "object"
		for key, child := range value {
			switch last := path[strings.LastIndex(path, ".")+1:]; {
			case slices.Contains([]string{"nodeLogicalResources", "activeNodes", "usageByNode", "nodeTypeMapping", "disk"}, last):
				shape(path+".*", child, into)
			case slices.Contains([]string{"resourcesTotal", "resources_total", "usage", "*", "nodeTypes[][]"}, last):
			default:
				shape(path+"."+key, child, into)
			}
		}
	case []any:
		into[path] = "array"
		for _, child := range value {
			shape(path+"[]", child, into)
		}
	case nil:
		if into[path] == "" {
			into[path] = "null"
		}
	default:
		into[path] = fmt.Sprintf("%T", value)
	}
}

func TestShapesEqualARealHeads(t *testing.T) {
	// What the stand-in leaves out: figures about Ray's own processes, sockets and ports, which a simulated pod has not.
	leftOut := []string{".agent", ".gcs", "SocketName", "Port", "stateSnapshot", "storeStats", "coreWorkersStats[]", "numWorkers"}
	look := lookAt(later, []*corev1.Node{cpu(), a10(nil)}, headPod(), sliceWorker("w-1", `{"0":{"1":8}}`))
	for file, path := range map[string]string{
		"version":              "/api/version",
		"nodes":                "/nodes?view=summary",
		"cluster_status":       "/api/cluster_status",
		"cluster_status_text":  "/api/cluster_status?format=1",
		"component_activities": "/api/component_activities",
		"v0_nodes":             "/api/v0/nodes?limit=100",
		"v0_actors":            "/api/v0/actors",
		"authentication_mode":  "/api/authentication_mode",
	} {
		t.Run(file, func(t *testing.T) {
			recorded, err := os.ReadFile(filepath.Join("testdata", file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var real map[string]any
			if err := json.Unmarshal(recorded, &real); err != nil {
				t.Fatal(err)
			}
			want, got := map[string]string{}, map[string]string{}
			shape("", real, want)
			shape("", get(t, look, path), got)
			maps.DeleteFunc(want, func(key, _ string) bool {
				return slices.ContainsFunc(leftOut, func(part string) bool { return strings.Contains(key, part) })
			})
			maps.DeleteFunc(got, func(key, _ string) bool {
				return strings.Contains(key, ".gpus[]") // the recorded machine had no GPU; see TestSlices
			})
			for key := range want {
				if want[key] == "null" || got[key] == "null" { // sometimes there, and it depends on when one asks
					want[key], got[key] = "optional", "optional"
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("GET %s (-real +stand-in):\n%s", path, diff)
			}
		})
	}
}

// summaries returns the summary entries by host name.
func summaries(t *testing.T, look func() cluster) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, entry := range get(t, look, "/nodes?view=summary")["data"].(map[string]any)["summary"].([]any) {
		entry := entry.(map[string]any)
		found[entry["hostname"].(string)] = entry
	}
	return found
}

func firstGPU(t *testing.T, entry map[string]any) map[string]any {
	t.Helper()
	gpus, _ := entry["gpus"].([]any)
	if len(gpus) == 0 {
		t.Fatalf("no GPU in %v", entry["gpus"])
	}
	return gpus[0].(map[string]any)
}

func TestSlices(t *testing.T) {
	nodes := []*corev1.Node{cpu(), a10(nil)}
	look := lookAt(later, nodes, headPod(), sliceWorker("w-1", `{"0":{"1":8}}`), sliceWorker("w-22", `{"0":{"1":8}}`), sliceWorker("w-333", `{"0":{"0":8}}`))
	found := summaries(t, look)
	if got := found["train-head"]["gpus"]; len(got.([]any)) != 0 {
		t.Errorf("the head's gpus = %v, want none", got)
	}
	card := firstGPU(t, found["w-1"])
	var keys []string
	for key := range card {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{"index", "memoryTotal", "memoryUsed", "name", "processesPids", "utilizationGpu", "uuid"}, keys); diff != "" {
		t.Errorf("keys of a GPU (-want +got):\n%s", diff)
	}
	if card["index"] != 0.0 || card["memoryTotal"] != 8373.0 || card["name"] != "NVIDIA A10" {
		t.Errorf("8 of 22 GiB of an A10 = %v, want index 0 and 8373 MiB", card)
	}
	if used := card["memoryUsed"].(float64); used <= contextMiB || used > 8373 {
		t.Errorf("used = %v MiB, want within the slice", used)
	}
	if firstGPU(t, found["w-22"])["uuid"] != card["uuid"] || firstGPU(t, found["w-333"])["uuid"] == card["uuid"] {
		t.Error("uuids do not follow the cards")
	}
	if got, want := found["w-1"]["ip"], "10.0.0.3"; got != want {
		t.Errorf("ip = %v, want the pod's, %s", got, want)
	}
}

func TestWholeCards(t *testing.T) {
	worker := rayPod("w-1", "worker", "a10-1", "ray start  --num-gpus=2 ", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, nil)
	gpus := summaries(t, lookAt(later, []*corev1.Node{cpu(), a10(nil)}, headPod(), worker))["w-1"]["gpus"].([]any)
	if len(gpus) != 2 {
		t.Fatalf("gpus = %v, want 2", gpus)
	}
	for i, card := range gpus {
		card := card.(map[string]any)
		if card["index"] != float64(i) || card["memoryTotal"] != 23028.0 || len(card["processesPids"].([]any)) != 1 {
			t.Errorf("card %d = %v, want all of an A10 and its process", i, card)
		}
	}
}

func TestWorkerFaults(t *testing.T) {
	tests := map[string]struct {
		labels          map[string]string
		faults          []string
		wantTotal       float64
		wantUsed        float64 // 0 means any possible figure
		wantUtilization float64
		wantNoGPUs      bool
	}{
		"isolation off":          {faults: []string{IsolationOff}, wantTotal: 23028},
		"a share node":           {labels: map[string]string{"ack.node.gpu.schedule": "share"}, wantTotal: 23028},
		"isolation off by label": {labels: map[string]string{"cgpu.disable.isolation": "true"}, wantTotal: 23028},
		"wrong numbers":          {faults: []string{WrongNumbers}, wantTotal: 8373, wantUsed: 17592186044134, wantUtilization: -1},
		"two faults at once":     {faults: []string{WrongNumbers, IsolationOff}, wantTotal: 23028, wantUsed: 17592186044134, wantUtilization: -1},
		"GPU lost":               {faults: []string{GPULost}, wantNoGPUs: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			worker := summaries(t, lookAt(later, []*corev1.Node{cpu(), a10(test.labels, test.faults...)}, headPod(), sliceWorker("w-1", `{"0":{"1":8}}`)))["w-1"]
			if _, has := worker["gpus"]; has == test.wantNoGPUs {
				t.Fatalf("gpus present = %t, want %t", has, !test.wantNoGPUs)
			}
			if test.wantNoGPUs {
				return
			}
			card := firstGPU(t, worker)
			if card["memoryTotal"] != test.wantTotal {
				t.Errorf("total = %v, want %v", card["memoryTotal"], test.wantTotal)
			}
			if test.wantUsed != 0 && (card["memoryUsed"] != test.wantUsed || card["utilizationGpu"] != test.wantUtilization) {
				t.Errorf("used %v, utilization %v, want %v and %v", card["memoryUsed"], card["utilizationGpu"], test.wantUsed, test.wantUtilization)
			}
			if test.wantUsed == 0 && card["memoryUsed"].(float64) > test.wantTotal {
				t.Errorf("used %v of %v", card["memoryUsed"], test.wantTotal)
			}
		})
	}
}

func TestIdleClusterHasNoDriver(t *testing.T) {
	for name, test := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"busy": {node: a10(nil), want: "ACTIVE"},
		"idle": {node: a10(nil, Idle), want: "INACTIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			look := lookAt(later, []*corev1.Node{cpu(), test.node}, headPod(), sliceWorker("w-1", `{"0":{"0":8}}`))
			if got := get(t, look, "/api/component_activities")["driver"].(map[string]any)["is_active"]; got != test.want {
				t.Errorf("driver = %v, want %s", got, test.want)
			}
			actors := get(t, look, "/api/v0/actors")["data"].(map[string]any)["result"].(map[string]any)["total"]
			if (actors != 0.0) != (test.want == "ACTIVE") {
				t.Errorf("%v actors while %s", actors, test.want)
			}
		})
	}
}

func TestLogicalResources(t *testing.T) {
	leaving := sliceWorker("w-22", `{"0":{"1":8}}`)
	leaving.DeletionTimestamp = &metav1.Time{Time: later}
	look := lookAt(start.Add(time.Second), []*corev1.Node{cpu(), a10(nil)}, headPod(), sliceWorker("w-1", `{"0":{"1":8}}`), leaving)
	logical := get(t, look, "/nodes?view=summary")["data"].(map[string]any)["nodeLogicalResources"].(map[string]any)
	want := map[string]any{
		nodeID("train-head"): "0B/4.00GiB memory\n0B/1.20GiB object_store_memory",
		nodeID("w-1"):        "0.0/4.0 CPU\n0.0/1.0 GPU\n0B/16.00GiB memory\n0B/4.80GiB object_store_memory\n0.0/8.0 slice_gib",
		nodeID("w-22"):       "",
	}
	if diff := cmp.Diff(want, logical); diff != "" {
		t.Errorf("nodeLogicalResources (-want +got):\n%s", diff)
	}
	text := get(t, look, "/api/cluster_status?format=1")["data"].(map[string]any)["clusterStatus"].(string)
	if !strings.Contains(text, "\n 0.0/1.0 GPU\n") || strings.Contains(text, nodeID("w-22")) {
		t.Errorf("ray status counts the node that leaves:\n%s", text)
	}
}

func TestNodesThatAreGone(t *testing.T) {
	leaving := sliceWorker("w-1", `{"0":{"1":8}}`)
	leaving.DeletionTimestamp = &metav1.Time{Time: later}
	silent := a10(nil)
	silent.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	tests := map[string]struct {
		node   *corev1.Node
		worker *corev1.Pod
		want   any
	}{
		"told to stop":    {node: a10(nil), worker: leaving, want: "Expected termination: received SIGTERM"},
		"machine is dead": {node: silent, worker: sliceWorker("w-1", `{"0":{"1":8}}`), want: "Unexpected termination: health check failed due to missing too many heartbeats"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			raylet := summaries(t, lookAt(later, []*corev1.Node{cpu(), test.node}, headPod(), test.worker))["w-1"]["raylet"].(map[string]any)
			if raylet["state"] != "DEAD" || raylet["stateMessage"] != test.want || len(raylet["resourcesTotal"].(map[string]any)) != 0 {
				t.Errorf("raylet = %v, want it dead: %s", raylet, test.want)
			}
		})
	}
}

// cpu is the node of the head.
func cpu(faults ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu-1", Annotations: map[string]string{FaultsAnnotation: strings.Join(faults, ",")}}}
}

func nodeID(pod string) string { return digest("uid-of-" + pod)[:56] }

// Without --num-gpus Ray counts the cards that it can see, which is none on a head.
func TestResourcesOfUntoldRay(t *testing.T) {
	worker := sliceWorker("w-1", `{"0":{"1":8}}`)
	worker.Spec.Containers[0].Env = nil
	if got := resourcesOf(worker, 1); got["GPU"] != 1 || got["CPU"] != 4 {
		t.Errorf("resources = %v, want the visible GPU and the CPU limit", got)
	}
	if got := resourcesOf(headPod(), 0); got["GPU"] != 0 || got["CPU"] != 0 {
		t.Errorf("resources of the head = %v, want no GPU and no CPU", got)
	}
}

func TestHeadFaults(t *testing.T) {
	serve := func(t *testing.T, fault string) *httptest.Server {
		look := lookAt(later, []*corev1.Node{cpu(fault)}, headPod())
		server := httptest.NewServer(handler(look, newJobs(Machine{}, "head", look)))
		t.Cleanup(server.Close)
		return server
	}
	t.Run(HTMLDashboard, func(t *testing.T) {
		response, err := http.Get(serve(t, HTMLDashboard).URL + "/api/version")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Type"); got != "text/html" || response.StatusCode != http.StatusOK {
			t.Errorf("answer is %s, %s", response.Status, got)
		}
	})
	t.Run(RedirectDashboard, func(t *testing.T) {
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Get(serve(t, RedirectDashboard).URL + "/api/version")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusFound || !strings.HasPrefix(response.Header.Get("Location"), "http://169.254.169.254/") {
			t.Errorf("answer is %s to %q", response.Status, response.Header.Get("Location"))
		}
	})
	t.Run(HugeDashboard, func(t *testing.T) {
		response, err := http.Get(serve(t, HugeDashboard).URL + "/nodes?view=summary")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if n, err := io.CopyN(io.Discard, response.Body, 32<<20); err != nil {
			t.Errorf("the body ended after %d bytes: %v", n, err)
		}
	})
	t.Run(DeadDashboard, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, serve(t, DeadDashboard).URL+"/api/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			t.Errorf("it answered %s", response.Status)
		}
	})
}

func TestUnknownPaths(t *testing.T) {
	look := lookAt(later, []*corev1.Node{cpu()}, headPod())
	server := httptest.NewServer(handler(look, newJobs(Machine{}, "head", look)))
	defer server.Close()
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/nope":          {404, "404: Not Found"},
		"/api/jobs/nope": {404, "Job nope does not exist"},
		"/nodes":         {500, `{"data":{},"msg":"Unknown view ","result":false}` + "\n"},
		"/api/jobs/":     {200, "[]\n"},
	} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != want.status || string(body) != want.body {
			t.Errorf("GET %s = %d %q, want %d %q", path, response.StatusCode, body, want.status, want.body)
		}
	}
}

// Whatever the pod and the moment, the figures are possible, and the same when asked again.
func TestLoadIsPlausible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := rapid.String().Draw(t, "uid")
		now := start.Add(time.Duration(rapid.Int64Range(-3600, 90*24*3600).Draw(t, "seconds")) * time.Second)
		total := rapid.IntRange(1024, 200_000).Draw(t, "MiB")
		load := loadOf(uid, start, now)
		if load != loadOf(uid, start, now) {
			t.Fatal("the load is not a function of pod and time")
		}
		card := load.on(gpu{totalMiB: total}, nil)
		if card.usedMiB < 0 || card.usedMiB > total || card.utilization < 0 || card.utilization > 100 {
			t.Fatalf("impossible figures %+v", card)
		}
		if warm := now.After(start.Add(warmUp)); warm != (card.usedMiB > 0) {
			t.Fatalf("warm = %t, used %d MiB", warm, card.usedMiB)
		}
	})
}

func TestLoadMoves(t *testing.T) {
	seen := map[int]bool{}
	for minute := range 20 {
		seen[loadOf("uid", start, later.Add(time.Duration(minute)*time.Minute)).on(gpu{totalMiB: 8373}, nil).usedMiB] = true
	}
	if len(seen) < 15 {
		t.Errorf("only %d different figures in 20 minutes", len(seen))
	}
}
