package rayslice

import "time"

// Grade says what a usage figure is about. Figures of a card are shown as a card's, and never added up over the slices on it.
type Grade string

// The grades, the most precise first.
const (
	GradeProcess Grade = "process" // of single processes in the slice
	GradeSlice   Grade = "slice"   // of the slice alone
	GradeCard    Grade = "card"    // of the whole physical card, whoever uses it
)

// UseSource says where a usage figure comes from.
type UseSource string

// The sources.
const (
	UseFromRay        UseSource = "ray"        // the head's /nodes?view=summary (domain facts C.1)
	UseFromPrometheus UseSource = "prometheus" // an exporter's series, asked of a Prometheus server
)

// A Sample is one usage reading of one worker's share of one card. Unknown is not zero: a figure that the source did not
// give, or that cannot be, is nil.
type Sample struct {
	RequestID   string    `json:"request_id"`
	PodUID      string    `json:"pod_uid"`
	Pod         string    `json:"pod"`
	GPU         string    `json:"gpu"` // UUID of the card as the source names it; "" = not named
	At          time.Time `json:"at"`  // when it was read
	Source      UseSource `json:"source"`
	UsedMiB     *int      `json:"used_mib"`  // memory in use
	LimitMiB    *int      `json:"limit_mib"` // memory the worker may use, as the source says: a slice's is not the card's
	MemoryGrade Grade     `json:"memory_grade"`
	Percent     *float64  `json:"percent"` // utilisation, 0 to 100
	Grade       Grade     `json:"grade"`   // of Percent: inside a slice it is the card's (domain facts C.1)
}

// A Use is what was last found out about one cluster's use.
type Use struct {
	RequestID string    `json:"request_id"`
	AskedAt   time.Time `json:"asked_at"` // when the sources were last asked
	DataAt    time.Time `json:"data_at"`  // when they last answered with samples; zero = never
	Source    UseSource `json:"source"`
	Problem   Reason    `json:"problem"` // why there was no answer to the last question; zero = there was one
	Dropped   int       `json:"dropped"` // impossible values dropped from the last answer
	Samples   []Sample  `json:"samples"` // of DataAt, sorted by pod and GPU
}

// A UsePoint is the use of one worker's share of a card in one step of time.
type UsePoint struct {
	At       time.Time `json:"at"` // begin of the step
	PodUID   string    `json:"pod_uid"`
	Pod      string    `json:"pod"`
	GPU      string    `json:"gpu"`
	Samples  int       `json:"samples"`   // readings in the step
	UsedMiB  *float64  `json:"used_mib"`  // mean of the known ones
	PeakMiB  *int      `json:"peak_mib"`  // largest
	LimitMiB *int      `json:"limit_mib"` // latest

	MemoryGrade Grade    `json:"memory_grade"` // of UsedMiB, the least precise in the step
	Percent     *float64 `json:"percent"`      // mean of the known ones
	Grade       Grade    `json:"grade"`        // of Percent, the least precise in the step
}

// A UseTarget is a cluster whose use is to be found out.
type UseTarget struct {
	RequestID    string
	Namespace    string
	WatchedUntil time.Time // somebody looks at it until then; zero = nobody does
}

// UseRetention says how long readings of use are kept. Zero means the default.
type UseRetention struct {
	Raw     time.Duration // as they were read
	Minutes time.Duration // means of a minute
	Hours   time.Duration // means of an hour
}

// DefaultUseRetention and MaxUseRetention are how long readings are kept, and how long they can be.
var (
	DefaultUseRetention = UseRetention{Raw: 6 * time.Hour, Minutes: 7 * 24 * time.Hour, Hours: 180 * 24 * time.Hour}
	MaxUseRetention     = UseRetention{Raw: 18 * time.Hour, Minutes: 32 * 24 * time.Hour, Hours: 48 * 7 * 24 * time.Hour}
)

// OrDefault fills in what is zero.
func (r UseRetention) OrDefault() UseRetention {
	for _, part := range []struct {
		is      *time.Duration
		without time.Duration
	}{{&r.Raw, DefaultUseRetention.Raw}, {&r.Minutes, DefaultUseRetention.Minutes}, {&r.Hours, DefaultUseRetention.Hours}} {
		if *part.is == 0 {
			*part.is = part.without
		}
	}
	return r
}

// Bounds of what can be a reading.
const (
	MaxUseMiB     = 16 << 20 // 16 TiB: no card has as much memory
	MaxUsePercent = 100
)

// Possible returns the sample without what cannot be, and how many figures that was: no card uses less than nothing, or
// 17592186044134 MiB (Project-HAMi/HAMi#1181).
func (s Sample) Possible() (Sample, int) {
	dropped := 0
	if s.UsedMiB != nil && (*s.UsedMiB < 0 || *s.UsedMiB > MaxUseMiB) {
		s.UsedMiB, dropped = nil, dropped+1
	}
	if s.LimitMiB != nil && (*s.LimitMiB <= 0 || *s.LimitMiB > MaxUseMiB) {
		s.LimitMiB, dropped = nil, dropped+1
	}
	if s.Percent != nil && !(*s.Percent >= 0 && *s.Percent <= MaxUsePercent) { // no comparison holds for NaN
		s.Percent, dropped = nil, dropped+1
	}
	return s, dropped
}

// Idle holders: who holds slices and does nothing with them.
const (
	IdleAfter   = 2 * time.Hour    // a cluster that has done nothing for so long is named
	IdleWarn    = 6 * time.Hour    // … and its owner told
	IdleLook    = 12 * time.Hour   // how far back it is looked
	IdleGap     = 10 * time.Minute // nothing known for longer than that is not idleness
	IdlePercent = 1.0              // utilisation up to which a card does nothing; if the card does nothing, so does each slice on it
	IdleMiB     = 300              // memory in a slice that a driver takes by itself
)

// A TeamUse is what a team has made of the memory it holds.
type TeamUse struct {
	Team   string         `json:"team"`
	Points []TeamUsePoint `json:"points"` // one an hour, none left out
	Idle   []IdleHolder   `json:"idle"`   // the longest first
}

// A TeamUsePoint is one hour of a team's slices.
type TeamUsePoint struct {
	At         time.Time `json:"at"`          // begin of the hour
	GrantedGiB float64   `json:"granted_gib"` // held by the team's clusters, mean over the hour
	UsedGiB    *float64  `json:"used_gib"`    // in use in the slices whose use is known; nil = of none is
	Known      int       `json:"known"`       // slices counted in UsedGiB
	Unknown    int       `json:"unknown"`     // slices left out: nothing known, or only of the whole card
}

// ReasonIdle is the code of why somebody is told of an idle cluster; Args: hours.
const ReasonIdle = "idle"

// An IdleHolder is a cluster that is ready and has used its slices for nothing, all of that time known.
type IdleHolder struct {
	RequestID string    `json:"request_id"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Charge    Charge    `json:"charge"`
	Since     time.Time `json:"since"` // idle at least since then; it is not looked further back than IdleLook
}
