package rayslice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// EvidenceSchema is the version of the probe's document that this program reads.
const EvidenceSchema = 1

// Bounds of what a probe may tell: whoever runs a cluster can write into its job's log.
const (
	MaxEvidence     = 8 << 20  // bytes of one document
	MaxEvidenceLog  = 64 << 20 // bytes of a log that is searched for it
	maxEvidenceText = 2000     // characters of one text in it
	maxEvidenceMiB  = 16 << 20 // 16 TiB: no card has more, so a larger figure is a wrong one (field case B044)
)

// Evidence is the probe's document: what was measured in one run. It holds facts and how each check went technically;
// what they mean is Judge's to say, in one place. Every size is in MiB, every duration in seconds. Unknown numbers are
// null, never 0. All texts come from the cluster's users and are untrusted.
type Evidence struct {
	Schema   int              `json:"schema"`   // EvidenceSchema
	Version  string           `json:"version"`  // of the probe
	Run      string           `json:"run"`      // what the asker called this run; ties the document to the question
	Mode     string           `json:"mode"`     // "cluster": asked through Ray; "worker": one machine alone
	Started  float64          `json:"started"`  // Unix seconds
	Finished float64          `json:"finished"` // Unix seconds
	Error    *ProbeError      `json:"error"`    // why the run as a whole failed; null = it did not
	Ray      *RayEvidence     `json:"ray"`      // null = Ray was not asked
	Workers  []WorkerEvidence `json:"workers"`  // one per worker asked for, also those that could not be reached
}

// ProbeError is a failure of the probe, not of the slice.
type ProbeError struct {
	Code   string `json:"code"`   // one of the Probe… constants
	Detail string `json:"detail"` // untrusted text
}

// Codes of a ProbeError, of the runs around it, and of steps that were not made.
const (
	ProbeNoRay       = "ray_unreachable"   // ray could not be imported or did not answer
	ProbeNoNode      = "node_missing"      // the worker is not among Ray's living nodes
	ProbeTimeout     = "timeout"           // no answer in the time given
	ProbeHostMemory  = "host_memory"       // Ray's own OutOfMemoryError: the machine's memory, not the card's (facts C.5)
	ProbeWorkerDied  = "worker_died"       // the process or its pod was killed
	ProbeNodeLost    = "node_lost"         // Ray lost the node
	ProbeTaskFailed  = "task_failed"       // any other error of Ray's
	ProbeBroken      = "probe_broken"      // the probe itself failed on the worker
	ProbeNoDocument  = "no_document"       // the log has no document of this run
	ProbeHalf        = "half_document"     // the log ends within the document
	ProbeUnreadable  = "bad_document"      // not the JSON that is expected
	ProbeTooLarge    = "document_too_long" // larger than MaxEvidence, or in a log larger than MaxEvidenceLog
	ProbeSchema      = "other_schema"      // made by another version of the probe
	StepInUse        = "in_use"            // somebody works on the slice
	StepNotAsked     = "not_asked"         // the spec did not ask for it
	StepNoRoom       = "no_room"           // the card could not have served it, so it would have proved nothing
	StepWholeCard    = "whole_card"        // the slice is the card
	StepNoSMI        = "smi_missing"       // nvidia-smi is not there
	StepSMIFailed    = "smi_failed"        // it ended with an error
	StepSMIUnread    = "smi_unreadable"    // it printed no row that can be understood
	StepNoCUDA       = "cuda_missing"      // libcuda.so.1 cannot be loaded
	StepCUDAFailed   = "cuda_failed"       // a driver call failed
	StepStuck        = "stuck"             // a driver call did not return in time and was cut
	StepDied         = "died"              // the process that made the call ended without an answer
	StepAlone        = "alone"             // no other worker of ours on this card
	StepNotSupported = "not_supported"     // the driver or card does not have it
)

// A ProbeStep says how a check went technically and what it read.
type ProbeStep struct {
	State  StepState `json:"state"`
	Code   string    `json:"code"`   // why it was not made or failed; "" when it was made
	Read   string    `json:"read"`   // what was read, e.g. "nvidia-smi --query-gpu=…"
	Detail string    `json:"detail"` // untrusted text
}

// StepState says whether a step was made.
type StepState string

