package k8s

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/rayslice/rayslice"
)

// SeriesNames says what an exporter calls what it knows about cards. Of several series for one figure the first that has
// something about a pod counts.
type SeriesNames struct {
	Namespace string   `json:"namespace"` // label with the pod's namespace; also as exported_…, as Prometheus renames it
	Pod       string   `json:"pod"`       // label with the pod's name
	GPU       string   `json:"gpu"`       // label with the card's UUID
	Used      []Series `json:"used"`      // memory in use
	Limit     []Series `json:"limit"`     // memory the pod may use
	Free      []Series `json:"free"`      // where there is no limit: what is left of the card, of the same exporter as used
	Percent   []Series `json:"percent"`   // utilisation
}

// Series is one series with one figure.
type Series struct {
	Name   string         `json:"name"`
	Factor float64        `json:"factor"` // that turns values into MiB or percent; 0 = 1
	Grade  rayslice.Grade `json:"grade"`  // process and slice are added up per pod and card, card never
}

// bytesToMiB turns bytes into MiB.
const bytesToMiB = 1.0 / (1 << 20)

// presets by name (domain facts A.8, A.9).
var presets = map[string]SeriesNames{
	// ack-prometheus-gpu-exporter: processes with the pod they are in, cards as DCGM has them.
	"ack": {
		Namespace: "NamespaceName", Pod: "PodName", GPU: "UUID",
		Used:    []Series{{Name: "DCGM_CUSTOM_PROCESS_MEM_USED", Grade: rayslice.GradeProcess}, {Name: "DCGM_FI_DEV_FB_USED", Grade: rayslice.GradeCard}},
		Free:    []Series{{Name: "DCGM_FI_DEV_FB_FREE", Grade: rayslice.GradeCard}},
		Percent: []Series{{Name: "DCGM_CUSTOM_PROCESS_SM_UTIL", Grade: rayslice.GradeProcess}, {Name: "DCGM_FI_DEV_GPU_UTIL", Grade: rayslice.GradeCard}},
	},
	// NVIDIA's dcgm-exporter: the card's figures, with the name of every pod on it (NVIDIA/dcgm-exporter#587).
	"dcgm": {
		Namespace: "namespace", Pod: "pod", GPU: "UUID",
		Used:    []Series{{Name: "DCGM_FI_DEV_FB_USED", Grade: rayslice.GradeCard}},
		Free:    []Series{{Name: "DCGM_FI_DEV_FB_FREE", Grade: rayslice.GradeCard}},
		Percent: []Series{{Name: "DCGM_FI_DEV_GPU_UTIL", Grade: rayslice.GradeCard}},
	},
	// HAMi's monitor: containers; its ratio runs to 100.
	"hami": {
		Namespace: "namespace", Pod: "pod", GPU: "device_uuid",
		Used:    []Series{{Name: "hami_vgpu_memory_used_bytes", Factor: bytesToMiB, Grade: rayslice.GradeSlice}},
		Limit:   []Series{{Name: "hami_vgpu_memory_limit_bytes", Factor: bytesToMiB, Grade: rayslice.GradeSlice}},
		Percent: []Series{{Name: "hami_container_device_utilization_ratio", Grade: rayslice.GradeSlice}},
	},
}

// Preset returns the names of a known exporter: ack, dcgm or hami.
func Preset(name string) (SeriesNames, error) {
	names, ok := presets[name]
	if !ok {
		return SeriesNames{}, fmt.Errorf("preset %q is unknown: use one of %v", name, slices.Sorted(maps.Keys(presets)))
	}
	return names, nil
}

// Validate names the first thing that cannot be asked for.
func (n SeriesNames) Validate() error {
	for field, label := range map[string]string{"namespace": n.Namespace, "pod": n.Pod, "gpu": n.GPU} {
		if !model.LegacyValidation.IsValidLabelName(label) {
			return fmt.Errorf("%s: %q is no name of a label", field, label)
		}
	}
	if len(n.Used) == 0 && len(n.Percent) == 0 {
		return fmt.Errorf("used, percent: name at least one series")
	}
	for field, list := range map[string][]Series{"used": n.Used, "limit": n.Limit, "free": n.Free, "percent": n.Percent} {
		for i, s := range list {
			switch {
			case !model.LegacyValidation.IsValidMetricName(s.Name):
				return fmt.Errorf("%s[%d].name: %q is no name of a series", field, i, s.Name)
			case s.Factor < 0:
				return fmt.Errorf("%s[%d].factor: must be above 0, is %g", field, i, s.Factor)
			case s.Grade != rayslice.GradeProcess && s.Grade != rayslice.GradeSlice && s.Grade != rayslice.GradeCard:
				return fmt.Errorf("%s[%d].grade: must be process, slice or card, is %q", field, i, s.Grade)
			}
		}
	}
	return nil
}
