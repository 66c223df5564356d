package listing

import (
	"time"

	"chronos/scheduler/timer"
)

// Copy is what a shard has of a timer.
type Copy struct {
	Shard string
	Rank  int  // of the copy, or of the shard for the timer where there is no copy
	Owner bool // a copy belongs on the shard
	State CopyState
	// Version has the version, the revision, the pop and the attempt; zero without a copy.
	Version timer.State
	Due     time.Time // of the next pop, by the shard's clock; zero without a live copy
	Look    time.Time // when a node next looks at the copy; zero without a copy
	Lease   string    // the node that has the copy leased; "" for no lease
}

// CopyState is what a copy of a timer waits for.
type CopyState string

// The states of copies.
const (
	CopyWaiting   CopyState = "waiting"
	CopyLeased    CopyState = "leased"   // a node has the copy, and has not begun to call back
	CopyFiring    CopyState = "firing"   // a callback may be under way
	CopyRetrying  CopyState = "retrying" // for a retry
	CopyTombstone CopyState = "tombstone"
	CopyMissing   CopyState = "missing" // the shard has no copy
	CopyUnreached CopyState = "unreached"
)
