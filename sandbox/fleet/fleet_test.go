package fleet

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayslice/rayslice/sandbox/rayhead"
)

const smallest = `
nodeGroups:
  - {name: a10, namePrefix: cn-hangzhou.10.0.0., mode: cgpu, cards: 2, cardModel: NVIDIA-A10, cardMiB: 23028, gibPerCard: 22, cpu: 32, memory: 188Gi}
`

func parse(t *testing.T, text string) Fleet {
	t.Helper()
	fleet, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// edited is the smallest fleet with one thing changed.
func edited(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(smallest, old) {
		t.Fatalf("the smallest fleet has no %q", old)
	}
	return strings.Replace(smallest, old, new, 1)
}

func TestParseNamesTheField(t *testing.T) {
	tests := map[string]struct{ old, new, want string }{
		"a field that does not exist":            {"cards:", "crads:", `unknown field "crads"`},
		"a word where a number belongs":          {"cards: 2", "cards: two", "nodeGroups.cards"},
		"no groups":                              {smallest, "nodeGroups: []", "nodeGroups must be a list of at least one group"},
		"a bad duration":                         {"nodeGroups:", "podStart: {delay: soon}\nnodeGroups:", "podStart must be durations"},
		"a negative duration":                    {"nodeGroups:", "podStop: {delay: -1s}\nnodeGroups:", "podStop must be durations"},
		"capitals in a name":                     {"name: a10", "name: A10", "nodeGroups[0].name must be lower-case"},
		"a prefix no node can have":              {"cn-hangzhou.10.0.0.", "cn_hangzhou.", "nodeGroups[0].namePrefix must be the beginning of a node name"},
		"less than no nodes":                     {"mode:", "count: -1, mode:", "nodeGroups[0].count must be from 0 to 2000, got -1"},
		"more nodes than the sandbox can play":   {"mode:", "count: 2001, mode:", "nodeGroups[0].count must be from 0 to 2000, got 2001"},
		"a mode that ACK does not have":          {"mode: cgpu", "mode: vgpu", `nodeGroups[0].mode must be one of [cgpu core_mem share default none], got "vgpu"`},
		"no cards in a GPU mode":                 {"cards: 2", "cards: 0", "nodeGroups[0].cards must be from 1 to 16, got 0"},
		"too many cards":                         {"cards: 2", "cards: 17", "nodeGroups[0].cards must be from 1 to 16, got 17"},
		"cards without a GPU mode":               {"mode: cgpu", "mode: none", "nodeGroups[0].cards must be left out in mode none"},
		"a model that is no label":               {"NVIDIA-A10", "NVIDIA A10", "nodeGroups[0].cardModel must be a name such as NVIDIA-A10"},
		"a card without memory":                  {"cardMiB: 23028", "cardMiB: 0", "nodeGroups[0].cardMiB must be the card's memory.total"},
		"more GiB than the card has":             {"gibPerCard: 22", "gibPerCard: 23", "nodeGroups[0].gibPerCard must be from 1 to the card's 22 GiB, got 23"},
		"no GiB for slices":                      {"gibPerCard: 22", "gibPerCard: 0", "nodeGroups[0].gibPerCard must be from 1"},
		"GiB on whole cards":                     {"mode: cgpu", "mode: default", "nodeGroups[0].gibPerCard must be left out in mode default"},
		"a negative number of slices":            {"mode:", "maxPodsPerCard: -1, mode:", "nodeGroups[0].maxPodsPerCard must be 0 or more, got -1"},
		"a placement that ACK does not have":     {"mode:", "placement: random, mode:", `nodeGroups[0].placement must be binpack or spread, got "random"`},
		"no CPU":                                 {"cpu: 32, ", "", `nodeGroups[0].cpu must be a quantity above 0 such as 32, got ""`},
		"memory in words":                        {"188Gi", "plenty", `nodeGroups[0].memory must be a quantity above 0 such as 188Gi, got "plenty"`},
		"a negative number of pods":              {"mode:", "maxPods: -1, mode:", "nodeGroups[0].maxPods must be 1 or more, got -1"},
		"an instance type that is no label":      {"mode:", "instanceType: 'a b', mode:", `nodeGroups[0].instanceType must be a label value, got "a b"`},
		"a fault that nothing plays":             {"mode:", "faults: [idle, on-fire], mode:", "nodeGroups[0].faults[1] must be one of"},
		"two groups of one name":                 {"\n  - {name: a10,", "\n  - {name: a10, namePrefix: b., mode: none, cpu: 1, memory: 1Gi}\n  - {name: a10,", `nodeGroups[1].name must be unique, "a10" is taken`},
		"two groups whose nodes are called same": {"\n  - {name: a10,", "\n  - {name: b, namePrefix: cn-hangzhou.10.0.0., mode: none, cpu: 1, memory: 1Gi}\n  - {name: a10,", `nodeGroups[1].namePrefix must be such that node names differ, "cn-hangzhou.10.0.0.1" is taken`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(edited(t, test.old, test.new)))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("says %q, want it to say %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("says it on several lines: %q", err)
			}
		})
	}
}

