package bench_test

import (
	"strings"
	"testing"

	"github.com/rayslice/rayslice/bench"
)

// TestReportRefuses covers field case B101: no number without what it was measured on.
func TestReportRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		set  map[string]any
		want string // named in the refusal; "" = prints
	}{
		{"a setting is missing", map[string]any{"QPS": 200}, "object bytes"},
		{"a version is unknown", map[string]any{"QPS": 200, "object bytes": "unknown"}, "object bytes"},
		{"a size is zero", map[string]any{"QPS": 0, "object bytes": 3000}, "QPS"},
		{"all is known", map[string]any{"QPS": 200, "object bytes": 3000}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := bench.NewReport("a benchmark", "QPS", "object bytes")
			for name, value := range test.set {
				report.Set(name, value)
			}
			report.Result("ratio", "%.2f", 0.93)
			var out strings.Builder
			err := report.Print(&out)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "":
				for _, want := range []string{"CPU", "kernel", "load after", "QPS", "3000", "0.93"} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("report lacks %s:\n%s", want, &out)
					}
				}
			case err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0:
				t.Errorf("got %v and %q, want a refusal that names %s and no output", err, &out, test.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.95: 5, 1: 5} {
		if got := bench.Quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
