package rayslice

import "math"

// MaxCardMiB is more memory than any card has: a figure above it is no reading.
const MaxCardMiB = 1 << 20

// Figures are what a source says about one worker's share of a card, before anybody has asked whether it can be. nil =
// not said.
type Figures struct {
	UsedMiB  *float64
	LimitMiB *float64
	Percent  *float64 // utilisation, 0 to 100
}

// Plausible returns the figures that can be and how many cannot: use below zero or above the limit, more memory than any
// card has (Project-HAMi/HAMi#1181 saw 17592186044134 MiB), a utilisation that is no percentage. Those are nil, like what
// was not said.
func (f Figures) Plausible() (usedMiB, limitMiB *int, percent *float64, dropped int) {
	if f.LimitMiB != nil {
		if limitMiB = wholeMiB(*f.LimitMiB); limitMiB == nil || *limitMiB == 0 {
			limitMiB, dropped = nil, dropped+1
		}
	}
	if f.UsedMiB != nil {
		usedMiB = wholeMiB(*f.UsedMiB)
		if usedMiB == nil || limitMiB != nil && *usedMiB > *limitMiB {
			usedMiB, dropped = nil, dropped+1
		}
	}
	if f.Percent != nil {
		if *f.Percent >= 0 && *f.Percent <= 100 { // NaN is neither
			percent = f.Percent
		} else {
			dropped++
		}
	}
	return usedMiB, limitMiB, percent, dropped
}

// wholeMiB rounds down; nil when no card can have that much.
func wholeMiB(value float64) *int {
	if !(value >= 0 && value <= MaxCardMiB) {
		return nil
	}
	n := int(math.Floor(value))
	return &n
}

// The grade of a memory reading allows for what cGPU rounds and drivers keep (domain facts E.2).
const toleranceMiB = 32

// MemoryGrade says whether memory of which limitMiB are in all is the slice's or the card's: inside a slice whose wall
// stands, the driver shows the slice's size, and without a wall it shows the whole card (domain facts E.2). cardMiB is the
// physical size of the card, 0 = unknown; pool is where the slice is cut from. A whole card is its worker's own, and so is
// a slice as large as the card. What cannot be told is the card's, which is never added up.
func MemoryGrade(slice Slice, pool Pool, cardMiB int, limitMiB *int) Grade {
	switch {
	case slice.Whole() || pool.CardGiB > 0 && slice.GiB >= pool.CardGiB:
		return GradeSlice
	case limitMiB == nil:
		return GradeCard
	}
	least, most := sliceMiB(slice, pool, cardMiB)
	if *limitMiB >= least && *limitMiB <= most {
		return GradeSlice
	}
	if cardMiB > 0 && *limitMiB < cardMiB-cardMiB/10 {
		return GradeSlice // another size than asked for, but a wall it is
	}
	return GradeCard
}

// UtilisationGrade says whose a utilisation is that the driver names inside a worker: its own only when the whole card
// is (domain facts C.1).
func UtilisationGrade(slice Slice) Grade {
	if slice.Whole() {
		return GradeSlice
	}
	return GradeCard
}

// sliceMiB returns the bounds of what the driver shows as the size of one slice.
func sliceMiB(slice Slice, pool Pool, cardMiB int) (least, most int) {
	if pool.CardGiB > 0 && cardMiB > 0 {
		size := cardMiB * slice.GiB / pool.CardGiB
		return size - toleranceMiB, size + toleranceMiB
	}
	least, most = slice.GiB*1024-toleranceMiB, slice.GiB*1024+toleranceMiB
	if pool.CardGiB > 0 {
		most += slice.GiB * 1024 / pool.CardGiB // cards offer whole GiB, rounded down
	}
	return least, most
}
