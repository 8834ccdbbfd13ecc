package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

func TestDefaultCatalogue(t *testing.T) {
	catalogue, err := loadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	want := []rayslice.Pool{
		cardPool("a10", rayslice.ModeCGPU, "cgpu", "NVIDIA-A10"),
		{
			Name: "t4", Model: "NVIDIA T4", Mode: rayslice.ModeCGPU, CardGiB: 15, CardMiB: 15360, Sizes: []int{2, 4, 8, 15}, MaxCards: 1,
			NodeSelector: map[string]string{"ack.node.gpu.schedule": "cgpu", "aliyun.accelerator/nvidia_name": "Tesla-T4"},
		},
		cardPool("a10-core", rayslice.ModeCoreMem, "core_mem", "NVIDIA-A10"),
		cardPool("a10-share", rayslice.ModeShare, "share", "NVIDIA-A10"),
		{
			Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, CardMiB: 81920, MaxCards: 8,
			NodeSelector: map[string]string{"ack.node.gpu.schedule": "default", "aliyun.accelerator/nvidia_name": "NVIDIA-A100-SXM4-80GB"},
		},
	}
	if diff := cmp.Diff(want, catalogue.Pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if share, _ := catalogue.Pool("a10-share"); share.Offered() {
		t.Error("the pool that enforces nothing is offered")
	}
	if diff := cmp.Diff(rayslice.DefaultLimits(), catalogue.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func cardPool(name string, mode rayslice.Mode, label, model string) rayslice.Pool {
	return rayslice.Pool{
		Name: name, Model: "NVIDIA A10", Mode: mode, CardGiB: 22, CardMiB: 23028, Sizes: []int{2, 4, 8, 16, 22}, MaxCards: 1,
		NodeSelector: map[string]string{"ack.node.gpu.schedule": label, "aliyun.accelerator/nvidia_name": model},
	}
}

// TestDefaultCatalogueTakesADraft asks for what the README asks for.
func TestDefaultCatalogueTakesADraft(t *testing.T) {
	catalogue, err := loadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	draft, err := rayslice.DecodeDraft(strings.NewReader(`{"team":"vision","name":"ablation-7","pool":"a10","slice_gib":8,"workers":2}`))
	if err != nil {
		t.Fatal(err)
	}
	draft.Normalize(catalogue)
	if err := draft.Validate(catalogue); err != nil {
		t.Error(err)
	}
	if got, want := draft.Charge(), (rayslice.Charge{GiB: 16}); got != want {
		t.Errorf("charge %+v, want %+v", got, want)
	}
}

// TestDeployedFiles reads the examples that an operator starts from.
func TestDeployedFiles(t *testing.T) {
	if _, err := loadCatalogue("../../deploy/catalogue.yaml"); err != nil {
		t.Error(err)
	}
	if _, err := loadRoster("../../deploy/teams.yaml"); err != nil {
		t.Error(err)
	}
	if _, err := (Config{OIDCIssuer: "https://id.example", OIDCGroups: "../../deploy/groups.yaml"}).oidc(); err != nil {
		t.Error(err)
	}
}

// smallest is a catalogue with nothing that could be left out.
const smallest = `
pools: [{name: a10, mode: cgpu, card_gib: 22, sizes: [8], node_selector: {gpu: a10}}]
images: [{ref: "ray:1", ray_version: 2.52.0}]
`

func TestCatalogueFillsIn(t *testing.T) {
	catalogue, err := loadCatalogue(write(t, smallest+"limits: {max_hours: 24}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := catalogue.Pools[0].MaxCards; got != 1 {
		t.Errorf("max_cards %d, want 1", got)
	}
	want := rayslice.DefaultLimits()
	want.MaxHours = 24
	if diff := cmp.Diff(want, catalogue.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestCatalogueRefusals changes one thing in the smallest catalogue and expects the field by name.
func TestCatalogueRefusals(t *testing.T) {
	tests := map[string]struct{ from, to, want string }{
		"a field that does not exist":       {"card_gib", "crad_gib", `unknown field "pools[0].crad_gib"`},
		"a field in the wrong case":         {"card_gib", "Card_GiB", `unknown field "pools[0].Card_GiB"`},
		"a field that stands twice":         {"mode: cgpu", "mode: cgpu, mode: share", `key "mode" already set`},
		"text for a number":                 {"card_gib: 22", "card_gib: 22G", "pools.card_gib: must be a whole number, is string"},
		"a number that is not whole":        {"card_gib: 22", "card_gib: 22.5", "pools.card_gib: must be a whole number"},
		"a list for a map":                  {"{gpu: a10}", "[gpu]", "pools.node_selector: must be a map, is array"},
		"not YAML":                          {"pools: [", "pools: [[", "yaml: line"},
		"a name that is no DNS label":       {"name: a10", "name: A10", "pools[0].name"},
		"an unknown mode":                   {"mode: cgpu", "mode: mps", `pools[0].mode: "mps" is none of`},
		"a size larger than the card":       {"sizes: [8]", "sizes: [8, 24]", "pools[0].sizes: 24 does not fit a card of 22 GiB"},
		"sizes that do not ascend":          {"sizes: [8]", "sizes: [8, 4]", "pools[0].sizes: must ascend"},
		"a size twice":                      {"sizes: [8]", "sizes: [8, 8]", "pools[0].sizes: must ascend"},
		"no sizes":                          {"sizes: [8]", "sizes: []", "pools[0].sizes: needs at least one"},
		"sizes on whole cards":              {"mode: cgpu", "mode: whole", "pools[0].sizes: whole cards have none"},
		"negative cards":                    {"sizes: [8]", "sizes: [8], max_cards: -1", "pools[0].max_cards: must be at least 1"},
		"more GiB than MiB":                 {"sizes: [8]", "sizes: [8], card_mib: 2048", "pools[0].card_mib"},
		"no node selector":                  {"{gpu: a10}", "{}", "pools[0].node_selector"},
		"a pool twice":                      {"pools: [", "pools: [{name: a10, mode: cgpu, card_gib: 22, sizes: [8], node_selector: {gpu: b}}, ", `pools[1].name: "a10" stands twice`},
		"no pools":                          {"pools: [{name: a10, mode: cgpu, card_gib: 22, sizes: [8], node_selector: {gpu: a10}}]", "", "pools: needs at least one"},
		"no images":                         {`images: [{ref: "ray:1", ray_version: 2.52.0}]`, "", "images: needs at least one"},
		"an image without a reference":      {`ref: "ray:1"`, `ref: ""`, "images[0].ref"},
		"a Ray version that is a number":    {"2.52.0", "2.52", "images.ray_version: must be text"},
		"a Ray version that is a word":      {"2.52.0", "latest", `images[0].ray_version: "latest" is not like 2.52.0`},
		"a prefix that allows every image":  {"images:", "image_prefixes: [\"\"]\nimages:", "image_prefixes: an empty one"},
		"a limit of 0":                      {"images:", "limits: {max_workers: 0}\nimages:", "limits.max_workers: must be at least 1, is 0"},
		"less memory than the head's floor": {"images:", "limits: {max_memory_gib: 2}\nimages:", "limits.max_memory_gib: 2 is less than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(smallest, test.from) {
				t.Fatalf("the smallest catalogue has no %q", test.from)
			}
			path := write(t, strings.Replace(smallest, test.from, test.to, 1))
			_, err := loadCatalogue(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("error %v, want one that begins with the file and has %q", err, test.want)
			}
		})
	}
}

func TestCatalogueOfNowhere(t *testing.T) {
	if _, err := loadCatalogue("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("error %v, want the file's name", err)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
