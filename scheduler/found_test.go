package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Bugs that the simulation (cmd/chronos/simtest) has found.

// replaceUntold replaces a timer through the first node, which can't tell the copy on the better
// owner.
func (c *cluster) replaceUntold(id timer.ID, in time.Duration) {
	c.Helper()
	better := c.homes(id.Key, 2)[0]
	c.Connect(nodeName(0), better, storetest.LinkCut)
	defer c.Connect(nodeName(0), better, storetest.LinkUp)
	changed, err := c.nodes[0].Replace(c.Context(), id, oneShot(in))
	if err != nil || changed.Unreached != 1 || !changed.InFlight {
		c.Fatalf("replaced: %+v, %v; want one unreached", changed, err)
	}
}

// Rule "yield to the better copy": a better copy of an earlier state isn't waited for: the
// earlier state's due time says nothing about the timer.
func TestAnEarlierStateIsNotWaitedFor(t *testing.T) {
	for name, shards := range map[string]int{"two homes": 2, "a third shard": 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, shards, 2, func(c *cluster) {
				id := c.create(oneShot(10 * time.Minute)).ID
				c.replaceUntold(id, 5*time.Second)
				pass(10 * time.Second)
				c.wantOnce(id.Key, 1, 2*time.Second+hesitant+maxLate)
				c.wantEmpty()
			})
		})
	}
}

// hesitant is how much later a node looks at a better copy that had to be brought up.
const hesitant = 250 * time.Millisecond

// Rule "yield to the better copy": the tombstone of an earlier version isn't waited for either.
func TestAnEarlierTombstoneIsNotWaitedFor(t *testing.T) {
	for name, shards := range map[string]int{"two homes": 2, "a third shard": 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, shards, 2, func(c *cluster) {
				receipt, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Second))
				if err != nil {
					c.Fatal(err)
				}
				pass(5 * time.Second) // the timer is over, and remembered
				c.replaceUntold(receipt.ID, 5*time.Second)
				pass(10 * time.Second)
				if n := len(c.callbacks(receipt.ID.Key)); n != 2 {
					c.Errorf("%d callbacks, want one of each version", n)
				}
			})
		})
	}
}

// Rule "a repeated create finds the first": a create that happens once, and finds an earlier
// create, is answered by one owner.
func TestARepeatedCreateNeedsOneOwner(t *testing.T) {
	for name, link := range map[string]storetest.Link{"cut": storetest.LinkCut, "silent": storetest.LinkMute} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				n, body := c.nodes[0], []byte("body")
				first, err := n.CreateOnce(c.Context(), "once", body, oneShot(10*time.Second))
				if err != nil {
					c.Fatal(err)
				}
				c.Connect(nodeName(0), c.homes(first.ID.Key, 2)[0], link)
				again, err := n.CreateOnce(c.Context(), "once", body, oneShot(10*time.Second))
				if err != nil || !again.Replayed {
					c.Errorf("repeated: %+v, %v; want a replay", again, err)
				}
				if got := c.holders(first.ID.Key); len(got) != 2 {
					c.Errorf("copies are on %v, want its two homes alone", got)
				}
				pass(30 * time.Second)
				if n := len(c.callbacks(first.ID.Key)); n != 1 {
					c.Errorf("%d callbacks, want 1", n)
				}
			})
		})
	}
}

// Rule "a repeated create finds the first": a repeated create makes no new timer where a copy
// missed or lost the first create, even if the node asks the copy first.
func TestARepeatedCreateAsksAllCopies(t *testing.T) {
	for name, in := range map[string]time.Duration{"waiting": 20 * time.Second, "over": time.Second} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				n, key := c.nodes[0], timer.OnceKey("once")
				better := c.homes(key, 2)[0]
				create := func() timer.Receipt {
					receipt, err := n.CreateOnce(c.Context(), "once", []byte("body"), oneShot(in))
					if err != nil {
						c.Error(err)
					}
					return receipt
				}
				c.connect(better, storetest.LinkCut)
				create()
				pass(5 * time.Second)
				c.connect(better, storetest.LinkUp)
				pass(5 * time.Second)
				if !create().Replayed {
					c.Error("the repeat was taken for the first")
				}
				c.Wipe(better)
				if !create().Replayed {
					c.Error("the repeat after a loss was taken for the first")
				}
				pass(30 * time.Second)
				c.wantOnce(key, 1, 2*time.Second+maxLate)
			})
		})
	}
}

// Rule "tombstones outlive what was missed": an owner of a timer missed the write and the end. The
// other owner keeps the end.
func TestAnEndIsKeptByAnOwner(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for range 5 {
			id := c.create(oneShot(20 * time.Second)).ID
			better := c.homes(id.Key, 2)[0]
			c.connect(better, storetest.LinkCut)
			pass(3 * time.Second) // the best shard is away
			if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(2*time.Second)); err != nil {
				c.Error(err)
			}
			pass(5 * time.Second)
			c.connect(better, storetest.LinkUp)
			pass(30 * time.Second)
			if n := len(c.callbacks(id.Key)); n != 1 {
				c.Errorf("%d callbacks, want that of the second version alone", n)
			}
		}
		c.wantEmpty()
	})
}