// The states of a step. The zero state means that the probe says nothing about it.
const (
	StepRan     StepState = "ran"
	StepSkipped StepState = "skipped"
	StepFailed  StepState = "failed"
)

// Ran reports whether the step was made, so that its figures count.
func (s ProbeStep) Ran() bool { return s.State == StepRan }

// RayEvidence is what Ray says about the cluster as a whole.
type RayEvidence struct {
	Version string    `json:"version"`
	GPUs    float64   `json:"gpus"`    // the resource GPU of all living nodes; names like GPU_group_<hex> do not count (B010)
	Waited  float64   `json:"waited"`  // seconds that the probe waited for the expected count (B008)
	Nodes   []RayNode `json:"nodes"`   // living ones
	Problem string    `json:"problem"` // what could not be read; "" = nothing
}

// RayNode is one living node of Ray's.
type RayNode struct {
	ID       string   `json:"id"`
	IP       string   `json:"ip"`
	Hostname string   `json:"hostname"` // the pod's name
	Head     bool     `json:"head"`
	GPUs     float64  `json:"gpus"`
	GPUsFree *float64 `json:"gpus_free"` // not reserved by tasks and actors; null = unknown
}

// WorkerEvidence is what was measured on one worker.
type WorkerEvidence struct {
	Pod        string             `json:"pod"`      // as the spec calls it
	NodeID     string             `json:"node_id"`  // Ray's; "" without Ray
	IP         string             `json:"ip"`       // as Ray knows it
	Hostname   string             `json:"hostname"` // as the worker itself says
	Error      *ProbeError        `json:"error"`    // why nothing was measured; null = something was
	Seconds    float64            `json:"seconds"`
	InUse      UseEvidence        `json:"in_use"`
	Variables  VariableEvidence   `json:"variables"`
	SMI        SMIEvidence        `json:"smi"`
	CUDA       CUDAEvidence       `json:"cuda"`
	Sizes      SizeEvidence       `json:"sizes"`
	Allocation []AllocEvidence    `json:"allocation"`
	Neighbours NeighboursEvidence `json:"neighbours"`
	Compute    ComputeEvidence    `json:"compute"`
	Torch      TorchEvidence      `json:"torch"`
}

// UseEvidence says whether somebody works on the slice, and how the probe knows.
type UseEvidence struct {
	InUse     bool     `json:"in_use"`
	Why       []string `json:"why"`       // "ray_reserved", "cuda_process", "memory_used"
	Processes int      `json:"processes"` // processes in the container that have CUDA open, the probe's not counted
}

// VariableEvidence are the variables in the worker that concern cards and limits.
type VariableEvidence struct {
	ProbeStep

	Values   map[string]string `json:"values"`   // by name; a name that is not there is not set
	Restored []string          `json:"restored"` // taken away for the measurement, as Ray had set them for its task
}

// SMIEvidence is what nvidia-smi printed.
type SMIEvidence struct {
	ProbeStep

	ExitCode int       `json:"exit_code"`
	Driver   string    `json:"driver"` // NVIDIA driver's version; "" = unknown
	Cards    []SMICard `json:"cards"`
	Noise    []string  `json:"noise"` // lines that are no card (field case B047); at most 20
}

// SMICard is one row of nvidia-smi.
type SMICard struct {
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	TotalMiB    *int   `json:"total_mib"`   // null = [N/A] or impossible
	UsedMiB     *int   `json:"used_mib"`    // null = [N/A] or impossible (field case B044)
	Utilization *int   `json:"utilization"` // percent
}

// CUDAEvidence is what the driver says in a fresh process.
type CUDAEvidence struct {
	ProbeStep

	Version int          `json:"version"` // of the driver API, e.g. 13000; 0 = unknown
	Call    string       `json:"call"`    // which call failed
	Result  int          `json:"result"`  // its CUresult
	Devices []CUDADevice `json:"devices"`
}

// CUDADevice is one card as the driver shows it.
type CUDADevice struct {
	UUID     string `json:"uuid"`
	Name     string `json:"name"`
	TotalMiB *int   `json:"total_mib"` // cuDeviceTotalMem: a hint only, as MPS shows the whole card
	FreeMiB  *int   `json:"free_mib"`  // cuMemGetInfo after the context was made
}

