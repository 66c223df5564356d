package shard

import (
	"fmt"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
)

// neglectLimit is how long a timer may be overdue before nodes ask who claims it.
const neglectLimit = 5 * time.Second

// neglect tells of partitions whose overdue timers no node claims. A claim, and whatever
// follows it, changes when a timer is looked at; so the timer that two surveys in turn find
// first and overdue was claimed by nobody in between.
type neglect struct {
	first [store.Partitions]store.First // of the last survey; used by Watch alone
	now   atomic.Uint32                 // the partitions, as a PartitionSet
}

// surveyed compares a survey with the one before and reports whether the partitions that
// are neglected have changed. The zero Survey says that nothing is known of the shard.
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

// noteNeglect takes what a survey found and keeps the log to a line for each change.
func (sh *Shard) noteNeglect(found *store.Survey) {
	if sh.r.Store.Lost(sh.Name) {
		found = &store.Survey{} // its timers wait until it is swept
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

// Neglected is why the node is not ready: partitions of the shard that nobody looks at; nil
// if there is none.
func (sh *Shard) Neglected() error {
	set := PartitionSet(sh.neglect.now.Load())
	if set == 0 {
		return nil
	}
	return fmt.Errorf("timers on shard %s are overdue and no node claims them: partitions %v", sh.Name, set.List())
}
