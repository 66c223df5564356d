// Package forecast says how many timers come due when.
package forecast

import "time"

// Query asks for the load from an instant on, in buckets of equal length.
type Query struct {
	From    time.Time     // the beginning of the first bucket; zero for now
	Step    time.Duration // 1 s, 10 s, 1 min or 1 h
	Buckets int           // 1 to MaxBuckets
}

// MaxBuckets is the greatest number of buckets.
const MaxBuckets = 168

// Load is how much comes due. A recurring timer counts once, at its next pop. Retries, leases and
// tombstones are among the copies.
type Load struct {
	From   time.Time
	Step   time.Duration
	Copies []int64 // for each bucket, of all shards that answered
	Timers []int64 // about, from the share of first copies
	// Unreached are the shards that gave no answer: their copies are missing.
	Unreached []string
}
