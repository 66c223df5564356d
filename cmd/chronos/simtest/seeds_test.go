//go:build !race

package simtest

// fixed is the number of seeds that never change, fresh the number of seeds drawn anew by every run.
const fixed, fresh = 5, 4
