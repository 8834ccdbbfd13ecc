package rayslice

import (
	"slices"
	"time"
)

// A Verification is one run of the probe over workers of one cluster.
type Verification struct {
	Run       string    `json:"run"` // names the run, also as the id of the Ray job that does it
	RequestID string    `json:"request_id"`
	By        string    `json:"by"` // name of the person who asked for it; "" = the portal
	AskedAt   time.Time `json:"asked_at"`
	StartedAt time.Time `json:"started_at"` // when its job was first sent; zero = not yet
	EndedAt   time.Time `json:"ended_at"`   // zero = not yet
	Pods      []string  `json:"pods"`       // UIDs of the workers that it covers
	Reason    Reason    `json:"reason"`     // why it brought no evidence; zero = it did
}

// Open reports whether the run has not ended.
func (v Verification) Open() bool { return v.EndedAt.IsZero() }

// VerificationWork is what the portal needs to know to verify one cluster.
type VerificationWork struct {
	Off     bool          // the request or its team wants no verification by itself
	Open    *Verification // the run that is under way or asked for; nil = none
	Covered []CoveredPod  // pods that ended runs have looked at, whatever the outcome
}

// A CoveredPod is a worker that verifications have looked at.
type CoveredPod struct {
	Pod    string    // its UID
	Runs   int       // how many have ended
	At     time.Time // when the latest of them ended
	Reason Reason    // why that one came to no verdict; zero = it did
}

// retries is how long after a run that failed for a passing reason the next one begins by itself: after the first, the second
// and so on. Then somebody has to ask.
var retries = [...]time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}

// Unseen returns those of the pods that no run has looked at, where that is wanted: what the gate before ready waits for.
func (w VerificationWork) Unseen(pods []string) []string {
	return w.choose(pods, func(CoveredPod) bool { return false })
}

// Due returns those of the pods that the portal should verify by itself now: the ones nobody has looked at, and those whose
// latest run failed for a reason that may have passed.
func (w VerificationWork) Due(pods []string, now time.Time) []string {
	return w.choose(pods, func(c CoveredPod) bool {
		return c.Reason.Passing() && c.Runs <= len(retries) && !now.Before(c.At.Add(retries[max(0, c.Runs-1)]))
	})
}

func (w VerificationWork) choose(pods []string, again func(CoveredPod) bool) []string {
	if w.Off {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pods), func(uid string) bool {
		at := slices.IndexFunc(w.Covered, func(c CoveredPod) bool { return c.Pod == uid })
		return at >= 0 && !again(w.Covered[at])
	})
}

// Passing reports whether a verification that came to no verdict for this reason may come to one later without anybody's doing.
func (r Reason) Passing() bool {
	switch r.Code {
	case ReasonVerifyNoJobs, ReasonVerifyLate, ReasonVerifyJob, ReasonVerifyNoAnswer,
		WhyNoEvidence, WhyNeighboursDark, WhyRayMissing, WhyRayGPUs:
		return true
	case WhyProbeFailed:
		code, _ := r.Args["code"].(string)
		return slices.Contains([]string{ProbeNoRay, ProbeNoNode, ProbeTimeout, ProbeHostMemory, ProbeWorkerDied, ProbeNodeLost, ProbeTaskFailed}, code)
	}
	return false
}

// Codes of why a verification brought no evidence; the sentences stand in the catalogues as reason_<code>.
const (
	ReasonVerifyNoJobs   = "verify_no_jobs"   // the head's Jobs API does not answer, or refuses the job; Detail: its words
	ReasonVerifyLate     = "verify_late"      // the job did not end in time; Args: seconds
	ReasonVerifyJob      = "verify_job"       // the job failed before it could say anything; Detail: its words
	ReasonVerifyNoAnswer = "verify_no_answer" // the job's log holds no whole document of the probe; Detail: the log's end
	ReasonVerifyGone     = "verify_gone"      // the workers or the head went away meanwhile
)

// VerificationState says how far the verification of a cluster's workers is, as the gate before ready sees it.
type VerificationState string

