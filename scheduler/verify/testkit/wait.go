package testkit

import (
	"testing"
	"time"
)

// Soon is how long tests wait for an expected event, also on a busy machine.
const Soon = 15 * time.Second

// Eventually polls until a condition holds, and ends the test if the condition does not hold in
// time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	if !Await(t, within, what, holds) {
		t.FailNow()
	}
}

// Await is Eventually for a test that goes on after a failure. Await reports whether the
// condition holds.
//
// Await polls ever more slowly, since every look is work for the processes under test.
func Await(t testing.TB, within time.Duration, what string, holds func() bool) bool {
	t.Helper()
	for begun := time.Now(); !holds(); {
		waited := time.Since(begun)
		if waited >= within {
			t.Errorf("waited %v in vain: %s", within, what)
			return false
		}
		<-time.After(min(max(waited/20, time.Millisecond), 250*time.Millisecond, within-waited))
	}
	return true
}

// Throughout polls for a while, and ends the test if a condition does not hold.
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
