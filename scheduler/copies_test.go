package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// cluster is some nodes on a model of several shards, in a bubble.
type cluster struct {
	*testing.T
	*storetest.Model
	*recorder
	nodes []*node
}

func inCluster(t *testing.T, shards, nodes int, test func(c *cluster), tune ...func(*settings.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newCluster(t, shards, nodes, tune...)) })
}

// newCluster starts the nodes. Call newCluster in a bubble.
func newCluster(t *testing.T, shards, nodes int, tune ...func(*settings.Config)) *cluster {
	t.Helper()
	names := make([]string, shards)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
	}
	c := &cluster{T: t, Model: storetest.NewModel(names...), recorder: &recorder{}}
	for i := range nodes {
		name := nodeName(i)
		c.nodes = append(c.nodes, startNode(t, c.Open(name), name, c.recorder, append([]func(*settings.Config){briefly}, tune...)...))
	}
	pass(2 * time.Second) // the nodes know each other
	return c
}

// briefly saves virtual time: tombstones live 10 s, and polls are rare.
func briefly(config *settings.Config) {
	config.TombLife, config.PollInterval = 10*time.Second, 150*time.Millisecond
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// connect changes the link of all nodes and a shard.
func (c *cluster) connect(shard string, link storetest.Link) {
	for i := range c.nodes {
		c.Connect(nodeName(i), shard, link)
	}
}

// homes are the owners of a timer.
func (c *cluster) homes(key string, rf int) []string { return c.Open("probe").Rank(key)[:rf] }

// holders are the shards that have a live copy.
func (c *cluster) holders(key string) (names []string) {
	for _, name := range c.Open("probe").Shards() {
		if state, ok := c.Copies(name)[key]; ok && !state.Ended {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wantEmpty waits until nothing is left, tombstones included.
func (c *cluster) wantEmpty() {
	c.Helper()
	pass(45 * time.Second)
	for _, name := range c.Open("probe").Shards() {
		if all := c.Copies(name); len(all) != 0 {
			c.Errorf("left on %s: %v", name, all)
		}
	}
}

// callbacks are the callbacks of one timer.
func (c *cluster) callbacks(key string) (all []attempt) {
	for _, a := range c.seen() {
		if a.ID.Key == key {
			all = append(all, a)
		}
	}
	return all
}

// wantOnce checks that each pop of the timer was called back once.
func (c *cluster) wantOnce(key string, pops int, bound time.Duration) {
	c.Helper()
	seen := c.callbacks(key)
	if len(seen) != pops {
		c.Errorf("%d callbacks of %s, want %d: %+v", len(seen), key, pops, seen)
		return
	}
	for i, a := range seen {
		if a.Seq != i+1 || a.Attempt != 1 {
			c.Errorf("callback %d of %s is pop %d, attempt %d", i+1, key, a.Seq, a.Attempt)
		}
	}
	wantOnTime(c.T, seen, bound)
}

func (c *cluster) create(asked timer.Timer) timer.Receipt {
	c.Helper()
	return create(c.T, c.nodes[0], asked)
}

func TestCopiesAreWhereTheyBelongAndGoTogether(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		inCluster(t, 3, nodes, func(c *cluster) {
			var receipts []timer.Receipt
			for i := range 60 {
				asked := oneShot(time.Duration(i) * 50 * time.Millisecond)
				if i%3 == 0 {
					asked = recurring(time.Second, 3)
				}
				asked.ReplicationFactor = i%4 + 1
				want := min(asked.ReplicationFactor, 3)
				receipt := c.create(asked)
				receipts = append(receipts, receipt)
				hint := timer.Hint(0)
				for _, name := range c.homes(receipt.ID.Key, want) {
					hint |= c.Open("probe").HintOf(name)
				}
				if receipt.Copies != want || receipt.ID.Hint != hint || receipt.Unreached != 0 || receipt.InFlight {
					c.Errorf("receipt %+v, want %d copies, hint %x", receipt, want, hint)
				}
			}
			pass(10 * time.Second)
			for i, receipt := range receipts {
				c.wantOnce(receipt.ID.Key, map[bool]int{true: 3, false: 1}[i%3 == 0], maxLate)
			}
			c.wantEmpty()
		})
	}
}

// Slow callbacks make no backup fire, too: neither a callback as long as the skew nor a callback
// that is retried.
func TestSlowCallbacksComeOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 1900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		var keys []string
		for i := range 40 {
			asked := recurring(2500*time.Millisecond, 4)
			if i%2 == 0 {
				asked = oneShot(time.Duration(i) * 100 * time.Millisecond)
			}
			asked.ReplicationFactor = 3
			keys = append(keys, c.create(asked).ID.Key)
		}
		pass(30 * time.Second)
		for i, key := range keys {
			c.wantOnce(key, map[bool]int{true: 1, false: 4}[i%2 == 0], maxLate)
		}
		c.wantEmpty()
	})
}

