package scheduler_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/replica"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Bugs that the simulation (cmd/chronos/simtest) has found when shards come and go.

// oneLess is a layout of two shards before the sweep. The leaving shard takes timers no more.
func oneLess(stays, goes string) storetest.Layout {
	return storetest.Layout{Shards: []string{"s0", "s1"}, Active: []string{stays}, Others: [][]string{{stays, goes}}, Epoch: 2}
}

// Rule "look wherever a copy may be": where fewer shards take timers than a timer has copies, all
// copies are known until the sweep has passed. The copy to fire now doesn't wait as a backup, the
// copy's former rank.
func TestCopiesAreFoundWhenOwnersAreFewer(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		var ids []timer.ID
		for range 40 {
			asked := oneShot(10 * time.Second)
			asked.ReplicationFactor = 2
			ids = append(ids, c.create(asked).ID)
		}
		pass(5 * time.Second)
		c.Lay(oneLess("s1", "s0"))
		pass(10 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// createThrice creates timers with three copies each, which are due in 10 s.
func (c *cluster) createThrice(n int) (ids []timer.ID) {
	c.Helper()
	for range n {
		asked := oneShot(10 * time.Second)
		asked.ReplicationFactor = 3
		ids = append(ids, c.create(asked).ID)
	}
	return ids
}

// Rule "yield to the better copy": a former primary that is about to fire when the change of the shards
// is over has the better copies looked at, too.
func TestAFormerPrimaryDoesNotWait(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s1", "s2"}, Epoch: 2})
		pass(time.Minute) // the shards are swept
		ids := c.createThrice(60)
		pass(6 * time.Second)
		c.Lay(storetest.Layout{Shards: shards, Epoch: 3})
		pass(15 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
	})
}

// Rule "yield to the better copy": the last backup becomes the primary of timers whose primary went. If
// the change was forgotten while such a copy waits for its former turn, the next backup, which comes
// due first, has the copy come due.
func TestANewPrimaryDoesNotWaitForItsFormerTurn(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		ids := c.createThrice(60)
		pass(9 * time.Second)
		c.Lay(storetest.Layout{Shards: []string{"s0", "s1"}, Epoch: 2})
		pass(10 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, 2*time.Second+maxLate)
		}
	})
}

// Rule "yield to the better copy": where new shards have no copy yet, the best existing copy
// doesn't wait for the missing ranks.
func TestTheBestCopyDoesNotWaitForMissingOnes(t *testing.T) {
	inCluster(t, 4, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2", "s3"}
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s2", "s3"}, Epoch: 2})
		pass(time.Minute) // the shards are swept
		ids := c.createThrice(60)
		pass(6 * time.Second)
		c.Lay(storetest.Layout{
			Shards: shards, Active: []string{"s0", "s1", "s2"}, Others: [][]string{{"s0", "s2"}, {"s0", "s2", "s3"}, {"s2", "s3"}}, Epoch: 3,
		})
		pass(10 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": a copy that is about to fire keeps its rank, as long as the
// sweep leaves the better copies for later.
func TestTheSweepDelaysNoTimerAboutToFire(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s2"}, Epoch: 2})
		pass(time.Minute) // the shards are swept
		var ids []timer.ID
		for range 100 {
			asked := oneShot(12 * time.Second)
			asked.ReplicationFactor = 3
			ids = append(ids, c.create(asked).ID)
			pass(50 * time.Millisecond)
		}
		c.Lay(storetest.Layout{Shards: shards, Active: shards, Others: [][]string{{"s2"}}, Epoch: 3})
		pass(20 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": timers whose first copy was on a leaving shard are on time.
// The sweep comes late to the remaining shards, whose copies still wait as backups.
func TestALeavingShardHandsItsRankOn(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Epoch: 2})
		pass(time.Minute) // the shards are swept
		var ids []timer.ID
		for i := range 100 {
			asked := oneShot(40 * time.Second)
			asked.ReplicationFactor = 2 + i%2
			ids = append(ids, c.create(asked).ID)
			pass(50 * time.Millisecond)
		}
		c.Inject(func(op, shard string) error {
			if op == "scan" && shard != "s2" {
				return errors.New("the sweep isn't there yet")
			}
			return nil
		}, nil)
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s0", "s1"}, Others: [][]string{shards}, Epoch: 3})
		pass(20 * time.Second)
		if n := len(c.Copies("s2")); n > 0 {
			c.Errorf("s2 has %d copies still", n)
		}
		pass(30 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.Inject(nil, nil)
		c.wantEmpty()
	})
}

// Rule "tell every copy the outcome": a node that may not know where copies belong makes no copy
// with its outcomes.
func TestAnUncertainNodeMakesNoCopies(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		doubtful := storetest.Layout{Shards: []string{"s0", "s1"}, Doubtful: true}
		asked := recurring(10*time.Second, 4)
		asked.ReplicationFactor = 2
		id := c.create(asked).ID
		lost := c.homes(id.Key, 2)[1]
		c.Lay(doubtful)
		c.Wipe(lost)
		pass(21 * time.Second)
		if _, err := c.nodes[0].Create(t.Context(), asked); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("created: %v", err)
		}
		if held := c.Copies(lost); len(held) > 0 {
			t.Errorf("%s has %v", lost, held)
		}
		c.Lay(storetest.Layout{Shards: doubtful.Shards})
		pass(10 * time.Second)
		if held := c.Copies(lost); len(held) != 1 {
			t.Errorf("%s has %v", lost, held)
		}
		c.wantOnce(id.Key, 3, maxLate)
	})
}

