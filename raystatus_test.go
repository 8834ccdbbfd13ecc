package rayslice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statusHead = `======== Autoscaler status: 2026-03-02 09:00:00.000000 ========
Node status
---------------------------------------------------------------
Active:
 1 node_4f
Pending:
 (no pending nodes)

Resources
---------------------------------------------------------------
`

const statusTail = `
Demands:
 {'GPU': 1.0}: 3+ pending tasks/actors
 {'GPU': 4.0} * 1: 1+ pending placement groups
`

func TestParseRayStatus(t *testing.T) {
	const group = "GPU_group_0_1f0a9c77aa1be5bb1a7be5ed0e2c02000000"
	for name, tc := range map[string]struct {
		usage       string
		want        []RayResource
		wantStrange []string
		wantUsed    float64
		wantTotal   float64
		wantKnown   bool
	}{
		"new": {"Total Usage:\n 0.0/4.0 CPU\n 1.0/2.0 GPU\n 0B/7.50GiB memory\n 512.00MiB/2.00GiB object_store_memory\n", []RayResource{
			{Name: "CPU", Total: 4}, {Name: "GPU", Used: 1, Total: 2}, {Name: "memory", Total: 7.5, Unit: "GiB"}, {Name: "object_store_memory", Used: .5, Total: 2, Unit: "GiB"}}, nil, 1, 2, true},
		"old": {"Usage:\n 0.0/4.0 CPU\n 0.25/1.0 GPU\n 0.00/7.500 GiB memory\n", []RayResource{
			{Name: "CPU", Total: 4}, {Name: "GPU", Used: .25, Total: 1}, {Name: "memory", Total: 7.5, Unit: "GiB"}}, nil, .25, 1, true},
		"B010 placement groups": {"Total Usage:\n 2.0/2.0 GPU (2.0 used of 2.0 reserved in placement groups)\n 2.0/2.0 GPU_group_1f0a9c77aa1be5bb\n 1.0/1.0 " + group + "\n", []RayResource{
			{Name: "GPU", Used: 2, Total: 2}, {Name: "GPU_group_1f0a9c77aa1be5bb", Used: 2, Total: 2}, {Name: group, Used: 1, Total: 1}}, nil, 2, 2, true},
		"B008 before Ray has found its cards": {"Total Usage:\n 0.0/4.0 CPU\n", []RayResource{{Name: "CPU", Total: 4}}, nil, 0, 0, false},
		"B016 memory without a unit":          {"Usage:\n 0.0/160.0 memory\n", []RayResource{{Name: "memory", Total: 160}}, nil, 0, 0, false},
		"T28 localised":                       {"Total Usage:\n 0,0/1,0 GPU\n", nil, []string{"0,0/1,0 GPU"}, 0, 0, false},
		"more used than there is":             {"Total Usage:\n 3.0/1.0 GPU\n", nil, []string{"3.0/1.0 GPU"}, 0, 0, false},
		"named twice":                         {"Total Usage:\n 0.0/1.0 GPU\n 0.0/1.0 GPU\n", []RayResource{{Name: "GPU", Total: 1}, {Name: "GPU", Total: 1}}, nil, 0, 0, false},
		"nothing in use":                      {"Total Usage:\n (no usage)\n", nil, []string{"(no usage)"}, 0, 0, false},
		"T28 empty":                           {"", nil, nil, 0, 0, false},
		"T28 one line of 1 MB":                {"Total Usage:\n " + strings.Repeat("9", 1<<20) + "/1.0 GPU\n", nil, []string{strings.Repeat("9", maxStrangeLine) + "…"}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{statusHead + tc.usage + statusTail, strings.ReplaceAll(statusHead+tc.usage+statusTail, "\n", "\r\n")} {
				got := ParseRayStatus(text)
				if diff := cmp.Diff(RayStatus{Resources: tc.want, Strange: tc.wantStrange}, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if used, total, ok := got.GPU(); used != tc.wantUsed || total != tc.wantTotal || ok != tc.wantKnown {
					t.Errorf("GPU %v/%v, known %v; want %v/%v, %v", used, total, ok, tc.wantUsed, tc.wantTotal, tc.wantKnown)
				}
			}
		})
	}
}

// TestRayUnits covers field case B016: a number without a unit is of an unknown one.
func TestRayUnits(t *testing.T) {
	for name, tc := range map[string]struct {
		resource  RayResource
		wantTotal float64
		wantKnown bool
	}{
		"GiB":     {RayResource{Total: 8, Unit: "GiB"}, 8192, true},
		"bytes":   {RayResource{Total: 8589934592, Unit: "B"}, 8192, true},
		"no unit": {RayResource{Total: 8589934592}, 0, false},
	} {
		if _, total, ok := tc.resource.MiB(); total != tc.wantTotal || ok != tc.wantKnown {
			t.Errorf("%s: %v MiB, known %v; want %v, %v", name, total, ok, tc.wantTotal, tc.wantKnown)
		}
	}
}

func FuzzParseRayStatus(f *testing.F) {
	f.Add(statusHead + "Total Usage:\n 1.0/2.0 GPU (1.0 used of 1.0 reserved in placement groups)\n 1.0/1.0 GPU_group_0_ab\n" + statusTail)
	f.Add("Usage:\r\n 0.0/1.0 GPU\r\n 0B/1GiB memory\r\n")
	f.Add("Usage:\n 1TiB/1B x\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := ParseRayStatus(text)
		if len(s.Strange) > maxStrange || len(s.Resources) > maxRayResources {
			t.Errorf("keeps %d strange lines and %d resources", len(s.Strange), len(s.Resources))
		}
		for _, r := range s.Resources {
			if !(r.Used >= 0 && r.Used <= r.Total) {
				t.Errorf("%s: %v of %v", r.Name, r.Used, r.Total)
			}
		}
		if used, total, ok := s.GPU(); ok && !(used >= 0 && used <= total) {
			t.Errorf("GPU %v of %v", used, total)
		}
	})
}
