//go:build !linux

package settings

import "time"

// processStart anchors the monotonic clock, the best clock of the standard library on these
// systems. The monotonic clock may stand still during suspension.
var processStart = time.Now()

func sinceBoot() time.Duration { return time.Since(processStart) }