func TestRetriesAreKnownToAllCopies(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt < 4 {
				return 100 * time.Millisecond, dispatch.Delivered{Reason: "status 500"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		var keys []string
		for range 30 {
			keys = append(keys, c.create(oneShot(time.Second)).ID.Key)
		}
		pass(30 * time.Second)
		for _, key := range keys {
			seen := c.callbacks(key)
			if len(seen) != 4 {
				c.Errorf("%d callbacks of %s, want 4 attempts", len(seen), key)
			}
			for i, a := range seen {
				if a.Attempt != i+1 {
					c.Errorf("callback %d of %s is attempt %d", i+1, key, a.Attempt)
				}
			}
		}
		c.wantEmpty()
	})
}

func TestGivenUpLeavesOneLetter(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 500"}
		}
		for range 20 {
			c.create(oneShot(time.Second))
		}
		pass(time.Minute)
		if n := len(c.seen()); n != 100 {
			c.Errorf("%d attempts at 20 timers, want 5 each", n)
		}
		letters := 0
		for _, name := range []string{"s0", "s1", "s2"} {
			letters += len(c.DeadLetters(name))
		}
		if letters != 20 {
			c.Errorf("%d dead letters of 20 timers", letters)
		}
		c.wantEmpty()
	})
}

// Rule "yield to the better copy": when the primary's shard is dead, the backup fires after the
// skew and a second of silence.
func TestABackupFiresWhenThePrimaryIsDead(t *testing.T) {
	for name, link := range map[string]storetest.Link{"refused": storetest.LinkCut, "silent": storetest.LinkMute} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				var keys []string
				for range 40 {
					asked := recurring(5*time.Second, 2)
					asked.ReplicationFactor = 2
					keys = append(keys, c.create(asked).ID.Key)
				}
				pass(time.Second)
				c.connect("s1", link)
				pass(12 * time.Second)
				for _, key := range keys {
					bound := maxLate
					if c.homes(key, 2)[0] == "s1" {
						bound = 3 * time.Second
					}
					c.wantOnce(key, 2, bound)
				}
				c.connect("s1", storetest.LinkUp)
				pass(10 * time.Second)
				if n := len(c.seen()); n != 80 {
					c.Errorf("%d callbacks once the shard was back, want no more than 80", n)
				}
				c.wantEmpty()
			})
		})
	}
}

// Rule "yield to the better copy": another node works on the primary's copy for longer than the
// skew. The backup waits for the copy, and fires nothing.
func TestABackupYieldsToALeasedCopy(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		keys := c.primariesOn("s0", 20)
		pass(4*time.Second + 500*time.Millisecond)
		claimed, err := c.Open("another").Claim(c.Context(), "s0", store.ClaimRequest{
			Limit: 100, MaxBytes: 1 << 20, Grace: 10 * time.Second, Horizon: time.Second,
		})
		if err != nil || len(claimed.Claims) != len(keys) {
			c.Fatalf("claimed %d, %v", len(claimed.Claims), err)
		}
		fences := c.fencesOn("s1")
		pass(30 * time.Second)
		if n := fences.Load(); n != 0 {
			c.Errorf("%d fences of backups, want those of the primaries alone", n)
		}
		c.wantEachOnce(keys, 10*time.Second+400*time.Millisecond) // a poll finds that the lease is over
	})
}

// Rule "yield to the better copy": a node that has just started has no answer to its first claims on the shard
// of the better copies yet, and fires nothing from backups meanwhile.
func TestABackupYieldsBeforeTheFirstClaims(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		keys := c.primariesOn("s0", 20)
		c.nodes[0].stop()
		pass(10 * time.Second) // all timers are overdue
		var fences atomic.Int64
		c.Inject(func(op, shard string) error {
			switch {
			case shard == "s0" && (op == "claim" || op == "beat"):
				time.Sleep(20 * time.Millisecond)
			case shard == "s1" && op == "fire":
				fences.Add(1)
			}
			return nil
		}, nil)
		startNode(c.T, c.Open("later"), "later", c.recorder, briefly)
		pass(10 * time.Second)
		if n := fences.Load(); n != 0 {
			c.Errorf("%d fences of backups, want those of the primaries alone", n)
		}
		c.wantEachOnce(keys, 6*time.Second)
	})
}

