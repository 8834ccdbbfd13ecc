package k8s

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testCatalogue has a pool of every sharing mode.
func testCatalogue() rayslice.Catalogue {
	a10 := map[string]string{"aliyun.accelerator/nvidia_name": "NVIDIA-A10"}
	return rayslice.Catalogue{
		Pools: []rayslice.Pool{
			{Name: "a10", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, CardMiB: 23028, Sizes: []int{4, 8, 16, 22}, MaxCards: 1, NodeSelector: a10},
			{Name: "a10-multi", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, Sizes: []int{8}, MaxCards: 4, NodeSelector: a10},
			{Name: "a10-core", Model: "NVIDIA A10", Mode: rayslice.ModeCoreMem, CardGiB: 22, Sizes: []int{4, 8, 16}, MaxCards: 1, NodeSelector: a10},
			{Name: "a10-share", Model: "NVIDIA A10", Mode: rayslice.ModeShare, CardGiB: 22, Sizes: []int{8}, MaxCards: 1, NodeSelector: a10, AllowUnisolated: true},
			{Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, MaxCards: 8, NodeSelector: map[string]string{"aliyun.accelerator/nvidia_name": "NVIDIA-A100-SXM4-80GB"}},
		},
		Images: []rayslice.Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0", Python: "3.11"}},
		Limits: rayslice.DefaultLimits(),
	}
}

// slice8 is the seed document's slice.
var slice8 = rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}

// request returns an approved request with the groups, checked as the portal checks it.
func request(t testing.TB, groups ...rayslice.Group) rayslice.Request {
	t.Helper()
	draft := rayslice.RequestDraft{
		Team: "vision", Name: "cgpu-ray", Purpose: "the seed document", Hours: 8,
		Head: rayslice.Head{CPU: 2, MemoryGiB: 8}, Groups: groups,
	}
	draft.Normalize(testCatalogue())
	if err := draft.Validate(testCatalogue()); err != nil {
		t.Fatalf("draft: %v", err)
	}
	return requestOf(draft)
}

func requestOf(draft rayslice.RequestDraft) rayslice.Request {
	return rayslice.Request{
		ID: "abcdefghij23", Draft: draft, Team: draft.Team, Namespace: "team-" + draft.Team,
		Owner: rayslice.User{ID: 7, Name: "Li Wei", Email: "li.wei@example.com"}, State: rayslice.StateApproved, Charge: draft.Charge(),
	}
}

// group returns n workers with the slice.
func group(n int, slice rayslice.Slice) rayslice.Group {
	return rayslice.Group{Slice: slice, Workers: n, CPU: 4, MemoryGiB: 16}
}

