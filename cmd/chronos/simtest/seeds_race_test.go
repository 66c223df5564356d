//go:build race

package simtest

// fixed and fresh are smaller with the race detector: a seed takes five times as long, and any seed shows an
// unordered access.
const fixed, fresh = 2, 1
