package rayslice

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

func (j *judge) variables() {
	v := j.worker.Variables
	row := ProofRow{Check: CheckVariables, Result: CheckPassed, Read: v.Read, Asked: Facts{"gib": j.target.Slice.GiB}, Seen: Facts{}}
	for name, key := range map[string]string{
		"ALIYUN_COM_GPU_MEM_CONTAINER": "container", "ALIYUN_COM_GPU_MEM_DEV": "dev", "ALIYUN_COM_GPU_MEM_UNIT": "unit",
		"NVIDIA_VISIBLE_DEVICES": "nvidia_visible", "CUDA_VISIBLE_DEVICES": "cuda_visible", "CGPU_DISABLE": "cgpu_disable",
	} {
		if value, ok := v.Values[name]; ok {
			row.Seen[key] = value
		}
	}
	container, set := v.Values["ALIYUN_COM_GPU_MEM_CONTAINER"]
	switch visible := v.Values["NVIDIA_VISIBLE_DEVICES"]; {
	case !v.Ran():
		row.Result, row.Reason = CheckInconclusive, notMade(CheckVariables, v.Code)
	case disabled(j.worker):
		row.Result, row.Reason = CheckFailed, Reason{Code: WhyDisabled}
	case j.target.Slice.Whole():
	case visible == "all" || strings.Contains(visible, ",") && j.cards() == 1:
		row.Result, row.Reason = CheckFailed, Reason{Code: WhyVisibleSet, Args: map[string]any{"value": visible}}
	case !set:
		row.Result, row.Reason = CheckInconclusive, Reason{Code: WhyVariablesMissing}
	case !j.sameSize(container, v.Values["ALIYUN_COM_GPU_MEM_UNIT"]):
		row.Result, row.Reason = CheckFailed, Reason{Code: WhyVariablesDiffer, Args: map[string]any{"container": container}}
	}
	j.add(row)
}

// cards is how many the worker asked for.
func (j *judge) cards() int { return max(1, j.target.Slice.Cards) }

func (j *judge) sameSize(container, unit string) bool {
	want := j.target.Slice.GiB * j.cards()
	if strings.EqualFold(unit, "MiB") {
		want *= 1024
	}
	return container == strconv.Itoa(want)
}

func (j *judge) card() {
	smi, s := j.worker.SMI, j.sizes
	row := ProofRow{Check: CheckCard, Result: CheckPassed, Read: smi.Read, Proves: ProvesHint, Raw: strings.Join(smi.Noise, "\n"),
		Asked: Facts{"cards": j.cards(), "low_mib": s.low, "high_mib": s.high, "card_mib": s.card}, Seen: Facts{}}
	count := max(len(smi.Cards), len(j.worker.CUDA.Devices))
	if count > 0 {
		row.Seen["cards"] = count
	}
	if len(smi.Cards) > 0 {
		row.Seen["uuid"], row.Seen["name"] = smi.Cards[0].UUID, smi.Cards[0].Name
		if used := smi.Cards[0].UsedMiB; used != nil {
			row.Seen["used_mib"] = *used
		}
	}
	total := j.total()
	if total != nil {
		row.Seen["total_mib"] = *total
	}
	row.Result, row.Reason = j.cardResult(count, total)
	if row.Result != CheckPassed {
		row.Proves = ProvesNothing
	}
	if row.Reason.Code == WhyManyCards || row.Reason.Code == WhyWholeSeen && j.worker.InUse.InUse {
		row.Proves = ProvesNoLimit
	}
	j.add(row)
}

func (j *judge) cardResult(count int, total *int) (CheckResult, Reason) {
	smi, s := j.worker.SMI, j.sizes
	switch {
	case count > j.cards():
		why := Reason{Code: WhyManyCards, Args: map[string]any{"cards": count, "asked": j.cards()}}
		j.breach(why)
		return CheckFailed, why
	case !smi.Ran() && (smi.Code == StepSMIFailed || smi.Code == StepStuck):
		why := Reason{Code: WhyGPULost, Args: map[string]any{"exit_code": smi.ExitCode}, Detail: strings.Join(smi.Noise, "\n")}
		j.doubt(why)
		return CheckInconclusive, why
	case total == nil:
		why := Reason{Code: WhyTotalUnknown}
		if !smi.Ran() {
			why = notMade(CheckCard, smi.Code)
		}
		return CheckInconclusive, why
	case j.target.Slice.Whole(), *total >= s.low && *total <= s.high:
		return CheckPassed, Reason{}
	case s.whole(*total):
		j.seen = true
		return CheckInconclusive, j.wholeSeen()
	}
	why := Reason{Code: WhyTotal, Args: map[string]any{"total_mib": *total, "low_mib": s.low, "high_mib": s.high}}
	j.doubt(why)
	return CheckFailed, why
}

