package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// New timers get keys whose owners can be reached, so a timer has all its copies while a
// shard is away.
func TestACreateChoosesOwnersThatAreWell(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for _, away := range c.Open("probe").Shards() {
			c.connect(away, storetest.LinkMute)
			pass(2 * time.Second)
			for range 40 {
				r := c.create(oneShot(20 * time.Second))
				if r.Copies != 2 || r.Unreached != 0 || r.InFlight {
					c.Errorf("%s is away: %+v, want two copies", away, r)
				}
			}
			batch := make([]timer.Creation, 40)
			for i := range batch {
				batch[i].Timer = oneShot(20 * time.Second)
				batch[i].Timer.ReplicationFactor = 1
				if i%2 == 0 {
					batch[i].Prefix = "orders."
				}
			}
			c.nodes[1].CreateAll(c.Context(), batch)
			for _, made := range batch {
				if made.Err != nil || made.Receipt.Copies != 1 || !strings.HasPrefix(made.Receipt.ID.Key, made.Prefix) {
					c.Errorf("%s is away: %+v, %v; want a copy", away, made.Receipt, made.Err)
				}
			}
			c.connect(away, storetest.LinkUp)
			pass(time.Minute)
		}
		if n := len(c.seen()); n != 3*80 {
			c.Errorf("%d callbacks of %d timers", n, 3*80)
		}
		c.wantEmpty()
	})
}

// With fewer shards in reach than copies asked for, a create is stored on the shards in reach.
func TestACreateIsStoredOnTheOwnersThatAreLeft(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.connect("s1", storetest.LinkMute)
		pass(2 * time.Second)
		for range 20 {
			r := c.create(oneShot(20 * time.Second))
			if r.Copies != 1 || r.Unreached != 1 {
				c.Errorf("%+v, want one copy and one unreached", r)
			}
			if first := c.homes(r.ID.Key, 2)[0]; first != "s0" {
				c.Errorf("the first owner is %s, want the shard that is there", first)
			}
		}
		c.connect("s1", storetest.LinkUp)
		pass(time.Minute)
		if n := len(c.seen()); n != 20 {
			c.Errorf("%d callbacks of 20 timers", n)
		}
		c.wantEmpty()
	})
}

// states are the states of a timer on its owners.
func (c *cluster) states(key string) (all []timer.State) {
	for _, name := range c.homes(key, 2) {
		all = append(all, c.Copies(name)[key])
	}
	return all
}

// Rule "compare before firing": a backup that missed the outcome of a pop is claimed once its shard is back, and
// adopts the pop that its primary waits for, rather than yield to the primary and stay a pop behind.
func TestABackupThatMissedAnOutcomeAdoptsTheNextPop(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		const interval = 20 * time.Second
		behind := 0
		var keys []string
		for range 30 {
			keys = append(keys, c.create(recurring(interval, 2)).ID.Key)
		}
		pass(interval - time.Second)
		c.connect("s0", storetest.LinkCut)
		pass(5 * time.Second)
		for _, key := range keys {
			if homes := c.homes(key, 2); homes[1] == "s0" && c.Copies("s0")[key].Seq == 1 {
				behind++
			}
		}
		c.connect("s0", storetest.LinkUp)
		pass(time.Second)
		for _, key := range keys {
			if all := c.states(key); all[0] != all[1] {
				c.Errorf("the copies of %s are in the states %+v", key, all)
			}
		}
		if behind == 0 {
			c.Error("no backup has missed an outcome")
		}
		pass(interval)
		for _, key := range keys {
			c.wantOnce(key, 2, 2*time.Second+maxLate)
		}
	})
}

