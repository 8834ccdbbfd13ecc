package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	err := lintFiles(t.Context(), nil, &out, io.Discard, Config{}, lintCommand{Files: []string{file}})
	if err == nil || err.Error() != "2 errors" {
		t.Errorf("error: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], file+":8:5: error: NodePort opens") || !strings.Contains(lines[0], " (exposed) → Use ClusterIP") ||
		!strings.HasPrefix(lines[1], file+":22:5: error: ") || !strings.Contains(lines[1], ` (num_gpus_missing) → Add num-gpus: "1"`) {
		t.Errorf("printed\n%s", &out)
	}
	out.Reset()
	if err := lintFiles(t.Context(), strings.NewReader(brought), &out, io.Discard, Config{}, lintCommand{Files: []string{"-"}, JSON: true}); err == nil {
		t.Error("no error")
	}
	var finding struct {
		File string
		rayslice.Finding
	}
	if err := json.NewDecoder(&out).Decode(&finding); err != nil || finding.File != "-" || finding.Line != 8 || finding.Fix[0].Path != "/spec/headGroupSpec/serviceType" {
		t.Errorf("%v: %+v", err, finding)
	}
}

// TestLintExitStatus: one unreadable file keeps none of the others from being looked at, and 1 and 2 differ.
func TestLintExitStatus(t *testing.T) {
	bad, fine, warned := write(t, brought), write(t, "apiVersion: ray.io/v1\nkind: RayJob\nspec: {clusterSelector: {a: b}}\n"), write(t, "apiVersion: ray.io/v1alpha1\nkind: RayJob\nspec: {clusterSelector: {a: b}}\n")
	for name, tc := range map[string]struct {
		files  []string
		status int
		said   []string // to standard error
		found  int
	}{
		"nothing":                   {[]string{fine}, 0, nil, 0},
		"a warning":                 {[]string{warned, fine}, 0, nil, 1},
		"errors":                    {[]string{fine, bad}, 1, nil, 2},
		"not there, then errors":    {[]string{"nowhere.yaml", bad, "there.yaml"}, 2, []string{"nowhere.yaml", "there.yaml"}, 2},
		"a folder, then nothing":    {[]string{t.TempDir(), fine}, 2, []string{"directory"}, 0},
		"no catalogue of that name": {nil, 2, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			config := Config{}
			if tc.files == nil {
				config.Catalogue = "nowhere.yaml"
			}
			err := lintFiles(t.Context(), nil, &out, &errs, config, lintCommand{Files: tc.files})
			if got := 0; err != nil && exitStatus(err) != tc.status || err == nil && got != tc.status {
				t.Errorf("%v, want exit status %d", err, tc.status)
			}
			for _, want := range tc.said {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%q is not said: %s", want, &errs)
				}
			}
			if got := strings.Count(out.String(), "\n"); got != tc.found {
				t.Errorf("%d findings, want %d:\n%s", got, tc.found, &out)
			}
		})
	}
	for _, args := range [][]string{{"lint"}, {"lint", "--nothing", "x"}} {
		if err := run(t.Context(), args); err == nil || exitStatus(err) != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestLintEndsWhenTold: a signal ends it, whatever it waits for (T27), and writes no half of a file.
func TestLintEndsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	never, write := io.Pipe()
	defer write.Close()
	done := make(chan error, 1)
	go func() {
		done <- lintFiles(ctx, never, io.Discard, io.Discard, Config{}, lintCommand{Files: []string{"-", "-"}})
	}()
	if _, err := io.WriteString(write, "kind: "); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if err == nil || exitStatus(err) != 2 || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("error: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// TestLintSaysWhatItCouldNotMend: one fix that cannot be carried out keeps none of the others from it.
func TestLintSaysWhatItCouldNotMend(t *testing.T) {
	file := write(t, strings.Replace(brought, "    serviceType: NodePort\n", "    serviceType: !!str NodePort\n", 1))
	var out bytes.Buffer
	err := lintFiles(t.Context(), nil, &out, io.Discard, Config{}, lintCommand{Files: []string{file}, Fix: true})
	if err == nil || exitStatus(err) != 1 || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "(exposed)") || !strings.Contains(out.String(), "[not mended: ") {
		t.Errorf("%v, printed %s", err, &out)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "rayStartParams: {num-gpus: \"1\"}") || !strings.Contains(string(text), "metadata: {name: mine}") {
		t.Errorf("%v: the file is\n%s", err, text)
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
	if err := lintFiles(t.Context(), nil, &out, io.Discard, Config{}, lintCommand{Files: []string{link}, Fix: true}); err != nil || out.Len() > 0 {
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
	if err := lintFiles(t.Context(), strings.NewReader(brought), &out, io.Discard, Config{}, lintCommand{Files: []string{"-"}, Fix: true}); err != nil || out.String() != string(text) {
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