func TestParseNamesEveryField(t *testing.T) {
	_, err := Parse([]byte(strings.NewReplacer("cards: 2", "cards: 0", "mode: cgpu", "mode: vgpu").Replace(smallest)))
	if err == nil || !strings.Contains(err.Error(), "].mode must") || !strings.Contains(err.Error(), "].cards must") {
		t.Errorf("says %v, want both the mode and the cards", err)
	}
}

// The offers of the list, on nodes named and labelled as on ACK.
func TestDefaultFleet(t *testing.T) {
	content, err := os.ReadFile("../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	offers := map[string]map[string]string{}
	for _, node := range parse(t, string(content)).Nodes(10250) {
		offer := map[string]string{"mode": node.Labels["ack.node.gpu.schedule"]}
		for _, label := range []string{"nvidia_name", "nvidia_mem", "nvidia_count"} {
			if value, ok := node.Labels["aliyun.accelerator/"+label]; ok {
				offer[label] = value
			}
		}
		for name, amount := range *node.Status.Allocatable {
			if strings.Contains(string(name), ".com/") {
				offer[string(name)] = amount.String()
			}
		}
		offers[*node.Name] = offer
	}
	a10 := func(mode, cards, memory string) map[string]string {
		return map[string]string{
			"mode": mode, "nvidia_name": "NVIDIA-A10", "nvidia_mem": "23028MiB", "nvidia_count": cards,
			"aliyun.com/gpu-mem": memory, "aliyun.com/gpu-count": cards,
		}
	}
	core := a10("core_mem", "2", "44")
	core["aliyun.com/gpu-core.percentage"] = "200"
	cpu := map[string]string{"mode": ""}
	want := map[string]map[string]string{
		"cn-hangzhou.10.200.12.1": a10("cgpu", "1", "22"),
		"cn-hangzhou.10.200.12.2": a10("cgpu", "1", "22"),
		"cn-hangzhou.10.200.14.1": a10("cgpu", "4", "88"),
		"cn-hangzhou.10.200.16.1": {
			"mode": "cgpu", "nvidia_name": "Tesla-T4", "nvidia_mem": "15360MiB", "nvidia_count": "2",
			"aliyun.com/gpu-mem": "30", "aliyun.com/gpu-count": "2",
		},
		"cn-hangzhou.10.200.18.1": core,
		"cn-hangzhou.10.200.20.1": a10("share", "2", "44"),
		"cn-hangzhou.10.200.24.1": {
			"mode": "default", "nvidia_name": "NVIDIA-A100-SXM4-80GB", "nvidia_mem": "81920MiB", "nvidia_count": "8",
			"nvidia.com/gpu": "8",
		},
		"cn-hangzhou.10.200.30.1": cpu,
		"cn-hangzhou.10.200.30.2": cpu,
		"cn-hangzhou.10.200.30.3": cpu,
	}
	if diff := cmp.Diff(want, offers); diff != "" {
		t.Errorf("default fleet (-want +got):\n%s", diff)
	}
}

func TestNodesSayWhatIsSpecialAboutThem(t *testing.T) {
	node := parse(t, edited(t, "mode:", "faults: [isolation-off, idle], placement: spread, maxPodsPerCard: 4, mode:")).Nodes(12345)[0]
	if got := node.Annotations[rayhead.FaultsAnnotation]; got != "isolation-off,idle" {
		t.Errorf("faults %q", got)
	}
	if got := node.Labels["ack.node.gpu.placement"] + " " + node.Labels["ack.node.gpu.max-pod"]; got != "spread 4" {
		t.Errorf("placement and most pods %q", got)
	}
	if got := *node.Status.DaemonEndpoints.KubeletEndpoint.Port; got != 12345 {
		t.Errorf("kubelet's port %d", got)
	}
	if len(node.Spec.Taints) != 0 {
		t.Errorf("taints %v", node.Spec.Taints)
	}
}

func TestBounds(t *testing.T) {
	tests := map[string]struct {
		pace                      Pace
		wantShortest, wantLongest time.Duration
	}{
		"varies both ways":      {Pace{"3s", "1s"}, 2 * time.Second, 4 * time.Second},
		"never below zero":      {Pace{"1s", "3s"}, 0, 4 * time.Second},
		"no jitter":             {Pace{"1s", ""}, time.Second, time.Second},
		"neither":               {Pace{"0s", "0s"}, 0, 0},
		"an absent delay is 0s": {Pace{"", "1s"}, 0, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			shortest, longest, err := test.pace.Bounds()
			if err != nil || shortest != test.wantShortest || longest != test.wantLongest {
				t.Errorf("%v to %v, %v; want %v to %v", shortest, longest, err, test.wantShortest, test.wantLongest)
			}
		})
	}
}