// The states of the gate. The zero state is a cluster that is not so far yet, or that has nothing to verify.
const (
	VerificationDue  VerificationState = "due"  // workers wait for their first verdict
	VerificationDone VerificationState = "done" // every worker has been looked at, whatever the verdict
	VerificationOff  VerificationState = "off"  // the request or its team does not want it
)

// Verifiable reports whether the worker is one whose slice can be verified now.
func (w Worker) Verifiable() bool { return !w.Slice.IsZero() && w.Ready && !w.Deleting }

// VerifiablePods returns the UIDs of the workers that can be verified now.
func (c Cluster) VerifiablePods() []string {
	var pods []string
	for _, w := range c.Workers {
		if w.Verifiable() {
			pods = append(pods, w.UID)
		}
	}
	return pods
}

// A Badge is what the certificates say about a cluster as a whole. The zero Badge is a cluster that was never verified.
type Badge struct {
	Enforcement Enforcement `json:"enforcement"` // the worst of its slice workers; "" = not verified
	Workers     int         `json:"workers"`     // slice workers there are
	Enforced    int         `json:"enforced"`    // of them, shown to be enforced
}

// NewBadge sums up the latest certificates of a cluster's workers: the worst verdict counts, and a worker without one makes
// the cluster inconclusive.
func NewBadge(c Cluster, certificates []Certificate) Badge {
	var b Badge
	for _, w := range c.Workers {
		if w.Slice.IsZero() || w.Deleting {
			continue
		}
		b.Workers++
		verdict := verdictOf(w, certificates)
		if verdict == Enforced {
			b.Enforced++
		}
		if worse(verdict, b.Enforcement) {
			b.Enforcement = verdict
		}
	}
	if len(certificates) == 0 {
		b.Enforcement = ""
	}
	return b
}

// Standing returns the certificate of each pod that counts, from all of them, the latest first: the latest, except that a look
// at a slice in use, which only reads, takes nothing back that was shown before unless it contradicts it.
func Standing(certificates []Certificate) []Certificate {
	at := map[string]int{} // by pod, place in standing
	var standing []Certificate
	for _, c := range certificates {
		i, known := at[c.Target.PodUID]
		switch {
		case !known:
			at[c.Target.PodUID] = len(standing)
			standing = append(standing, c)
		case standing[i].OnlyRead() && !c.OnlyRead():
			standing[i] = c
		}
	}
	return standing
}

// OnlyRead reports whether somebody worked on the slice, so that nothing could be shown and nothing spoke against it.
func (c Certificate) OnlyRead() bool {
	return c.Judgement.InUse && c.Judgement.Enforcement == Inconclusive
}

func verdictOf(w Worker, certificates []Certificate) Enforcement {
	for _, c := range certificates {
		if c.Target.PodUID == w.UID {
			return c.Now(w.UID, w.Node, c.NodeDriver)
		}
	}
	return Inconclusive
}

func worse(a, b Enforcement) bool {
	order := Enforcements()
	return slices.Index(order, a) > slices.Index(order, b)
}

// BrokenNodes returns the nodes on which a worker's slice is not enforced though its pool's mode says that slices are, sorted.
func BrokenNodes(certificates []Certificate) []string {
	var nodes []string
	for _, c := range certificates {
		if c.Judgement.Enforcement == NotEnforced && c.Target.Mode.Isolated() && c.Judgement.Reason.Code != WhyRayGPUs {
			nodes = append(nodes, c.Target.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// ProbeCodes returns every code by which the probe, or a run around it, says why something was not measured.
func ProbeCodes() []string {
	return []string{ProbeNoRay, ProbeNoNode, ProbeTimeout, ProbeHostMemory, ProbeWorkerDied, ProbeNodeLost, ProbeTaskFailed, ProbeBroken,
		ProbeNoDocument, ProbeHalf, ProbeUnreadable, ProbeTooLarge, ProbeSchema, StepInUse, StepNotAsked, StepNoRoom, StepWholeCard,
		StepNoSMI, StepSMIFailed, StepSMIUnread, StepNoCUDA, StepCUDAFailed, StepStuck, StepDied, StepAlone, StepNotSupported}
}
