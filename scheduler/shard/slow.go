package shard

import "time"

// Slow reports whether the shard answers late, so that timers with another copy fire from the
// other copy (rule "do without silent shards"). Where most shards are late, none is slow:
// then the node, or all of the network, is slow.
func (sh *Shard) Slow() bool { return sh.slowFor() > 0 }

// slowFor is for how long that has been so.
func (sh *Shard) slowFor() time.Duration {
	since := sh.Answers.slowFor()
	if since == 0 {
		return 0
	}
	quick, all := 0, sh.r.All()
	for _, other := range all {
		if other.Answers.slowFor() == 0 && !other.Answers.Lasts() {
			quick++
		}
	}
	if 2*quick < len(all) {
		return 0
	}
	return since
}

// tooSlow reports whether nobody asks the shard any more: every callback has ended that
// began there before the shard was slow.
func (sh *Shard) tooSlow() bool { return sh.slowFor() >= sh.r.config.Sending() }
