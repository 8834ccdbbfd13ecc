package web

import (
	"time"

	"github.com/rayslice/rayslice"
)

// SampleEvidence is what the probe says of one worker with 8 GiB of an A10: the numbers of the document that rayslice began
// with. There 4 GiB could be allocated, 16 GiB could not, and nvidia-smi showed 8373 MiB.
func SampleEvidence(pod string) rayslice.Evidence {
	number := func(n int) *int { return &n }
	ran := rayslice.ProbeStep{State: rayslice.StepRan}
	reads := map[string]string{"alloc": "cuMemAlloc", "async": "cuMemAllocAsync", "vmm": "cuMemCreate", "managed": "cuMemAllocManaged"}
	attempt := func(process, api, purpose string, mib, served int) rayslice.AllocEvidence {
		a := rayslice.AllocEvidence{ProbeStep: ran, Process: process, API: api, Purpose: purpose, MiB: mib, Served: served}
		a.Read = reads[api]
		if served < mib {
			a.Refused, a.Call, a.Result, a.Name = true, a.Read, rayslice.CUDAOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"
		}
		return a
	}
	worker := rayslice.WorkerEvidence{
		Pod: pod, NodeID: "n1", Seconds: 1.4,
		Variables: rayslice.VariableEvidence{ProbeStep: ran, Values: map[string]string{
			"ALIYUN_COM_GPU_MEM_CONTAINER": "8", "ALIYUN_COM_GPU_MEM_DEV": "22", "ALIYUN_COM_GPU_MEM_UNIT": "GiB", "NVIDIA_VISIBLE_DEVICES": "0"}},
		SMI: rayslice.SMIEvidence{ProbeStep: ran, Driver: "535.161.07", Cards: []rayslice.SMICard{
			{UUID: "GPU-6c11a1bd-5b2c-4f0e-9b7e-2f6b7c1d9e01", Name: "NVIDIA A10", TotalMiB: number(8373), UsedMiB: number(0)}}},
		CUDA: rayslice.CUDAEvidence{ProbeStep: ran, Version: 12020, Devices: []rayslice.CUDADevice{{Name: "NVIDIA A10", TotalMiB: number(8373), FreeMiB: number(8138)}}},
		Allocation: []rayslice.AllocEvidence{
			attempt("fresh", "alloc", "inside", 4096, 4096), attempt("fresh", "alloc", "beyond", 16384, 0), attempt("fresh", "alloc", "grow", 16384, 7936),
			attempt("fresh", "async", "beyond", 16384, 0), attempt("fresh", "async", "grow", 16384, 7936),
			attempt("fresh", "vmm", "beyond", 16384, 0), attempt("fresh", "vmm", "grow", 16384, 7936),
			attempt("clean", "alloc", "beyond", 16384, 0), attempt("clean", "alloc", "grow", 16384, 7936),
			attempt("fresh", "managed", "beyond", 16384, 0),
		},
		Neighbours: rayslice.NeighboursEvidence{ProbeStep: rayslice.ProbeStep{State: rayslice.StepSkipped, Code: rayslice.StepAlone}},
	}
	worker.Variables.Read, worker.SMI.Read = "/proc/7/environ, the raylet's", "nvidia-smi --query-gpu=…"
	return rayslice.Evidence{Schema: rayslice.EvidenceSchema, Version: "1.0.0", Run: "sample", Mode: "cluster", Workers: []rayslice.WorkerEvidence{worker},
		Ray: &rayslice.RayEvidence{Version: "2.52.0", GPUs: 2, Nodes: []rayslice.RayNode{{ID: "n0", Head: true}, {ID: "n1", GPUs: 1}, {ID: "n2", GPUs: 1}}}}
}

