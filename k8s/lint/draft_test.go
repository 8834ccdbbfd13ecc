package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/lint"
)

func TestASoundClusterBecomesARequest(t *testing.T) {
	got := lint.Check([]byte(sound), catalogue())
	want := &rayslice.RequestDraft{
		Name: "ablation", Hours: 8, Image: "rayproject/ray:2.52.0-py311", Head: rayslice.Head{CPU: 2, MemoryGiB: 8},
		Env: map[string]string{"HF_HOME": "/tmp/hf"},
		Groups: []rayslice.Group{{
			Name: "slices", Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, MinWorkers: 2, MaxWorkers: 2, CPU: 4, MemoryGiB: 16,
		}},
	}
	if diff := cmp.Diff(want, got.Draft); diff != "" {
		t.Errorf("the request differs (-want +got):\n%s", diff)
	}
	if len(got.LeftOut) > 0 {
		t.Errorf("left out: %v", got.LeftOut)
	}
	got.Draft.Team = "vision"
	got.Draft.Normalize(catalogue())
	if err := got.Draft.Validate(catalogue()); err != nil {
		t.Errorf("the request would be refused: %v", err)
	}
}

func TestDrafts(t *testing.T) {
	first := func(change func(*rayslice.Group)) func(*rayslice.RequestDraft) {
		return func(d *rayslice.RequestDraft) { change(&d.Groups[0]) }
	}
	for name, tc := range map[string]struct {
		parts  []string
		change func(*rayslice.RequestDraft)
		left   []string
	}{
		"autoscaled": {[]string{"  rayVersion", "  enableInTreeAutoscaling: true\n  rayVersion"}, first(func(g *rayslice.Group) { g.MinWorkers, g.MaxWorkers = 1, 4 }), nil},
		"two cards": {[]string{"team: vision", `aliyun.com/gpu-count: "2"`, `num-gpus: "1"`, `num-gpus: "2"`},
			first(func(g *rayslice.Group) { g.GiB, g.Cards = 4, 2 }), nil},
		"compute": {[]string{limit, "                  aliyun.com/gpu-core.percentage: 50\n" + limit},
			first(func(g *rayslice.Group) { g.Pool, g.CorePercent = "a10-core", 50 }), nil},
		"whole cards": {[]string{limit, "                  nvidia.com/gpu: 2\n                requests:", lastLine, "                  cpu: 4\n"},
			first(func(g *rayslice.Group) { g.Slice = rayslice.Slice{Pool: "a100", Cards: 2} }), nil},
		"no GPU":             {[]string{limit, "                requests:", lastLine, ""}, first(func(g *rayslice.Group) { g.Slice = rayslice.Slice{} }), nil},
		"a size with a unit": {[]string{limit, strings.Replace(limit, `"8"`, "4Gi", 1)}, first(func(g *rayslice.Group) { g.GiB = 4 }), nil},
		"a pool by its nodes": {[]string{podLine, strings.Replace(podLine, "spec:\n", "spec:\n          nodeSelector: {aliyun.accelerator/nvidia_name: NVIDIA-A10}\n", 1)},
			func(*rayslice.RequestDraft) {}, nil},
		"another image": {[]string{"rayproject/ray:2.52.0-py311\n            env", "lab/ray:2.50.1\n            env", "rayVersion: 2.52.0", "rayVersion: 2.50.1"},
			func(d *rayslice.RequestDraft) { d.Image, d.RayVersion = "lab/ray:2.50.1", "2.50.1" },
			[]string{"spec.workerGroupSpecs[0].template.spec.containers[0].image"}},
		"odd name": {[]string{"groupName: slices", "groupName: Slices_of_a_card"}, first(func(g *rayslice.Group) { g.Name = "" }), nil},
		"volumes, sidecars, secrets": {[]string{
			podLine, strings.Replace(podLine, "spec:\n", "spec:\n          volumes: [{name: v, emptyDir: {}}]\n          imagePullSecrets: [{name: lab}]\n", 1),
			lastLine, lastLine + "            - name: logs\n              image: fluent\n",
			ownEnv, ownEnv + "                - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}\n"},
			func(d *rayslice.RequestDraft) { d.PullSecrets = []string{"lab"} },
			[]string{"spec.workerGroupSpecs[0].template.spec.containers[0].env[1]", "spec.workerGroupSpecs[0].template.spec.containers[1]", "spec.workerGroupSpecs[0].template.spec.volumes"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := lint.Check([]byte(sound), catalogue()).Draft
			tc.change(want)
			got := lint.Check([]byte(change(t, tc.parts...)), catalogue())
			if diff := cmp.Diff(want, got.Draft); diff != "" {
				t.Errorf("the request differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, got.LeftOut); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobsAndServicesHaveClustersToo(t *testing.T) {
	body := strings.SplitAfter(sound, "spec:\n")
	cluster := strings.ReplaceAll(strings.Join(body[1:], ""), "\n", "\n  ")
	for kind, field := range map[string]string{"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"} {
		text := "apiVersion: ray.io/v1\nkind: " + kind + "\nmetadata: {name: one}\nspec:\n  " + field + ":\n  " + strings.TrimRight(cluster, " ")
		got := lint.Check([]byte(text), catalogue())
		if len(got.Findings) > 0 || got.Draft == nil || got.Draft.Name != "one" || got.Draft.Groups[0].GiB != 8 {
			t.Errorf("%s: %+v\n%s", kind, got, text)
		}
		got = lint.Check([]byte(strings.Replace(text, "num-gpus: \"1\"", "num-gpus: \"0\"", 1)), catalogue())
		if len(got.Findings) != 1 || got.Findings[0].Path != "spec."+field+".workerGroupSpecs[0].rayStartParams.num-gpus" {
			t.Errorf("%s: %+v", kind, got.Findings)
		}
	}
	onAnother := "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: one}\nspec: {clusterSelector: {ray.io/cluster: other}}\n"
	if got := lint.Check([]byte(onAnother), catalogue()); len(got.Findings) > 0 || got.Draft != nil {
		t.Errorf("a job on a cluster that exists: %+v", got)
	}
}

// TestFixAll mends everything that can be mended at once, also what only comes to light on the way.
func TestFixAll(t *testing.T) {
	text := change(t, numGPUs, "      rayStartParams: {}\n", `num-gpus: "0", `, "", headEnv, "", "memory: 8Gi", "memory: 1Gi",
		limit, strings.Replace(limit, `"8"`, "10G", 1), podLine, strings.Replace(podLine, "spec:\n", "spec:\n          hostNetwork: true\n          hostIPC: true\n", 1),
		ownEnv, "                - {name: LD_PRELOAD, value: x}\n"+ownEnv+"                - {name: CUDA_VISIBLE_DEVICES, value: x}\n                - {name: CGPU_DISABLE, value: x}\n")
	before := lint.Check([]byte(text), catalogue()).Findings
	fixed, n := lint.FixAll(t.Context(), []byte(text), catalogue())
	if left := lint.Check(fixed, catalogue()).Findings; len(left) > 0 || n < len(before) || len(before) < 9 {
		t.Errorf("%d findings, %d mended, left %+v\n%s", len(before), n, left, fixed)
	}
	again, n := lint.FixAll(t.Context(), fixed, catalogue())
	if n != 0 || string(again) != string(fixed) {
		t.Errorf("mended %d more", n)
	}
}

// TestSharedPartsAreNotFixed: what an alias stands for is in other places too.
func TestSharedPartsAreNotFixed(t *testing.T) {
	text := strings.Replace(sound, `{num-gpus: "0", num-cpus: "0"}`, `&p {num-gpus: "0", num-cpus: "0"}`, 1)
	for name, params := range map[string]string{"alias": "      rayStartParams: *p\n", "merge key": "      rayStartParams: {<<: *p}\n"} {
		text := strings.Replace(text, numGPUs, params, 1)
		got := lint.Check([]byte(text), catalogue()).Findings
		if len(got) != 1 || got[0].Code != rayslice.FindingNumGPUsZero || len(got[0].Fix) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if fixed, n := lint.FixAll(t.Context(), []byte(text), catalogue()); n > 0 || string(fixed) != text {
			t.Errorf("%s: mended\n%s", name, fixed)
		}
	}
}
