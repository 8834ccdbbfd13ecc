package rayhead

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"
)

const (
	contextMiB = 235               // what a CUDA context takes before the first tensor
	warmUp     = 20 * time.Second  // from the pod's start to the first use of its GPU
	rampUp     = 120 * time.Second // from the first use to the working level
)

// loadLevel is how hard a pod uses its cards: fractions of 0 to 1. The zero value is an idle pod.
type loadLevel struct {
	memory      float64
	utilization float64
}

// loadOf is the pod's load at a moment: nothing while it warms up, then a ramp to a level of its own with waves on it, of
// a period of its own between 6 and 15 minutes.
func loadOf(uid string, start, now time.Time) loadLevel {
	age := now.Sub(start) - warmUp
	if age <= 0 {
		return loadLevel{}
	}
	seed, _ := hex.DecodeString(digest("load", uid)[:16])
	base := 0.35 + 0.4*fraction(seed[0:2])
	period := 360 + 540*fraction(seed[2:4])
	phase := fraction(seed[4:6])
	wave := math.Sin(2 * math.Pi * (age.Seconds()/period + phase))
	ripple := math.Sin(2 * math.Pi * (age.Seconds()/47 + phase))
	ramp := min(1, float64(age)/float64(rampUp))
	return loadLevel{
		memory:      ramp * (base + 0.12*wave + 0.02*ripple),
		utilization: ramp * (0.55 + 0.3*wave + 0.1*ripple),
	}
}

func fraction(two []byte) float64 {
	return float64(binary.BigEndian.Uint16(two)) / math.MaxUint16
}

// on fills in a card's figures, or makes them impossible when the fault asks for it.
func (l loadLevel) on(card gpu, faults map[string]bool) gpu {
	if faults[WrongNumbers] {
		card.usedMiB, card.utilization = 17592186044134, -1
		return card
	}
	if l.memory > 0 {
		card.usedMiB = min(card.totalMiB, contextMiB+int(l.memory*float64(card.totalMiB-contextMiB)))
		card.utilization = int(100 * l.utilization)
	}
	return card
}
