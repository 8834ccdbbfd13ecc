package rayslice

import (
	"cmp"
	"slices"
)

// What E.1 and E.2 of the domain facts and measurements on real cards say about sizes, in MiB.
const (
	sliceTolerance = 32   // between the size that rounding predicts and the one that is shown
	cardRoom       = 1024 // contexts and what the driver keeps: a card never serves its last GiB for sure
	leastBoundary  = 1536 // a slice's context and one step of growing may take this much of it; of large slices an eighth
	wholeFrom      = 95   // percent of the card from which a total counts as the whole card
	leastOverlap   = 1.0  // seconds two workers must hold memory at the same time
)

// Judge says what the evidence means for the target. It is pure. What is missing, unreadable or about somebody else never
// makes a verdict green, and neither does what a worker's variables say; what breaks a limit counts even when something else
// could not be read.
func Judge(t Target, e Evidence) Judgement {
	w, ok := e.Worker(t)
	switch {
	case !ok && e.Error != nil:
		return inconclusive(probeFailed(e.Error))
	case !ok:
		return inconclusive(Reason{Code: WhyNoEvidence})
	case w.Error != nil:
		return inconclusive(probeFailed(w.Error))
	case t.IP != "" && w.IP != "" && w.IP != t.IP:
		return inconclusive(Reason{Code: WhyWrongWorker, Args: map[string]any{"ip": w.IP}})
	}
	j := &judge{target: t, worker: w, ray: e.Ray, sizes: sizesOf(t)}
	j.variables()
	j.card()
	j.rayCount()
	if !t.Slice.Whole() {
		j.allocations()
		j.neighbours()
		j.compute()
	}
	return j.verdict()
}

func inconclusive(why Reason) Judgement {
	return Judgement{Enforcement: Inconclusive, Reason: why, Rows: []ProofRow{}}
}

// Unproven returns the judgement of a verification that brought no evidence at all; code is one of the Probe… constants.
func Unproven(code, detail string) Judgement {
	return inconclusive(probeFailed(&ProbeError{Code: code, Detail: clip(detail)}))
}

func probeFailed(e *ProbeError) Reason {
	return Reason{Code: WhyProbeFailed, Args: map[string]any{"code": e.Code}, Detail: e.Detail}
}

// sliceSizes are the sizes that decide, in MiB.
type sliceSizes struct {
	low, high int // a slice is at least and at most this large
	card      int // the physical card; 0 = unknown
}

func sizesOf(t Target) sliceSizes {
	asked := t.Slice.GiB * 1024
	s := sliceSizes{low: asked - sliceTolerance, high: asked + asked/10 + sliceTolerance, card: cmp.Or(t.CardMiB, t.CardGiB*1024)}
	switch {
	case t.CardMiB > 0 && t.CardGiB > 0: // a card's GiB are rounded down, and what that leaves is handed out with them
		expected := t.CardMiB * t.Slice.GiB / t.CardGiB
		s.low, s.high = expected-sliceTolerance, expected+sliceTolerance
	case t.CardGiB > 0:
		s.high = asked*(t.CardGiB+1)/t.CardGiB + sliceTolerance
	}
	return s
}

// whole reports whether the size is the whole card's, where a slice is less.
func (s sliceSizes) whole(mib int) bool {
	return s.card > 0 && mib > s.high && mib*100 >= s.card*wholeFrom
}

// isCard reports whether the slice is as good as the card.
func (s sliceSizes) isCard() bool { return s.card > 0 && s.high+sliceTolerance >= s.card }

// judge collects rows, and what speaks against the worker or against being sure.
type judge struct {
	target Target
	worker WorkerEvidence
	ray    *RayEvidence
	sizes  sliceSizes

	rows     []ProofRow
	breaches []Reason
	doubts   []Reason
	seen     bool // the whole card's size was seen
	shown    bool // growing ended where the slice ends, for sure
}

func (j *judge) add(row ProofRow) {
	if row.Asked == nil {
		row.Asked = Facts{}
	}
	if row.Seen == nil {
		row.Seen = Facts{}
	}
	row.Proves = cmp.Or(row.Proves, ProvesNothing)
	j.rows = append(j.rows, row)
}

