package rayslice

import (
	"encoding/json"
	"time"
)

// Enforcement is the verdict of one verification of one worker.
type Enforcement string

// The verdicts.
const (
	Enforced     Enforcement = "enforced"     // the worker gets its slice and cannot get more, and that was shown
	NotEnforced  Enforcement = "not_enforced" // it can get more than it asked for, or nothing is there to hold it
	Inconclusive Enforcement = "inconclusive" // neither was shown; the reason says what stood in the way
	OutOfDate    Enforcement = "out_of_date"  // a verdict about a pod, node or driver that is another by now
)

// Enforcements returns every verdict, the best first.
func Enforcements() []Enforcement {
	return []Enforcement{Enforced, Inconclusive, OutOfDate, NotEnforced}
}

// A Target is one worker pod that is verified, and what was asked for it. The evidence cannot say these things of itself.
type Target struct {
	Pod           string `json:"pod"`
	PodUID        string `json:"pod_uid"`
	IP            string `json:"ip"`             // of the pod; Ray's address of the worker
	Node          string `json:"node"`           // Kubernetes' name
	Mode          Mode   `json:"mode"`           // how the pool's cards are shared
	Slice         Slice  `json:"slice"`          // what the pod asks for
	CardGiB       int    `json:"card_gib"`       // GiB one card of the pool offers; 0 = unknown
	CardMiB       int    `json:"card_mib"`       // physical MiB of one card (label aliyun.accelerator/nvidia_mem); 0 = unknown
	NeighboursMiB *int   `json:"neighbours_mib"` // most that others may hold on the card, MiB; nil = unknown, which proves nothing
	GPUWorkers    int    `json:"gpu_workers"`    // GPUs that the cluster's pods account for, which Ray should count; 0 = unknown
}

// Check names one row of a judgement.
type Check string

// The checks, in the order people read them.
const (
	CheckVariables  Check = "variables"  // what the device plugin injected; proves nothing alone
	CheckCard       Check = "card"       // nvidia-smi: how many cards, how large
	CheckRay        Check = "ray"        // how many GPUs Ray counts
	CheckInside     Check = "inside"     // half of the slice can be allocated
	CheckBeyond     Check = "beyond"     // more than the slice cannot
	CheckBoundary   Check = "boundary"   // where growing step by step ends: cuMemAlloc
	CheckAsync      Check = "async"      // the same with cuMemAllocAsync
	CheckVMM        Check = "vmm"        // the same with cuMemCreate
	CheckManaged    Check = "managed"    // cuMemAllocManaged; what is served may lie in the host's memory
	CheckClean      Check = "clean"      // the same as boundary with an environment that holds no limit
	CheckNeighbours Check = "neighbours" // two of our workers fill one card at the same time
	CheckCompute    Check = "compute"    // speed against the granted percentage; reported, never judged
)

// Checks returns every check in the order of a judgement's rows.
func Checks() []Check {
	return []Check{CheckVariables, CheckCard, CheckRay, CheckInside, CheckBeyond, CheckBoundary, CheckAsync, CheckVMM,
		CheckManaged, CheckClean, CheckNeighbours, CheckCompute}
}

// Passive reports whether the check only reads, so that it may run beside somebody's work.
func (c Check) Passive() bool { return c == CheckVariables || c == CheckCard || c == CheckRay }

// CheckResult is how one check went.
type CheckResult string

// The results of a check.
const (
	CheckPassed       CheckResult = "pass"
	CheckFailed       CheckResult = "fail"
	CheckInconclusive CheckResult = "inconclusive"
	CheckSkipped      CheckResult = "skipped"  // not made; the reason says why
	CheckReported     CheckResult = "reported" // measured and not judged
)

// A ProofRow is one check of a judgement for people: what was asked, what was seen, and what that proves. The sentences
// stand in the catalogues: asked_<Check> and seen_<Check> filled in with Asked and Seen, proves_<Proves>, and the Why… and Probe… codes of Reason.
type ProofRow struct {
	Check  Check       `json:"check"`
	Result CheckResult `json:"result"`
	Reason Reason      `json:"reason"` // why it is not a pass; zero for a pass
	Asked  Facts       `json:"asked"`
	Seen   Facts       `json:"seen"`   // untrusted; what is missing is unknown
	Read   string      `json:"read"`   // what the probe read, e.g. "cuMemAlloc"
	Proves Proof       `json:"proves"` // what the result says about the limit
	Raw    string      `json:"raw"`    // words of a tool, for the admin's view, untrusted; "" = none
}

// Facts are numbers and texts by name; the names of sizes end in _mib.
type Facts map[string]any

// UnmarshalJSON reads whole numbers back as int, as they were written.
func (f *Facts) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, (*map[string]any)(f)); err != nil {
		return err
	}
	wholeNumbers(*f)
	return nil
}

// Proof is what one row proves.
type Proof string

// What a row can prove.
const (
	ProvesNothing    Proof = "nothing"    // by itself, e.g. variables, which anybody can set
	ProvesLimit      Proof = "limit"      // something stops the worker where its slice ends
	ProvesNoLimit    Proof = "no_limit"   // nothing does
	ProvesGranted    Proof = "granted"    // the worker really gets what it asked for
	ProvesHint       Proof = "hint"       // fits the slice, and would also without a limit
	ProvesNeighbours Proof = "neighbours" // workers on one card do not take from each other
)

