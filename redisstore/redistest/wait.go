package redistest

import (
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// Soon is how long the tests wait for what must come by itself, also on a busy
// machine.
const Soon = 15 * time.Second

// Log gathers what is logged; safe for concurrent use.
type Log = testkit.Log

// Await is testkit's Eventually.
func Await(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, limit, what, cond)
}

// Throughout wants what holds to do so again and again for a while.
func Throughout(t testing.TB, while time.Duration, what string, holds func() bool) {
	t.Helper()
	end, tick := time.NewTimer(while), time.NewTicker(50*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for {
		if !holds() {
			t.Fatalf("within %v it did not hold that %s", while, what)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}