// SizeEvidence are the sizes the probe worked with.
type SizeEvidence struct {
	SliceMiB      int  `json:"slice_mib"`      // most that the slice may hold
	CardMiB       int  `json:"card_mib"`       // 0 = unknown
	NeighboursMiB *int `json:"neighbours_mib"` // null = unknown
	InsideMiB     int  `json:"inside_mib"`
	BeyondMiB     int  `json:"beyond_mib"` // 0 = no size would have proved anything
	StepMiB       int  `json:"step_mib"`
}

// AllocEvidence is one attempt to get memory, freed at once afterwards.
type AllocEvidence struct {
	ProbeStep

	Process string  `json:"process"` // "fresh": the container's environment; "clean": PATH and LD_LIBRARY_PATH only
	API     string  `json:"api"`     // "alloc", "async", "vmm", "managed"
	Purpose string  `json:"purpose"` // "inside", "beyond", "grow"
	MiB     int     `json:"mib"`     // asked for; with "grow", at most this
	Served  int     `json:"served"`  // MiB that were given; with "grow", the sum at which it was refused or stopped
	Refused bool    `json:"refused"` // a driver call said no, with Result
	Call    string  `json:"call"`    // the call that said no
	Result  int     `json:"result"`  // CUresult of that call; 2 = CUDA_ERROR_OUT_OF_MEMORY
	Name    string  `json:"name"`    // of the result
	Seconds float64 `json:"seconds"`
}

// CUDAOutOfMemory is the CUresult of the driver's out-of-memory.
const CUDAOutOfMemory = 2

// NeighboursEvidence is how a worker saw its card while another of ours filled it.
type NeighboursEvidence struct {
	ProbeStep

	With          []string `json:"with"`            // pods on the same card that held memory meanwhile
	AskedMiB      int      `json:"asked_mib"`       // what each tried to hold
	HeldMiB       int      `json:"held_mib"`        // what it held
	FreeBeforeMiB *int     `json:"free_before_mib"` // before anybody held anything
	FreeDuringMiB *int     `json:"free_during_mib"` // while all hold
	From          float64  `json:"from"`            // Unix seconds between which it held
	To            float64  `json:"to"`
	Overlap       float64  `json:"overlap"` // seconds for which all held at once
}

// ComputeEvidence is a short measurement of speed; it is reported and never judged.
type ComputeEvidence struct {
	ProbeStep

	Percent    int     `json:"percent"`     // granted
	Millis     float64 `json:"millis"`      // one round of a fixed amount of work, the median
	FastMillis float64 `json:"fast_millis"` // the fastest round: what the card does when nothing holds it back
	Share      float64 `json:"share"`       // 100 × fast ÷ mean: percent of its best speed over the whole time
}

// TorchEvidence is what torch says where the image has it.
type TorchEvidence struct {
	ProbeStep

	Version  string `json:"version"`
	Device   string `json:"device"`
	TotalMiB *int   `json:"total_mib"`
	FreeMiB  *int   `json:"free_mib"`
}

// At returns when the run began; zero when the document does not say.
func (e Evidence) At() time.Time {
	if e.Started <= 0 || e.Started > math.MaxInt32 {
		return time.Time{}
	}
	return time.UnixMilli(int64(e.Started * 1000)).UTC()
}

// Worker returns what was measured on the target's worker; false when the document has nothing about it.
func (e Evidence) Worker(t Target) (WorkerEvidence, bool) {
	for _, w := range e.Workers {
		if w.Pod == t.Pod && t.Pod != "" {
			return w, true
		}
	}
	return WorkerEvidence{}, false
}

// The lines around the probe's document. The run's name stands in both, so that one document is never taken for another.
const (
	evidenceBegin = "-----BEGIN RAYSLICE PROBE "
	evidenceEnd   = "-----END RAYSLICE PROBE "
	evidenceTail  = "-----"
)

