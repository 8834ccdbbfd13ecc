package rayslice

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mib(n int) *int { return &n }

// seedTarget is the seed's worker: 8 of an A10's 22 GiB, alone on its card.
func seedTarget() Target {
	return Target{Pod: "w-1", PodUID: "uid-1", IP: "10.0.0.1", Node: "a10-1", Mode: ModeCGPU, Slice: Slice{Pool: "a10", GiB: 8, Cards: 1},
		CardGiB: 22, CardMiB: 23028, NeighboursMiB: mib(0), GPUWorkers: 1}
}

const outOfMemory = "CUDA_ERROR_OUT_OF_MEMORY"

func ran(read string) ProbeStep { return ProbeStep{State: StepRan, Read: read} }

// attempts are what a worker gets that is held at limit MiB, of which a context takes 235; 0 = nothing holds it.
func tries(process, api string, limit, beyond int) []AllocEvidence {
	served, grown, refused, code, name := beyond, beyond, false, 0, ""
	if limit > 0 && beyond > limit-235 {
		served, grown, refused, code, name = 0, (limit-235)/256*256, true, CUDAOutOfMemory, outOfMemory
	}
	return []AllocEvidence{
		{ProbeStep: ran(api), Process: process, API: api, Purpose: "beyond", MiB: beyond, Served: served, Refused: refused, Result: code, Name: name},
		{ProbeStep: ran(api), Process: process, API: api, Purpose: "grow", MiB: beyond, Served: grown, Refused: refused, Result: code, Name: name},
	}
}

func allAttempts(limit, cleanLimit, beyond int) []AllocEvidence {
	all := []AllocEvidence{{ProbeStep: ran("alloc"), Process: "fresh", API: "alloc", Purpose: "inside", MiB: 4096, Served: 4096}}
	for _, api := range []string{"alloc", "async", "vmm"} {
		all = append(all, tries("fresh", api, limit, beyond)...)
	}
	return append(all, tries("clean", "alloc", cleanLimit, beyond)...)
}

