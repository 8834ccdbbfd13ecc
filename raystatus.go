package rayslice

import (
	"regexp"
	"strconv"
	"strings"
)

// A RayResource is one line of what `ray status` says is in use.
type RayResource struct {
	Name  string // as Ray names it, e.g. "GPU", "memory", "accelerator_type:A10"
	Used  float64
	Total float64
	Unit  string // of both figures, e.g. "GiB"; "" = Ray names none, and for memory that means unknown (ray-project/ray#8958)
}

// A RayStatus is what `ray status` prints about resources.
type RayStatus struct {
	Resources []RayResource // in Ray's order; names of placement groups among them
	Strange   []string      // lines about use that were not understood: untrusted, cut, at most maxStrange
}

// GPU returns how many of Ray's GPUs are reserved and how many there are. ok is false when the text names none: that is
// unknown and not zero, for Ray says so also before it has found its cards and after it has lost a worker (domain facts
// C.4, field case B008). Only the resource GPU counts: placement groups repeat it under names of their own
// (vllm-project/vllm#14109).
func (s RayStatus) GPU() (used, total float64, ok bool) {
	for _, r := range s.Resources {
		if r.Name != "GPU" {
			continue
		}
		if ok {
			return 0, 0, false // named twice
		}
		used, total, ok = r.Used, r.Total, true
	}
	return used, total, ok
}

// MiB returns the figures of a resource in MiB; ok is false when its unit is unknown.
func (r RayResource) MiB() (used, total float64, ok bool) {
	factor, ok := rayUnits[r.Unit]
	return r.Used * factor, r.Total * factor, ok
}

var rayUnits = map[string]float64{"B": 1.0 / (1 << 20), "KiB": 1.0 / (1 << 10), "MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}

var (
	rayUsage = regexp.MustCompile(`^(?:Total )?Usage:$`)
	rayLine  = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]+)?)(B|[KMGT]iB)?/([0-9]{1,15}(?:\.[0-9]+)?)(?: ?(B|[KMGT]iB))? (\S+)(?: \(.*\))?$`)
)

// maxRayLine is how long a line of `ray status` may be, and maxRayResources how many there may be.
const (
	maxRayLine      = 1024
	maxRayResources = 1000
)

// ParseRayStatus reads the text that `ray status` prints, and that a head answers at /api/cluster_status?format=1, of old
// and new versions (domain facts C.4). Pending demands name GPUs too, and are not read.
func ParseRayStatus(text string) RayStatus {
	var status RayStatus
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if !inside {
			inside = rayUsage.MatchString(line)
			continue
		}
		if line == "" || line[0] != ' ' && line[0] != '\t' {
			inside = rayUsage.MatchString(line)
			continue
		}
		line = strings.TrimSpace(line)
		if r, ok := rayResource(line); ok && len(status.Resources) < maxRayResources {
			status.Resources = append(status.Resources, r)
		} else {
			status.Strange = keepStrange(status.Strange, line)
		}
	}
	return status
}

// rayResource reads "0.0/1.0 GPU", "0B/8.00GiB memory" or, of older versions, "0.00/8.000 GiB memory".
func rayResource(line string) (RayResource, bool) {
	if len(line) > maxRayLine {
		return RayResource{}, false
	}
	match := rayLine.FindStringSubmatch(line)
	if match == nil {
		return RayResource{}, false
	}
	used, errUsed := strconv.ParseFloat(match[1], 64)
	total, errTotal := strconv.ParseFloat(match[3], 64)
	if errUsed != nil || errTotal != nil {
		return RayResource{}, false
	}
	r := RayResource{Name: match[5], Used: used, Total: total, Unit: match[4]}
	if match[2] != "" && match[2] != r.Unit { // "512.00MiB/8.00GiB"
		from, okFrom := rayUnits[match[2]]
		to, okTo := rayUnits[r.Unit]
		if !okFrom || !okTo {
			return RayResource{}, false
		}
		r.Used *= from / to
	}
	return r, r.Used <= r.Total
}
