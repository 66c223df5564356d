package scheduler_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Rule "a write needs an owner": a PUT, DELETE or repeated create reaches no copy of the timer. A
// shard without a copy does not acknowledge the write, since the old version would go on.
func TestAPutNeedsAnOwner(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		asked := oneShot(10 * time.Second)
		asked.ReplicationFactor = 1
		first := c.create(asked)
		home := c.homes(first.ID.Key, 1)[0]
		c.Connect(nodeName(0), home, storetest.LinkCut)
		if _, err := c.nodes[0].Replace(c.Context(), first.ID, asked); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("replaced without its home: %v, want unavailable", err)
		}
		if _, err := c.nodes[0].Delete(c.Context(), first.ID); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("deleted without its home: %v, want unavailable", err)
		}
		if receipt, err := c.nodes[0].Create(c.Context(), asked); err != nil || receipt.Copies != 1 {
			c.Errorf("created beside it: %+v, %v", receipt, err)
		}
		if got := c.holders(first.ID.Key); len(got) != 1 || got[0] != home {
			c.Errorf("it is on %v, want %s alone", got, home)
		}
		pass(15 * time.Second)
		c.wantOnce(first.ID.Key, 1, 700*time.Millisecond)
		c.Connect(nodeName(0), home, storetest.LinkUp)
		c.wantEmpty()
	})
}

// Rule "a write needs an owner": a DELETE that reached no copy doesn't turn a shard without a copy
// into a copy for its next try, or for the repeated request.
func TestADeleteThatReachedNoCopyLeavesNothing(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		asked := oneShot(20 * time.Second)
		asked.ReplicationFactor = 1
		first := c.create(asked)
		home := c.homes(first.ID.Key, 1)[0]
		for _, silent := range []storetest.Link{storetest.LinkCut, storetest.LinkMute} {
			c.connect(home, silent)
			id := first.ID
			id.Hint = ^timer.Hint(0) // the timer may be anywhere
			for range 3 {
				if r, err := c.nodes[0].Delete(c.Context(), id); !errors.Is(err, timer.ErrUnavailable) {
					c.Errorf("deleted without its home: %+v, %v, want unavailable", r, err)
				}
				pass(time.Second)
			}
			c.connect(home, storetest.LinkUp)
			pass(3 * time.Second)
		}
		pass(15 * time.Second)
		c.wantOnce(first.ID.Key, 1, maxLate)
		c.wantEmpty()
	})
}

// Rule "compare before firing": answers that take longer than usual are waited for, and no timer
// waits for good.
func TestSlowAnswersAreWaitedFor(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.Inject(func(op, shard string) error {
			if op == "ask" && shard == "s1" {
				<-time.After(120 * time.Millisecond)
			}
			return nil
		}, nil)
		var keys []string
		for range 40 {
			keys = append(keys, c.create(recurring(5*time.Second, 2)).ID.Key)
		}
		pass(15 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 2, 700*time.Millisecond)
		}
		c.wantEmpty()
	})
}

// Rule "tell every copy the outcome": a done that some copies missed stays as a tombstone. A node
// that comes to fire a missed copy finds the tombstone, however slow the answer is.
func TestACopyThatMissedAnEndFindsIt(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for _, shard := range []string{"s0", "s1", "s2"} {
			c.Connect(nodeName(0), shard, map[bool]storetest.Link{true: storetest.LinkCut, false: storetest.LinkUp}[shard == "s1"])
		}
		c.Inject(func(op, _ string) error {
			if op == "ask" {
				<-time.After(30 * time.Millisecond)
			}
			return nil
		}, nil)
		pass(4 * time.Second) // other nodes look after the partitions of the node that is cut off
		var keys []string
		for i := range 60 {
			asked := oneShot(time.Duration(2+i%5) * time.Second)
			asked.ReplicationFactor = 3
			keys = append(keys, create(c.T, c.nodes[1], asked).ID.Key)
		}
		pass(20 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 1, 700*time.Millisecond) // some timers are claimed by a node that is not the owner
		}
		c.Connect(nodeName(0), "s1", storetest.LinkUp)
		c.wantEmpty()
	})
}

