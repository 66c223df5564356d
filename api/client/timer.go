package client

import "time"

// Timer is what chronos is asked for: when, how often, whom to call. The zero
// value has no URI and is refused. Give either Interval or At.
type Timer struct {
	// Interval is the time from the request to the first pop and between pops. It
	// is rounded up to whole milliseconds; zero fires at once.
	Interval time.Duration
	// RepeatFor is how long the timer recurs, every Interval: it pops
	// RepeatFor / Interval times, rounded down. Zero for a single pop.
	RepeatFor time.Duration
	// At is the instant of the only pop, rounded up to whole milliseconds; one in
	// the past fires at once. The zero Time leaves it to Interval.
	At time.Time
	// URI is where the callback is posted; absolute, http or https.
	URI string
	// Opaque is the callback's body. It must be UTF-8: encode binary data, for
	// example as Base64.
	Opaque string
	// ReplicationFactor is how many copies to keep, 1 to 16; zero for the default,
	// or with Replace for as many as the timer has.
	ReplicationFactor int
	// Tags are counted by the statistics; at most 32, of at most 256 bytes.
	Tags []Tag
}

// Tag says what a timer represents.
type Tag struct {
	Type  string
	Count int // zero counts as 1
}

// Receipt is the answer to Create, CreateOnce, Replace and, for each timer,
// CreateBatch: the timer is stored.
type Receipt struct {
	// ID is what to call the timer from now on. Key is the part of it that never
	// changes, and a valid id by itself.
	ID, Key string
	// Due is when the first pop is due.
	Due time.Time
	// Copies is on how many shards the timer is stored.
	Copies int
	// Ignored are JSON pointers to what of the request had no effect.
	Ignored []string
	// Replayed says that an earlier request with this key made the timer.
	Replayed bool
	// Over says that the timer which an earlier request with this key made has fired
	// or was deleted: nothing of it is stored any more, and Copies is 0.
	Over bool
	// InFlight says that a callback of what was replaced may still start, 2 s after
	// the answer at the latest.
	InFlight bool
	// Unreached is how many copies of what was replaced could not be told yet.
	Unreached int
}

// Deletion is the answer to Delete: there is no such timer any more.
type Deletion struct {
	// InFlight says that a callback of the timer may still start, 2 s after the
	// answer at the latest.
	InFlight bool
	// Unreached is how many copies of the timer could not be told yet.
	Unreached int
}

// State is how a timer stands.
type State string

// The states. A newer node may have others.
const (
	Waiting  State = "waiting"  // for its due time
	Leased   State = "leased"   // a node is about to call back, or doing so
	Retrying State = "retrying" // the callback failed and will be tried again
)

// Stored is a timer as Lookup finds it.
type Stored struct {
	// ID and Key are as in Receipt.
	ID, Key string
	// Timer has defaults filled in and times in whole milliseconds. Its URI has ***
	// for user and password, if there are any: Replace with such a URI is refused.
	Timer Timer
	State State
	// Due is when the next pop, or the next attempt at it, is due.
	Due time.Time
	// Sequence is the number of the next pop, from 1, and Attempts is how many
	// callbacks were started for it.
	Sequence, Attempts int
	// LastFailure is why the last callback failed, nil if it did not.
	LastFailure *Failure
}

// Failure is a callback that failed.
type Failure struct {
	At     time.Time
	Reason string
}