// Rule "yield to the better copy": a shard on which no claim succeeds, though the shard answers
// questions, fires nothing, as a Redis whose memory is full.
func TestABackupFiresWhereNothingIsClaimed(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.Inject(func(op, shard string) error {
			if op == "claim" && shard == "s0" {
				return timer.ErrRefused
			}
			return nil
		}, nil)
		keys := c.primariesOn("s0", 20)
		pass(20 * time.Second)
		c.wantEachOnce(keys, 2*time.Second+maxLate)
	})
}

// primariesOn makes timers that are due in 5 s and have their primary on a shard.
func (c *cluster) primariesOn(shard string, n int) []string {
	c.Helper()
	keys := c.keysOn(shard, n)
	for _, key := range keys {
		if _, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: key, RF: 2}, oneShot(5*time.Second)); err != nil {
			c.Fatal(err)
		}
	}
	return keys
}

// fencesOn counts the fences on a shard from now on.
func (c *cluster) fencesOn(shard string) *atomic.Int64 {
	var fences atomic.Int64
	c.Inject(func(op, at string) error {
		if op == "fire" && at == shard {
			fences.Add(1)
		}
		return nil
	}, nil)
	return &fences
}

// wantEachOnce checks that every timer came once, at most so late, and is over.
func (c *cluster) wantEachOnce(keys []string, late time.Duration) {
	c.Helper()
	for _, key := range keys {
		c.wantOnce(key, 1, late)
		if got := c.holders(key); len(got) != 0 {
			c.Errorf("%s is still on %v", key, got)
		}
	}
}

// Rule "compare before firing": a copy that missed an update finds the update on another shard
// before the copy fires.
func TestACopyThatMissedAnUpdateFindsItBeforeFiring(t *testing.T) {
	for name, ends := range map[string]bool{"deleted": true, "replaced": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				var receipts []timer.Receipt
				for range 20 {
					receipts = append(receipts, c.create(oneShot(10*time.Second)))
				}
				c.Connect(nodeName(0), "s0", storetest.LinkCut)
				for i := range receipts {
					var changed timer.Receipt
					var err error
					if ends {
						changed, err = c.nodes[0].Delete(c.Context(), receipts[i].ID)
					} else {
						changed, err = c.nodes[0].Replace(c.Context(), receipts[i].ID, oneShot(30*time.Second))
					}
					if err != nil || !changed.InFlight || changed.Unreached != 1 {
						c.Fatalf("answered %+v, %v; want in flight, since one copy was not told", changed, err)
					}
				}
				pass(20 * time.Second)
				if n := len(c.seen()); n != 0 {
					c.Errorf("%d callbacks of what was over", n)
				}
				c.Connect(nodeName(0), "s0", storetest.LinkUp)
				pass(time.Minute)
				for _, receipt := range receipts {
					pops := 1
					if ends {
						pops = 0
					}
					c.wantOnce(receipt.ID.Key, pops, 4*time.Second)
				}
				c.wantEmpty()
			})
		})
	}
}

// Rule "tell every copy the outcome": a missing copy is restored with the next pop.
func TestMissingCopiesComeBackWithTheNextPop(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var keys []string
		for range 30 {
			keys = append(keys, c.create(recurring(10*time.Second, 5)).ID.Key)
		}
		c.Wipe("s1")
		pass(25 * time.Second)
		for _, key := range keys {
			homes := slices.Sorted(slices.Values(c.homes(key, 2)))
			if got := c.holders(key); !slices.Equal(got, homes) {
				c.Errorf("%s is on %v, want %v again", key, got, homes)
			}
		}
		pass(time.Minute)
		for _, key := range keys {
			c.wantOnce(key, 5, 2*time.Second+maxLate)
		}
		c.wantEmpty()
	})
}