// A backup that returns while its primary calls a later pop does not adopt the attempt, whose outcome it would then
// take for known: a receiver's Retry-After holds, while the shards change, too.
func TestABackupThatReturnsDuringACallbackDoesNotHurryTheRetry(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		const interval, after = 20 * time.Second, 15 * time.Second
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Seq == 2 && a.Attempt == 1 {
				return 1500 * time.Millisecond, dispatch.Delivered{Reason: "status 503", RetryAfter: after}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s0", "s1"}, Others: [][]string{shards}, Announced: true})
		pass(time.Second)
		var keys []string
		for range 20 {
			keys = append(keys, c.create(recurring(interval, 2)).ID.Key)
		}
		pass(interval - time.Second)
		c.connect("s0", storetest.LinkCut)
		pass(interval + time.Second + 50*time.Millisecond)
		c.connect("s0", storetest.LinkUp)
		pass(interval)
		for _, key := range keys {
			seen := c.callbacks(key)
			if len(seen) != 3 {
				c.Errorf("%d callbacks of %s, want one of pop 1 and two of pop 2: %+v", len(seen), key, seen)
			} else if later := seen[2].at.Sub(seen[1].at); later < after {
				c.Errorf("the retry of %s came %v after the attempt, want %v at least", key, later, after)
			}
		}
	})
}

// A write that missed an owner is repaired by its node some seconds later, without a sweep.
func TestAWriteThatMissedAnOwnerIsRepaired(t *testing.T) {
	for name, write := range map[string]func(c *cluster, id timer.ID) (timer.Receipt, error){
		"replace": func(c *cluster, id timer.ID) (timer.Receipt, error) {
			return c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour))
		},
		"delete": func(c *cluster, id timer.ID) (timer.Receipt, error) {
			return c.nodes[0].Delete(c.Context(), id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				for missed := range 2 {
					id := c.create(oneShot(time.Hour)).ID
					owner := c.homes(id.Key, 2)[missed]
					c.Connect(nodeName(0), owner, storetest.LinkCut)
					r, err := write(c, id)
					c.Connect(nodeName(0), owner, storetest.LinkUp)
					if err != nil || r.Unreached != 1 {
						c.Fatalf("%+v, %v; want one unreached", r, err)
					}
					if states := c.states(id.Key); states[0] == states[1] {
						c.Errorf("both owners have %v at once", states)
					}
					pass(2500 * time.Millisecond)
					if states := c.states(id.Key); states[0] == states[1] {
						c.Errorf("both owners have %v before a callback that had begun is over", states)
					}
					pass(1500 * time.Millisecond)
					if states := c.states(id.Key); states[0] != states[1] {
						c.Errorf("the owners have %v, want one state", states)
					}
				}
			})
		})
	}
}

// A node that is told to stop during a repair stops, and leaves the repair to the sweep.
func TestANodeStopsDuringARepair(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		id := c.create(oneShot(time.Hour)).ID
		c.Connect(nodeName(0), c.homes(id.Key, 2)[1], storetest.LinkCut)
		if r, err := c.nodes[0].Delete(c.Context(), id); err != nil || r.Unreached != 1 {
			c.Fatalf("%+v, %v; want one unreached", r, err)
		}
		c.Connect(nodeName(0), c.homes(id.Key, 2)[1], storetest.LinkUp)
		c.Inject(func(op, _ string) error {
			if op == "read" {
				<-time.After(800 * time.Millisecond)
			}
			return nil
		}, nil)
		pass(3300 * time.Millisecond)
		began := time.Now()
		c.nodes[0].stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the node took %v to stop", took)
		}
	})
}

// A repair fails, since the node stopped, or the owner was away by then. The sweep repairs the
// owner, however short the owner was away.
func TestAWriteThatCouldNotBeRepairedIsSwept(t *testing.T) {
	for name, then := range map[string]func(c *cluster, owner string){
		"the node stops": func(c *cluster, _ string) { c.nodes[0].stop() },
		"the owner can't be reached": func(c *cluster, owner string) {
			pass(2900 * time.Millisecond)
			c.Connect(nodeName(0), owner, storetest.LinkCut)
			pass(200 * time.Millisecond)
			c.Connect(nodeName(0), owner, storetest.LinkUp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				id := c.create(oneShot(time.Hour)).ID
				owner := c.homes(id.Key, 2)[0]
				c.Connect(nodeName(0), owner, storetest.LinkCut)
				if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour)); err != nil {
					c.Fatal(err)
				}
				c.Connect(nodeName(0), owner, storetest.LinkUp)
				then(c, owner)
				pass(30 * time.Second)
				if states := c.states(id.Key); states[0] != states[1] {
					c.Errorf("the owners have %v, want one state", states)
				}
			})
		})
	}
}

