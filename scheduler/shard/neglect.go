package shard

import (
	"fmt"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
)

// neglectLimit is how long a timer must be overdue to count as neglected.
const neglectLimit = 5 * time.Second

// neglect finds partitions with overdue timers that no node claims. A claim changes when a timer
// is looked at, and so does every outcome. If two surveys in turn find the same overdue timer
// first, with the same time of the look, no node has claimed the timer in between.
type neglect struct {
	first [store.Partitions]store.First // by the last survey; used by Watch alone
	now   atomic.Uint32                 // the partitions, as a PartitionSet
}

// surveyed compares a survey with the survey before, and returns the neglected partitions and
// whether the set has changed. The zero Survey says that nothing is known of the shard.
func (n *neglect) surveyed(found *store.Survey) (neglected PartitionSet, changed bool) {
	for p := range found.First {
		first := &found.First[p]
		if first.Key != "" && first.Overdue >= neglectLimit && first.Key == n.first[p].Key && first.Look.Equal(n.first[p].Look) {
			neglected |= 1 << p
		}
	}
	n.first = found.First
	return neglected, PartitionSet(n.now.Swap(uint32(neglected))) != neglected
}

// noteNeglect notes the result of a survey, and logs a line for each change.
func (sh *Shard) noteNeglect(found *store.Survey) {
	if sh.r.Store.Lost(sh.Name) {
		found = &store.Survey{} // the timers of a shard that is given up wait for the sweep
	}
	switch neglected, changed := sh.neglect.surveyed(found); {
	case !changed:
	case neglected == 0:
		sh.Log.Info("overdue timers are claimed again")
	default:
		sh.Log.Error("timers are overdue and no node claims them; look at the nodes that announce themselves on the shard",
			"partitions", neglected.List(), "overdue", found.Overdue.Round(time.Millisecond))
	}
}

// Neglected returns an error that names the neglected partitions of the shard, or nil. A node
// with the error is not ready.
func (sh *Shard) Neglected() error {
	set := PartitionSet(sh.neglect.now.Load())
	if set == 0 {
		return nil
	}
	return fmt.Errorf("timers on shard %s are overdue and no node claims them: partitions %v", sh.Name, set.List())
}
