package lint_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rayslice/rayslice/k8s/lint"
)

// FuzzCheck reads any bytes: it ends soon, every finding has a place and can be told to programs, and what mends findings
// leaves a text that reads back.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(sound))
	for _, tc := range rules() {
		f.Add([]byte(changed(tc.parts)))
	}
	for _, tc := range hostile() {
		if len(tc.text) < 4096 {
			f.Add([]byte(tc.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		began := time.Now()
		report := lint.Check(text, catalogue())
		if took := time.Since(began); took > 2*time.Second { // a fuzzer's machine is busy
			t.Fatalf("took %v", took)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Fatal(err)
		}
		for _, finding := range report.Findings {
			if finding.Line < 1 || finding.Column < 1 || finding.Code == "" || finding.Severity == "" {
				t.Fatalf("a finding without a place: %+v", finding)
			}
			if fixed, ok := lint.Fix(t.Context(), text, catalogue(), finding.Key()); ok != (string(fixed) != string(text)) && !ok {
				t.Fatalf("changed without a fix: %+v", finding)
			}
		}
		if fixed, n := lint.FixAll(t.Context(), text, catalogue()); n > 0 && len(report.Findings) > 0 {
			for _, finding := range lint.Check(fixed, catalogue()).Findings {
				if finding.Code == "not_yaml" || finding.Code == "tabs" {
					t.Fatalf("the fix does not read back: %+v\n%s", finding, fixed)
				}
			}
		}
	})
}