// seedEvidence is what the seed's worker shows: 8373 MiB, 4 GiB work, 16 GiB are refused.
func seedEvidence() Evidence {
	return Evidence{Schema: 1, Version: "1.0.0", Run: "run", Mode: "cluster", Started: 1.7e9,
		Ray: &RayEvidence{Version: "2.52.0", GPUs: 1, Nodes: []RayNode{{ID: "head", IP: "10.0.0.9", Head: true}, {ID: "n-1", IP: "10.0.0.1", GPUs: 1}}},
		Workers: []WorkerEvidence{{
			Pod: "w-1", NodeID: "n-1", IP: "10.0.0.1", Hostname: "w-1",
			Variables: VariableEvidence{ProbeStep: ran("environ"), Values: map[string]string{
				"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "ALIYUN_COM_GPU_MEM_DEV": "22", "ALIYUN_COM_GPU_MEM_UNIT": "GiB", "CGPU_DISABLE": "false"}},
			SMI: SMIEvidence{ProbeStep: ran("nvidia-smi"), Driver: "550.90.07", Cards: []SMICard{
				{UUID: "GPU-1", Name: "NVIDIA A10", TotalMiB: mib(8373), UsedMiB: mib(0), Utilization: mib(0)}}},
			CUDA:       CUDAEvidence{ProbeStep: ran("cuda"), Devices: []CUDADevice{{UUID: "GPU-1", TotalMiB: mib(8373), FreeMiB: mib(8138)}}},
			Allocation: allAttempts(8373, 8373, 16384),
		}}}
}

func TestJudge(t *testing.T) {
	total := func(w *WorkerEvidence, total, used int) {
		w.SMI.Cards[0].TotalMiB, w.SMI.Cards[0].UsedMiB = mib(total), mib(used)
		w.CUDA.Devices[0].TotalMiB = mib(total)
	}
	skip := func(w *WorkerEvidence, code string) {
		for i := range w.Allocation {
			a := &w.Allocation[i]
			*a = AllocEvidence{ProbeStep: ProbeStep{State: StepSkipped, Code: code}, Process: a.Process, API: a.API, Purpose: a.Purpose, MiB: a.MiB}
		}
	}
	failed := func(code string) func(*Target, *Evidence, *WorkerEvidence) {
		return func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Error = &ProbeError{Code: code} }
	}
	refuseWith := func(code int, name string) func(*Target, *Evidence, *WorkerEvidence) {
		return func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			for i := range w.Allocation {
				if w.Allocation[i].Refused {
					w.Allocation[i].Result, w.Allocation[i].Name = code, name
				}
			}
		}
	}

	for name, test := range map[string]struct {
		change  func(*Target, *Evidence, *WorkerEvidence)
		want    Enforcement
		wantWhy string
	}{
		"the seed: 8373 MiB, 4 GiB work, 16 GiB are refused (B031)": {func(*Target, *Evidence, *WorkerEvidence) {}, Enforced, ""},
		"nothing holds it": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			total(w, 23028, 0)
			w.Allocation = allAttempts(0, 0, 9461)
		}, NotEnforced, WhyServed},
		"the total is right and nothing holds it": {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Allocation = allAttempts(0, 0, 9461) }, NotEnforced, WhyServed},
		"MPS: the total is the card's, and it is held": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			total(w, 23028, 74)
			w.Allocation = allAttempts(8192, 8192, 9429)
		}, Enforced, ""},
		"held only where a variable is (B046)": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Allocation = allAttempts(8373, 0, 9461)
		}, NotEnforced, WhyEnvironment},
		"held for cuMemAlloc, not for cuMemCreate": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Allocation = slices.DeleteFunc(w.Allocation, func(a AllocEvidence) bool { return a.API == "vmm" })
			w.Allocation = append(w.Allocation, tries("fresh", "vmm", 0, 9461)...)
		}, NotEnforced, WhyServed},
		"the card has no cuMemCreate": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			for i := range w.Allocation {
				if w.Allocation[i].API == "vmm" {
					w.Allocation[i].ProbeStep = ProbeStep{State: StepSkipped, Code: StepNotSupported}
				}
			}
		}, Enforced, ""},
		"one at a time is refused, many small ones are not": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			for i := range w.Allocation {
				if a := &w.Allocation[i]; a.Purpose == "grow" {
					a.Served, a.Refused, a.Result = a.MiB, false, 0
				}
			}
		}, NotEnforced, WhyServed},

		// Domain facts E.1, the vacuous cases.
		"1: the card is smaller than the test": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.CardGiB, t.CardMiB = 15, 15360 // a T4
			t.Slice.GiB = 8
			total(w, 8192, 0)
			w.Allocation = allAttempts(8192, 8192, 16384)
		}, Inconclusive, WhyCardSmall},
		"2: the slice is the card": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.Slice.GiB = 22
			total(w, 23028, 0)
			skip(w, StepNoRoom)
		}, Inconclusive, WhyWholeSlice},
		"3: the card is full of neighbours": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.NeighboursMiB = mib(14655)
			w.Allocation = allAttempts(8373, 8373, 9461)
		}, Inconclusive, WhyCardFull},
		"3: so full that the probe did not try": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.NeighboursMiB = mib(14655)
			skip(w, StepNoRoom)
		}, Inconclusive, WhyCardFull},
		"3: nobody knows the neighbours": {func(t *Target, _ *Evidence, _ *WorkerEvidence) { t.NeighboursMiB = nil }, Inconclusive, WhyNeighboursDark},
		"3: neighbours leave just enough": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.NeighboursMiB = mib(23028 - 1024 - 9461)
			w.Allocation = allAttempts(8373, 8373, 9461)
		}, Enforced, ""},
		"3: neighbours leave one MiB too little": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.NeighboursMiB = mib(23028 - 1024 - 9461 + 1)
			w.Allocation = allAttempts(8373, 8373, 9461)
		}, Inconclusive, WhyCardFull},
		"4: a share pool (B038)": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.Mode, t.CardGiB, t.CardMiB, t.Slice.GiB = ModeShare, 16, 16384, 4
			total(w, 16384, 0)
			w.Allocation = allAttempts(0, 0, 5152)
		}, NotEnforced, WhyShareMode},
		"4: a share pool is never green": {func(t *Target, _ *Evidence, _ *WorkerEvidence) { t.Mode = ModeShare }, NotEnforced, WhyShareMode},
		"4: CGPU_DISABLE and the whole card": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Variables.Values["CGPU_DISABLE"] = "true"
			total(w, 23028, 0)
			w.Allocation = allAttempts(0, 0, 9461)
		}, NotEnforced, WhyDisabled},
		"4: the node's isolation is off and the card is full": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			total(w, 23028, 14655)
			skip(w, StepNoRoom)
		}, NotEnforced, WhyWholeSeen},
		"5: Ray's own out-of-memory is the machine's": {failed(ProbeHostMemory), Inconclusive, WhyProbeFailed},
		"5: the pod was killed":                       {failed(ProbeWorkerDied), Inconclusive, WhyProbeFailed},
		"5: the node was lost":                        {failed(ProbeNodeLost), Inconclusive, WhyProbeFailed},
		"5: no answer in time":                        {failed(ProbeTimeout), Inconclusive, WhyProbeFailed},
		"5: the process that asked was killed": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			for i := range w.Allocation {
				w.Allocation[i].ProbeStep = ProbeStep{State: StepFailed, Code: StepDied}
			}
		}, Inconclusive, WhyNotMade},
		"5: another error than the driver's out-of-memory": {refuseWith(999, "CUDA_ERROR_UNKNOWN"), Inconclusive, WhyOtherError},
		"6: the evidence is another pod's":                 {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Pod = "w-2" }, Inconclusive, WhyNoEvidence},
		"6: the probe ran elsewhere":                       {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.IP = "10.0.0.9" }, Inconclusive, WhyWrongWorker},
		"7: not even half of the slice": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			a := &w.Allocation[0]
			a.Served, a.Refused, a.Result, a.Name = 0, true, CUDAOutOfMemory, outOfMemory
		}, Inconclusive, WhyInside},

		// What is missing or unreadable.
		"no attempt was made": {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Allocation = nil }, Inconclusive, WhyNotMade},
		"only variables": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			*w = WorkerEvidence{Pod: "w-1", NodeID: "n-1", Variables: w.Variables}
		}, Inconclusive, WhyNotMade},
		"nothing at all": {func(_ *Target, e *Evidence, _ *WorkerEvidence) { e.Workers = nil }, Inconclusive, WhyNoEvidence},
		"Ray did not answer": {func(_ *Target, e *Evidence, _ *WorkerEvidence) {
			e.Workers, e.Error = nil, &ProbeError{Code: ProbeNoRay}
		}, Inconclusive, WhyProbeFailed},
		"no clean environment": {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Allocation = w.Allocation[:7] }, Inconclusive, WhyNotMade},
		"the clean environment stuck": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Allocation[8].ProbeStep = ProbeStep{State: StepFailed, Code: StepStuck}
		}, Inconclusive, WhyStuck},
		"a driver call hangs": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Allocation[2].ProbeStep = ProbeStep{State: StepFailed, Code: StepStuck}
		}, Inconclusive, WhyStuck},
		"the driver is broken": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.CUDA = CUDAEvidence{ProbeStep: ProbeStep{State: StepFailed, Code: StepCUDAFailed}, Call: "cuInit", Result: 999}
			for i := range w.Allocation {
				w.Allocation[i].ProbeStep = ProbeStep{State: StepFailed, Code: StepCUDAFailed}
			}
		}, Inconclusive, WhyDriver},
		"NVML has lost the card (B062)": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.SMI = SMIEvidence{ProbeStep: ProbeStep{State: StepFailed, Code: StepSMIFailed}, ExitCode: 255, Noise: []string{"Failed to initialize NVML: Unknown Error"}}
			w.CUDA = CUDAEvidence{ProbeStep: ProbeStep{State: StepFailed, Code: StepCUDAFailed}, Call: "cuInit", Result: 100}
			w.Allocation = nil
		}, Inconclusive, WhyGPULost},
		"no nvidia-smi in the image, the driver shows all": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.SMI = SMIEvidence{ProbeStep: ProbeStep{State: StepFailed, Code: StepNoSMI}}
		}, Enforced, ""},
		"nvidia-smi shows no numbers": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.SMI.Cards[0].TotalMiB, w.SMI.Cards[0].UsedMiB = nil, nil
		}, Enforced, ""},
		"somebody works on it": {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.InUse.InUse = true; skip(w, StepInUse) }, Inconclusive, WhyInUse},
		"somebody works on what is the whole card": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.InUse.InUse = true
			total(w, 23028, 4000)
			skip(w, StepInUse)
		}, NotEnforced, WhyWholeSeen},

		// Sizes.
		"stopped far below the slice":  {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Allocation = allAttempts(6000, 6000, 9461) }, Inconclusive, WhyBoundary},
		"the total is off by 32 MiB":   {func(_ *Target, _ *Evidence, w *WorkerEvidence) { total(w, 8373+32, 0) }, Enforced, ""},
		"the total is off by 33 MiB":   {func(_ *Target, _ *Evidence, w *WorkerEvidence) { total(w, 8373+33, 0) }, Inconclusive, WhyTotal},
		"the total is 32 MiB too low":  {func(_ *Target, _ *Evidence, w *WorkerEvidence) { total(w, 8373-32, 0) }, Enforced, ""},
		"the total is 33 MiB too low":  {func(_ *Target, _ *Evidence, w *WorkerEvidence) { total(w, 8373-33, 0) }, Inconclusive, WhyTotal},
		"card unknown but for its GiB": {func(t *Target, _ *Evidence, _ *WorkerEvidence) { t.CardMiB = 0 }, Enforced, ""},
		"card unknown":                 {func(t *Target, _ *Evidence, _ *WorkerEvidence) { t.CardMiB, t.CardGiB = 0, 0 }, Inconclusive, WhyCardSmall},
		"one MiB beyond what a slice may be": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Allocation[2].Served = 8373 + 32 + 1
		}, NotEnforced, WhyServed},
		"exactly what a slice may be": {func(_ *Target, _ *Evidence, w *WorkerEvidence) { w.Allocation[2].Served = 8373 + 32 }, Enforced, ""},

		// Cards and Ray.
		"two cards for one slice": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.SMI.Cards = append(w.SMI.Cards, w.SMI.Cards[0])
		}, NotEnforced, WhyManyCards},
		"two cards for a slice of two": {func(t *Target, e *Evidence, w *WorkerEvidence) {
			t.Slice.Cards, t.GPUWorkers = 2, 2
			w.SMI.Cards = append(w.SMI.Cards, w.SMI.Cards[0])
			w.Variables.Values["ALIYUN_COM_GPU_MEM_CONTAINER"] = "16"
			e.Ray.GPUs, e.Ray.Nodes[1].GPUs = 2, 2
		}, Enforced, ""},
		"5 workers, Ray sees 40 (B005)": {func(t *Target, e *Evidence, _ *WorkerEvidence) {
			t.GPUWorkers, e.Ray.GPUs, e.Ray.Nodes[1].GPUs = 5, 40, 8
		}, NotEnforced, WhyRayGPUs},
		"the head has GPUs (B004)": {func(_ *Target, e *Evidence, _ *WorkerEvidence) { e.Ray.GPUs, e.Ray.Nodes[0].GPUs = 5, 4 }, NotEnforced, WhyRayGPUs},
		"Ray counts more than there are pods, elsewhere": {func(_ *Target, e *Evidence, _ *WorkerEvidence) {
			e.Ray.GPUs, e.Ray.Nodes = 2, append(e.Ray.Nodes, RayNode{ID: "other", GPUs: 1})
		}, Inconclusive, WhyRayGPUs},
		"Ray counts none on it":  {func(_ *Target, e *Evidence, _ *WorkerEvidence) { e.Ray.GPUs, e.Ray.Nodes[1].GPUs = 0, 0 }, Inconclusive, WhyRayMissing},
		"another has not joined": {func(t *Target, _ *Evidence, _ *WorkerEvidence) { t.GPUWorkers = 2 }, Enforced, ""},
		"Ray was not asked":      {func(_ *Target, e *Evidence, _ *WorkerEvidence) { e.Ray = nil }, Enforced, ""},
		"a whole card": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.Mode, t.Slice = ModeWhole, Slice{Pool: "a100", Cards: 1}
			total(w, 81920, 0)
			skip(w, StepWholeCard)
		}, Inconclusive, WhyWholeCard},
		"a whole card that is eight": {func(t *Target, _ *Evidence, w *WorkerEvidence) {
			t.Mode, t.Slice = ModeWhole, Slice{Pool: "a100", Cards: 1}
			w.SMI.Cards = append(w.SMI.Cards, w.SMI.Cards[0])
		}, NotEnforced, WhyManyCards},

		// Neighbours.
		"two of ours fill one card": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Neighbours = NeighboursEvidence{ProbeStep: ran("cuMemAlloc"), With: []string{"w-2"}, AskedMiB: 7168, HeldMiB: 7168, Overlap: 3}
		}, Enforced, ""},
		"one of ours takes from the other": {func(_ *Target, _ *Evidence, w *WorkerEvidence) {
			w.Neighbours = NeighboursEvidence{ProbeStep: ran("cuMemAlloc"), With: []string{"w-2"}, AskedMiB: 7168, HeldMiB: 512, Overlap: 3}
		}, NotEnforced, WhyNeighbourHurt},
	} {
		t.Run(name, func(t *testing.T) {
			target, evidence := seedTarget(), seedEvidence()
			worker := evidence.Workers[0]
			test.change(&target, &evidence, &worker)
			if len(evidence.Workers) > 0 {
				evidence.Workers[0] = worker
			}
			got := Judge(target, evidence)
			if got.Enforcement != test.want || got.Reason.Code != test.wantWhy {
				t.Errorf("%s %+v, want %s %q", got.Enforcement, got.Reason, test.want, test.wantWhy)
			}
			if got.Enforcement == Enforced {
				for _, row := range got.Rows {
					if row.Result == CheckFailed {
						t.Errorf("enforced, although %s failed: %+v", row.Check, row.Reason)
					}
				}
			}
		})
	}
}

