// Package timer holds the words of chronos: what a timer is and which timers are refused
// (timer.go), the ID that names a timer and hints at the shards with its copies (id.go), the
// version of a write and the order of the states of a copy (state.go), and the errors that
// clients see (errors.go). Besides the standard library the package needs UUIDs alone.
package timer
