//go:build !linux

package settings

import "time"

// processStart anchors the monotonic clock, which on these systems is the best
// there is in the standard library: it may stand still during suspension.
var processStart = time.Now()

func sinceBoot() time.Duration { return time.Since(processStart) }
