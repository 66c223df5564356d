package store

import "time"

// Skew is the delay between two neighbouring ranks of a timer: interval / replication factor,
// at least Min, at most Max.
type Skew struct{ Min, Max time.Duration }

// DefaultSkew is the 2 s of Metaswitch's Chronos, shortened for short intervals.
func DefaultSkew() Skew { return Skew{Min: 250 * time.Millisecond, Max: 2 * time.Second} }

// Of is the skew of a timer.
func (s Skew) Of(interval time.Duration, replicationFactor int) time.Duration {
	if interval <= 0 || replicationFactor < 1 {
		return s.Max
	}
	return min(max(interval/time.Duration(replicationFactor), s.Min), s.Max).Round(time.Millisecond)
}
