package k8s

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			{Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, MaxCards: 8, NodeSelector: map[string]string{"aliyun.accelerator/nvidia_name": "NVIDIA-A100"}},
		},
		Images: []rayslice.Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0", Python: "3.11"}},
		Limits: rayslice.DefaultLimits(),
	}
}

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
	slice8 := rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}
	seed := request(t, rayslice.Group{Name: "cgpu-worker", Slice: slice8, Workers: 1, CPU: 4, MemoryGiB: 16})
	private := seed
	private.Draft.PullSecrets = []string{"registry"}
	private.Draft.Env = map[string]string{"HF_HOME": "/data/hf", "PROMPT": "pay $(PRICE) or $$5\nthen go", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
	autoscaled, spread := group(2, slice8), group(2, slice8)
	autoscaled.MinWorkers, autoscaled.MaxWorkers = 0, 4
	spread.Spread = true

	golden := map[string]rayslice.Request{
		"seed":       seed, // the seed document's own cluster
		"private":    private,
		"core_mem":   request(t, group(2, rayslice.Slice{Pool: "a10-core", GiB: 8, CorePercent: 30, Cards: 1})),
		"whole_card": request(t, group(1, rayslice.Slice{Pool: "a100", Cards: 2})),
		"multi_card": request(t, group(1, rayslice.Slice{Pool: "a10-multi", GiB: 8, Cards: 2})),
		"mixed":      request(t, group(2, slice8), group(1, rayslice.Slice{Pool: "a100", Cards: 1}), group(1, rayslice.Slice{})),
		"autoscaled": request(t, autoscaled),
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
