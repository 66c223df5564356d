package scheduler_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// single is a timer of one copy.
func single(in time.Duration) timer.Timer {
	asked := oneShot(in)
	asked.ReplicationFactor = 1
	return asked
}

// The only shard of a timer is away. A delete by bare key tells nobody, however often the delete is
// sent: ends that the delete left on the remaining shards are no copies.
func TestADeleteThatToldNoOwnerIsRefused(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		for range 10 {
			id := c.create(single(time.Minute)).ID
			bare := timer.ID{Key: id.Key}
			owner := c.homes(id.Key, 1)[0]
			c.connect(owner, storetest.LinkCut)
			for range 3 {
				if _, err := c.nodes[0].Delete(c.Context(), bare); !errors.Is(err, timer.ErrUnavailable) {
					c.Errorf("delete while the owner is away: %v, want unavailable", err)
				}
			}
			c.connect(owner, storetest.LinkUp)
			if _, err := c.nodes[0].Delete(c.Context(), bare); err != nil {
				c.Errorf("delete when the owner is back: %v", err)
			}
			if holders := c.holders(id.Key); len(holders) > 0 {
				c.Errorf("copies live on %v", holders)
			}
		}
	})
}

// A delete by bare key that finds nothing on the first owner says that the second owner, which may
// have the only copy, was not reached.
func TestADeleteThatFindsNothingNamesTheOwnerThatItMissed(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		for i := range 5 {
			bare := timer.ID{Key: "own-" + strconv.Itoa(i)}
			owners := c.homes(bare.Key, 2)
			c.connect(owners[0], storetest.LinkCut)
			if receipt, err := c.nodes[0].Replace(c.Context(), bare, oneShot(time.Minute)); err != nil || receipt.Unreached != 1 {
				c.Errorf("PUT while the first owner is away: %+v, %v; want one unreached", receipt, err)
			}
			c.connect(owners[0], storetest.LinkUp)
			c.connect(owners[1], storetest.LinkCut)
			if receipt, err := c.nodes[0].Delete(c.Context(), bare); err != nil || receipt.Unreached != 1 {
				c.Errorf("DELETE while the second owner is away: %+v, %v; want one unreached", receipt, err)
			}
			c.connect(owners[1], storetest.LinkUp)
		}
	})
}

// A write by bare key of a timer with two copies is carried out whichever shard is away.
func TestAWriteByKeyWhileAShardIsAway(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		n := c.nodes[0]
		for _, away := range []string{"s0", "s1", "s2"} {
			for range 10 {
				known := timer.ID{Key: c.create(oneShot(time.Hour)).ID.Key}
				three := oneShot(time.Hour)
				three.ReplicationFactor = 3
				wide := timer.ID{Key: c.create(three).ID.Key}
				fresh := timer.ID{Key: "new-" + known.Key}
				c.connect(away, storetest.LinkCut)
				for name, id := range map[string]timer.ID{"known": known, "new": fresh} {
					receipt, err := n.Replace(c.Context(), id, oneShot(time.Hour))
					if err != nil || receipt.Copies+receipt.Unreached != 2 || receipt.Copies < 1 || receipt.ID.RF != 2 {
						c.Errorf("%s away, PUT of a %s key: %+v, %v; want two copies, one maybe unreached", away, name, receipt, err)
					}
				}
				kept := oneShot(time.Hour)
				kept.ReplicationFactor = 0
				if receipt, err := n.Replace(c.Context(), wide, kept); err != nil || receipt.ID.RF != 3 {
					c.Errorf("%s away, PUT of a timer with three copies: %+v, %v; want its own factor", away, receipt, err)
				}
				if _, err := n.Delete(c.Context(), known); err != nil {
					c.Errorf("%s away, DELETE: %v", away, err)
				}
				c.connect(away, storetest.LinkUp)
			}
		}
	})
}

// A PUT by key waits for a shard that has just fallen silent once, and not for the timer's copies and
// then for the write.
func TestAPutByKeyWaitsForASilentShardOnce(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		for i := range 10 {
			known := timer.ID{Key: c.create(oneShot(time.Hour)).ID.Key}
			away := c.homes(known.Key, 2)[i%2]
			c.connect(away, storetest.LinkMute)
			for name, id := range map[string]timer.ID{"known": known, "new": {Key: "new-" + known.Key}} {
				begun := time.Now()
				receipt, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour))
				if took := time.Since(begun); err != nil || receipt.Copies < 1 || took > timing.RoundPatience+100*time.Millisecond {
					c.Errorf("PUT of a %s key while %s is silent: %+v, %v, after %v", name, away, receipt, err, took)
				}
			}
			c.connect(away, storetest.LinkUp)
			pass(10 * time.Second)
		}
	})
}