// A node that may not know where timers belong does not deny a timer: the node may have been
// started with a shard that was removed since.
func TestNodeInDoubtDeniesNoTimer(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		behind := c.nodes[1]
		asked := recurring(time.Hour, 2)
		asked.ReplicationFactor = 1
		id := c.create(asked).ID
		origin := message("from-a-stream", "one", time.Hour)
		c.wantStanding("new", c.standing(admit, c.nodes[0], origin), replica.StandingNew)
		c.Lay(storetest.Layout{Shards: []string{"gone"}, Doubtful: true}, nodeName(1))
		if _, err := behind.Lookup(c.Context(), id); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("looked up: %v; want %v", err, timer.ErrUnavailable)
		}
		if got := c.standing(known, behind, origin); got.Standing != replica.StandingUnknown || !errors.Is(got.Err, timer.ErrUnavailable) {
			c.Errorf("known: standing %d, %v; want %v", got.Standing, got.Err, timer.ErrUnavailable)
		}
		if _, err := c.nodes[0].Lookup(c.Context(), id); err != nil {
			c.Errorf("looked up by the other node: %v", err)
		}
	})
}

// Rule "a repeated create finds the first": a repeated create is recognised after the shards have
// changed, though the timer has not been moved.
func TestARepeatedCreateIsRecognisedAfterAShardJoins(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		_, announced, after := layouts()
		for name, rf := range map[string]int{"one ": 1, "two ": 2} {
			after.Epoch++
			c.Lay(announced)
			asked := oneShot(10 * time.Second)
			asked.ReplicationFactor = rf
			once := func(n *node, i int) timer.Receipt {
				receipt, err := n.CreateOnce(c.Context(), name+string(rune('a'+i)), []byte("body"), asked)
				if err != nil {
					c.Fatal(err)
				}
				return receipt
			}
			var first []timer.Receipt
			for i := range 20 {
				first = append(first, once(c.nodes[0], i))
			}
			c.Lay(after)
			pass(5 * time.Second)
			for i := range first {
				if again := once(c.nodes[1], i); !again.Replayed || !again.Due.Equal(first[i].Due) {
					c.Errorf("the first was answered %+v, the second %+v", first[i], again)
				}
			}
			pass(10 * time.Second)
			for i := range first {
				c.wantOnce(first[i].ID.Key, 1, maxLate)
			}
		}
	})
}

// While the shards change, the new owners know nothing of a create. Where no former owner
// answers, a repeated create is refused, and makes no second timer.
func TestARepeatedCreateWaitsForAFormerOwner(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		_, announced, after := layouts()
		after.Epoch++
		c.Lay(announced)
		asked := oneShot(20 * time.Second)
		asked.ReplicationFactor = 1
		once := func(n *node, i int) (timer.Receipt, error) {
			return n.CreateOnce(c.Context(), string(rune('a'+i)), []byte("body"), asked)
		}
		var first []timer.Receipt
		for i := range 40 {
			receipt, err := once(c.nodes[0], i)
			if err != nil {
				c.Fatal(err)
			}
			first = append(first, receipt)
		}
		c.Lay(after)
		moved := 0
		for i, before := range first {
			owner := c.homes(before.ID.Key, 1)[0]
			if owner != "s3" {
				continue
			}
			moved++
			for _, former := range []string{"s0", "s1", "s2"} {
				c.connect(former, storetest.LinkCut)
			}
			if again, err := once(c.nodes[1], i); !errors.Is(err, timer.ErrUnavailable) {
				c.Errorf("with the former owner away: %+v, %v; want unavailable", again, err)
			}
			for _, former := range []string{"s0", "s1", "s2"} {
				c.connect(former, storetest.LinkUp)
			}
			pass(time.Second / 10)
		}
		if moved == 0 {
			c.Error("no timer has another owner")
		}
		pass(time.Minute)
		for i := range first {
			c.wantOnce(first[i].ID.Key, 1, time.Second)
		}
	})
}

