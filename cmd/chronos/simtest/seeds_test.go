//go:build !race

package simtest

// fixed is how many seeds are the same in every run of the tests, fresh how many are drawn anew.
const fixed, fresh = 10, 5
