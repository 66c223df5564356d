package testkit

import (
	"testing"
	"time"
)

// Eventually polls until a condition holds, and ends the test if that takes too long.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	if !Await(t, within, what, holds) {
		t.FailNow()
	}
}

// Await is Eventually for a test that goes on with what it has, as a failed test. It reports
// whether the condition holds.
//
// It polls ever more slowly, since each look is work for those that are looked at.
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