func (j *judge) rayCount() {
	row := ProofRow{Check: CheckRay, Result: CheckPassed, Read: "ray.nodes()", Asked: Facts{"gpus": j.cards(), "head": 0}, Seen: Facts{}}
	if j.target.GPUWorkers > 0 {
		row.Asked["total"] = j.target.GPUWorkers
	}
	if j.ray == nil {
		row.Result, row.Reason = CheckSkipped, notMade(CheckRay, StepNotAsked)
		j.add(row)
		return
	}
	own, head := math.NaN(), 0.0
	for _, n := range j.ray.Nodes {
		if n.ID == j.worker.NodeID {
			own = n.GPUs
			row.Seen["gpus"] = n.GPUs
		}
		if n.Head {
			head += n.GPUs
		}
	}
	row.Seen["head"], row.Seen["total"], row.Raw = head, j.ray.GPUs, j.ray.Problem
	asked, all := float64(j.cards()), float64(j.target.GPUWorkers)
	counted := func(expected, seen float64) Reason {
		return Reason{Code: WhyRayGPUs, Args: map[string]any{"expected": int(expected), "seen": seen}}
	}
	switch {
	case own > asked:
		row.Result, row.Reason = CheckFailed, counted(asked, own)
	case head > 0:
		row.Result, row.Reason = CheckFailed, counted(0, head)
	case all > 0 && j.ray.GPUs > all: // somewhere else: a pod that has just gone, or that is not ours
		row.Result, row.Reason = CheckFailed, counted(all, j.ray.GPUs)
		j.doubt(row.Reason)
		j.add(row)
		return
	case !(own == asked): // also when the node is not there
		row.Result, row.Reason = CheckInconclusive, Reason{Code: WhyRayMissing, Args: map[string]any{"expected": int(asked), "seen": row.Seen["gpus"]}}
		j.doubt(row.Reason)
	case j.ray.GPUs < all: // others are missing, which says nothing about this one
		row.Result, row.Reason = CheckInconclusive, Reason{Code: WhyRayMissing, Args: map[string]any{"expected": int(all), "seen": j.ray.GPUs}}
	}
	if row.Result == CheckFailed {
		j.breach(row.Reason)
	}
	j.add(row)
}

// attempt finds one attempt to get memory.
func (j *judge) attempt(process, api, purpose string) (AllocEvidence, bool) {
	i := slices.IndexFunc(j.worker.Allocation, func(a AllocEvidence) bool {
		return a.Process == process && a.API == api && a.Purpose == purpose
	})
	if i < 0 {
		return AllocEvidence{}, false
	}
	return j.worker.Allocation[i], true
}

func (j *judge) allocations() {
	if cuda := j.worker.CUDA; cuda.State == StepFailed {
		why := Reason{Code: WhyDriver, Args: map[string]any{"call": cuda.Call, "cuda": cuda.Result}, Detail: cuda.Detail}
		if cuda.Code == StepStuck {
			why = Reason{Code: WhyStuck, Args: map[string]any{"api": cuda.Call}}
		}
		j.doubt(why)
	}
	j.inside()
	beyond := j.beyond()
	boundary := j.boundary(CheckBoundary, "fresh", "alloc")
	async := j.boundary(CheckAsync, "fresh", "async")
	vmm := j.boundary(CheckVMM, "fresh", "vmm")
	j.managed()
	clean := j.boundary(CheckClean, "clean", "alloc")
	held := func(r CheckResult) bool { return r == CheckPassed || r == CheckSkipped }
	j.shown = beyond == CheckPassed && boundary == CheckPassed && clean == CheckPassed && held(async) && held(vmm)
}