func TestStages(t *testing.T) {
	paced := []string{
		"node-initialize", "node-heartbeat-with-lease", "pod-container-running-failed", "pod-create",
		"pod-init-container-running", "pod-init-container-completed", "pod-ready", "pod-complete", "pod-delete",
	}
	tests := map[string]struct {
		pace                  string
		wantStages            []string
		wantReady, wantDelete map[string]any // milliseconds; nil when at once
	}{
		"the default pace": {
			"", paced,
			map[string]any{"durationMilliseconds": int64(0), "jitterDurationMilliseconds": int64(4000)},
			map[string]any{"durationMilliseconds": int64(500), "jitterDurationMilliseconds": int64(1500)},
		},
		"a pace of one's own": {
			"podStart: {delay: 30s, jitter: 10s}\npodStop: {delay: 3s, jitter: 0s}", paced,
			map[string]any{"durationMilliseconds": int64(20000), "jitterDurationMilliseconds": int64(40000)},
			map[string]any{"durationMilliseconds": int64(3000), "jitterDurationMilliseconds": int64(3000)},
		},
		"at once, for benchmarks": {
			"podStart: {delay: 0s, jitter: 0s}\npodStop: {delay: 0s, jitter: 0s}",
			[]string{"node-initialize", "node-heartbeat-with-lease", "pod-container-running-failed", "pod-ready", "pod-complete", "pod-delete"},
			nil, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stages, err := parse(t, test.pace+smallest).Stages()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			delays := map[string]map[string]any{}
			for _, stage := range stages {
				names = append(names, stage.GetName())
				delays[stage.GetName()] = delay(stage)
			}
			if diff := cmp.Diff(test.wantStages, names); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wantReady, delays["pod-ready"]); diff != "" {
				t.Errorf("delay of pod-ready (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wantDelete, delays["pod-delete"]); diff != "" {
				t.Errorf("delay of pod-delete (-want +got):\n%s", diff)
			}
		})
	}
}

// delay is what the sandbox sets of a stage's delay, without the annotations by which a single pod can differ.
func delay(stage *unstructured.Unstructured) map[string]any {
	delay, _, _ := unstructured.NestedMap(stage.Object, "spec", "delay")
	if stage.GetName() == "pod-ready" {
		delete(delay, "jitterDurationFrom")
	}
	delete(delay, "durationFrom")
	return delay
}
