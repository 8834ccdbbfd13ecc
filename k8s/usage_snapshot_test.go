package k8s

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"github.com/rayslice/rayslice"
)

// seriesPoint is the last value of one series.
type seriesPoint struct {
	labels map[string]string
	value  float64
	ago    time.Duration
}

func matrixOf(points ...seriesPoint) model.Matrix {
	var m model.Matrix
	for _, p := range points {
		metric := model.Metric{}
		for name, value := range p.labels {
			metric[model.LabelName(name)] = model.LabelValue(value)
		}
		at := model.TimeFromUnixNano(noon.Add(-p.ago).UnixNano())
		m = append(m, &model.SampleStream{Metric: metric, Values: []model.SamplePair{
			{Timestamp: at.Add(-15 * time.Second), Value: 1}, {Timestamp: at, Value: model.SampleValue(p.value)}}})
	}
	return m
}

// ofPod are the labels that a preset's exporter gives what it knows about a pod.
func ofPod(preset, pod, gpu string, more ...string) map[string]string {
	names := presets[preset]
	labels := map[string]string{names.Namespace: "team-vision", names.Pod: pod, names.GPU: gpu}
	if pod == "" {
		delete(labels, names.Namespace)
		delete(labels, names.Pod)
	}
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

func TestSnapshot(t *testing.T) {
	figure := func(used, limit, percent *float64) rayslice.Figures {
		return rayslice.Figures{UsedMiB: used, LimitMiB: limit, Percent: percent}
	}
	value := func(v float64) *float64 { return &v }
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		preset           string
		series           map[string]model.Matrix
		want             map[string][]gauged // by pod
		wantUnattributed int
	}{
		"ACK adds up processes": {"ack", map[string]model.Matrix{
			"DCGM_CUSTOM_PROCESS_MEM_USED": matrixOf(
				seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "1"), 1000, 0}, seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "2"), 235, 0},
				seriesPoint{ofPod("ack", "w-2", "GPU-a", "ProcessId", "3"), 70, 0}),
			"DCGM_CUSTOM_PROCESS_SM_UTIL": matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "1"), 30, 0}, seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "2"), 11, 0}),
		}, map[string][]gauged{
			"w-1": {{Figures: figure(value(1235), nil, value(41)), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeProcess, grade: rayslice.GradeProcess}},
			"w-2": {{Figures: figure(value(70), nil, nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeProcess}},
		}, 0},
		"a process that has ended counts no more": {"ack", map[string]model.Matrix{
			"DCGM_CUSTOM_PROCESS_MEM_USED": matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "1"), 1000, time.Minute}, seriesPoint{ofPod("ack", "w-1", "GPU-a", "ProcessId", "2"), 235, 0}),
		}, map[string][]gauged{"w-1": {{Figures: figure(value(235), nil, nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeProcess}}}, 0},
		"ACK falls back to the card": {"ack", map[string]model.Matrix{
			"DCGM_FI_DEV_FB_USED": matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a"), 9000, 0}),
			"DCGM_FI_DEV_FB_FREE": matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a"), 14028, 0}),
		}, map[string][]gauged{"w-1": {{Figures: figure(value(9000), value(23028), nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeCard}}}, 0},
		"the card's free is no limit of a process": {"ack", map[string]model.Matrix{
			"DCGM_CUSTOM_PROCESS_MEM_USED": matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a"), 1000, 0}),
			"DCGM_FI_DEV_FB_FREE":          matrixOf(seriesPoint{ofPod("ack", "w-1", "GPU-a"), 14028, 0}),
		}, map[string][]gauged{"w-1": {{Figures: figure(value(1000), nil, nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeProcess}}}, 0},
		"B058 cards of dcgm-exporter": {"dcgm", map[string]model.Matrix{
			"DCGM_FI_DEV_GPU_UTIL": matrixOf(seriesPoint{ofPod("dcgm", "w-1", "GPU-a"), 71, 0}, seriesPoint{ofPod("dcgm", "w-2", "GPU-a"), 71, 0}, seriesPoint{ofPod("dcgm", "w-3", "GPU-a"), 71, 0}),
		}, map[string][]gauged{
			"w-1": {{Figures: figure(nil, nil, value(71)), gpu: "GPU-a", at: noon, grade: rayslice.GradeCard}},
			"w-2": {{Figures: figure(nil, nil, value(71)), gpu: "GPU-a", at: noon, grade: rayslice.GradeCard}},
			"w-3": {{Figures: figure(nil, nil, value(71)), gpu: "GPU-a", at: noon, grade: rayslice.GradeCard}},
		}, 0},
		"B058 three pods say the same": {"hami", map[string]model.Matrix{
			"hami_container_device_utilization_ratio": matrixOf(seriesPoint{ofPod("hami", "w-1", "GPU-a"), 71.4, 0}, seriesPoint{ofPod("hami", "w-2", "GPU-a"), 71.4, 0}, seriesPoint{ofPod("hami", "w-3", "GPU-b"), 71.4, 0}),
		}, map[string][]gauged{
			"w-1": {{Figures: figure(nil, nil, value(71.4)), gpu: "GPU-a", at: noon, grade: rayslice.GradeCard}},
			"w-2": {{Figures: figure(nil, nil, value(71.4)), gpu: "GPU-a", at: noon, grade: rayslice.GradeCard}},
			"w-3": {{Figures: figure(nil, nil, value(71.4)), gpu: "GPU-b", at: noon, grade: rayslice.GradeSlice}},
		}, 0},
		"idle pods all say zero": {"hami", map[string]model.Matrix{
			"hami_container_device_utilization_ratio": matrixOf(seriesPoint{ofPod("hami", "w-1", "GPU-a"), 0, 0}, seriesPoint{ofPod("hami", "w-2", "GPU-a"), 0, 0}),
		}, map[string][]gauged{
			"w-1": {{Figures: figure(nil, nil, value(0)), gpu: "GPU-a", at: noon, grade: rayslice.GradeSlice}},
			"w-2": {{Figures: figure(nil, nil, value(0)), gpu: "GPU-a", at: noon, grade: rayslice.GradeSlice}},
		}, 0},
		"B043 HAMi splits over two cards": {"hami", map[string]model.Matrix{
			"hami_vgpu_memory_used_bytes":  matrixOf(seriesPoint{ofPod("hami", "w-1", "GPU-b"), 0, 0}, seriesPoint{ofPod("hami", "w-1", "GPU-a"), 3000 * mib, 0}),
			"hami_vgpu_memory_limit_bytes": matrixOf(seriesPoint{ofPod("hami", "w-1", "GPU-b"), 4096 * mib, 0}, seriesPoint{ofPod("hami", "w-1", "GPU-a"), 4096 * mib, 0}),
		}, map[string][]gauged{"w-1": {
			{Figures: figure(value(3000), value(4096), nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeSlice},
			{Figures: figure(value(0), value(4096), nil), gpu: "GPU-b", at: noon, memoryGrade: rayslice.GradeSlice},
		}}, 0},
		"B056 only a card's name": {"dcgm", map[string]model.Matrix{
			"DCGM_FI_DEV_FB_USED": matrixOf(seriesPoint{ofPod("dcgm", "", "GPU-a"), 9000, 0}, seriesPoint{ofPod("dcgm", "w-1", "GPU-b"), 100, 0}),
		}, map[string][]gauged{"w-1": {{Figures: figure(value(100), nil, nil), gpu: "GPU-b", at: noon, memoryGrade: rayslice.GradeCard}}}, 1},
		"B059 a label that goes from pod to pod": {"dcgm", map[string]model.Matrix{
			"DCGM_FI_DEV_FB_USED": matrixOf(seriesPoint{ofPod("dcgm", "w-1", "GPU-a"), 9000, 30 * time.Second}, seriesPoint{ofPod("dcgm", "w-2", "GPU-a"), 9001, 15 * time.Second}, seriesPoint{ofPod("dcgm", "w-3", "GPU-a"), 9002, 0}),
		}, map[string][]gauged{
			"w-1": {{Figures: figure(value(9000), nil, nil), gpu: "GPU-a", at: noon.Add(-30 * time.Second), memoryGrade: rayslice.GradeCard}},
			"w-2": {{Figures: figure(value(9001), nil, nil), gpu: "GPU-a", at: noon.Add(-15 * time.Second), memoryGrade: rayslice.GradeCard}},
			"w-3": {{Figures: figure(value(9002), nil, nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeCard}},
		}, 0},
		"labels that Prometheus renamed": {"dcgm", map[string]model.Matrix{
			"DCGM_FI_DEV_FB_USED": matrixOf(seriesPoint{map[string]string{"namespace": "monitoring", "pod": "exporter", "exported_namespace": "team-vision", "exported_pod": "w-1", "UUID": "GPU-a"}, 9000, 0}),
		}, map[string][]gauged{"w-1": {{Figures: figure(value(9000), nil, nil), gpu: "GPU-a", at: noon, memoryGrade: rayslice.GradeCard}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSnapshotBuilder(presets[tc.preset], noon)
			for _, f := range b.figures {
				for _, series := range f.series {
					b.add(f, series, tc.series[series.Name])
				}
			}
			got := map[string][]gauged{}
			for pod, cards := range b.build().cards {
				if pod.namespace != "team-vision" {
					t.Errorf("pod %v", pod)
				}
				got[pod.name] = cards
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(gauged{}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if b.unattributed != tc.wantUnattributed {
				t.Errorf("%d series of nobody, want %d", b.unattributed, tc.wantUnattributed)
			}
		})
	}
}

func TestSeriesNames(t *testing.T) {
	for name, names := range presets {
		if err := names.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Preset("nagios"); err == nil || err.Error() != `preset "nagios" is unknown: use one of [ack dcgm hami]` {
		t.Errorf("error %v", err)
	}
	good := func() SeriesNames {
		return SeriesNames{Namespace: "ns", Pod: "pod", GPU: "uuid", Used: []Series{{Name: "used", Grade: rayslice.GradeSlice}}}
	}
	for want, change := range map[string]func(*SeriesNames){
		`pod: "my pod" is no name of a label`:                        func(n *SeriesNames) { n.Pod = "my pod" },
		`used, percent: name at least one series`:                    func(n *SeriesNames) { n.Used = nil },
		`used[0].name: "used{}" is no name of a series`:              func(n *SeriesNames) { n.Used[0].Name = "used{}" },
		`used[0].factor: must be above 0, is -1`:                     func(n *SeriesNames) { n.Used[0].Factor = -1 },
		`used[0].grade: must be process, slice or card, is "GPU"`:    func(n *SeriesNames) { n.Used[0].Grade = "GPU" },
		`percent[0].name: "" is no name of a series`:                 func(n *SeriesNames) { n.Percent = []Series{{}} },
		`limit[0].grade: must be process, slice or card, is ""`:      func(n *SeriesNames) { n.Limit = []Series{{Name: "limit"}} },
		`free[0].name: "sum(x) or vector(1)" is no name of a series`: func(n *SeriesNames) { n.Free = []Series{{Name: "sum(x) or vector(1)", Grade: rayslice.GradeCard}} },
	} {
		names := good()
		change(&names)
		if err := names.Validate(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
