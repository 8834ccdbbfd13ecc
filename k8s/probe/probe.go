// Package probe holds the program that measures what a worker gets of its GPU, and the question that it is asked. The
// program runs inside Ray, as a job; its answer is a rayslice.Evidence.
package probe

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	_ "embed" // of the program

	"github.com/rayslice/rayslice"
)

// Version is the probe's; probe.py says the same.
const Version = "1.0.0"

//go:embed probe.py
var source []byte

// Source returns the program's text.
func Source() string { return string(source) }

// A Spec is what the probe is asked. Zero times and sizes leave the choice to it.
type Spec struct {
	Mode        string         `json:"mode"`         // "cluster" asks through Ray, "worker" measures the machine it runs on
	Run         string         `json:"run"`          // comes back in the document; see ValidRun
	Seconds     int            `json:"seconds"`      // for everything, 120 when 0
	WaitSeconds int            `json:"wait_seconds"` // for workers to join and Ray to count GPUs, 20 when 0 (field case B008)
	CallSeconds int            `json:"call_seconds"` // for one call of the driver's, 20 when 0
	GPUs        int            `json:"gpus"`         // that Ray should count in the cluster
	StepMiB     int            `json:"step_mib"`     // by which it grows, 256 when 0
	Passive     bool           `json:"passive"`      // only read, allocate nothing
	Torch       bool           `json:"torch"`        // also ask torch, where the image has it
	Checks      []string       `json:"checks"`       // of those that allocate, make these only; nil = all
	KeepEnv     []string       `json:"keep_env"`     // variables that the clean environment keeps, as the platform needs them
	Workers     []WorkerOfSpec `json:"workers"`
}

// WorkerOfSpec is one worker to measure, found among Ray's nodes by RayNode, pod or address.
type WorkerOfSpec struct {
	Pod           string `json:"pod"`
	IP            string `json:"ip"`
	RayNode       string `json:"ray_node"` // Ray's id of the node; "" = find it by pod or IP
	SliceGiB      int    `json:"slice_gib"`
	CardGiB       int    `json:"card_gib"`       // 0 = unknown
	CardMiB       int    `json:"card_mib"`       // 0 = unknown
	NeighboursMiB *int   `json:"neighbours_mib"` // nil = unknown
	CorePercent   int    `json:"core_percent"`   // 0 = compute is not measured
	Whole         bool   `json:"whole"`          // whole cards: there is nothing to allocate against
	Passive       bool   `json:"passive"`        // only read on this worker
}

// SpecOf returns the question about the targets, all workers of one cluster.
func SpecOf(run string, targets []rayslice.Target) Spec {
	spec := Spec{Mode: "cluster", Run: run}
	for _, t := range targets {
		spec.GPUs = max(spec.GPUs, t.GPUWorkers)
		spec.Workers = append(spec.Workers, WorkerOfSpec{
			Pod: t.Pod, IP: t.IP, SliceGiB: t.Slice.GiB, CardGiB: t.CardGiB, CardMiB: t.CardMiB, NeighboursMiB: t.NeighboursMiB,
			CorePercent: t.Slice.CorePercent, Whole: t.Slice.Whole(), Passive: t.Mode == rayslice.ModeShare,
		})
	}
	return spec
}

var validRun = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// ValidRun reports whether the text may name a run: letters, digits, dots, dashes and underscores.
func ValidRun(run string) bool { return validRun.MatchString(run) }

// The loader unpacks the program from its first argument, so that a job needs no package and workers download nothing.
const loader = `import base64,sys,zlib;s=zlib.decompress(base64.b64decode(sys.argv.pop(1)));` +
	`exec(compile(s,"probe.py","exec"),{"__name__":"__main__","PROBE_SOURCE":s})`

// Entrypoint returns the shell command that runs the program with the spec, as the entrypoint of a job of Ray's.
func Entrypoint(spec Spec) (string, error) {
	if !ValidRun(spec.Run) {
		return "", fmt.Errorf("probe: run %q: use letters, digits, dots, dashes and underscores, at most 100", spec.Run)
	}
	var packed bytes.Buffer
	w, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	if _, err := w.Write(source); err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	question, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	arguments := []string{loader, base64.StdEncoding.EncodeToString(packed.Bytes()), string(question)}
	for i, argument := range arguments {
		arguments[i] = "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
	}
	return "python3 -c " + strings.Join(arguments, " "), nil
}
