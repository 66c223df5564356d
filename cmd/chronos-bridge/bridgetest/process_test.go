package bridgetest

import (
	"testing"
	"time"
)

// eventually polls until the condition holds, and reports whether it came to that.
// The test goes on without it: what is missing is worth more with all the figures.
func eventually(t *testing.T, within, each time.Duration, what string, holds func() bool) bool {
	t.Helper()
	deadline := time.After(within)
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Errorf("waited %v in vain: %s", within, what)
			return false
		}
	}
	return true
}
