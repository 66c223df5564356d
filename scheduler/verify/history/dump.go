package history

import (
	"fmt"
	"time"
)

// Home says on which shards the copies of a timer belong, in rank order: its owners. While the shards change there are
// several at a time.
type Home struct {
	Key    string   `json:"key"`
	Shards []string `json:"shards"`
	// Next is the shard after the owners of a timer of one copy, empty if nobody knows, or there is none: see witness.
	Next string `json:"next,omitempty"`
	// FromNs and UntilNs are when they did. UntilNs 0 means that they do at the end of the run.
	FromNs  int64 `json:"from_ns,omitempty"`
	UntilNs int64 `json:"until_ns,omitempty"`
}

// Copy is one copy of a timer in the dump of a shard, or the tombstone of one.
type Copy struct {
	Shard   string `json:"shard"`
	Key     string `json:"key"`
	Version string `json:"version"`
	Seq     int    `json:"seq"`
	Attempt int    `json:"attempt"`
	Rank    int    `json:"rank"`
	RF      int    `json:"rf"`
	// Ended marks a tombstone.
	Ended bool `json:"ended,omitempty"`
	// ScoreMs is when someone must next look at it, relative to the dump.
	ScoreMs int64 `json:"score_ms"`
	Leased  bool  `json:"leased,omitempty"`
	// URL and BodyHash are of its callback, empty for a tombstone.
	URL      string `json:"url,omitempty"`
	BodyHash string `json:"body_hash,omitempty"`
}

// state is what the copies of one timer must agree on.
func (c *Copy) state() string {
	return fmt.Sprintf("version %s seq %d attempt %d rf %d ended %t", c.Version, c.Seq, c.Attempt, c.RF, c.Ended)
}

func (c *Copy) look() time.Duration { return ms(c.ScoreMs) }

// Stray is a raw key in the dump of a shard that nobody knows, or a part of a timer without its other parts.
type Stray struct {
	Shard string `json:"shard"`
	Key   string `json:"key"`
}

// Phase says when a sample was taken.
type Phase string

// The phases.
const (
	Begin  Phase = "begin"  // warm, before the load
	Finish Phase = "finish" // after the load, when all is settled
)

// The counters that are compared with the history.
const (
	CountDelivered = "fired_delivered"
	CountFailed    = "fired_failed"
	CountGone      = "fired_gone"
)

// Sample is what one process of a node says of itself.
type Sample struct {
	Node string `json:"node"`
	// Process tells one start of the node from another.
	Process int   `json:"process"`
	Phase   Phase `json:"phase"`
	AtNs    int64 `json:"at_ns"`
	// MemoryBytes, Goroutines and Descriptors are 0 if not known.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Goroutines  int64 `json:"goroutines,omitempty"`
	Descriptors int64 `json:"descriptors,omitempty"`
	// Counters are since the process started. Others than the Count… constants are kept for the reader.
	Counters map[string]int64 `json:"counters,omitempty"`
}

func (s *Sample) validate() error {
	if s.Phase != Begin && s.Phase != Finish {
		return fmt.Errorf("phase %q is unknown", s.Phase)
	}
	return nil
}