// notRun says why an attempt has no result; the row's reason comes first, then whether it stands in the way of a verdict.
func (j *judge) notRun(check Check, a AllocEvidence, found bool) (CheckResult, Reason) {
	switch {
	case found && a.State == StepSkipped && a.Code == StepNotSupported && (check == CheckAsync || check == CheckVMM):
		return CheckSkipped, notMade(check, a.Code)
	case found && a.State == StepSkipped && a.Code == StepNoRoom:
		why := j.room(j.sizes.high + cardRoom)
		if why.IsZero() { // the probe knew of less room than we do
			why = notMade(check, a.Code)
		}
		j.doubt(why)
		return CheckInconclusive, why
	case found && a.State == StepSkipped && a.Code == StepInUse:
		j.doubt(Reason{Code: WhyInUse})
		return CheckSkipped, Reason{Code: WhyInUse}
	case found && a.State == StepFailed && a.Code == StepStuck:
		why := Reason{Code: WhyStuck, Args: map[string]any{"api": a.API}}
		j.doubt(why)
		return CheckInconclusive, why
	}
	why := notMade(check, a.Code)
	j.doubt(why)
	if !found || a.State == StepFailed {
		return CheckInconclusive, why
	}
	return CheckSkipped, why
}

func (a AllocEvidence) otherError() Reason {
	return Reason{Code: WhyOtherError, Args: map[string]any{"api": a.API, "cuda": a.Result}, Detail: a.Name}
}

func (a AllocEvidence) seen() Facts {
	seen := Facts{"served_mib": a.Served, "refused": a.Refused}
	if a.Refused {
		seen["cuda"], seen["name"] = a.Result, a.Name
	}
	return seen
}

func (j *judge) inside() {
	a, found := j.attempt("fresh", "alloc", "inside")
	row := ProofRow{Check: CheckInside, Result: CheckPassed, Read: a.Read, Proves: ProvesGranted, Asked: Facts{"mib": a.MiB}}
	switch {
	case !found || !a.Ran():
		row.Result, row.Reason = j.notRun(CheckInside, a, found)
	case a.Refused || a.Served < a.MiB || a.MiB <= 0:
		row.Result, row.Reason = CheckFailed, Reason{Code: WhyInside, Args: map[string]any{"mib": a.MiB, "cuda": a.Result}, Detail: a.Name}
		row.Seen = a.seen()
		j.doubt(row.Reason)
	default:
		row.Seen = a.seen()
	}
	if row.Result != CheckPassed {
		row.Proves = ProvesNothing
	}
	j.add(row)
}

// beyond judges one request for more than the slice. A refusal counts only when the card could have served it.
func (j *judge) beyond() CheckResult {
	a, found := j.attempt("fresh", "alloc", "beyond")
	row := ProofRow{Check: CheckBeyond, Result: CheckPassed, Read: a.Read, Proves: ProvesLimit,
		Asked: Facts{"mib": a.MiB, "slice_mib": j.sizes.high, "card_mib": j.sizes.card}}
	if neighbours := j.neighboursMiB(); neighbours != nil {
		row.Asked["neighbours_mib"] = *neighbours
	}
	if !found || !a.Ran() {
		row.Result, row.Reason = j.notRun(CheckBeyond, a, found)
	} else {
		row.Seen = a.seen()
		row.Result, row.Reason, row.Proves = j.refusal(CheckBeyond, a)
	}
	if row.Result == CheckSkipped || row.Result == CheckInconclusive {
		row.Proves = ProvesNothing
	}
	j.add(row)
	return row.Result
}

// refusal judges an attempt that was made to get more than the slice.
func (j *judge) refusal(check Check, a AllocEvidence) (CheckResult, Reason, Proof) {
	why := Reason{}
	switch {
	case a.Served > j.sizes.high:
		why = Reason{Code: WhyServed, Args: map[string]any{"api": a.API, "mib": a.Served, "slice_mib": j.sizes.high}}
		if check == CheckClean && j.heldFresh() {
			why = Reason{Code: WhyEnvironment, Args: map[string]any{"api": a.API, "mib": a.Served}}
		}
		j.breach(why)
		return CheckFailed, why, ProvesNoLimit
	case a.MiB <= j.sizes.high, !a.Refused: // it did not even try
		why = notMade(check, a.Code)
	case a.Result != CUDAOutOfMemory:
		why = a.otherError()
	default:
		why = j.room(a.MiB)
	}
	if why.IsZero() {
		return CheckPassed, why, ProvesLimit
	}
	j.doubt(why)
	return CheckInconclusive, why, ProvesNothing
}