// Rule "no late callbacks": a machine that was suspended during the comparison or the fence
// sends nothing once 2 s have passed since the comparison.
func TestTheSendLimitBeginsWithTheComparison(t *testing.T) {
	for _, during := range []string{"ask", "fire"} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := storetest.NewModel("s0", "s1"), &recorder{}
				var suspended atomic.Int64
				begun := time.Now()
				n := startNode(t, m.Open("node-0"), "node-0", r, briefly, func(config *settings.Config) {
					config.SinceBoot = func() time.Duration { return time.Hour + time.Since(begun) + time.Duration(suspended.Load()) }
				})
				m.Inject(func(op, _ string) error {
					if op == during {
						suspended.CompareAndSwap(0, int64(3*time.Second))
					}
					return nil
				}, nil)
				create(t, n, oneShot(time.Second))
				pass(30 * time.Second)
				if seen := r.seen(); len(seen) != 1 || seen[0].Attempt != 2 {
					t.Errorf("callbacks %+v, want one, by the second fence", seen)
				}
			})
		})
	}
}

// Rule "no late callbacks": with renewed fences a callback may last longer than the next copy
// waits. A callback doesn't begin on an old comparison when the next copy may have called back
// meanwhile.
func TestARenewedCallbackBeginsBeforeTheNextCopyIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := storetest.NewModel("s0", "s1"), &recorder{}
		n := startNode(t, m.Open("node-0"), "node-0", r, briefly, func(config *settings.Config) {
			config.Renew, config.Limit, config.Hold = true, 4*time.Second, 5*time.Second
		})
		pass(2 * time.Second)
		asked := oneShot(5 * time.Second)
		asked.ReplicationFactor = 2
		home := m.Open("probe").Rank(create(t, n, asked).ID.Key)[0]
		var away, was atomic.Bool
		m.Inject(func(op, shard string) error {
			if op == "fire" && was.CompareAndSwap(false, true) {
				away.Store(true)
			}
			if away.Load() && shard == home {
				return timer.ErrUnavailable
			}
			return nil
		}, nil)
		pass(8100 * time.Millisecond) // 3.1 s after the pop was due
		away.Store(false)
		pass(20 * time.Second)
		if seen := r.seen(); len(seen) != 1 || !was.Load() {
			t.Errorf("callbacks %+v, want one", seen)
		}
	})
}

// Rule "tombstones outlive what was missed": a node that removes a tombstone tells the copies that
// the tombstone names, and makes no tombstone where no copy is.
func TestATombstoneThatExpiresMakesNoOthers(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		for range 10 {
			id := c.create(oneShot(time.Hour)).ID
			c.connect("s1", storetest.LinkCut)
			if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
				c.Fatal(err)
			}
			c.connect("s1", storetest.LinkUp)
		}
		c.Wipe("s1")
		for range 40 {
			pass(time.Second)
			if all := c.Copies("s1"); len(all) != 0 {
				c.Fatalf("s1 has %v, and had nothing", all)
			}
		}
		if all := c.Copies("s0"); len(all) != 0 {
			c.Errorf("left on s0: %v", all)
		}
	})
}

// A create whose answer from one owner was lost is called back once.
func TestACreateWhoseAnswerWasLostFiresOnce(t *testing.T) {
	for name, test := range map[string]struct{ in, apart, late time.Duration }{
		"before a claim": {40 * time.Second, 300 * time.Millisecond, maxLate}, // s1 doesn't count as silent
		"after a claim":  {600 * time.Millisecond, 5 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				var keys []string
				for range 30 {
					c.Connect(nodeName(0), "s1", storetest.LinkLossy)
					keys = append(keys, c.create(oneShot(test.in)).ID.Key)
					c.Connect(nodeName(0), "s1", storetest.LinkUp)
					pass(test.apart)
				}
				pass(time.Minute)
				for _, key := range keys {
					c.wantOnce(key, 1, test.late)
				}
				c.wantEmpty()
			})
		})
	}
}

// A shard that answers questions slowly, and other calls quickly, is waited for. The patience for a
// question is long enough for an answer to come in time.
func TestAShardSlowToAnswerQuestionsIsWaitedFor(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.Inject(func(op, _ string) error {
			if op == "ask" {
				<-time.After(900 * time.Millisecond)
			}
			return nil
		}, nil)
		asked := oneShot(time.Second)
		asked.ReplicationFactor = 2
		key := c.create(asked).ID.Key
		pass(20 * time.Second)
		c.wantOnce(key, 1, 4*time.Second)
	})
}
