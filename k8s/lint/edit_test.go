package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice/k8s/lint"
)

// surroundings are what stands around a cluster in people's files, and what a fix has no business with.
const (
	before = "\n---\n\n# only a comment\n---\nnull\n---\n\"text\"\n---\n" + `apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  a: >
    folded text

      more indented

    end

  b: |+
    keep


  c: |2-
      two
    x
  d: "\x01\e[31m tab\t ` + "\u202e" + `\u202e"
  e: 'it''s'   
  f: 0o14
  g: 0777
  h: yes
  i: 1_000
  j: |
    a	tab
    	before
  k: ~
  "quoted key" :   spaced
...
---
`
	after = "---\n---\n{a: 1,   b: [x ,y]}\n...\n# the end\n\n"
)

// mendable are files as people write them, each with what the fixes make of a part of it: "-" is cut out, "+" put in.
func mendable() map[string][2]string {
	const head = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec:\n  rayVersion: 2.52.0\n  headGroupSpec:\n    rayStartParams: {num-gpus: \"0\"}\n" +
		"    template: {spec: {containers: [{name: h, image: \"rayproject/ray:2.52.0\", env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], resources: {limits: {memory: 8Gi}}}]}}\n"
	workers := func(params, pod string) string {
		return head + "  workerGroupSpecs:\n  - groupName: w\n" + params + "    template:\n      spec:\n" + pod
	}
	const told = "    rayStartParams:\n      num-gpus: \"1\"\n"
	const containers = "        containers:\n        - name: w\n          image: rayproject/ray:2.52.0\n"
	const slice = "          resources: {limits: {aliyun.com/gpu-mem: \"8\"}}\n"
	pair := func(params, pod, fixedParams, fixedPod string) [2]string {
		return [2]string{workers(params, pod), workers(fixedParams, fixedPod)}
	}
	inPod := func(pod, fixed string) [2]string { return pair(told, pod, told, fixed) }
	params := func(from, to string) [2]string { return pair(from, containers+slice, to, containers+slice) }
	return map[string][2]string{
		"empty map":            params("    rayStartParams: {}\n", "    rayStartParams: {num-gpus: \"1\"}\n"),
		"null":                 params("    rayStartParams:   # mine\n", "    rayStartParams: {num-gpus: \"1\"}   # mine\n"),
		"written null":         params("    rayStartParams: ~ # mine\n", "    rayStartParams: {num-gpus: \"1\"} # mine\n"),
		"none":                 {workers("", containers+slice), workers("", containers+slice) + "    rayStartParams:\n      num-gpus: \"1\"\n"},
		"a member behind":      params("    rayStartParams:\n      num-cpus: '4'   # four\n\n    # of the pod\n", "    rayStartParams:\n      num-cpus: '4'   # four\n      num-gpus: \"1\"\n\n    # of the pod\n"),
		"flow":                 params("    rayStartParams: {num-cpus: '4'} # four\n", "    rayStartParams: {num-cpus: '4', num-gpus: \"1\"} # four\n"),
		"flow over lines":      params("    rayStartParams: {\n      num-cpus: '4' # four\n    }\n", "    rayStartParams: {\n      num-cpus: '4',\n      num-gpus: \"1\" # four\n    }\n"),
		"a number":             params("    rayStartParams: {num-gpus: 1 , num-cpus: \"4\"}\n", "    rayStartParams: {num-gpus: \"1\" , num-cpus: \"4\"}\n"),
		"double quotes":        params("    rayStartParams: {num-gpus: \"0\"}\n", "    rayStartParams: {num-gpus: \"1\"}\n"),
		"single quotes":        params("    rayStartParams:\n      num-gpus: '0'  # why\n", "    rayStartParams:\n      num-gpus: '1'  # why\n"),
		"first of an item":     inPod("        containers:\n        - workers: 1\n          name: w\n          image: rayproject/ray:2.52.0\n"+slice, containers+slice),
		"whole lines":          inPod("        hostNetwork: true # why\n        # of the containers\n\n"+containers+slice, "        # of the containers\n\n"+containers+slice),
		"the last":             inPod(containers+slice+"        hostNetwork: true\n", containers+slice),
		"two at once":          inPod(containers+slice+"        hostNetwork: true\n        hostPID: true\n\n# end\n", containers+slice+"\n# end\n"),
		"the only one":         inPod(containers+"          securityContext: # why\n            privileged: true\n"+slice, containers+"          securityContext: {} # why\n"+slice),
		"the only item":        inPod(containers+"          env:\n          - name: CUDA_VISIBLE_DEVICES\n            value: \"3\"\n"+slice, containers+"          env: []\n"+slice),
		"the first item":       inPod(containers+"          env:\n          - name: CUDA_VISIBLE_DEVICES\n            value: |\n              # three\n\n              3\n          - {name: A, value: b}\n"+slice, containers+"          env:\n          - {name: A, value: b}\n"+slice),
		"the last item":        inPod(containers+"          env:\n            - {name: A, value: b}\n            -   name: CUDA_VISIBLE_DEVICES\n                value: \"3\"\n"+slice, containers+"          env:\n            - {name: A, value: b}\n"+slice),
		"flow, the first":      inPod(containers+"          env: [{name: LD_PRELOAD, value: x}, {name: A, value: \"it's, ]\"}]\n"+slice, containers+"          env: [{name: A, value: \"it's, ]\"}]\n"+slice),
		"flow, the last":       inPod(containers+"          env: [{name: A, value: b} , {name: LD_PRELOAD, value: x} ]\n"+slice, containers+"          env: [{name: A, value: b} ]\n"+slice),
		"flow, the only":       inPod(containers+"          securityContext: {privileged: true}\n"+slice, containers+"          securityContext: {}\n"+slice),
		"a switch":             inPod(containers+"          env:\n          - name: CGPU_DISABLE\n            valueFrom: {fieldRef: {fieldPath: x}}\n"+slice, containers+"          env:\n          - name: CGPU_DISABLE\n            value: \"false\"\n"+slice),
		"behind a folded text": inPod(containers+slice+"          command:\n          - >\n            a\n              b\n            c\n          privileged: true\n", containers+slice+"          command:\n          - >\n            a\n              b\n            c\n"),
		"JSON": {`{"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{"rayVersion":"2.52.0","headGroupSpec":{"serviceType":"NodePort","template":{"spec":{"containers":[` + "\n" + `{"name":"h","image":"rayproject/ray:2.52.0"}]}}}}}` + "\n",
			`{"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{"rayVersion":"2.52.0","headGroupSpec":{"serviceType":"ClusterIP","template":{"spec":{"containers":[` + "\n" + `{"name":"h","image":"rayproject/ray:2.52.0", "resources": {"limits": {"memory": "4Gi"}}}]}}}}}` + "\n"},
	}
}

// TestFixesChangeNothingElse holds a mended file against the one it must become, byte for byte, with whatever stands around the
// cluster, with every kind of line end, and again.
func TestFixesChangeNothingElse(t *testing.T) {
	for name, tc := range mendable() {
		for around, wrap := range map[string]func(string) string{
			"alone":            func(text string) string { return text },
			"no last line end": func(text string) string { return strings.TrimSuffix(text, "\n") },
			"CRLF":             func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
			"CR":               func(text string) string { return strings.ReplaceAll(text, "\n", "\r") },
			"BOM":              func(text string) string { return "\ufeff" + text },
			"documents":        func(text string) string { return before + text + after },
			"trailing spaces":  func(text string) string { return strings.ReplaceAll(text, "spec:\n", "spec:  \n") },
		} {
			if name == "the last" || name == "behind a folded text" || name == "two at once" || name == "the last item" {
				if around == "no last line end" { // the line before keeps its own
					continue
				}
			}
			t.Run(name+", "+around, func(t *testing.T) {
				text, want := wrap(tc[0]), wrap(tc[1])
				got, n := lint.FixAll(t.Context(), []byte(text), catalogue())
				if diff := cmp.Diff(want, string(got)); diff != "" || n == 0 {
					t.Errorf("mended %d (-want +got):\n%s\nleft %+v", n, diff, lint.Check(got, catalogue()).Findings)
				}
				if again, n := lint.FixAll(t.Context(), got, catalogue()); n != 0 || string(again) != string(got) {
					t.Errorf("mended %d more", n)
				}
			})
		}
	}
}

// TestUnusualPlacesStayAsTheyAre: what cannot be mended by itself leaves the rest be, and is not touched.
func TestUnusualPlacesStayAsTheyAre(t *testing.T) {
	for name, tc := range map[string]struct{ from, to string }{
		"an anchor in use": {"# ours\n", "x-common:\n  params: &p {dashboard-host: 0.0.0.0}\n"},
		"anchor in a list": {"# ours\n", "x-common: [&p {dashboard-host: 0.0.0.0}]\n"},
		"a tag":            {"    - groupName: slices\n", "    - groupName: slices\n      suspend: !!str true\n"},
		"a comment within": {"    - groupName: slices\n", "    - groupName: slices\n      x: {a: 1,\n # why\n        b: 2}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(sound, tc.from, tc.to, 1)
			text = strings.Replace(text, "num-cpus: \"0\"}", "num-cpus: \"0\", dashboard-port: 8265}", 1) // can be mended
			if strings.Contains(tc.to, "&p") {
				text = strings.Replace(text, numGPUs, "      rayStartParams:\n        <<: *p\n        num-gpus: \"1\"\n", 1)
			}
			got, n := lint.FixAll(t.Context(), []byte(text), catalogue())
			want := strings.Replace(text, "8265", `"8265"`, 1)
			if name == "a comment within" { // the whole goes, in lines
				want, n = strings.Replace(want, "      x: {a: 1,\n # why\n        b: 2}\n", "", 1), n-1
			}
			if diff := cmp.Diff(want, string(got)); diff != "" || n != 1 {
				t.Errorf("mended %d (-want +got):\n%s", n, diff)
			}
			for _, f := range lint.Check([]byte(text), catalogue()).Findings {
				if f.Path == "x-common" && len(f.Fix) > 0 {
					t.Errorf("offers to cut out what an alias stands for: %+v", f)
				}
			}
		})
	}
	unused := strings.Replace(sound, "# ours\n", "x-common: &p {a: *q0}\n", 1)
	unused = strings.Replace(unused, "*q0", "&q [1, *q1]", 1)
	unused = strings.Replace(unused, "*q1", "b", 1)
	if got, n := lint.FixAll(t.Context(), []byte(unused), catalogue()); n != 1 || string(got) != strings.TrimPrefix(sound, "# ours\n") {
		t.Errorf("an anchor that nothing uses: mended %d\n%s", n, got)
	}
}

// TestSamplesKeepTheirLines mends what is wrong with KubeRay's samples after breaking each: every line of the mended text stands in
// the file, in its order, but for those that fixes write.
func TestSamplesKeepTheirLines(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(kuberaySamples(t), "*.yaml"))
	if err != nil || len(paths) < 50 {
		t.Fatalf("%v: %d samples", err, len(paths))
	}
	mended := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, n := lint.FixAll(t.Context(), text, catalogue())
		mended += n
		if added, gone := differing(string(text), string(got)); added > 4*n || gone > 2*n {
			t.Errorf("%s: %d mended, %d lines new, %d gone", filepath.Base(path), n, added, gone)
		}
	}
	if mended < 20 {
		t.Errorf("only %d findings were mended", mended)
	}
}

// differing counts the lines that only one of two texts has, by how often each stands there.
func differing(a, b string) (added, gone int) {
	count := map[string]int{}
	for line := range strings.Lines(b) {
		count[line]++
	}
	for line := range strings.Lines(a) {
		count[line]--
	}
	for _, n := range count {
		added, gone = added+max(n, 0), gone+max(-n, 0)
	}
	return added, gone
}