// A node that may not know where timers belong repairs nothing itself.
func TestAnUncertainNodeRepairsNothing(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		id := c.create(oneShot(time.Hour)).ID
		owner := c.homes(id.Key, 2)[0]
		c.connect(owner, storetest.LinkCut)
		if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour)); err != nil {
			c.Fatal(err)
		}
		c.connect(owner, storetest.LinkUp)
		all := storetest.Layout{Shards: []string{"s0", "s1", "s2"}, Doubtful: true}
		c.Lay(all)
		pass(5 * time.Second)
		if states := c.states(id.Key); states[0] == states[1] {
			c.Errorf("the owners have %v, want them left alone", states)
		}
		all.Doubtful = false
		c.Lay(all)
		pass(30 * time.Second)
		if states := c.states(id.Key); states[0] != states[1] {
			c.Errorf("the owners have %v, want one state once the node knows", states)
		}
	})
}

// A write that reaches no owner is refused, whatever the remaining shards say.
func TestAWriteThatReachesNoOwnerIsRefused(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		asked := oneShot(20 * time.Second)
		asked.ReplicationFactor = 1
		for _, known := range []bool{true, false} {
			id := c.create(asked).ID
			if !known {
				id = timer.ID{Key: id.Key}
			}
			owner := c.homes(id.Key, 1)[0]
			c.connect(owner, storetest.LinkCut)
			if _, err := c.nodes[0].Delete(c.Context(), id); !errors.Is(err, timer.ErrUnavailable) {
				c.Errorf("deleted (factor known: %t): %v, want unavailable", known, err)
			}
			c.connect(owner, storetest.LinkUp)
			pass(30 * time.Second)
			if known { // otherwise further shards have tombstones, and nobody knows whether the delete counts
				c.wantOnce(id.Key, 1, 5*time.Second)
			}
		}
	})
}

// While the shards change, a write on a shard that is no owner changes a live copy, and makes no copy.
func TestAWriteMakesNoCopyWhereNoneBelongs(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		all, stay := []string{"s0", "s1", "s2"}, []string{"s0", "s1"}
		asked := oneShot(time.Hour)
		var there, missing []timer.ID
		for range 60 {
			id := c.create(asked).ID
			if _, is := c.Copies("s2")[id.Key]; is {
				there = append(there, id)
			} else {
				missing = append(missing, id)
			}
		}
		c.Lay(storetest.Layout{Shards: all, Active: stay, Others: [][]string{all}, Epoch: 2})
		for _, id := range append(there, missing...) {
			if r, err := c.nodes[0].Replace(c.Context(), id, asked); err != nil || r.Copies != 2 {
				c.Errorf("replaced: %+v, %v; want two copies", r, err)
			}
		}
		left := c.Copies("s2")
		for _, id := range there {
			if left[id.Key] != c.Copies("s0")[id.Key] {
				c.Errorf("the former copy has %v, want what its owner has", left[id.Key])
			}
		}
		for _, id := range missing {
			if _, is := left[id.Key]; is {
				c.Errorf("a copy was made where none belongs: %v", left[id.Key])
			}
		}
		for _, id := range there {
			if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
				c.Error(err)
			}
			if _, err := c.nodes[0].Replace(c.Context(), id, asked); err != nil {
				c.Error(err)
			}
			if state := c.Copies("s2")[id.Key]; !state.Ended {
				c.Errorf("a tombstone where no copy belongs became %v", state)
			}
		}
	})
}
