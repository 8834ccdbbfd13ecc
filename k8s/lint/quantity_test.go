package lint

import (
	"errors"
	"testing"
)

func TestQuantities(t *testing.T) {
	for text, want := range map[string]error{
		"0": nil, "8Gi": nil, "500m": nil, "1e3": nil, "1E": nil, "12E6": nil, "1e18": nil, "-1": nil, "+4": nil, ".5": nil, "0.25": nil, "8Ei": nil, "1e-18": nil, "1e0018": nil,
		"9223372036854775807": nil,
		"9223372036854775808": errQuantityRange, "1e19": errQuantityRange, "-1e19": errQuantityRange, "1e-19": errQuantityRange, "99e18": errQuantityRange,
		"1e999999999": errQuantityRange, "1e-999999999": errQuantityRange, "1E+999999999": errQuantityRange, "1e99999999999999999999": errQuantityRange,
		"0.00000000000000000000000000000000000000000000000000000000000000001": errQuantityRange,
		"": errQuantity, "8 Gi": errQuantity, "eight": errQuantity, "8GB": errQuantity, "1e": errQuantity, "25%": errQuantity, "٨": errQuantity, "--1": errQuantity, "0x10": errQuantity,
	} {
		if _, err := parseQuantity(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}
