package wire

import "testing"

// TestLimitsAreThoseOfTheContract: the rest of the tests compare with the constants, and users rely
// on the constants.
func TestLimitsAreThoseOfTheContract(t *testing.T) {
	for name, c := range map[string][2]int{
		"of listed ignored members": {maxIgnored, 16}, "of their names": {maxIgnoredName, 64},
		"of the members of an object of a patch": {maxChanges, 256}, "of the timers of a batch": {maxBatch, 1000}, "of the references of a request": {maxReferences, 1000},
	} {
		if c[0] != c[1] {
			t.Errorf("the limit %s is %v, want %v", name, c[0], c[1])
		}
	}
}