// TestGolden compares what people see and what is applied with files that were read by a person and tried on a real API
// server.
func TestGolden(t *testing.T) {
	private := seedRequest(t)
	private.Draft.PullSecrets = []string{"registry"}
	private.Draft.Env = map[string]string{"HF_HOME": "/data/hf", "PROMPT": "pay $(PRICE) or $$5\nthen go", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
	spread := group(2, slice8)
	spread.Spread = true

	golden := map[string]rayslice.Request{
		"seed":       seedRequest(t), // the seed document's own cluster
		"private":    private,
		"core_mem":   request(t, group(2, rayslice.Slice{Pool: "a10-core", GiB: 8, CorePercent: 30, Cards: 1})),
		"whole_card": request(t, group(1, rayslice.Slice{Pool: "a100", Cards: 2})),
		"share":      request(t, group(1, rayslice.Slice{Pool: "a10-share", GiB: 8, Cards: 1})),
		"multi_card": request(t, group(1, rayslice.Slice{Pool: "a10-multi", GiB: 8, Cards: 2})),
		"mixed":      request(t, group(2, slice8), group(1, rayslice.Slice{Pool: "a100", Cards: 1}), group(1, rayslice.Slice{})),
		"autoscaled": autoscaledRequest(t),
		"spread":     request(t, spread),
	}
	for name, r := range golden {
		t.Run(name, func(t *testing.T) {
			got, err := RenderYAML(r, testCatalogue())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

// TestRenderRefusals covers what the store may hand over after the catalogue has changed, and what must never be
// rendered whoever asks.
func TestRenderRefusals(t *testing.T) {
	tests := map[string]struct {
		change    func(*rayslice.Request)
		wantField string
		wantCode  string
	}{
		"pool is gone":             {func(r *rayslice.Request) { r.Draft.Groups[0].Pool = "h100" }, "groups[0].pool", rayslice.CodePoolUnknown},
		"pool has whole cards now": {func(r *rayslice.Request) { r.Draft.Groups[0].Pool = "a100" }, "groups[0].slice_gib", rayslice.CodeWholeNoGiB},
		"pool is shared now":       {func(r *rayslice.Request) { r.Draft.Groups[0].GiB = 0 }, "groups[0].slice_gib", rayslice.CodeSizeNotOffered},
		"pool divides compute now": {func(r *rayslice.Request) { r.Draft.Groups[0].Pool = "a10-core" }, "groups[0].core_percent", rayslice.CodeCoreRequired},
		"compute on a memory pool": {func(r *rayslice.Request) { r.Draft.Groups[0].CorePercent = 30 }, "groups[0].core_percent", rayslice.CodeCoreNotHere},
		"no card":                  {func(r *rayslice.Request) { r.Draft.Groups[0].Cards = 0 }, "groups[0].per_pod", rayslice.CodeCardsRange},
		"compute over several cards": {func(r *rayslice.Request) {
			r.Draft.Groups[0].Slice = rayslice.Slice{Pool: "a10-core", GiB: 8, CorePercent: 30, Cards: 2}
		}, "groups[0].per_pod", rayslice.CodeCardsRange},
		"reserved variable":    {func(r *rayslice.Request) { r.Draft.Env = map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"} }, "env.NVIDIA_VISIBLE_DEVICES", rayslice.CodeReservedName},
		"id is no name":        {func(r *rayslice.Request) { r.ID = "A_b" }, "id", rayslice.CodeCharacters},
		"id is too long":       {func(r *rayslice.Request) { r.ID = strings.Repeat("a", 61) }, "id", rayslice.CodeCharacters},
		"namespace is no name": {func(r *rayslice.Request) { r.Namespace = "Team Vision" }, "namespace", rayslice.CodeCharacters},
		"no namespace":         {func(r *rayslice.Request) { r.Namespace = "" }, "namespace", rayslice.CodeCharacters},
		"team is no label":     {func(r *rayslice.Request) { r.Team = "a b" }, "team", rayslice.CodeCharacters},
		"group is no name":     {func(r *rayslice.Request) { r.Draft.Groups[0].Name = "$(id)" }, "groups[0].name", rayslice.CodeCharacters},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := seedRequest(t)
			test.change(&r)
			_, err := Render(r, testCatalogue())
			var refusal *rayslice.Error
			if !errors.As(err, &refusal) || refusal.Kind != rayslice.KindInvalid || len(refusal.Fields) != 1 {
				t.Fatalf("error = %v, want one bad field", err)
			}
			if f := refusal.Fields[0]; f.Field != test.wantField || f.Code != test.wantCode {
				t.Errorf("refused %s, want %s %s", f, test.wantField, test.wantCode)
			}
			if _, err := RenderYAML(r, testCatalogue()); err == nil {
				t.Error("RenderYAML took it")
			}
		})
	}
}

// TestNamesComeFromTheID covers B088: a display name can be used again while the first cluster still goes away.
func TestNamesComeFromTheID(t *testing.T) {
	first, second := seedRequest(t), seedRequest(t)
	second.ID = rayslice.NewRequestID()
	a, b := render(t, first), render(t, second)
	if a.Name == b.Name || a.Annotations[AnnotationName] != b.Annotations[AnnotationName] {
		t.Errorf("names %s and %s, display names %s and %s", a.Name, b.Name, a.Annotations[AnnotationName], b.Annotations[AnnotationName])
	}
}

// TestStartParamsGate: nothing but the listed keys and values passes to KubeRay's shell.
func TestStartParamsGate(t *testing.T) {
	for key, value := range map[string]string{
		"num-gpus": "1; id", "num-cpus": "$(id)", "dashboard-host": "0.0.0.0 --x", "resources": `'{"a'; id #":1}'`, "memory": "1", "x;id": "1", "num-gpus ": "1",
	} {
		for _, spec := range []rayv1.RayClusterSpec{
			{HeadGroupSpec: rayv1.HeadGroupSpec{RayStartParams: map[string]string{key: value}}},
			{WorkerGroupSpecs: []rayv1.WorkerGroupSpec{{RayStartParams: map[string]string{key: value}}}},
		} {
			if checkStartParams(spec) == nil {
				t.Errorf("%s=%q passed", key, value)
			}
		}
	}
	for _, fraction := range []string{"0.5", "1.0", "1e0"} { // B002
		spec := rayv1.RayClusterSpec{HeadGroupSpec: rayv1.HeadGroupSpec{RayStartParams: map[string]string{"num-gpus": fraction}}}
		if checkStartParams(spec) == nil {
			t.Errorf("num-gpus=%q passed", fraction)
		}
	}
}

// TestResourcesSurviveTheShell gives the Ray resources of a slice to a real shell, as KubeRay does, and to the two
// parsers that read them before.
func TestResourcesSurviveTheShell(t *testing.T) {
	param := startParams(slice8)["resources"]
	line := fmt.Sprintf("printf %%s  --resources=%s ", param) // KubeRay: " --%s=%s "
	seen, err := exec.Command("bash", "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"slice_gib":8}`
	if got := strings.TrimPrefix(string(seen), "--resources="); got != want {
		t.Errorf("ray start sees %s, want %s", got, want)
	}
	if got := strings.Trim(param, "'\"` "); got != want { // KubeRay's getResourcesMap
		t.Errorf("KubeRay parses %s, want %s", got, want)
	}
	if got := strings.ReplaceAll(param[1:len(param)-1], `\`, ""); got != want { // Ray's _get_custom_resources
		t.Errorf("the autoscaler parses %s, want %s", got, want)
	}
}

// TestExamples: the files that people start from are good requests.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../docs/examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples = %v, %v; want two or more", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			body, err := yaml.YAMLToJSONStrict(raw)
			if err != nil {
				t.Fatal(err)
			}
			draft, err := rayslice.DecodeDraft(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			draft.Normalize(testCatalogue())
			if err := draft.Validate(testCatalogue()); err != nil {
				t.Fatal(err)
			}
			if _, err := RenderYAML(requestOf(draft), testCatalogue()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
