package client

import "time"

// Timer is a request to chronos: when to call back, how often, and which URI. The zero value has no
// URI and is refused. Give either Interval or At, or for a timer that recurs both.
//
// As JSON a Timer has the form of POST /timers.
type Timer struct { //nolint:recvcheck // as in the standard library, a value is marshalled and a pointer unmarshalled
	// Interval is the time from the request to the first pop and between pops. Interval is rounded
	// up to whole milliseconds; zero fires at once.
	Interval time.Duration
	// RepeatFor is how long the timer recurs, every Interval. The timer pops RepeatFor / Interval
	// times, rounded down. Zero means a single pop.
	RepeatFor time.Duration
	// At is the instant of the first pop, rounded up to whole milliseconds. An instant in the past
	// fires at once. If At is the zero Time, the first pop is an Interval after the request.
	At time.Time
	// ExpiresAfter is how long after its due time a pop is attempted, at least a second. An expired
	// pop is left out; a timer that pops once becomes a dead letter. Zero means that no pop expires.
	ExpiresAfter time.Duration
	// URI is where the callback is sent; absolute, http or https.
	URI string
	// Opaque is the callback's body. Opaque must be UTF-8: encode binary data, for example as
	// Base64.
	Opaque string
	// Method is POST, PUT, PATCH, DELETE or GET; "" means POST. A GET has no Opaque.
	Method string
	// Headers are further headers of the callback, at most 32. Names are as in HTTP: two names that
	// differ only in case are one name, and are refused.
	Headers map[string]string
	// Timeout is how long an attempt may take, 0.1 to 30 s; zero means 2 s.
	Timeout time.Duration
	// Retry is when further attempts follow failed attempts.
	Retry Retry
	// ReplicationFactor is how many copies to keep, 1 to 16. Zero means the default, or with
	// Replace the factor of the stored timer.
	ReplicationFactor int
	// Tags are counted by the statistics; at most 32, of at most 256 bytes.
	Tags []Tag
}

// Retry is when further attempts at a pop follow failed attempts: after a random part of a pause that
// grows from First by Factor up to Longest. The zero value of a member means the default.
type Retry struct {
	Attempts int           // at a pop, the first included, up to 100; by default as the node is configured, 5
	First    time.Duration // 0.1 s to an hour; by default 1 s
	Factor   float64       // 1 to 10; by default 2
	Longest  time.Duration // 0.1 s to a day; by default a minute, or First if First is longer
}

// Tag says what a timer represents.
type Tag struct {
	Type  string
	Count int // zero counts as 1
}

// Receipt says that a timer is stored. Create, CreateOnce, Replace and Patch return a Receipt, and
// CreateBatch returns a Receipt for every stored timer.
type Receipt struct {
	// ID names the timer from now on. Key is the part of ID that never changes, and is also a valid
	// id.
	ID, Key string
	// ETag names the version of the timer, for a Condition. CreateBatch tells no ETags.
	ETag string
	// Due is when the first pop is due; after a Patch without timing, when the next pop is due.
	Due time.Time
	// Copies is on how many shards the timer is stored.
	Copies int
	// Ignored are JSON pointers to members of the request without effect: the node's version does not
	// know Headers, for example, nor that this package asks for such members to be refused.
	Ignored []string
	// Replayed says that an earlier request with this key made the timer.
	Replayed bool
	// Over says that the timer of an earlier request with this key has fired or was deleted.
	// Nothing of the timer is stored any more, and Copies is 0.
	Over bool
	// InFlight says that a callback of the timer before Replace or Patch may still start, 2 s after the
	// answer at the latest.
	InFlight bool
	// Unreached is how many copies of the timer before could not be reached yet.
	Unreached int
}

// Deletion is the answer to Delete: the timer does not exist any more.
type Deletion struct {
	// InFlight says that a callback of the timer may still start, 2 s after the answer at the
	// latest.
	InFlight bool
	// Unreached is how many copies of the timer could not be reached yet.
	Unreached int
}

// State is the state of a timer.
type State string

// The states. A newer node may have more states.
const (
	Waiting  State = "waiting"  // for its due time
	Leased   State = "leased"   // a node calls back now or is about to
	Retrying State = "retrying" // the callback failed and will be tried again
)

// Stored is a timer as Lookup finds the timer.
type Stored struct {
	// ID, Key and ETag are as in Receipt. The ETag stays while the timer goes on to its next pops.
	ID, Key, ETag string
	// Timer has times in whole milliseconds, and defaults filled in, except those of Method, Headers,
	// Timeout, Retry and ExpiresAfter. The URI has *** in place of
	// user and password, and headers with secrets have the value ***: Replace and Patch with such a URI or
	// header are refused.
	Timer Timer
	State State
	// Due is when the next pop, or the next attempt at the pop, is due.
	Due time.Time
	// Sequence is the number of the next pop, from 1. Attempts is how many callbacks were started
	// for the pop.
	Sequence, Attempts int
	// LastFailure is why the last callback failed; nil if the callback succeeded.
	LastFailure *Failure
}

// Failure is a callback that failed.
type Failure struct {
	At     time.Time
	Reason string
}