// Rows come in the order people read them, and say what was asked and seen.
func TestRowsOfTheSeed(t *testing.T) {
	target, evidence := seedTarget(), seedEvidence()
	target.Slice.CorePercent = 50
	evidence.Workers[0].Compute = ComputeEvidence{ProbeStep: ran("cuLaunchKernel"), Percent: 50, Millis: 5, FastMillis: 5, Share: 52.5}
	got := Judge(target, evidence)
	results := map[Check]CheckResult{}
	var order []Check
	for _, row := range got.Rows {
		results[row.Check] = row.Result
		order = append(order, row.Check)
	}
	want := map[Check]CheckResult{
		CheckVariables: CheckPassed, CheckCard: CheckPassed, CheckRay: CheckPassed, CheckInside: CheckPassed, CheckBeyond: CheckPassed,
		CheckBoundary: CheckPassed, CheckAsync: CheckPassed, CheckVMM: CheckPassed, CheckManaged: CheckSkipped, CheckClean: CheckPassed,
		CheckNeighbours: CheckSkipped, CheckCompute: CheckReported,
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Checks(), order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	wantBeyond := ProofRow{Check: CheckBeyond, Result: CheckPassed, Proves: ProvesLimit, Read: "alloc",
		Asked: Facts{"mib": 16384, "slice_mib": 8405, "card_mib": 23028, "neighbours_mib": 0},
		Seen:  Facts{"served_mib": 0, "refused": true, "cuda": 2, "name": outOfMemory}}
	if diff := cmp.Diff(wantBeyond, got.Rows[4]); diff != "" {
		t.Errorf("beyond (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var again Judgement
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Rows[4], again.Rows[4]); diff != "" {
		t.Errorf("a stored row reads otherwise (-before +after):\n%s", diff)
	}
}

func TestVariablesProveNothing(t *testing.T) {
	for name, test := range map[string]struct {
		values  map[string]string
		want    CheckResult
		wantWhy string
	}{
		"as injected":             {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "ALIYUN_COM_GPU_MEM_UNIT": "GiB", "NVIDIA_VISIBLE_DEVICES": "0"}, CheckPassed, ""},
		"in MiB":                  {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "8192", "ALIYUN_COM_GPU_MEM_UNIT": "MiB"}, CheckPassed, ""},
		"another size":            {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "22"}, CheckFailed, WhyVariablesDiffer},
		"none":                    {map[string]string{}, CheckInconclusive, WhyVariablesMissing},
		"all cards made visible":  {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "NVIDIA_VISIBLE_DEVICES": "all"}, CheckFailed, WhyVisibleSet},
		"isolation switched off":  {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "CGPU_DISABLE": "1"}, CheckFailed, WhyDisabled},
		"isolation explicitly on": {map[string]string{"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "CGPU_DISABLE": "false"}, CheckPassed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := seedEvidence()
			evidence.Workers[0] = WorkerEvidence{Pod: "w-1", NodeID: "n-1", Variables: VariableEvidence{ProbeStep: ran("environ"), Values: test.values}}
			got := Judge(seedTarget(), evidence)
			row := got.Rows[0]
			if got.Enforcement == Enforced || row.Proves != ProvesNothing {
				t.Errorf("%s, and the row proves %s", got.Enforcement, row.Proves)
			}
			if row.Check != CheckVariables || row.Result != test.want || row.Reason.Code != test.wantWhy {
				t.Errorf("%s %s %q, want %s %q", row.Check, row.Result, row.Reason.Code, test.want, test.wantWhy)
			}
		})
	}
}

