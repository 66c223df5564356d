package listing

import "time"

// Action is a change to many timers.
type Action string

// The actions.
const (
	Delete Action = "delete"
	Fire   Action = "fire"  // the next pop is due now
	Delay  Action = "delay" // the next pop, and the pops behind, come later
)

// Bulk asks for a change to the timers that a query picks.
type Bulk struct {
	Query
	Action Action
	By     time.Duration // of a Delay
	DryRun bool          // only counts
}

// Done is the result of a change to many timers. Nothing was changed that was written after the timer
// was listed.
type Done struct {
	Done    int // timers that were changed, or would be
	Refused []Refused
	// LeftOut is the number of timers that were written after the first call of the change, or, for a Fire, whose
	// last pop was due after the call.
	LeftOut int
	Next    string    // the cursor for the next call; "" if all timers had a turn
	Scanned int       // copies looked at
	Reached time.Time // all timers due until then had a turn; zero at the end
	// Unreached are the shards that gave no answer: timers with copies on only such shards had no
	// turn.
	Unreached []string
}

// Refused is a timer that was left as it is.
type Refused struct {
	ID  string
	Err error
}
