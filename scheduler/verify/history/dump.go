package history

import (
	"fmt"
	"time"
)

// Home names the shards on which the copies of a timer belong, in rank order: the owners. While the shards change, a
// timer has several Homes at a time.
type Home struct {
	Key    string   `json:"key"`
	Shards []string `json:"shards"`
	// Next is the shard after the owner of a one-copy timer, empty if unknown or missing: see witness.
	Next string `json:"next,omitempty"`
	// FromNs and UntilNs bound the time for which the Home holds. UntilNs 0 means that the Home holds at the end of
	// the run.
	FromNs  int64 `json:"from_ns,omitempty"`
	UntilNs int64 `json:"until_ns,omitempty"`
}

// Copy is a copy of a timer, or a tombstone, in the dump of a shard.
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
	// ScoreMs is when a node must next look at the copy, relative to the dump.
	ScoreMs int64 `json:"score_ms"`
	Leased  bool  `json:"leased,omitempty"`
	// URL and BodyHash describe the callback, empty for a tombstone.
	URL      string `json:"url,omitempty"`
	BodyHash string `json:"body_hash,omitempty"`
}

// state is the part of a copy that all copies of a timer must agree on.
func (c *Copy) state() string {
	return fmt.Sprintf("version %s seq %d attempt %d rf %d ended %t of %s %s", c.Version, c.Seq, c.Attempt, c.RF, c.Ended, c.URL, c.BodyHash)
}

func (c *Copy) look() time.Duration { return ms(c.ScoreMs) }

// Stray is an unknown raw key in the dump of a shard, or a part of a timer without the rest.
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

// Sample is the report of one process of a node about itself.
type Sample struct {
	Node string `json:"node"`
	// Process distinguishes the starts of a node.
	Process int   `json:"process"`
	Phase   Phase `json:"phase"`
	AtNs    int64 `json:"at_ns"`
	// MemoryBytes, Goroutines and Descriptors are 0 if unknown.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Goroutines  int64 `json:"goroutines,omitempty"`
	Descriptors int64 `json:"descriptors,omitempty"`
	// Counters count from the start of the process. Counters besides the Count… constants are kept for the reader.
	Counters map[string]int64 `json:"counters,omitempty"`
}

func (s *Sample) validate() error {
	if s.Phase != Begin && s.Phase != Finish {
		return fmt.Errorf("phase %q is unknown", s.Phase)
	}
	return nil
}
