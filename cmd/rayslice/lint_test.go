package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// brought is a cluster as people have it, with two faults.
const brought = `apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: mine}
spec:
  rayVersion: 2.52.0
  # the head
  headGroupSpec:
    serviceType: NodePort
    rayStartParams: {num-gpus: "0"}
    template:
      spec:
        containers:
        - name: ray-head
          image: rayproject/ray:2.52.0-py311
          env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
          resources: {limits: {cpu: 2, memory: 8Gi}}
  workerGroupSpecs:
  - groupName: w
    replicas: 1
    minReplicas: 1
    maxReplicas: 1
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: ray-worker
          image: rayproject/ray:2.52.0-py311
          resources: {limits: {aliyun.com/gpu-mem: 8}}
`

func TestLintSaysWhereAndWhatToDo(t *testing.T) {
	file := write(t, brought)
	var out bytes.Buffer
	err := lintFiles(nil, &out, Config{}, lintCommand{Files: []string{file}})
	if err == nil || err.Error() != "2 errors" {
		t.Errorf("error: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], file+":8:5: error: NodePort opens") || !strings.Contains(lines[0], " (exposed) → Use ClusterIP") ||
		!strings.HasPrefix(lines[1], file+":22:5: error: ") || !strings.Contains(lines[1], ` (num_gpus_missing) → Add num-gpus: "1"`) {
		t.Errorf("printed\n%s", &out)
	}
	out.Reset()
	if err := lintFiles(strings.NewReader(brought), &out, Config{}, lintCommand{Files: []string{"-"}, JSON: true}); err == nil {
		t.Error("no error")
	}
	var finding struct {
		File string
		rayslice.Finding
	}
	if err := json.NewDecoder(&out).Decode(&finding); err != nil || finding.File != "-" || finding.Line != 8 || finding.Fix[0].Path != "/spec/headGroupSpec/serviceType" {
		t.Errorf("%v: %+v", err, finding)
	}
	if err := lintFiles(nil, &out, Config{}, lintCommand{Files: []string{"nowhere.yaml"}}); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("error: %v", err)
	}
}

func TestLintMendsFiles(t *testing.T) {
	file := write(t, brought)
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := lintFiles(nil, &out, Config{}, lintCommand{Files: []string{link}, Fix: true}); err != nil || out.Len() > 0 {
		t.Errorf("%v, printed %s", err, &out)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `num-gpus: "1"`) || !strings.Contains(string(text), "serviceType: ClusterIP") || !strings.Contains(string(text), "# the head") {
		t.Errorf("%v: the file is\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v: %v", err, info.Mode())
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v: left %v", err, left)
	}
	if err := lintFiles(strings.NewReader(brought), &out, Config{}, lintCommand{Files: []string{"-"}, Fix: true}); err != nil || out.String() != string(text) {
		t.Errorf("%v: printed\n%s", err, &out)
	}
}

// TestLintLetsOurOwnThrough: what the portal renders has nothing wrong with it, and becomes the request that it was.
func TestLintLetsOurOwnThrough(t *testing.T) {
	catalogue, err := loadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []string{"slice.yaml", "mixed.yaml"} {
		draft, err := readDraft(filepath.Join("../../docs/examples", example), catalogue)
		if err != nil {
			t.Fatal(err)
		}
		text, err := k8s.RenderYAML(rayslice.Request{ID: "aaaaaaaaaaaa", Team: "vision", Namespace: "default", Draft: draft}, catalogue)
		if err != nil {
			t.Fatal(err)
		}
		report := linter(catalogue).Check([]byte(text))
		for _, f := range report.Findings {
			t.Errorf("%s:%d: %s at %s %v", example, f.Line, f.Code, f.Path, f.Args)
		}
		if report.Draft == nil || report.Draft.Charge() != draft.Charge() || len(report.Draft.Groups) != len(draft.Groups) {
			t.Errorf("%s: became %+v", example, report.Draft)
		}
	}
}

// TestImportDocument holds the table of docs/import.md against the codes there are.
func TestImportDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .+ \\|$").FindAllSubmatch(doc, -1) {
		got = append(got, string(m[1]))
	}
	if want := rayslice.FindingCodes(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("docs/import.md has %d codes, want %d in this order:\n%s", len(got), len(want), strings.Join(want, "\n"))
	}
}
