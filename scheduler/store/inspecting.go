package store

import (
	"context"
	"time"
)

// Inspector looks at the shards for an operator. An Inspector is safe for concurrent use.
type Inspector interface {
	// Inspect asks all shards of the topology for their condition, and waits about a second for a silent
	// shard.
	Inspect(ctx context.Context) Inspection
}

// Inspection is the condition of all shards.
type Inspection struct {
	Epoch  int64  // of the topology
	View   string // of the placement of timers
	Moving bool   // timers still move to their owners after the last change
	Shards []ShardReport
}

// ShardReport is the condition of one shard of the topology.
type ShardReport struct {
	Name, URL string // the URL is without secrets
	State     string // active, joining, leaving or draining
	Lost      bool   // the shard was given up, or is not swept since
	// Problem says what is wrong with the shard, and Err why the shard could not be asked; the numbers and
	// facts then say nothing.
	Problem string
	Twin    bool // the shard is a database of the same Redis as another shard
	Err     error

	Copies  int64         // timers and tombstones
	Letters int64         // dead letters
	Due     int64         // copies and tombstones that somebody should have looked at
	Overdue time.Duration // of the copy that waits longest
	Swept   int           // partitions that need no sweep, of Partitions
	// Removable says that the shard is drained and empty, and nothing refuses its removal.
	Removable bool
	Facts     ShardFacts
}

// ShardFacts are what a shard says of itself; unknown facts are zero.
type ShardFacts struct {
	Version               string // of Redis, or "valkey" and the version
	Persists              string // aof, rdb or none
	Evicts                bool   // timers, when the memory is full
	UsedMemory, MaxMemory int64  // bytes; MaxMemory 0 for no limit
	// ClockAhead is by how much the shard's clock is ahead of this machine's clock, at least.
	ClockAhead time.Duration
}
