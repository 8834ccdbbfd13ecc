package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// need finds a program, skips on a laptop without it, and fails where tests have to run.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing: run .ci/install", program)
	default:
		t.Skipf("%s is missing", program)
	}
	return path
}

// stubPrograms builds the stand-in for NVIDIA's driver once for all tests.
var stubPrograms = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rayslice-stub-")
	if err != nil {
		return "", err
	}
	source := filepath.Join("..", "..", "sandbox", "stubgpu", "stub.c")
	for _, arguments := range [][]string{
		{"-shared", "-fPIC", "-O1", "-o", filepath.Join(dir, "libcuda.so.1"), source},
		{"-DSMI", "-O1", "-o", filepath.Join(dir, "nvidia-smi"), source},
	} {
		if out, err := exec.Command("cc", arguments...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cc: %w\n%s", err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := stubPrograms(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// settings of the stand-in, STUB_ left out.
type settings map[string]string

// stub makes a pod's folder with the stand-in in it and returns the environment that leads there.
func stub(t *testing.T, s settings) []string {
	t.Helper()
	need(t, "cc")
	programs, err := stubPrograms()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"libcuda.so.1", "nvidia-smi"} {
		if err := os.Link(filepath.Join(programs, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	all := settings{"STATE": filepath.Join(dir, "card"), "POD": "w-1", "CARD_MIB": "23028"}
	maps.Copy(all, s)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&conf, "STUB_%s=%s\n", name, all[name])
	}
	if err := os.WriteFile(filepath.Join(dir, "stub.conf"), []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + dir}
}

// seed is the seed's worker: 8 of an A10's 22 GiB.
func seed() WorkerOfSpec {
	return WorkerOfSpec{Pod: "w-1", SliceGiB: 8, CardGiB: 22, CardMiB: 23028, NeighboursMiB: new(int)}
}

func targetOf(w WorkerOfSpec, mode rayslice.Mode) rayslice.Target {
	return rayslice.Target{Pod: w.Pod, Mode: mode, CardGiB: w.CardGiB, CardMiB: w.CardMiB, NeighboursMiB: w.NeighboursMiB,
		Slice: rayslice.Slice{Pool: "a10", GiB: w.SliceGiB, Cards: 1, CorePercent: w.CorePercent}}
}

// measure runs the program as a job would, on this machine, and reads its answer.
func measure(t *testing.T, environment []string, spec Spec) rayslice.Evidence {
	t.Helper()
	need(t, "python3")
	command, err := Entrypoint(spec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.Env = environment
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	evidence, err := rayslice.DecodeEvidence(bytes.NewReader(out.Bytes()), spec.Run)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return evidence
}

func workerSpec(w WorkerOfSpec) Spec {
	return Spec{Mode: "worker", Run: "run-1", CallSeconds: 2, Workers: []WorkerOfSpec{w}}
}

// body returns the JSON between the marker lines.
func body(t *testing.T, log, run string) map[string]any {
	t.Helper()
	_, rest, _ := strings.Cut(log, "-----BEGIN RAYSLICE PROBE "+run+"-----")
	text, _, found := strings.Cut(rest, "-----END RAYSLICE PROBE "+run+"-----")
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); !found || err != nil {
		t.Fatalf("no document of %s: %v", run, err)
	}
	return document
}
