package settings

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot goes on while the machine is suspended, unlike Go's monotonic
// clock: a node that slept through the 2 s of a callback must notice.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every Linux on which Go runs has the clock. Without the clock no callback may be sent.
		return time.Duration(1<<63 - 1)
	}
	return time.Duration(now.Nano())
}