// Whatever is taken away from evidence that is green, it gets no greener; and green means that beyond was refused where the
// card had room.
func TestEvidenceThatIsMissingIsNeverGreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target, evidence := seedTarget(), seedEvidence()
		w := &evidence.Workers[0]
		gone := rapid.IntRange(0, len(w.Allocation)-1).Draw(t, "attempt")
		state := rapid.SampledFrom([]StepState{"", StepSkipped, StepFailed, "nonsense"}).Draw(t, "state")
		code := rapid.SampledFrom([]string{"", StepNoRoom, StepStuck, StepDied, StepInUse, StepNotAsked, "nonsense"}).Draw(t, "code")
		w.Allocation[gone] = AllocEvidence{ProbeStep: ProbeStep{State: state, Code: code}, Process: w.Allocation[gone].Process, API: w.Allocation[gone].API, Purpose: w.Allocation[gone].Purpose}
		if got := Judge(target, evidence); got.Enforcement != Inconclusive {
			t.Fatalf("without attempt %d: %s %+v", gone, got.Enforcement, got.Reason)
		}
	})
}

func TestCertificateGoesOutOfDate(t *testing.T) {
	c := Certificate{Driver: "550.90.07", Target: Target{PodUID: "u", Node: "n"}, Judgement: Judgement{Enforcement: Enforced}}
	for name, test := range map[string]struct {
		uid, node, driver string
		want              Enforcement
	}{
		"as it was":              {"u", "n", "550.90.07", Enforced},
		"driver unknown by now":  {"u", "n", "", Enforced},
		"another pod":            {"v", "n", "550.90.07", OutOfDate},
		"another node":           {"u", "m", "550.90.07", OutOfDate},
		"another driver":         {"u", "n", "580.1", OutOfDate},
		"the pod is not there":   {"", "n", "550.90.07", OutOfDate},
		"driver known since now": {"u", "n", "550.90.07", Enforced},
	} {
		if got := c.Now(test.uid, test.node, test.driver); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestRealCards judges what the probe said on real cards; testdata/gpu/README says when and where.
func TestRealCards(t *testing.T) {
	for name, test := range map[string]struct {
		want    Enforcement
		wantWhy string
		grown   int // MiB at which cuMemAlloc was refused, or stopped
	}{
		"unlimited":       {NotEnforced, WhyServed, 9271},
		"mps-default":     {Enforced, "", 7424},
		"mps-client":      {NotEnforced, WhyEnvironment, 7424},
		"mps-client-kept": {Enforced, "", 7424},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := realEvidence(t, name)
			target := Target{Pod: "worker", Mode: ModeCGPU, Slice: Slice{Pool: "h200", GiB: 8, Cards: 1}, CardGiB: 140, CardMiB: 143771, NeighboursMiB: mib(0)}
			got := Judge(target, evidence)
			if got.Enforcement != test.want || got.Reason.Code != test.wantWhy {
				t.Errorf("%s %+v, want %s %q", got.Enforcement, got.Reason, test.want, test.wantWhy)
			}
			for _, row := range got.Rows {
				if row.Check == CheckBoundary && row.Seen["served_mib"] != test.grown {
					t.Errorf("the boundary is at %v MiB, want %d", row.Seen["served_mib"], test.grown)
				}
				if row.Check == CheckCard && row.Seen["total_mib"] != 143771 {
					t.Errorf("the total is %v MiB", row.Seen["total_mib"])
				}
			}
		})
	}
}

func realEvidence(t *testing.T, name string) Evidence {
	t.Helper()
	file, err := os.Open(filepath.Join("k8s", "probe", "testdata", "gpu", name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	evidence, err := DecodeEvidence(file, name)
	if err != nil {
		t.Fatal(err)
	}
	return evidence
}
