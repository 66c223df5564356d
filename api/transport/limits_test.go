package transport

import (
	"testing"
	"time"
)

// TestLimitsAreThoseOfTheContract: the rest of the tests compare with the constants, and users rely
// on the constants.
func TestLimitsAreThoseOfTheContract(t *testing.T) {
	for name, c := range map[string]struct{ have, want any }{
		"to read a request": {readTimeout, 5 * time.Second}, "to write an answer": {writeTimeout, 10 * time.Second},
		"between requests": {idleTimeout, time.Minute}, "of a body": {DefaultMaxBody, 1 << 20},
	} {
		if c.have != c.want {
			t.Errorf("the limit %s is %v, want %v", name, c.have, c.want)
		}
	}
}
