package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rayslice/rayslice"
)

// TestVerifyExits has scripts tell apart what is enforced, what is not, what nobody knows, and a command that failed.
func TestVerifyExits(t *testing.T) {
	for verdict, want := range map[rayslice.Enforcement]int{
		rayslice.NotEnforced: exitNotEnforced, rayslice.Inconclusive: exitNotKnown, rayslice.OutOfDate: exitNotKnown, "": exitNotKnown,
	} {
		err := judged(verdict)
		if err == nil || err.Error() == "" || exitStatus(fmt.Errorf("cluster: %w", err)) != want {
			t.Errorf("%q: %v, exit status %d, want %d", verdict, err, exitStatus(err), want)
		}
	}
	for _, verdict := range rayslice.Enforcements() {
		if err := judged(verdict); (err == nil) != (verdict == rayslice.Enforced) {
			t.Errorf("%q: %v", verdict, err)
		}
	}
	if got := exitStatus(errors.New("the database is away")); got != 1 {
		t.Errorf("a failure exits with %d", got)
	}
}
