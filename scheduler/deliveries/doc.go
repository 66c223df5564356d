// Package deliveries reads the log of deliveries: the attempts at the pops of one timer, or of all timers.
// The log is on the shards, and an attempt is on the shard whose copy was leased for the attempt.
package deliveries
