//go:build race

package simtest

// With the race detector a seed takes five times as long, and an access without order shows in
// any seed.
const fixed, fresh = 3, 1