// Rule "tombstones outlive what was missed": an end that one copy missed is kept by all owners. The
// owner that fired may be unreachable when the copy returns and asks.
func TestAnEndThatACopyMissedIsKeptByAllOwners(t *testing.T) {
	inCluster(t, 4, 2, func(c *cluster) {
		for range 5 {
			asked := oneShot(20 * time.Second)
			asked.ReplicationFactor = 3
			id := c.create(asked).ID
			homes := c.homes(id.Key, 3)
			c.connect(homes[2], storetest.LinkCut)
			pass(3 * time.Second)
			asked.Interval = 8 * time.Second // an end of a version older than 5 s leaves no other tombstone
			if _, err := c.nodes[0].Replace(c.Context(), id, asked); err != nil {
				c.Error(err)
			}
			pass(11 * time.Second)
			c.connect(homes[2], storetest.LinkUp)
			c.connect(homes[0], storetest.LinkCut)
			pass(30 * time.Second)
			if n := len(c.callbacks(id.Key)); n != 1 {
				c.Errorf("%d callbacks, want that of the second version alone", n)
			}
			c.connect(homes[0], storetest.LinkUp)
			pass(30 * time.Second)
		}
		c.wantEmpty()
	})
}

// Rule "a repeated create finds the first": one copy refuses a repeated create. A copy that missed
// the first create may have stored the repetition without an answer. The node takes the repetition
// back from there.
func TestARepeatedCreateIsTakenBackWhereNoAnswerCame(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		key := timer.OnceKey("once")
		better := c.homes(key, 2)[0]
		create := func() (receipt timer.Receipt) {
			receipt, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Second))
			if err != nil {
				c.Error(err)
			}
			return receipt
		}
		create()
		pass(5 * time.Second) // the timer is over, and remembered
		c.Wipe(better)
		c.connect(better, storetest.LinkLossy)
		if !create().Replayed {
			c.Error("the repeat was taken for the first")
		}
		c.connect(better, storetest.LinkUp)
		pass(30 * time.Second)
		c.wantOnce(key, 1, maxLate)
	})
}

// Rule "a repeated create finds the first": a key stays remembered where a copy that knows nothing
// of the key ends the timer.
func TestAnEndKeepsTheIdempotencyKeyOfOtherCopies(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		create := func() timer.Receipt {
			receipt, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Minute))
			if err != nil {
				c.Fatal(err)
			}
			return receipt
		}
		id := create().ID
		c.Wipe(c.homes(id.Key, 2)[0])
		if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Second)); err != nil {
			c.Fatal(err)
		}
		pass(10 * time.Minute)
		if !create().Replayed {
			c.Error("the repeat was taken for the first")
		}
		c.wantOnce(id.Key, 1, maxLate)
	})
}

// Rule "yield to the better copy": a copy that waits for a better copy of a newer version adopts
// the newer version: the copy may have to do without the better copy later.
func TestACopyThatWaitsForANewerVersionAdoptsIt(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		id := c.create(oneShot(10 * time.Second)).ID
		better, backup := c.homes(id.Key, 2)[0], c.homes(id.Key, 2)[1]
		c.Connect(nodeName(0), backup, storetest.LinkCut)
		asked := oneShot(time.Minute)
		asked.Callback.Opaque = "second"
		changed, err := c.nodes[0].Replace(c.Context(), id, asked)
		if err != nil || changed.Unreached != 1 {
			c.Fatalf("replaced: %+v, %v; want one unreached", changed, err)
		}
		c.Connect(nodeName(0), backup, storetest.LinkUp)
		pass(30 * time.Second)
		c.connect(better, storetest.LinkCut)
		pass(time.Minute)
		c.wantOnce(id.Key, 1, 2*time.Second+maxLate)
		if seen := c.callbacks(id.Key); seen[0].Callback.Opaque != "second" {
			c.Errorf("called back with %q, want what replaced that", seen[0].Callback.Opaque)
		}
	})
}

// Rule "versions rise": two writes of one node within a millisecond have two versions.
func TestWritesWithinOneMillisecondDiffer(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		for range 40 {
			id := c.create(oneShot(time.Minute)).ID
			pass(time.Second)
			c.connect(c.homes(id.Key, 2)[0], storetest.LinkCut)
			if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
				c.Fatal(err)
			}
			c.connect(c.homes(id.Key, 2)[0], storetest.LinkUp)
			changed, err := c.nodes[0].Replace(c.Context(), id, oneShot(10*time.Second))
			if err != nil || changed.Copies != 2 || changed.Unreached != 0 {
				c.Fatalf("replaced: %+v, %v", changed, err)
			}
			pass(30 * time.Second)
			c.wantOnce(id.Key, 1, maxLate)
		}
	})
}

// Rule "yield to the better copy": a better copy of an earlier state on a shard that refuses writes
// isn't waited for.
func TestAShardThatRefusesWritesIsNotWaitedFor(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		id := c.create(oneShot(10 * time.Minute)).ID
		better := c.homes(id.Key, 2)[0]
		c.replaceUntold(id, 5*time.Second)
		c.Inject(func(op, shard string) error {
			if op == "tell" && shard == better {
				return timer.ErrRefused // as a Redis whose memory is full
			}
			return nil
		}, nil)
		pass(10 * time.Second)
		c.wantOnce(id.Key, 1, 2*time.Second+maxLate)
		c.Inject(nil, nil)
	})
}
