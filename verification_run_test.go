package rayslice

import (
	"slices"
	"testing"
	"time"
)

func TestWhatIsDue(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	down, full := Reason{Code: ReasonVerifyNoJobs}, Reason{Code: WhyCardFull}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	cases := map[string]struct {
		work        VerificationWork
		unseen, due bool
	}{
		"never looked at":                      {VerificationWork{}, true, true},
		"never looked at, and not wanted":      {VerificationWork{Off: true}, false, false},
		"has its verdict":                      {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(time.Hour), Reason{}}}}, false, false},
		"another pod has one":                  {VerificationWork{Covered: []CoveredPod{{"b", 1, ago(time.Hour), Reason{}}}}, true, true},
		"jobs were down a minute ago":          {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(time.Minute), down}}}, false, false},
		"jobs were down five minutes ago":      {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(5 * time.Minute), down}}}, false, true},
		"twice, five minutes ago":              {VerificationWork{Covered: []CoveredPod{{"a", 2, ago(5 * time.Minute), down}}}, false, false},
		"twice, a quarter of an hour ago":      {VerificationWork{Covered: []CoveredPod{{"a", 2, ago(15 * time.Minute), down}}}, false, true},
		"three times, an hour ago":             {VerificationWork{Covered: []CoveredPod{{"a", 3, ago(time.Hour), down}}}, false, true},
		"four times":                           {VerificationWork{Covered: []CoveredPod{{"a", 4, ago(48 * time.Hour), down}}}, false, false},
		"jobs were down, and it is not wanted": {VerificationWork{Off: true, Covered: []CoveredPod{{"a", 1, ago(time.Hour), down}}}, false, false},
		"for a reason that stays":              {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(time.Hour), full}}}, false, false},
		"the probe's worker died": {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(time.Hour),
			Reason{Code: WhyProbeFailed, Args: map[string]any{"code": ProbeWorkerDied}}}}}, false, true},
		"the probe cannot be read": {VerificationWork{Covered: []CoveredPod{{"a", 1, ago(time.Hour),
			Reason{Code: WhyProbeFailed, Args: map[string]any{"code": ProbeSchema}}}}}, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := []string{"a"}
			if got := slices.Contains(tc.work.Unseen(pods), "a"); got != tc.unseen {
				t.Errorf("unseen: %t", got)
			}
			if got := slices.Contains(tc.work.Due(pods, now), "a"); got != tc.due {
				t.Errorf("due: %t", got)
			}
		})
	}
}
