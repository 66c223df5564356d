package api

import (
	"testing"
	"time"
)

// TestLimitsAreThoseOfTheContract: the rest of the tests compare with the constants, and users rely
// on the constants.
func TestLimitsAreThoseOfTheContract(t *testing.T) {
	for name, c := range map[string]struct{ have, want any }{
		"to carry out a request": {answerWithin, 900 * time.Millisecond}, "of an idempotency key": {maxIdempotencyKey, 255},
	} {
		if c.have != c.want {
			t.Errorf("the limit %s is %v, want %v", name, c.have, c.want)
		}
	}
}

// Limits of bodies, as package wire has them.
const (
	maxBatch       = 1000
	maxReferences  = 1000
	maxDepth       = 32
	maxParserDepth = 10_000
)
