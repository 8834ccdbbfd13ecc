package probe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

func TestVersionsAgree(t *testing.T) {
	for _, want := range []string{"PROBE_VERSION = \"" + Version + "\"", "SCHEMA = 1\n"} {
		if !strings.Contains(Source(), want) {
			t.Errorf("probe.py does not say %q", want)
		}
	}
	if rayslice.EvidenceSchema != 1 {
		t.Error("probe.py writes schema 1")
	}
}

// Every mode of the stand-in ends in the verdict that it stands for.
func TestVerdicts(t *testing.T) {
	enforced := settings{"SLICE_MIB": "8373"}
	for name, test := range map[string]struct {
		stub    settings
		env     []string
		worker  func(*WorkerOfSpec)
		mode    rayslice.Mode
		want    rayslice.Enforcement
		wantWhy string
	}{
		"enforced":               {stub: enforced, want: rayslice.Enforced},
		"enforced, with compute": {stub: settings{"SLICE_MIB": "8373", "PERCENT": "50"}, worker: func(w *WorkerOfSpec) { w.CorePercent = 50 }, mode: rayslice.ModeCoreMem, want: rayslice.Enforced},
		"MPS-like: held, the total is the card's": {stub: settings{"SLICE_MIB": "8192", "TOTAL_MIB": "23028"}, want: rayslice.Enforced},
		"no cuMemCreate":       {stub: settings{"SLICE_MIB": "8373", "NO_VMM": "1"}, want: rayslice.Enforced},
		"share":                {mode: rayslice.ModeShare, want: rayslice.NotEnforced, wantWhy: rayslice.WhyShareMode},
		"isolation off":        {env: []string{"CGPU_DISABLE=true"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyDisabled},
		"nothing holds it":     {want: rayslice.NotEnforced, wantWhy: rayslice.WhyServed},
		"right total, no wall": {stub: settings{"TOTAL_MIB": "8373"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyServed},
		"limit by environment only (B046)": {env: []string{"STUB_SLICE_MIB=8373"}, stub: settings{"TOTAL_MIB": "8373"},
			want: rayslice.NotEnforced, wantWhy: rayslice.WhyEnvironment},
		"two cards": {stub: settings{"SLICE_MIB": "8373", "CARDS": "2"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyManyCards},
		"whole card": {worker: func(w *WorkerOfSpec) { w.SliceGiB, w.Whole = 0, true }, mode: rayslice.ModeWhole,
			want: rayslice.Inconclusive, wantWhy: rayslice.WhyWholeCard},
		"the slice is the card": {stub: settings{"SLICE_MIB": "23028"}, worker: func(w *WorkerOfSpec) { w.SliceGiB = 22 },
			want: rayslice.Inconclusive, wantWhy: rayslice.WhyWholeSlice},
		"full of neighbours": {stub: settings{"SLICE_MIB": "8373", "NEIGHBOURS_MIB": "14655"}, worker: func(w *WorkerOfSpec) { *w.NeighboursMiB = 14655 },
			want: rayslice.Inconclusive, wantWhy: rayslice.WhyCardFull},
		"neighbours unknown":     {stub: enforced, worker: func(w *WorkerOfSpec) { w.NeighboursMiB = nil }, want: rayslice.Inconclusive, wantWhy: rayslice.WhyNeighboursDark},
		"driver broken":          {stub: settings{"BROKEN": "999"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyGPULost},
		"NVML has lost it":       {stub: settings{"SLICE_MIB": "8373", "SMI": "lost"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyGPULost},
		"nvidia-smi says N/A":    {stub: settings{"SLICE_MIB": "8373", "SMI": "na"}, want: rayslice.Enforced},
		"nvidia-smi is noisy":    {stub: settings{"SLICE_MIB": "8373", "SMI": "noise"}, want: rayslice.Enforced},
		"a call hangs":           {stub: settings{"SLICE_MIB": "8373", "HANG": "cuMemAllocAsync"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyStuck},
		"the driver hangs":       {stub: settings{"SLICE_MIB": "8373", "HANG": "cuInit"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyStuck},
		"somebody works":         {stub: settings{"SLICE_MIB": "8373", "OWN_MIB": "4000"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyInUse},
		"works, and sees all":    {stub: settings{"OWN_MIB": "4000"}, want: rayslice.NotEnforced, wantWhy: rayslice.WhyServed},
		"half of the slice gone": {stub: settings{"SLICE_MIB": "8373", "NEIGHBOURS_MIB": "20000"}, want: rayslice.Inconclusive, wantWhy: rayslice.WhyInside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker := seed()
			if test.worker != nil {
				test.worker(&worker)
			}
			mode := rayslice.ModeCGPU
			if test.mode != "" {
				mode = test.mode
			}
			evidence := measure(t, append(stub(t, test.stub), test.env...), workerSpec(worker))
			got := rayslice.Judge(targetOf(worker, mode), evidence)
			if got.Enforcement != test.want || got.Reason.Code != test.wantWhy {
				t.Errorf("%s %+v, want %s %q\n%s", got.Enforcement, got.Reason, test.want, test.wantWhy, asJSON(t, evidence))
			}
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The program says nothing that Evidence does not know, and all that it does: a name misspelt on one side would be read as
// unknown on the other.
func TestTheDocumentIsEvidence(t *testing.T) {
	worker := seed()
	worker.CorePercent = 50
	evidence := measure(t, stub(t, settings{"SLICE_MIB": "8373"}), workerSpec(worker))
	logs, err := filepath.Glob("testdata/gpu/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal("no documents of real cards", err)
	}
	for _, log := range logs {
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		run := strings.TrimSuffix(filepath.Base(log), ".log")
		var again map[string]any
		real, err := rayslice.DecodeEvidence(strings.NewReader(string(raw)), run)
		if err != nil {
			t.Fatal(log, err)
		}
		if err := json.Unmarshal([]byte(asJSON(t, real)), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(body(t, string(raw), run), again); diff != "" {
			t.Errorf("%s (-as written +as read):\n%s", log, diff)
		}
	}
	if evidence.Version != Version || evidence.At().Before(time.Now().Add(-time.Minute)) {
		t.Errorf("version %s, at %s", evidence.Version, evidence.At())
	}
}

// Fault case T28: whatever nvidia-smi prints, the total is right or unknown.
func TestOutputOfSMI(t *testing.T) {
	const row = "GPU-1a2b, 8373, 12, 0, 550.90.07, NVIDIA A10"
	for name, test := range map[string]struct {
		script    string // of /bin/sh
		wantState rayslice.StepState
		wantCode  string
		wantTotal any // of the first card; nil = unknown
		wantCards int
	}{
		"a row":                         {"echo '" + row + "'", rayslice.StepRan, "", 8373, 1},
		"library messages (B047)":       {"echo '[core-lib msg(1)]: a, b, c, d, e, f'; echo 'x'; echo uuid, memory.total; echo '" + row + "'", rayslice.StepRan, "", 8373, 1},
		"units and CRLF":                {`printf 'GPU-1, 8373 MiB, 12 MiB, 3 %%, 550, NVIDIA A10\r\n'`, rayslice.StepRan, "", 8373, 1},
		"not available":                 {"echo 'GPU-1, [N/A], [Not Supported], [Unknown Error], [N/A], NVIDIA A10'", rayslice.StepRan, "", nil, 1},
		"an impossible figure (B044)":   {"echo 'GPU-1, 8373, 17592186044134, 0, 550, NVIDIA A10'", rayslice.StepRan, "", 8373, 1},
		"an impossible total (B044)":    {"echo 'GPU-1, 17592186044134, 0, 0, 550, NVIDIA A10'", rayslice.StepRan, "", nil, 1},
		"a negative total":              {"echo 'GPU-1, -1, 0, 0, 550, NVIDIA A10'", rayslice.StepRan, "", nil, 1},
		"beyond every number":           {"echo 'GPU-1, inf, 0, 0, 550, NVIDIA A10'", rayslice.StepFailed, rayslice.StepSMIUnread, nil, 0},
		"two rows":                      {"echo '" + row + "'; echo 'GPU-2, 8373, 0, 0, 550, NVIDIA A10'", rayslice.StepRan, "", 8373, 2},
		"a comma in the name":           {"echo '" + row + ", special'", rayslice.StepRan, "", 8373, 1},
		"nothing":                       {"true", rayslice.StepFailed, rayslice.StepSMIUnread, nil, 0},
		"another language":              {"echo '没有找到设备'", rayslice.StepFailed, rayslice.StepSMIUnread, nil, 0},
		"NVML is gone (B062)":           {"echo 'Failed to initialize NVML: Unknown Error'; exit 255", rayslice.StepFailed, rayslice.StepSMIFailed, nil, 0},
		"NVML is gone and it says ok":   {"echo 'Failed to initialize NVML: Unknown Error'", rayslice.StepFailed, rayslice.StepSMIFailed, nil, 0},
		"lost card":                     {"echo 'Unable to determine the device handle for GPU0000:00:07.0: GPU is lost'; exit 15", rayslice.StepFailed, rayslice.StepSMIFailed, nil, 0},
		"a line of a megabyte":          {"head -c 1000000 /dev/zero | tr '\\0' x; echo; echo '" + row + "'", rayslice.StepRan, "", 8373, 1},
		"bytes that are no text":        {`printf '\377\376\n'; echo '` + row + "'", rayslice.StepRan, "", 8373, 1},
		"it hangs":                      {"sleep 60", rayslice.StepFailed, rayslice.StepStuck, nil, 0},
		"a process that outlives it":    {"sleep 60 & echo '" + row + "'", rayslice.StepRan, "", 8373, 1},
		"endless output, then cut down": {"yes x", rayslice.StepFailed, rayslice.StepStuck, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			spec := workerSpec(seed())
			spec.Passive, spec.CallSeconds = true, 3
			w := measure(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, spec).Workers[0]
			if w.SMI.State != test.wantState || w.SMI.Code != test.wantCode || len(w.SMI.Cards) != test.wantCards {
				t.Errorf("%s %q, %d cards, want %s %q, %d\n%q", w.SMI.State, w.SMI.Code, len(w.SMI.Cards), test.wantState, test.wantCode, test.wantCards, w.SMI.Noise)
			}
			var total any
			if len(w.SMI.Cards) > 0 && w.SMI.Cards[0].TotalMiB != nil {
				total = *w.SMI.Cards[0].TotalMiB
			}
			if total != test.wantTotal {
				t.Errorf("total %v, want %v", total, test.wantTotal)
			}
			if got := rayslice.Judge(targetOf(seed(), rayslice.ModeCGPU), rayslice.Evidence{Workers: []rayslice.WorkerEvidence{w}}); got.Enforcement == rayslice.Enforced {
				t.Error("enforced, by reading alone")
			}
		})
	}
}

func TestEntrypoint(t *testing.T) {
	for _, run := range []string{"", "a b", "x'y", strings.Repeat("x", 101), "a\nb"} {
		if _, err := Entrypoint(Spec{Run: run}); err == nil {
			t.Errorf("run %q is accepted", run)
		}
	}
	spec := workerSpec(seed())
	spec.Workers[0].Pod, spec.Passive = `it's "quoted" $(id) 工`, true
	command, err := Entrypoint(spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(command) > 64<<10 { // Linux takes 128 KiB for one argument, and a job's entrypoint is one
		t.Errorf("%d bytes", len(command))
	}
	evidence := measure(t, []string{"PATH=" + os.Getenv("PATH")}, spec)
	if got := evidence.Workers[0].Pod; got != spec.Workers[0].Pod {
		t.Errorf("the pod is %q, want %q", got, spec.Workers[0].Pod)
	}
	if code := evidence.Workers[0].SMI.Code; code != rayslice.StepNoSMI {
		t.Errorf("nvidia-smi: %q", code)
	}
}

func TestSpecOf(t *testing.T) {
	neighbours := 14655
	targets := []rayslice.Target{
		{Pod: "a", IP: "10.0.0.1", Mode: rayslice.ModeCoreMem, Slice: rayslice.Slice{Pool: "a10", GiB: 8, CorePercent: 50, Cards: 1}, CardGiB: 22, CardMiB: 23028, NeighboursMiB: &neighbours, GPUWorkers: 3},
		{Pod: "b", Mode: rayslice.ModeShare, Slice: rayslice.Slice{Pool: "s", GiB: 4, Cards: 1}, GPUWorkers: 3},
		{Pod: "c", Mode: rayslice.ModeWhole, Slice: rayslice.Slice{Pool: "a100", Cards: 1}, GPUWorkers: 3},
	}
	want := Spec{Mode: "cluster", Run: "r", GPUs: 3, Workers: []WorkerOfSpec{
		{Pod: "a", IP: "10.0.0.1", SliceGiB: 8, CardGiB: 22, CardMiB: 23028, NeighboursMiB: &neighbours, CorePercent: 50},
		{Pod: "b", SliceGiB: 4, Passive: true},
		{Pod: "c", Whole: true},
	}}
	if diff := cmp.Diff(want, SpecOf("r", targets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
