package rayslice

import (
	"testing"

	"pgregory.net/rapid"
)

func TestQuotaAllowsExactlyUpToTheLimit(t *testing.T) {
	q := Quota{Team: "vision", Limit: Charge{GiB: 40, Cards: 2}, Used: Charge{GiB: 32, Cards: 2}}
	tests := map[string]struct {
		ask  Charge
		want bool
	}{
		"B074 8 of the last 8":      {Charge{GiB: 8}, true},
		"B074 9 of the last 8":      {Charge{GiB: 9}, false},
		"B065 CPU only":             {Charge{}, true},
		"a card when none are left": {Charge{Cards: 1}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := q.Allow(tc.ask); got != tc.want {
				t.Errorf("Allow(%+v) = %t, want %t", tc.ask, got, tc.want)
			}
		})
	}
}

func TestQuotaLeftIsNeverNegative(t *testing.T) {
	q := Quota{Limit: Charge{GiB: 8}, Used: Charge{GiB: 24, Cards: 1}} // the limit was lowered below what runs
	if got := q.Left(); got != (Charge{}) {
		t.Errorf("Left() = %+v, want nothing", got)
	}
}

// TestDraftCharge is B077: the charge is workers × cards per pod × size, taken at the most workers (B079).
func TestDraftCharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, cards := rapid.IntRange(1, 80).Draw(t, "size"), rapid.IntRange(1, 8).Draw(t, "per pod")
		least, extra := rapid.IntRange(0, 100).Draw(t, "workers"), rapid.IntRange(0, 100).Draw(t, "more")
		slices := Group{Workers: least, MinWorkers: least, MaxWorkers: least + extra, Slice: Slice{Pool: "a10", GiB: size, Cards: cards}}
		whole := Group{Workers: least, MinWorkers: least, MaxWorkers: least + extra, Slice: Slice{Pool: "a100", Cards: cards}}
		cpu := Group{Workers: 5, MinWorkers: 5, MaxWorkers: 5}
		got := RequestDraft{Groups: []Group{slices, whole, cpu}}.Charge()
		want := Charge{GiB: (least + extra) * cards * size, Cards: (least + extra) * cards}
		if got != want {
			t.Fatalf("Charge() = %+v, want %+v", got, want)
		}
	})
}
