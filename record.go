package rayslice

import "time"

// RecordSpan is how far back a Record looks.
const RecordSpan = 30 * 24 * time.Hour

// A Record is what somebody was granted in a team within RecordSpan, and how long they really held it: from ready until
// it began to stop. Of what still runs only the time that has passed counts. How much of the memory was used is not
// measured.
type Record struct {
	Grants  int   // requests that were approved
	Granted Hours // what they could have held until now
	Held    Hours // what they did hold
}

// Hours are a charge over time.
type Hours struct {
	GiB   float64 `json:"gib"`   // GiB-hours of slices
	Cards float64 `json:"cards"` // hours of whole cards
}

// Percent returns how much of what was granted was really held, of slices and whole cards alike; false when nothing was
// granted yet that could have been held.
func (r Record) Percent() (int, bool) {
	granted, held := r.Granted.GiB, r.Held.GiB
	if granted <= 0 {
		granted, held = r.Granted.Cards, r.Held.Cards
	}
	if granted <= 0 {
		return 0, false
	}
	return int(min(held/granted, 1)*100 + 0.5), true
}
