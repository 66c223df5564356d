// Package timer holds the words of chronos. The package defines timers and says which timers are
// refused (timer.go). IDs name a timer and hint at the shards with the copies (id.go). The version
// of a write and the order of a copy's states are in state.go, the errors for clients in errors.go.
// Besides the standard library the package needs UUIDs alone.
package timer
