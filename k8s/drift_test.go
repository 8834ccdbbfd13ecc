package k8s

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rayslice/rayslice"
)

// live reads a RayCluster as an API server 1.34 answered it, managed fields included. live_edited.json is seed.yaml
// after kubectl edits of spec, labels and annotations; live_autoscaled.json is autoscaled.yaml with KubeRay 1.5.0
// running and with the patches of Ray's autoscaler.
func live(t testing.TB, file string) *rayv1.RayCluster {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var cluster rayv1.RayCluster
	if err := json.Unmarshal(raw, &cluster); err != nil {
		t.Fatal(err)
	}
	return &cluster
}

func render(t rapid.TB, r rayslice.Request) *rayv1.RayCluster {
	t.Helper()
	cluster, err := Render(r, testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func seedRequest(t testing.TB) rayslice.Request {
	return request(t, rayslice.Group{Name: "cgpu-worker", Slice: slice8, Workers: 1, CPU: 4, MemoryGiB: 16})
}

func autoscaledRequest(t testing.TB) rayslice.Request {
	g := group(2, slice8)
	g.MinWorkers, g.MaxWorkers = 0, 4
	return request(t, g)
}

// TestDriftNamesEveryEdit covers T15 and B092: a hand edit is shown with what was approved, what stands and who did it.
// Other people's annotations are theirs.
func TestDriftNamesEveryEdit(t *testing.T) {
	worker := "spec.workerGroupSpecs[0]"
	want := []rayslice.Drift{
		{Field: "metadata.labels[rayslice.io/team]", Approved: "vision"},
		{Field: "metadata.annotations[ray.io/overwrite-container-cmd]", Observed: "true", Manager: "kubectl-patch"},
		{Field: "spec.headGroupSpec.template.spec.containers[0].image", Approved: "rayproject/ray:2.52.0-py311", Observed: "elsewhere/ray:1", Manager: "kubectl-patch"},
		{Field: "spec.headGroupSpec.template.spec.containers[1]", Observed: `{"image":"elsewhere/sidecar:1","name":"sidecar","resources":{}}`, Manager: "kubectl-patch"},
		{Field: worker + ".maxReplicas", Approved: "1", Observed: "4", Manager: "kubectl-edit"},
		{Field: worker + ".template.spec.containers[0].resources.limits[aliyun.com/gpu-mem]", Approved: "8", Observed: "16", Manager: "kubectl-edit"},
		{Field: worker + ".template.spec.containers[0].resources.requests[aliyun.com/gpu-mem]", Approved: "8", Observed: "16", Manager: "kubectl-edit"},
	}
	env := rayslice.Drift{Field: "spec.headGroupSpec.template.spec.containers[0].env[0]", Observed: `{"name":"CGPU_DISABLE","value":"true"}`, Manager: "kubectl-patch"}
	want = append(want[:2], append([]rayslice.Drift{env}, want[2:]...)...)
	got := Drift(render(t, seedRequest(t)), live(t, "live_edited.json"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
}

// TestDriftLeavesTheAutoscalerAlone covers T11: what the autoscaler may do is no drift, and a re-apply keeps it.
func TestDriftLeavesTheAutoscalerAlone(t *testing.T) {
	desired, stands := render(t, autoscaledRequest(t)), live(t, "live_autoscaled.json")
	if got := Drift(desired, stands); len(got) > 0 {
		t.Errorf("drift = %v, want none", got)
	}
	group := WithReplicas(desired, stands).Spec.WorkerGroupSpecs[0]
	if *group.Replicas != 3 || len(group.ScaleStrategy.WorkersToDelete) != 1 {
		t.Errorf("re-apply has %d replicas and %v to delete, want the autoscaler's 3 and 1", *group.Replicas, group.ScaleStrategy.WorkersToDelete)
	}
	if *desired.Spec.WorkerGroupSpecs[0].Replicas != 2 {
		t.Error("WithReplicas changed its argument")
	}

	*stands.Spec.WorkerGroupSpecs[0].Replicas = 9
	want := []rayslice.Drift{{Field: "spec.workerGroupSpecs[0].replicas", Approved: "4", Observed: "9", Manager: "autoscaler"}}
	if diff := cmp.Diff(want, Drift(desired, stands)); diff != "" {
		t.Errorf("more workers than approved (-want +got):\n%s", diff)
	}
}

// TestManifestKeepsAnEmptyListOfWorkersToDelete: the autoscaler leaves one behind, and the API server answers an apply
// without it with a conflict.
func TestManifestKeepsAnEmptyListOfWorkersToDelete(t *testing.T) {
	stands := live(t, "live_autoscaled.json")
	stands.Spec.WorkerGroupSpecs[0].ScaleStrategy.WorkersToDelete = []string{}
	manifest, err := Manifest(WithReplicas(render(t, autoscaledRequest(t)), stands))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manifest), `"scaleStrategy":{"workersToDelete":[]}`) {
		t.Errorf("manifest lacks the empty list: %s", manifest)
	}
	for _, noise := range []string{"status", "creationTimestamp", "null"} {
		if strings.Contains(string(manifest), noise) {
			t.Errorf("manifest contains %s: %s", noise, manifest)
		}
	}
}

// TestFixedGroupsDoNotScale: replicas of a group that does not scale are ours, whoever changed them.
func TestFixedGroupsDoNotScale(t *testing.T) {
	desired := render(t, seedRequest(t))
	stands := desired.DeepCopy()
	*stands.Spec.WorkerGroupSpecs[0].Replicas = 2
	want := []rayslice.Drift{{Field: "spec.workerGroupSpecs[0].replicas", Approved: "1", Observed: "2"}}
	if diff := cmp.Diff(want, Drift(desired, stands)); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	if got := *WithReplicas(desired, stands).Spec.WorkerGroupSpecs[0].Replicas; got != 1 {
		t.Errorf("re-apply has %d replicas, want 1", got)
	}
}

func TestDriftOfGroups(t *testing.T) {
	desired := render(t, request(t, group(1, slice8), group(1, rayslice.Slice{})))
	tests := map[string]struct {
		edit       func(*rayv1.RayClusterSpec)
		wantFields []string
	}{
		"the order of groups means nothing": {
			edit: func(s *rayv1.RayClusterSpec) {
				s.WorkerGroupSpecs[0], s.WorkerGroupSpecs[1] = s.WorkerGroupSpecs[1], s.WorkerGroupSpecs[0]
			},
		},
		"a group is missing": {
			edit:       func(s *rayv1.RayClusterSpec) { s.WorkerGroupSpecs = s.WorkerGroupSpecs[:1] },
			wantFields: []string{"spec.workerGroupSpecs[1]"},
		},
		"a second group of the same name": {
			edit: func(s *rayv1.RayClusterSpec) {
				s.WorkerGroupSpecs = append(s.WorkerGroupSpecs, *s.WorkerGroupSpecs[0].DeepCopy())
			},
			wantFields: []string{"spec.workerGroupSpecs[2]"},
		},
		"suspended by hand": {
			edit:       func(s *rayv1.RayClusterSpec) { s.Suspend = new(true) },
			wantFields: []string{"spec.suspend"},
		},
		"a toleration more": {
			edit: func(s *rayv1.RayClusterSpec) {
				pod := &s.WorkerGroupSpecs[0].Template.Spec
				pod.Tolerations = append(pod.Tolerations, pod.Tolerations[0])
			},
			wantFields: []string{"spec.workerGroupSpecs[0].template.spec.tolerations[2]"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stands := desired.DeepCopy()
			test.edit(&stands.Spec)
			var fields []string
			for _, d := range Drift(desired, stands) {
				fields = append(fields, d.Field)
			}
			if diff := cmp.Diff(test.wantFields, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
	if got := Drift(desired, nil); got != nil {
		t.Errorf("drift of nothing = %v", got)
	}
}

// TestDriftSeesAnyChange: any cluster as the API server returns it has no drift, and one changed value is found where
// it stands.
func TestDriftSeesAnyChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := render(t, anyRequest(t))
		stands := asStored(t, desired)
		if got := Drift(desired, stands); len(got) > 0 {
			t.Fatalf("drift against itself: %v", got)
		}
		object, err := objectOf(stands)
		if err != nil {
			t.Fatal(err)
		}
		places := leaves(object["spec"], "spec")
		place := places[rapid.IntRange(0, len(places)-1).Draw(t, "place")]
		place.change()
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		changed := &rayv1.RayCluster{}
		if err := json.Unmarshal(raw, changed); err != nil {
			t.Fatal(err)
		}
		got := Drift(desired, changed)
		if len(got) == 0 || !strings.HasPrefix(got[0].Field, "spec") {
			t.Fatalf("changed %s: drift = %v", place.path, got)
		}
	})
}

// leaf is one value of an object and how to change it.
type leaf struct {
	path   string
	change func()
}

// leaves returns every text, flag and number of an object. Quantities have rules of their own, and replicas may be the
// autoscaler's.
func leaves(v any, path string) []leaf {
	var all []leaf
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key == "resources" && !strings.HasSuffix(path, "rayStartParams") || key == "replicas" {
				continue
			}
			at := path + "." + key
			switch old := v[key].(type) {
			case string:
				all = append(all, leaf{at, func() { v[key] = old + "x" }})
			case bool:
				all = append(all, leaf{at, func() { v[key] = !old }})
			case int64:
				all = append(all, leaf{at, func() { v[key] = old + 1000 }})
			default:
				all = append(all, leaves(old, at)...)
			}
		}
	case []any:
		for i, item := range v {
			all = append(all, leaves(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return all
}

// asStored returns what the API server gives back for a manifest.
func asStored(t rapid.TB, cluster *rayv1.RayCluster) *rayv1.RayCluster {
	t.Helper()
	manifest, err := Manifest(cluster)
	if err != nil {
		t.Fatal(err)
	}
	stored := &rayv1.RayCluster{}
	if err := json.Unmarshal(manifest, stored); err != nil {
		t.Fatal(err)
	}
	stored.UID, stored.Generation = "7f3c", 3
	stored.CreationTimestamp = metav1.Unix(1764547200, 0)
	stored.Finalizers = []string{"ray.io/gcs-ft-redis-cleanup-finalizer"}
	stored.Status.ObservedGeneration = 3
	return stored
}