// Rule "a repeated create finds the first": a shard that takes no timers keeps the tombstone of an
// idempotency key only briefly. Otherwise the shard could not be removed for an hour.
func TestADrainedShardForgetsIdempotencyKeysSoon(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		asked := oneShot(5 * time.Second)
		asked.ReplicationFactor = 2
		var ids []timer.ID
		for i := range 20 {
			receipt, err := c.nodes[0].CreateOnce(c.Context(), string(rune('a'+i)), []byte("body"), asked)
			if err != nil {
				c.Fatal(err)
			}
			ids = append(ids, receipt.ID)
		}
		c.Lay(oneLess("s1", "s0"))
		for _, id := range ids[:10] {
			if _, err := c.nodes[1].Delete(c.Context(), id); err != nil {
				c.Fatal(err)
			}
		}
		pass(time.Minute)
		if left := c.Copies("s0"); len(left) > 0 {
			c.Errorf("left on the shard that takes no timers: %v", left)
		}
		if kept := c.Copies("s1"); len(kept) != 20 {
			c.Errorf("%d of 20 are remembered", len(kept))
		}
	})
}

// A callback that is under way when another shard goes has its full time.
func TestACallbackOutlivesAnotherShard(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		before, announced, after := layouts()
		c.Lay(announced)
		pass(time.Second)
		c.Lay(after)
		pass(time.Second)
		on := func(shard string, in time.Duration) timer.ID {
			asked := oneShot(in)
			asked.ReplicationFactor = 1
			for {
				if id := c.create(asked).ID; c.homes(id.Key, 1)[0] == shard {
					return id
				}
			}
		}
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 1500 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		id := on("s3", 2*time.Second)
		pass(6 * time.Second) // the caller of the callback waits for the next callback
		next := on("s0", 2*time.Second)
		pass(2500 * time.Millisecond)
		c.Lay(before)
		pass(10 * time.Second)
		for _, id := range []timer.ID{id, next} {
			c.wantOnce(id.Key, 1, maxLate)
		}
	})
}

// Rule "tell every copy the outcome": a callback that is under way while the shards change tells
// its outcome to the present owners. The retry waits for no copy that was a backup.
func TestAnOutcomeUsesTheOwnersOfNow(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		const takes = 1500 * time.Millisecond
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt == 1 {
				return takes, dispatch.Delivered{Reason: "failed"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		var ids []timer.ID
		for range 40 {
			asked := oneShot(5 * time.Second)
			asked.ReplicationFactor = 2
			ids = append(ids, c.create(asked).ID)
		}
		pass(5*time.Second + takes/2)
		l := oneLess("s1", "s0")
		l.Epoch = 2
		c.Lay(l)
		pass(4 * time.Second)
		for _, id := range ids {
			seen := c.callbacks(id.Key)
			if len(seen) != 2 || seen[1].at.Sub(seen[0].at) > takes+time.Second+maxLate {
				c.Errorf("%d callbacks of %s, want a retry within a second: %+v", len(seen), id, seen)
			}
		}
	})
}

// Rule "sweep copies to their owners": a tombstone was written where no copy was, and none belongs.
// The tombstone ends no later timer of the same key, although the node that writes the later timer
// has a slow clock.
func TestAnEndThatFoundNoCopyEndsNoLaterTimer(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.Lay(oneLess("s1", "s0"))
		asked := oneShot(300 * time.Millisecond)
		asked.ReplicationFactor = 1
		var ids []timer.ID
		for range 20 {
			ids = append(ids, c.create(asked).ID)
		}
		pass(1500 * time.Millisecond) // the timers have fired, and s0 was told
		if ends(c, "s0") == 0 {
			c.Fatal("no end was told to the shard that goes")
		}
		forgotten := oneLess("s1", "s0")
		forgotten.Others, forgotten.Epoch = nil, 3
		c.Lay(forgotten)
		behind := startNode(c.T, c.Open("behind"), "behind", c.recorder, func(config *settings.Config) {
			config.Wall = func() time.Time { return time.Now().Add(-2 * time.Minute) }
		})
		for _, id := range ids {
			second := asked
			second.Interval, second.Callback.Opaque = 15*time.Second, "second"
			if _, err := behind.Replace(c.Context(), timer.ID{Key: id.Key}, second); err != nil {
				c.Error(err)
			}
		}
		pass(30 * time.Second)
		for _, id := range ids {
			if seen := c.callbacks(id.Key); len(seen) != 2 || seen[1].Callback.Opaque != "second" {
				c.Errorf("%d callbacks of %s, want one of each version", len(seen), id.Key)
			}
		}
	})
}

