package rayslice

import "fmt"

// A Slice is a share of ONE physical GPU: whole GiB of its memory, optionally a percentage of its compute; or the
// whole card. It is never a fraction and never a Go slice. The zero Slice asks for no GPU at all.
type Slice struct {
	Pool        string `json:"pool"`         // name of the Pool it is cut from; "" = no GPU
	GiB         int    `json:"slice_gib"`    // GiB of one card's memory; 0 for a whole card or no GPU
	CorePercent int    `json:"core_percent"` // percent of one card's compute, steps of 5; only on core_mem pools
	Cards       int    `json:"per_pod"`      // cards one worker sees: 1, or more on pools that allow it; 0 = no GPU
}

// IsZero reports whether the slice asks for no GPU.
func (s Slice) IsZero() bool { return s.Pool == "" }

// Whole reports whether the slice is one or more whole cards.
func (s Slice) Whole() bool { return s.Pool != "" && s.GiB == 0 }

// Charge returns what one worker with this slice costs its team.
func (s Slice) Charge() Charge {
	switch {
	case s.IsZero():
		return Charge{}
	case s.Whole():
		return Charge{Cards: s.Cards}
	}
	return Charge{GiB: s.GiB * s.Cards}
}

// String returns the slice as logs and object names show it, e.g. "8GiB@a10", "2cards@a100", "cpu".
func (s Slice) String() string {
	switch {
	case s.IsZero():
		return "cpu"
	case s.Whole():
		return fmt.Sprintf("%dcards@%s", s.Cards, s.Pool)
	}
	return fmt.Sprintf("%dGiB@%s", s.GiB*s.Cards, s.Pool)
}