// heldFresh reports whether something held the process with the container's own environment.
func (j *judge) heldFresh() bool {
	for _, purpose := range []string{"beyond", "grow"} {
		a, found := j.attempt("fresh", "alloc", purpose)
		if !found || !a.Ran() || !a.Refused || a.Served > j.sizes.high {
			return false
		}
	}
	return true
}

// boundary judges where growing ended, beside one request for more than the slice made in the same way.
func (j *judge) boundary(check Check, process, api string) CheckResult {
	grown, found := j.attempt(process, api, "grow")
	least := j.sizes.low - max(leastBoundary, j.sizes.low/8)
	row := ProofRow{Check: check, Result: CheckPassed, Read: grown.Read, Proves: ProvesLimit,
		Asked: Facts{"mib": grown.MiB, "least_mib": max(0, least), "slice_mib": j.sizes.high}}
	if !found || !grown.Ran() {
		row.Result, row.Reason = j.notRun(check, grown, found)
	} else {
		row.Seen = grown.seen()
		row.Result, row.Reason, row.Proves = j.refusal(check, grown)
		if at, ok := j.attempt(process, api, "beyond"); row.Result == CheckPassed && (!ok || !at.Ran()) {
			row.Result, row.Reason = j.notRun(check, at, ok)
		} else if row.Result == CheckPassed {
			row.Result, row.Reason, row.Proves = j.refusal(check, at)
		}
	}
	if row.Result == CheckPassed && grown.Served < least {
		row.Result, row.Reason = CheckInconclusive, Reason{Code: WhyBoundary, Args: map[string]any{"mib": grown.Served, "slice_mib": j.sizes.low}}
		j.doubt(row.Reason)
	}
	if row.Result == CheckSkipped || row.Result == CheckInconclusive {
		row.Proves = ProvesNothing
	}
	j.add(row)
	return row.Result
}

// managed is told and decides nothing: managed memory may lie in the machine's own.
func (j *judge) managed() {
	a, found := j.attempt("fresh", "managed", "beyond")
	row := ProofRow{Check: CheckManaged, Result: CheckPassed, Read: a.Read, Proves: ProvesHint, Asked: Facts{"mib": a.MiB, "slice_mib": j.sizes.high}}
	switch {
	case !found || !a.Ran():
		row.Result, row.Reason, row.Proves = CheckSkipped, notMade(CheckManaged, a.Code), ProvesNothing
	case a.Refused:
		row.Seen = a.seen()
	default:
		row.Seen, row.Proves = a.seen(), ProvesNothing
		row.Result, row.Reason = CheckInconclusive, Reason{Code: WhyMaybeHost}
	}
	j.add(row)
}

func (j *judge) neighbours() {
	n := j.worker.Neighbours
	row := ProofRow{Check: CheckNeighbours, Result: CheckPassed, Read: n.Read, Proves: ProvesNeighbours, Raw: n.Detail,
		Asked: Facts{"mib": n.AskedMiB}, Seen: Facts{"held_mib": n.HeldMiB, "seconds": n.Overlap, "with": strings.Join(n.With, ", ")}}
	switch {
	case !n.Ran():
		row.Result, row.Reason, row.Seen = CheckSkipped, notMade(CheckNeighbours, n.Code), nil
	case len(n.With) == 0 || n.Overlap < leastOverlap || n.AskedMiB <= 0:
		row.Result, row.Reason = CheckInconclusive, notMade(CheckNeighbours, StepAlone)
	case n.HeldMiB < n.AskedMiB:
		row.Result, row.Reason = CheckFailed, Reason{Code: WhyNeighbourHurt, Args: map[string]any{"mib": n.HeldMiB, "slice_mib": n.AskedMiB}}
		row.Proves = ProvesNoLimit
		j.breach(row.Reason)
	}
	if row.Result == CheckSkipped || row.Result == CheckInconclusive {
		row.Proves = ProvesNothing
	}
	j.add(row)
}

func (j *judge) compute() {
	if j.target.Slice.CorePercent == 0 {
		return
	}
	c := j.worker.Compute
	row := ProofRow{Check: CheckCompute, Result: CheckReported, Read: c.Read, Raw: c.Detail, Asked: Facts{"percent": j.target.Slice.CorePercent},
		Seen: Facts{"share": c.Share, "millis": c.Millis, "fast_millis": c.FastMillis}}
	if !c.Ran() {
		row.Result, row.Reason, row.Seen = CheckSkipped, notMade(CheckCompute, c.Code), nil
	}
	j.add(row)
}
