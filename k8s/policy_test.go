package k8s

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
)

func TestPolicies(t *testing.T) { // B130
	request := request(t, rayslice.Group{Name: "w", Slice: slice8, Workers: 2, MinWorkers: 2, MaxWorkers: 2, CPU: 4, MemoryGiB: 16})
	cases := map[string]any{
		"namespace":          NamespacePolicy("team-vision", "vision"),
		"cluster":            ClusterPolicy(request, "uid-1", "rayslice", "kuberay-system"),
		"portal-is-operator": ClusterPolicy(request, "uid-1", "rayslice", "rayslice"),
		"nobody-else":        ClusterPolicy(request, "uid-1", "", ""),
	}
	for name, policy := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(policy)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "policies", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}
