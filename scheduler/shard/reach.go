package shard

import "time"

// Reach is how well this node reaches a shard (rule "do without silent shards").
type Reach int

// How well this node reaches a shard, the best first.
const (
	Up      Reach = iota
	Suspect       // the last call got no answer; new timers are better stored elsewhere
	Late          // answers are late, and most shards answer in time: timers with another copy fire from another shard
	Down          // silent, or late for so long that earlier callbacks from the shard have ended: nobody asks the shard
)

// Reach is how well this node reaches the shard now.
func (sh *Shard) Reach() Reach { return sh.reach(0) }

// reach is Reach about timers whose callbacks may last so long; 0 for the time of all other callbacks.
func (sh *Shard) reach(lasts time.Duration) Reach {
	if !sh.Answers.suspect.Load() {
		return Up
	}
	switch late := sh.lateFor(); {
	case sh.Answers.lasts(), late >= max(sh.r.config.Sending(sh.r.config.Renew), lasts):
		return Down
	case late > 0:
		return Late
	default:
		return Suspect
	}
}

// lateFor is how long the shard's answers have been late; 0 if answers are not late. If most shards
// are late, no shard counts as late: the node, or all of the network, is slow.
func (sh *Shard) lateFor() time.Duration {
	since := sh.Answers.slowFor()
	if since == 0 || sh.r.host != nil { // a shard of another site is far, which is not slow
		return 0
	}
	quick, all := 0, sh.r.All()
	for _, other := range all {
		if other.Answers.slowFor() == 0 && !other.Answers.lasts() {
			quick++
		}
	}
	if 2*quick < len(all) {
		return 0
	}
	return since
}