func (j *judge) breach(why Reason) { j.breaches = append(j.breaches, why) }
func (j *judge) doubt(why Reason)  { j.doubts = append(j.doubts, why) }

// telling orders reasons: the first that is there explains the most.
var telling = []string{WhyShareMode, WhyManyCards, WhyDisabled, WhyEnvironment, WhyServed, WhyWholeSeen, WhyNeighbourHurt, WhyRayGPUs,
	WhyGPULost, WhyInUse, WhyDriver, WhyStuck, WhyWholeSlice, WhyInside, WhyOtherError, WhyCardSmall, WhyCardFull, WhyNeighboursDark,
	WhyBoundary, WhyTotal, WhyRayMissing, WhyNotMade}

func mostTelling(reasons []Reason) Reason {
	return slices.MinFunc(reasons, func(a, b Reason) int {
		return cmp.Compare(slices.Index(telling, a.Code), slices.Index(telling, b.Code))
	})
}

func (j *judge) verdict() Judgement {
	result := Judgement{Enforcement: Enforced, Rows: j.rows, InUse: j.worker.InUse.InUse}
	if j.target.Mode == ModeShare {
		j.breach(Reason{Code: WhyShareMode})
	}
	if disabled(j.worker) && !j.shown && !j.target.Slice.Whole() {
		j.breach(Reason{Code: WhyDisabled})
	}
	if j.seen && !j.shown {
		j.breach(j.wholeSeen())
	}
	switch {
	case len(j.breaches) > 0:
		result.Enforcement, result.Reason = NotEnforced, mostTelling(j.breaches)
	case j.target.Slice.Whole():
		result.Enforcement, result.Reason = Inconclusive, Reason{Code: WhyWholeCard}
	case result.InUse:
		result.Enforcement, result.Reason = Inconclusive, Reason{Code: WhyInUse}
	case len(j.doubts) > 0:
		result.Enforcement, result.Reason = Inconclusive, mostTelling(j.doubts)
	case !j.shown:
		result.Enforcement, result.Reason = Inconclusive, notMade(CheckBoundary, "")
	}
	return result
}

func notMade(check Check, code string) Reason {
	return Reason{Code: WhyNotMade, Args: map[string]any{"check": string(check), "code": code}}
}

func disabled(w WorkerEvidence) bool {
	value := w.Variables.Values["CGPU_DISABLE"]
	return value == "true" || value == "1"
}

// total is the size that nvidia-smi shows, or else the driver; nil when both are silent.
func (j *judge) total() *int {
	for _, card := range j.worker.SMI.Cards {
		return card.TotalMiB
	}
	for _, device := range j.worker.CUDA.Devices {
		return device.TotalMiB
	}
	return nil
}

func (j *judge) wholeSeen() Reason {
	return Reason{Code: WhyWholeSeen, Args: map[string]any{"total_mib": *j.total(), "slice_mib": j.sizes.high}}
}

// neighboursMiB is the most that others may hold: what nvidia-smi shows as used where it shows the whole card, or else what
// the target knows.
func (j *judge) neighboursMiB() *int {
	if smi := j.worker.SMI; smi.Ran() && len(smi.Cards) > 0 {
		card := smi.Cards[0]
		if card.TotalMiB != nil && card.UsedMiB != nil && j.sizes.whole(*card.TotalMiB) {
			return card.UsedMiB
		}
	}
	return j.target.NeighboursMiB
}

// room says why a refusal of mib MiB would prove nothing; zero when the card could have served it.
func (j *judge) room(mib int) Reason {
	neighbours := j.neighboursMiB()
	switch args := map[string]any{"mib": mib, "card_mib": j.sizes.card}; {
	case j.sizes.isCard():
		return Reason{Code: WhyWholeSlice, Args: args}
	case j.sizes.card == 0 || mib > j.sizes.card-cardRoom:
		return Reason{Code: WhyCardSmall, Args: args}
	case neighbours == nil:
		return Reason{Code: WhyNeighboursDark}
	case mib > j.sizes.card-*neighbours-cardRoom:
		args["neighbours_mib"] = *neighbours
		return Reason{Code: WhyCardFull, Args: args}
	}
	return Reason{}
}
