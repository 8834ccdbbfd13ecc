package store

// RingSlots returns how many slots the program counts in a ring.
func RingSlots(table string) int64 {
	for _, r := range []ring{rawRing, minuteRing, hourRing} {
		if r.table == table {
			return r.slots
		}
	}
	return 0
}
