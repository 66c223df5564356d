package scheduler_test

import (
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// TestALateFenceIsFollowedByAnotherLook: answers of the other copies may be out of date when the
// fence is answered late. So the node asks the other copies again, and here a backup has heard of
// the end meanwhile.
func TestALateFenceIsFollowedByAnotherLook(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		asked := oneShot(time.Second)
		asked.ReplicationFactor = 2
		key := c.create(asked).ID.Key
		homes := c.homes(key, 2)
		var fences atomic.Int64
		c.Inject(func(op, shard string) error {
			if op != "fire" || shard != homes[0] || fences.Add(1) > 1 {
				return nil
			}
			ended := c.Open("probe").Merge(c.Context(), []store.Write{{
				Kind: store.WriteGone, Shard: homes[1], Key: key, RF: 2, Rank: 1, Life: time.Minute,
				State: timer.State{Version: timer.VersionAt(time.Now(), 1)},
			}})[0]
			if ended.Err != nil || ended.Status != store.WriteStored {
				c.Errorf("the backup is told of the end: %+v", ended)
			}
			<-time.After(300 * time.Millisecond) // earlier answers are good for 200 ms
			return nil
		}, nil)
		pass(10 * time.Second)
		if fences.Load() == 0 {
			c.Error("the timer came to no fence")
		}
		if seen := c.callbacks(key); len(seen) != 0 {
			c.Errorf("%d callbacks of a timer whose end a backup knew, want none", len(seen))
		}
	})
}

// TestTheOtherCopiesAreAskedBeforeTheFence: a fence counts an attempt and may pass over pops. A
// copy must do neither once another copy is newer.
func TestTheOtherCopiesAreAskedBeforeTheFence(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		wanted := oneShot(time.Second)
		wanted.ReplicationFactor = 2
		homes := c.homes(c.create(wanted).ID.Key, 2)
		var asked, fenced atomic.Bool
		c.Inject(nil, func(op, shard string) error {
			switch {
			case op == "ask" && shard == homes[1]:
				asked.Store(true)
			case op == "fire" && shard == homes[0]:
				fenced.Store(true)
				if !asked.Load() {
					c.Error("the fence came before the question")
				}
			}
			return nil
		})
		pass(3 * time.Second)
		if !fenced.Load() {
			c.Error("the timer came to no fence")
		}
	})
}