// DecodeEvidence finds the document of the run in the log of its job and reads it. Whatever else the log holds does not
// matter. An *Error of KindInvalid has one of the Probe… codes.
func DecodeEvidence(log io.Reader, run string) (Evidence, error) {
	raw, err := io.ReadAll(io.LimitReader(log, MaxEvidenceLog+1))
	if err != nil {
		return Evidence{}, fmt.Errorf("read the probe's log: %w", err)
	}
	body, code := findDocument(raw, run)
	if code != "" {
		return Evidence{}, unreadable(code, nil)
	}
	var e Evidence
	if !utf8.Valid(body) {
		return Evidence{}, unreadable(ProbeUnreadable, errors.New("not UTF-8"))
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Evidence{}, unreadable(ProbeUnreadable, err)
	}
	switch {
	case e.Schema != EvidenceSchema:
		return Evidence{}, unreadable(ProbeSchema, fmt.Errorf("schema %d", e.Schema))
	case e.Run != run:
		return Evidence{}, unreadable(ProbeNoDocument, nil)
	}
	e.sanitize()
	return e, nil
}

func unreadable(code string, cause error) error {
	return &Error{Kind: KindInvalid, Code: code, Err: cause}
}

// findDocument returns what stands between the lines of the run: the last whole one, as a job may be tried again.
func findDocument(log []byte, run string) (body []byte, code string) {
	begin, end := []byte(evidenceBegin+run+evidenceTail), []byte(evidenceEnd+run+evidenceTail)
	at := bytes.LastIndex(log, end)
	if at < 0 {
		switch {
		case len(log) > MaxEvidenceLog:
			return nil, ProbeTooLarge
		case bytes.Contains(log, begin):
			return nil, ProbeHalf
		}
		return nil, ProbeNoDocument
	}
	from := bytes.LastIndex(log[:at], begin)
	if from < 0 {
		return nil, ProbeHalf
	}
	body = bytes.TrimSpace(log[from+len(begin) : at])
	if len(body) > MaxEvidence {
		return nil, ProbeTooLarge
	}
	return body, ""
}

// sanitize cuts long texts and drops impossible figures, so that nothing behind it has to.
func (e *Evidence) sanitize() {
	e.Version = clip(e.Version)
	clipError(e.Error)
	if e.Ray != nil {
		e.Ray.Version, e.Ray.Problem = clip(e.Ray.Version), clip(e.Ray.Problem)
	}
	for i := range e.Workers {
		e.Workers[i].sanitize()
	}
}

func (w *WorkerEvidence) sanitize() {
	clipError(w.Error)
	for _, step := range []*ProbeStep{&w.Variables.ProbeStep, &w.SMI.ProbeStep, &w.CUDA.ProbeStep, &w.Neighbours.ProbeStep, &w.Compute.ProbeStep, &w.Torch.ProbeStep} {
		step.clip()
	}
	for i := range w.Allocation {
		w.Allocation[i].clip()
	}
	for name, value := range w.Variables.Values {
		w.Variables.Values[name] = clip(value)
	}
	for i, line := range w.SMI.Noise {
		w.SMI.Noise[i] = clip(line)
	}
	w.SMI.Driver = clip(w.SMI.Driver)
	for i := range w.SMI.Cards {
		card := &w.SMI.Cards[i]
		card.UUID, card.Name = clip(card.UUID), clip(card.Name)
		card.TotalMiB = possible(card.TotalMiB, maxEvidenceMiB)
		most := maxEvidenceMiB
		if card.TotalMiB != nil {
			most = *card.TotalMiB
		}
		card.UsedMiB = possible(card.UsedMiB, most)
		card.Utilization = possible(card.Utilization, 100)
	}
	for i := range w.CUDA.Devices {
		device := &w.CUDA.Devices[i]
		device.UUID, device.Name = clip(device.UUID), clip(device.Name)
		device.TotalMiB, device.FreeMiB = possible(device.TotalMiB, maxEvidenceMiB), possible(device.FreeMiB, maxEvidenceMiB)
	}
}

func (s *ProbeStep) clip() { s.Code, s.Read, s.Detail = clip(s.Code), clip(s.Read), clip(s.Detail) }

func clipError(e *ProbeError) {
	if e != nil {
		e.Code, e.Detail = clip(e.Code), clip(e.Detail)
	}
}

// possible returns the figure, or nil when it cannot be true.
func possible(figure *int, most int) *int {
	if figure == nil || *figure < 0 || *figure > most {
		return nil
	}
	return figure
}

// clip cuts a text to maxEvidenceText characters and drops what is no text.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if utf8.RuneCountInString(text) <= maxEvidenceText {
		return text
	}
	return string([]rune(text)[:maxEvidenceText]) + "…"
}
