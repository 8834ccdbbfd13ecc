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
	Percent  *float64  `json:"percent"`   // mean of the known ones
	Grade    Grade     `json:"grade"`     // of Percent
}

// A UseTarget is a cluster whose use is collected: one that is live.
type UseTarget struct {
	RequestID    string
	Namespace    string
	WatchedUntil time.Time // somebody looks at its use until then; zero = nobody does
}