// A shard that is removed while a node works out where a timer belongs is left out.
func TestAShardThatIsRemovedMeanwhile(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		backend := &stale{Store: c.Open("late")}
		n := startNode(c.T, backend, "late", c.recorder, briefly)
		c.Connect("late", "s1", storetest.LinkCut) // NewKey looks for a key with other owners
		pass(2 * time.Second)
		for range 20 {
			asked := oneShot(10 * time.Second)
			asked.ReplicationFactor = 2
			r := create(c.T, n, asked)
			if r.Copies != 2 {
				c.Errorf("created: %+v, want two copies", r)
			}
			if _, err := n.Delete(c.Context(), r.ID); err != nil {
				c.Error(err)
			}
		}
	})
}

// stale is a store that now and then ranks a shard that is already removed.
type stale struct {
	store.Store
	calls atomic.Int32
}

func (s *stale) Rank(key string) []string {
	ranked := s.Store.Rank(key)
	if n := int(s.calls.Add(1)); n%2 == 0 {
		ranked = slices.Insert(ranked, n/2%(len(ranked)+1), "gone")
	}
	return ranked
}

// Rule "tell every copy the outcome": while an outcome waits for its shard, the owner to which the
// timer would have moved is no owner any more. The leftover stays, since no other copy is there.
func TestAnOutcomeThatOutlivesAChangeOfTheShardsLosesNoTimer(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		layout := storetest.Layout{Shards: []string{"s0", "s1", "s2"}, Active: []string{"s0"}, Epoch: 2}
		c.Lay(layout)
		pass(time.Minute)                     // the shards are swept
		asked := recurring(20*time.Second, 3) // so long that the sweep moves the leftovers before the next pop
		asked.ReplicationFactor = 1
		var ids []timer.ID
		for range 60 {
			ids = append(ids, c.create(asked).ID)
		}
		pass(19 * time.Second)
		layout.Active, layout.Others, layout.Epoch = []string{"s0", "s1"}, [][]string{{"s0"}}, 3
		c.Lay(layout)
		c.Inject(func(op, shard string) error {
			if op == "settle" && shard == "s0" {
				return timer.ErrUnavailable
			}
			return nil
		}, nil)
		pass(2 * time.Second)
		layout.Active, layout.Others, layout.Epoch = layout.Shards, [][]string{{"s0"}, {"s0", "s1"}}, 4
		c.Lay(layout)
		c.Inject(nil, nil)
		pass(time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 3, maxLate)
		}
	})
}

// A node that is a step behind a change does not know yet that the coming owner counts, where another node has
// brought the timer.
func TestARepeatedCreateWaitsForAComingOwner(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		_, announced, after := layouts()
		after.Epoch++
		c.Lay(announced)
		asked := oneShot(2 * time.Minute)
		asked.ReplicationFactor = 1
		once := func(n *node, i int) (timer.Receipt, error) {
			return n.CreateOnce(c.Context(), string(rune('a'+i)), []byte("body"), asked)
		}
		var first []timer.Receipt
		for i := range 40 {
			c.Lay(after, nodeName(0))
			receipt, err := once(c.nodes[0], i)
			if err != nil {
				c.Fatal(err)
			}
			c.Lay(announced, nodeName(0))
			first = append(first, receipt)
		}
		moved := 0
		for i, before := range first {
			if !slices.Equal(c.holders(before.ID.Key), []string{"s3"}) {
				continue
			}
			moved++
			c.connect("s3", storetest.LinkCut)
			if again, err := once(c.nodes[1], i); !errors.Is(err, timer.ErrUnavailable) {
				c.Errorf("with the coming owner away: %+v, %v; want unavailable", again, err)
			}
			c.connect("s3", storetest.LinkUp)
			pass(time.Second / 10)
		}
		if moved == 0 {
			c.Error("no timer is with the coming owner")
		}
		c.Lay(after)
		pass(5 * time.Minute)
		for i := range first {
			c.wantOnce(first[i].ID.Key, 1, time.Minute)
		}
	})
}
