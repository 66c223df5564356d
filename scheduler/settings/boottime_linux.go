package settings

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot goes on while the machine is suspended, unlike Go's monotonic
// clock: a node that slept through its 2 s must notice.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every Linux that Go runs on has the clock; without it nothing may be sent.
		return time.Duration(1<<63 - 1)
	}
	return time.Duration(now.Nano())
}
