package store

import (
	"time"

	"chronos/scheduler/timer"
)

// Bounds of the decisions about destinations that a shard keeps.
const (
	// MaxPauses is how many destinations may be paused at a time.
	MaxPauses = 1000
	// MaxDecisions is how many destinations a shard keeps a decision about, pauses that are over
	// included.
	MaxDecisions = 2000
	// MaxDestination is the longest name of a destination, in bytes.
	MaxDestination = 300
)

// Decision is what an operator has decided about a destination: a pause, or the end of a pause.
type Decision struct {
	// Destination is scheme://host:port.
	Destination string
	// Stamp says which of two decisions is later: the decision with the higher stamp counts.
	Stamp timer.Version
	// Until is the end of the pause, in whole milliseconds; the zero time ends a pause.
	Until time.Time
	// Left is the time from the shard's answer to Until, by the shard's clock; set in answers alone.
	Left time.Duration
}
