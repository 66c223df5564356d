// Package replica keeps the copies of a timer in agreement.
//
// A write goes to all copies of its timer (attempt.go, write.go), and the answers together decide
// the answer to the client. Owners that a write missed are repaired 3 s later (repair.go). The
// sweep brings copies to their owners after every change of the shards, or when a shard has missed
// something (sweep.go, stray.go). The rules are in docs/protocol.md.
package replica
