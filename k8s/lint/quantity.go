package lint

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity. Kubernetes keeps at most 2^63−1 of anything, and its parser and its comparisons compute with as many
// digits as an exponent says: 1e-999999999 takes them minutes.
const (
	maxQuantityText = 64 // characters
	maxExponent     = 18 // 10^18 is just below 2^63
)

var (
	errQuantity      = errors.New("no quantity")
	errQuantityRange = errors.New("a quantity that Kubernetes cannot hold")
)

// exponent is what a quantity has for a unit when it is written as 12e6; a lone E is exa.
var exponent = regexp.MustCompile(`[eE][+-]?0*([0-9]+)$`)

// parseQuantity reads a quantity of Kubernetes, and is the only way here to do so. What it returns can be computed with at no cost. The
// error is errQuantityRange for what is written as one and is too long, too large or too small, else errQuantity.
func parseQuantity(text string) (resource.Quantity, error) {
	if strings.Trim(text, "0123456789.eEinumkKMGTP+-") != "" {
		return resource.Quantity{}, errQuantity
	}
	if len(text) > maxQuantityText {
		return resource.Quantity{}, errQuantityRange
	}
	if m := exponent.FindStringSubmatch(text); m != nil {
		if places, err := strconv.Atoi(m[1]); err != nil || places > maxExponent {
			return resource.Quantity{}, errQuantityRange
		}
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errQuantity
	}
	if q.CmpInt64(math.MaxInt64) > 0 || q.CmpInt64(-math.MaxInt64) < 0 {
		return resource.Quantity{}, errQuantityRange
	}
	return q, nil
}