// A Judgement is what the evidence about one worker says.
type Judgement struct {
	Enforcement Enforcement `json:"enforcement"`
	Reason      Reason      `json:"reason"` // why it is not enforced, or not shown; zero when enforced
	Rows        []ProofRow  `json:"rows"`   // in the order of Checks; checks that make no sense here are left out
	InUse       bool        `json:"in_use"` // somebody works on the slice, so only the passive checks were made
}

// Codes of a judgement's reason. The first group means not enforced, the second inconclusive.
const (
	WhyServed        = "served_beyond"     // memory beyond the slice was given out; Args: api, mib, slice_mib
	WhyEnvironment   = "limit_environment" // the limit ends where a variable is missing (field case B046); Args: api, mib
	WhyWholeSeen     = "whole_card_seen"   // the worker sees the whole card and no limit was found; Args: total_mib, slice_mib
	WhyManyCards     = "many_cards"        // sees more cards than it asked for; Args: cards, asked
	WhyDisabled      = "isolation_off"     // CGPU_DISABLE is set in the worker
	WhyShareMode     = "share_mode"        // the pool enforces nothing
	WhyRayGPUs       = "ray_gpus"          // Ray counts more GPUs than slices; Args: expected, seen
	WhyNeighbourHurt = "neighbour_seen"    // a worker on the same card lost memory to another; Args: mib, slice_mib

	WhyNoEvidence     = "no_evidence"        // nothing was read about this worker
	WhyProbeFailed    = "probe_failed"       // Args: code, one of the Probe… constants
	WhyWrongWorker    = "wrong_worker"       // the evidence is about another pod; Args: ip
	WhyWholeCard      = "whole_card"         // it asked for whole cards: there is nothing to prove
	WhyWholeSlice     = "slice_is_card"      // the slice is as large as the card: any limit is the card's own
	WhyInUse          = "in_use"             // somebody works on it: only the passive checks were made
	WhyGPULost        = "gpu_lost"           // nvidia-smi finds no usable card (field case B062); Detail: its words
	WhyDriver         = "driver_failed"      // the CUDA driver does not work; Args: call, cuda
	WhyInside         = "inside_refused"     // not even a part of the slice was given; Args: mib, cuda
	WhyOtherError     = "not_out_of_memory"  // something else than the driver's out-of-memory said no; Args: api, cuda
	WhyStuck          = "driver_stuck"       // a call did not return in time; Args: api
	WhyCardSmall      = "card_too_small"     // the card could not have served the size in any case; Args: mib, card_mib
	WhyCardFull       = "card_full"          // neighbours hold so much that it could not have; Args: mib, card_mib, neighbours_mib
	WhyNeighboursDark = "neighbours_unknown" // nobody knows what others hold on the card
	WhyBoundary       = "boundary_elsewhere" // it was stopped, but not where the slice ends; Args: mib, slice_mib
	WhyTotal          = "total_mismatch"     // nvidia-smi shows neither slice nor card; Args: total_mib, low_mib, high_mib
	WhyNotMade        = "check_not_made"     // a check that is needed has no result; Args: check, code

	// Reasons of single rows that do not decide anything.
	WhyVariablesMissing = "variables_missing" // the device plugin has set none
	WhyVariablesDiffer  = "variables_differ"  // they say another size than was asked for; Args: container
	WhyVisibleSet       = "visible_set"       // NVIDIA_VISIBLE_DEVICES is not the device plugin's; Args: value
	WhyTotalUnknown     = "total_unknown"     // nvidia-smi shows no size
	WhyMaybeHost        = "maybe_host_memory" // managed memory was given, which may lie outside the card
	WhyRayMissing       = "ray_gpus_missing"  // workers have not joined Ray yet; Args: expected, seen
)

// A Certificate is the judgement of one verification of one worker, with what it rests on. It is never changed; the latest
// of a pod counts.
type Certificate struct {
	ID        int64     `json:"id"`
	RequestID string    `json:"request_id"`
	Run       string    `json:"run"` // the verification it came from: one run covers all workers of a cluster
	At        time.Time `json:"at"`  // when the probe looked
	Probe     string    `json:"probe"`
	Driver    string    `json:"driver"` // NVIDIA driver's version; "" = unknown
	CardUUID  string    `json:"card_uuid"`
	Target    Target    `json:"target"`
	Judgement Judgement `json:"judgement"`

	// NodeDriver is the driver's version that the latest certificate of the same node found, whosesoever; "" = unknown. It is no
	// part of the certificate.
	NodeDriver string `json:"-"`
}

// Now returns the verdict as it counts for the worker at this moment: out of date when pod, node or driver are others than
// those that were looked at. driver "" means that nobody knows better.
func (c Certificate) Now(podUID, node, driver string) Enforcement {
	switch {
	case podUID != c.Target.PodUID, node != c.Target.Node, driver != "" && c.Driver != "" && driver != c.Driver:
		return OutOfDate
	}
	return c.Judgement.Enforcement
}