// Rule "what an answer may say": an answer counts the copies that were told and says "in flight"
// while a callback of the old version may still start.
func TestAnswersNameUnreachedAndFiringCopies(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		n, ctx := c.nodes[0], c.Context()
		first := c.create(oneShot(time.Hour))
		changed, err := n.Replace(ctx, first.ID, oneShot(time.Hour))
		if err != nil || changed.InFlight || changed.Copies != 2 || changed.Unreached != 0 || changed.ID != first.ID {
			c.Errorf("replaced: %+v, %v", changed, err)
		}
		c.Wipe("s1")
		if changed, err = n.Replace(ctx, first.ID, oneShot(time.Hour)); err != nil || !changed.InFlight || changed.Copies != 2 {
			c.Errorf("replaced where a copy was missing: %+v, %v; want in flight, two copies", changed, err)
		}
		c.connect("s0", storetest.LinkMute)
		if changed, err = n.Delete(ctx, first.ID); err != nil || !changed.InFlight || changed.Copies != 1 || changed.Unreached != 1 {
			c.Errorf("deleted where one shard is silent: %+v, %v; want in flight, one told", changed, err)
		}
		c.connect("s1", storetest.LinkMute)
		begun := time.Now()
		if _, err = n.Delete(ctx, first.ID); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("deleted where all are silent: %v, want unavailable", err)
		}
		if took := time.Since(begun); took > 1100*time.Millisecond {
			c.Errorf("the answer took %v", took)
		}
	})
}

func TestMinCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewModel("s0", "s1")
		n := startNode(t, m.Open("node-0"), "node-0", &recorder{}, func(c *settings.Config) { c.MinCopies = 2 })
		pass(time.Second)
		m.Connect("node-0", "s1", storetest.LinkCut)
		if _, err := n.Create(t.Context(), oneShot(time.Hour)); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("one copy of two: %v, want unavailable", err)
		}
		single := oneShot(time.Hour)
		single.ReplicationFactor = 1
		for range 10 { // some timers on every shard
			_, err := n.Create(t.Context(), single)
			if err != nil && !errors.Is(err, timer.ErrUnavailable) {
				t.Errorf("a timer of one copy: %v", err)
			}
		}
		m.Connect("node-0", "s1", storetest.LinkUp)
		pass(time.Second)
		if receipt, err := n.Create(t.Context(), oneShot(time.Hour)); err != nil || receipt.Copies != 2 {
			t.Errorf("created: %+v, %v", receipt, err)
		}
	})
}

// Rule "tombstones outlive what was missed": a tombstone outlives the cut that kept a copy from
// hearing of the delete. The copies that the tombstone names are told before the tombstone goes.
func TestTombstonesTellBeforeTheyGo(t *testing.T) {
	for name, link := range map[string]storetest.Link{"cut": storetest.LinkCut, "silent": storetest.LinkMute, "lossy": storetest.LinkLossy} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				var ids []timer.ID
				for range 20 {
					ids = append(ids, c.create(oneShot(4*time.Minute)).ID)
				}
				c.connect("s0", link)
				pass(2 * time.Second)
				for _, id := range ids {
					if _, err := c.nodes[1].Delete(c.Context(), id); err != nil {
						c.Fatal(err)
					}
				}
				pass(time.Minute)
				c.connect("s0", storetest.LinkUp)
				pass(time.Minute)
				for _, id := range ids {
					if got := c.holders(id.Key); len(got) != 0 {
						c.Errorf("%s is still on %v", id, got)
					}
				}
				pass(3 * time.Minute)
				if n := len(c.seen()); n != 0 {
					c.Errorf("%d deleted timers were called back", n)
				}
				c.wantEmpty()
			})
		})
	}
}

// A filter of all ones does no harm.
func TestAFilterOfAllOnesDoesNoHarm(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		n := c.nodes[0]
		first := c.create(oneShot(time.Minute))
		id := first.ID
		id.Hint = ^timer.Hint(0)
		if got, err := n.Lookup(c.Context(), id); err != nil || got.Record.ID != first.ID {
			c.Errorf("looked up %v, %v", got.Record.ID, err)
		}
		changed, err := n.Replace(c.Context(), id, oneShot(time.Minute))
		if err != nil || changed.ID != first.ID || changed.Copies != 2 || changed.InFlight {
			c.Errorf("replaced: %+v, %v", changed, err)
		}
		pass(2 * time.Minute)
		c.wantOnce(id.Key, 1, maxLate)
		if _, err := n.Delete(c.Context(), id); err != nil {
			c.Error(err)
		}
		c.wantEmpty()
	})
}
