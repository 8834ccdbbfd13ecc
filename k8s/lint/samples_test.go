package lint_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/lint"
)

// aboutGPUs are the findings that a cluster without any GPU must not get.
func aboutGPUs(code string) bool {
	all := rayslice.FindingCodes()
	first, last := slices.Index(all, rayslice.FindingNoNumGPUs), slices.Index(all, rayslice.FindingNotIsolated)
	return slices.Contains(all[first:last+1], code) || slices.Contains([]string{
		rayslice.FindingReservedEnv, rayslice.FindingLimitOff, rayslice.FindingEnvFrom, rayslice.FindingAnnotation, rayslice.FindingDeviceMount,
		rayslice.FindingSchedulerName, rayslice.FindingRuntimeClass, rayslice.FindingShellText, rayslice.FindingPrivileged,
	}, code)
}

// unreadable are what says that a file is no sound YAML of KubeRay's types, which all of its samples are.
var unreadable = []string{
	rayslice.FindingNotYAML, rayslice.FindingTabs, rayslice.FindingTooLarge, rayslice.FindingTooDeep, rayslice.FindingTooMuch, rayslice.FindingDocuments,
	rayslice.FindingDuplicateKey, rayslice.FindingUnknownField, rayslice.FindingWrongType, rayslice.FindingNoSpec,
}

var gpuWords = regexp.MustCompile(`(?m)^[^#]*(nvidia\.com/gpu|google\.com/tpu|num-gpus|aliyun\.com/)`)

// kuberaySamples returns the folder of the samples in KubeRay's own module.
func kuberaySamples(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ray-project/kuberay/ray-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "samples")
}

// TestKubeRaySamples reads every sample manifest of KubeRay's own module: none breaks, none is called unsound, and those
// without a GPU hear nothing about GPUs.
func TestKubeRaySamples(t *testing.T) {
	clusters, cpuOnly := 0, 0
	samples := kuberaySamples(t)
	err := filepath.WalkDir(samples, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		report := lint.Check(text, catalogue())
		withoutGPU := !gpuWords.Match(text)
		holds := regexp.MustCompile(`(?m)^kind: Ray(Cluster|Job|Service)`).Match(text)
		if holds {
			clusters++
		}
		if holds && withoutGPU {
			cpuOnly++
		}
		for _, f := range report.Findings {
			t.Logf("%s:%d %s %s %s %v", filepath.Base(path), f.Line, f.Severity, f.Code, f.Path, f.Args)
			if slices.Contains(unreadable, f.Code) || withoutGPU && aboutGPUs(f.Code) {
				t.Errorf("%s:%d: false alarm %s at %s %v", filepath.Base(path), f.Line, f.Code, f.Path, f.Args)
			}
			if holds && f.Code == rayslice.FindingNoCluster {
				t.Errorf("%s: its cluster was not found", filepath.Base(path))
			}
		}
		if fixed, n := lint.FixAll(t.Context(), text, catalogue()); n == 0 && !bytes.Equal(fixed, text) {
			t.Errorf("%s: changed without a fix", filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples with a cluster, %d of them without GPUs", clusters, cpuOnly)
	if clusters < 50 || cpuOnly < 25 {
		t.Errorf("%d samples with a cluster, %d without GPUs: the samples have moved", clusters, cpuOnly)
	}
}