// A PUT by key that can't ask the first owner takes its timer for new. The only old copy hears of
// the new timer before the old copy fires, once its shard is back.
func TestAOneCopyTimerAsksTheNextOwnerAfterAnOutage(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for range 5 {
			id := c.create(single(8 * time.Second)).ID
			owner := c.homes(id.Key, 1)[0]
			c.connect(owner, storetest.LinkMute)
			pass(3 * time.Second)
			receipt, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: id.Key}, oneShot(time.Minute))
			if err != nil || receipt.Unreached != 1 {
				c.Errorf("PUT while the owner is away: %+v, %v; want one unreached", receipt, err)
			}
			pass(3 * time.Second)
			c.connect(owner, storetest.LinkUp)
			pass(30 * time.Second)
			if n := len(c.callbacks(id.Key)); n > 0 {
				c.Errorf("%d callbacks of the replaced timer", n)
			}
			pass(time.Minute)
			if n := len(c.callbacks(id.Key)); n != 1 {
				c.Errorf("%d callbacks, want one of the new timer", n)
			}
		}
	})
}

// TestOutcomesAreToldBeforeTheyAreSettled: a node that dies between telling and settling must leave
// no copy ready to fire once more. Therefore the leased copy is settled last.
func TestOutcomesAreToldBeforeTheyAreSettled(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"the last pop": oneShot(time.Second), "a next pop": recurring(time.Second, 2)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 1, func(c *cluster) {
				asked.ReplicationFactor = 2
				key := c.create(asked).ID.Key
				homes := c.homes(key, 2)
				var settled atomic.Int64
				c.Inject(func(op, shard string) error {
					if op != "settle" || shard != homes[0] || len(c.callbacks(key)) == 0 || settled.Add(1) > 1 {
						return nil
					}
					if state, there := c.Copies(homes[1])[key]; there && state.Seq == 1 && !state.Ended {
						c.Error("the outcome of pop 1 is settled, and the backup is about to fire pop 1")
					}
					return nil
				}, nil)
				pass(1500 * time.Millisecond)
				if settled.Load() == 0 {
					c.Error("nothing was settled")
				}
			})
		})
	}
}

// TestAMissingCopyIsMadeAfterTheSettlement: an outcome that is told late must not bring back a
// timer that is over. Therefore a lost copy comes back once the leased copy has accepted the
// outcome.
func TestAMissingCopyIsMadeAfterTheSettlement(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		asked := recurring(time.Second, 2)
		asked.ReplicationFactor = 2
		key := c.create(asked).ID.Key
		homes := c.homes(key, 2)
		c.Wipe(homes[1])
		var settled atomic.Int64
		c.Inject(func(op, shard string) error {
			if op != "settle" || shard != homes[0] || len(c.callbacks(key)) == 0 || settled.Add(1) > 1 {
				return nil
			}
			if state, there := c.Copies(homes[1])[key]; there {
				c.Errorf("before pop 1 is settled the lost copy is back: %+v", state)
			}
			return nil
		}, nil)
		pass(1500 * time.Millisecond)
		if settled.Load() == 0 {
			c.Error("nothing was settled")
		}
		if state, there := c.Copies(homes[1])[key]; !there || state.Seq != 2 {
			c.Errorf("after pop 1 the lost copy is %+v, want pop 2", state)
		}
	})
}

// TestAnAnswerThatComesTooLateIsNone: when a node goes on that stood still, the answers of the
// copies may be out of date.
func TestAnAnswerThatComesTooLateIsNone(t *testing.T) {
	var stood atomic.Int64 // how long the node stood still, ns
	standing := func(config *settings.Config) {
		goes := config.SinceBoot
		config.SinceBoot = func() time.Duration { return goes() + time.Duration(stood.Load()) }
	}
	inCluster(t, 2, 1, func(c *cluster) {
		receipt := c.create(oneShot(time.Hour))
		c.Inject(nil, func(op, _ string) error {
			if op == "merge" {
				stood.Add(int64(2 * time.Second))
			}
			return nil
		})
		if got, err := c.nodes[0].Delete(c.Context(), receipt.ID); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("a delete that took over a second: %+v, %v; want unavailable", got, err)
		}
	}, standing)
}

// TestATombstoneStaysForItsLife: a late write of the old version, by a node or a Redis that stood
// still, finds the tombstone.
func TestATombstoneStaysForItsLife(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		id := c.create(oneShot(time.Hour)).ID
		if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
			c.Fatal(err)
		}
		pass(9 * time.Second) // of ten
		for _, shard := range c.homes(id.Key, 2) {
			if state, there := c.Copies(shard)[id.Key]; !there || !state.Ended {
				c.Errorf("9s after the delete %s has %+v, want a tombstone", shard, state)
			}
		}
		c.wantEmpty()
	})
}
