// Package listing finds timers among all timers, and carries out changes to the timers found.
package listing

import (
	"time"

	"chronos/scheduler/timer"
)

// Filter picks timers that meet all conditions. The zero value picks all timers.
type Filter struct {
	Key         string // the whole key
	KeyPrefix   string
	Text        string // a part of the key or of the URI; MinText characters at least
	State       State  // "" for every state
	Destination string // scheme://host:port of the callback
	Tag         string // a type
	// DueAfter and DueBefore bound the due time: at DueAfter or later, and before DueBefore; zero for
	// no bound.
	DueAfter, DueBefore time.Time
}

// IsZero reports whether the filter picks all timers.
func (f *Filter) IsZero() bool { return *f == Filter{} }

// MinText is the shortest Text, in characters.
const MinText = 3

// State is what a timer waits for.
type State string

// The states.
const (
	Waiting  State = "waiting"  // for the next pop
	Leased   State = "leased"   // a node has the timer, to call back or calling back
	Retrying State = "retrying" // for a retry of a pop
)

// Query asks for a page of timers.
type Query struct {
	Filter Filter
	Cursor string // the Next of the page before; "" for the beginning
	Limit  int    // of timers in the page; 1 to MaxLimit
}

// MaxLimit is the greatest Limit.
const MaxLimit = 1000

// Page is some of the timers, in the order of their due times. A page may be short, or empty, though
// more follow.
type Page struct {
	Timers  []Timer
	Next    string    // the cursor of the next page; "" at the end
	Scanned int       // copies looked at
	Reached time.Time // all timers due until then were looked at; zero at the end
	// Unreached are the shards that gave no answer: timers with copies on only such shards are
	// missing.
	Unreached []string
}

// Timer is a timer of a page. The callback has the URI alone.
type Timer struct {
	ID       timer.ID
	Version  timer.State // Version and Rev name what was listed
	State    State
	Due      time.Time // the place in the list: the next pop, or when a retry or a lease is looked at
	Sequence int       // of the next pop
	Attempts int       // at the pop
	Timer    timer.Timer
}