// SampleCertificate judges SampleEvidence, after change, for a worker of the sample cluster.
func SampleCertificate(w rayslice.Worker, at time.Time, change func(*rayslice.Target, *rayslice.WorkerEvidence)) rayslice.Certificate {
	neighbours := 4187
	target := rayslice.Target{Pod: w.Name, PodUID: w.UID, Node: w.Node, Mode: rayslice.ModeCGPU, Slice: w.Slice, CardGiB: 22, CardMiB: 23028,
		NeighboursMiB: &neighbours, GPUWorkers: 2}
	evidence := SampleEvidence(w.Name)
	if change != nil {
		change(&target, &evidence.Workers[0])
	}
	return rayslice.Certificate{ID: 1, RequestID: "k5d2m7qxw3ab", Run: "sample", At: at, Probe: "1.0.0", Driver: "535.161.07",
		CardUUID: "GPU-6c11a1bd-5b2c-4f0e-9b7e-2f6b7c1d9e01", Target: target, Judgement: rayslice.Judge(target, evidence)}
}

// served makes the worker get all it asks for.
func served(_ *rayslice.Target, w *rayslice.WorkerEvidence) {
	for i := range w.Allocation {
		a := &w.Allocation[i]
		a.Served, a.Refused, a.Result, a.Name = a.MiB, false, 0, ""
	}
	total := 23028
	w.SMI.Cards[0].TotalMiB = &total
}

// verify gives the page's workers certificates: the i-th change is for the i-th worker.
func verify(p *RequestPage, changes ...func(*rayslice.Target, *rayslice.WorkerEvidence)) {
	run := rayslice.Verification{Run: "sample", RequestID: p.Request.ID, AskedAt: p.Request.ReadyAt.Add(-9 * time.Second), EndedAt: p.Request.ReadyAt}
	p.Verification = VerificationView{Runs: []rayslice.Verification{run}, CanVerify: true}
	for i, change := range changes {
		w := &p.Cluster.Workers[i]
		w.UID = "uid-" + w.Name
		p.Verification.Certificates = append(p.Verification.Certificates, SampleCertificate(*w, run.EndedAt, change))
	}
	p.Cluster.Verification = rayslice.VerificationDone
}

func verificationSamples() []Sample {
	return []Sample{
		requestSample("verified", rayslice.StateReady, func(p *RequestPage) { verify(p, nil, nil) }),
		requestSample("verified-not-enforced", rayslice.StateReady, func(p *RequestPage) { verify(p, nil, served) }),
		requestSample("verified-inconclusive", rayslice.StateReady, func(p *RequestPage) {
			verify(p, func(t *rayslice.Target, _ *rayslice.WorkerEvidence) { full := 14000; t.NeighboursMiB = &full },
				func(_ *rayslice.Target, w *rayslice.WorkerEvidence) {
					w.Error = &rayslice.ProbeError{Code: rayslice.ProbeHostMemory, Detail: "OutOfMemoryError: <script>alert(1)</script> Task was killed due to the node running low on memory."}
				})
			p.Verification.Runs = append(p.Verification.Runs, rayslice.Verification{Run: "older", By: "نور الهدى", AskedAt: p.Now.Add(-time.Hour),
				EndedAt: p.Now.Add(-time.Hour), Reason: rayslice.Reason{Code: rayslice.ReasonVerifyNoJobs, Detail: "head answers /api/jobs/ with status 500"}})
		}),
		requestSample("verified-out-of-date", rayslice.StateReady, func(p *RequestPage) {
			verify(p, nil, nil)
			p.Cluster.Workers[0].UID = "another"
		}),
		requestSample("verification-runs", rayslice.StateProvisioning, func(p *RequestPage) {
			p.Cluster.Verification = rayslice.VerificationDue
			p.Verification = VerificationView{Runs: []rayslice.Verification{{Run: "sample", AskedAt: p.Now.Add(-4 * time.Second), StartedAt: p.Now.Add(-4 * time.Second)}}}
		}),
		requestSample("verification-off", rayslice.StateReady, func(p *RequestPage) {
			p.Cluster.Verification, p.Verification.CanVerify = rayslice.VerificationOff, true
		}),
	}
}
