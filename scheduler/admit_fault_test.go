package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Faults, and concurrent requests, against timers from a stream.

// One shard is away, or loses all data, while messages come. The reader of the stream repeats a
// message until the message is answered.
func TestAdmitWhileAShardIsAway(t *testing.T) {
	const n = 30
	for name, fault := range map[string]func(c *cluster, i int){
		"cut":    func(c *cluster, _ int) { c.connect("s1", storetest.LinkCut) },
		"silent": func(c *cluster, _ int) { c.connect("s1", storetest.LinkMute) },
		"lossy":  func(c *cluster, _ int) { c.connect("s1", storetest.LinkLossy) },
		"wiped":  func(c *cluster, i int) { c.wipeAt(i, n/2, "s1") },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				begun := time.Now()
				var all []replica.Admission
				for i := range n {
					if i == n/3 {
						fault(c, n/2)
					}
					fault := fault
					if i > n/3 && name == "wiped" {
						fault(c, i)
					}
					m := message(fmt.Sprintf("k%d", i), "t:0:1", time.Until(begun.Add(90*time.Second)))
					all = append(all, c.insist(c.nodes[i%2], m))
					c.wantStanding("again", c.insist(c.nodes[(i+1)%2], m), replica.StandingAgain)
				}
				pass(10 * time.Second)
				c.connect("s1", storetest.LinkUp)
				pass(20 * time.Second)
				for _, m := range all {
					c.wantAdmitted("it is back", m, replica.StandingAgain)
				}
				pass(2 * time.Minute)
				for _, m := range all {
					c.wantOrigins(m.Key, m.Origin)
					c.wantAdmitted("over", m, replica.StandingAgain)
				}
			}, remembering)
		})
	}
}

func (c *cluster) wipeAt(i, at int, shard string) {
	if i == at {
		c.Wipe(shard)
	}
}

// A message that failed while the store was away, in whole or in part, comes again.
func TestKnownWhileAShardIsSilent(t *testing.T) {
	for _, link := range []storetest.Link{storetest.LinkCut, storetest.LinkMute} {
		inCluster(t, 3, 2, func(c *cluster) {
			var all []replica.Admission
			for i := range 20 {
				all = append(all, c.insist(c.nodes[0], message(fmt.Sprintf("k%d", i), "t:0:1", time.Minute)))
			}
			c.connect("s1", link)
			for range 3 {
				for _, m := range all {
					c.wantKnown("waits", m, replica.StandingAgain)
					other, none := m, m
					other.Origin, none.Key = "t:0:2", m.Key+"x"
					c.wantKnown("another waits", other, replica.StandingDuplicate)
					c.wantKnown("unheard of", none, replica.StandingNew)
				}
				pass(15 * time.Second)
			}
		}, remembering)
	}
}

// Remember and admit at the same time: a note on the second owner does not end a timer that the
// first owner took.
func TestRememberBesideAdmit(t *testing.T) {
	for _, first := range []string{"admit", "remember"} {
		t.Run(first+" first", func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				second := c.homes("k", 2)[1]
				var calls atomic.Int32
				c.Inject(func(op, shard string) error {
					if op == "merge" && shard == second && calls.Add(1) == 1 {
						<-time.After(50 * time.Millisecond)
					}
					return nil
				}, nil)
				m, over := message("k", "t:0:2", time.Minute), message("k", "t:0:1", 0)
				admitted := func() { c.wantStanding("beside", c.insist(c.nodes[0], m), replica.StandingNew) }
				remembered := func() {
					if err := c.standing(remember, c.nodes[1], over).Err; err != nil {
						c.Error(err)
					}
				}
				does := []func(){admitted, remembered}
				if first == "remember" {
					does = []func(){remembered, admitted}
				}
				var wg sync.WaitGroup
				wg.Go(does[0])
				<-time.After(10 * time.Millisecond)
				wg.Go(does[1])
				wg.Wait()
				c.wantKnown("it waits", m, replica.StandingAgain)
				pass(2 * time.Minute)
				c.wantOrigins("k", "t:0:2")
			}, remembering)
		})
	}
}

// A note is written where a copy of another timer was lost. The note is not taken for the end of
// the other timer.
func TestRememberWhereACopyIsMissing(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		for i := range 2 {
			key := fmt.Sprintf("k%d", i)
			m := message(key, "t:0:1", time.Minute)
			c.insist(c.nodes[0], m)
			c.Wipe(c.homes(key, 2)[i])
			if err := c.standing(remember, c.nodes[1], message(key, "t:0:2", 0)).Err; err != nil {
				c.Error(err)
			}
			c.wantKnown("it waits", m, replica.StandingAgain)
			pass(2 * time.Minute)
			c.wantOrigins(key, "t:0:1")
		}
	}, remembering)
}

// Two creates have stored one copy on different owners. Only one create makes room.
func TestAdmitDoesNotYieldToWhoYields(t *testing.T) {
	for name, v := range map[string]struct {
		key   string
		store func(c *cluster, k int)
	}{
		"of a key": {"k", func(c *cluster, k int) {
			c.insist(c.nodes[k], message("k", fmt.Sprintf("t:%d:1", k), time.Minute))
		}},
		"the same message": {"k", func(c *cluster, k int) { c.insist(c.nodes[k], message("k", "t:0:1", time.Minute)) }},
		"requests with an idempotency key": {timer.OnceKey("once"), func(c *cluster, k int) {
			for {
				_, err := c.nodes[k].CreateOnce(c.Context(), "once", nil, oneShot(time.Minute))
				if !errors.Is(err, timer.ErrUnavailable) {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				ranked := c.Open("probe").Rank(v.key)
				var calls [3]atomic.Int32
				// The first owner doesn't answer node 0. Node 0 writes to a substitute, and tells
				// the first owner once more after node 1's request.
				c.Inject(nil, func(op, shard string) error {
					if op != "merge" {
						return nil
					}
					i := slices.Index(ranked, shard)
					switch n := calls[i].Add(1); {
					case i == 2 && n == 1:
						<-time.After(50 * time.Millisecond)
					case i == 1 && n == 2:
						<-time.After(100 * time.Millisecond)
					}
					return nil
				})
				c.Connect(nodeName(0), ranked[0], storetest.LinkCut)
				var wg sync.WaitGroup
				wg.Go(func() { v.store(c, 0) })
				<-time.After(10 * time.Millisecond)
				c.Connect(nodeName(0), ranked[0], storetest.LinkUp)
				wg.Go(func() { v.store(c, 1) })
				wg.Wait()
				pass(2 * time.Minute)
				if n := len(c.callbacks(v.key)); n == 0 {
					c.Error("nothing was called back")
				}
			}, remembering)
		})
	}
}

// The second owner remembers another message, written by a node whose clock is ahead. The note does
// not end a message that the first owner has taken.
func TestAdmitAboveWhatIsOver(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		keys := c.keysOn("s0", 10)
		for _, key := range keys {
			c.insist(c.nodes[0], message(key, "t:0:1", time.Second))
		}
		pass(5 * time.Second)
		behind := startNode(c.T, c.Open("behind"), "behind", c.recorder, briefly, remembering, func(config *settings.Config) {
			config.Wall = func() time.Time { return time.Now().Add(-30 * time.Minute) }
		})
		c.Wipe("s0")
		for _, key := range keys {
			m := message(key, "t:0:2", time.Minute)
			c.wantStanding("by a clock that is behind", c.standing(admit, behind, m), replica.StandingNew)
			c.wantKnown("it waits", m, replica.StandingAgain)
		}
		pass(2 * time.Minute)
		for _, key := range keys {
			c.wantOrigins(key, "t:0:1", "t:0:2")
		}
	}, remembering)
}

// The second owner remembers a deleted timer; the first owner has lost the end, or missed the last
// delete. The end does not end a new timer.
func TestCreateOnceAboveWhatIsOver(t *testing.T) {
	for name, lose := range map[string]func(c *cluster, first string, end func(n *node)){
		"lost": func(c *cluster, first string, end func(n *node)) {
			end(c.nodes[0])
			c.Wipe(first)
		},
		"missed": func(c *cluster, first string, end func(n *node)) {
			end(c.nodes[1])
			c.Connect(nodeName(0), first, storetest.LinkCut)
			end(c.nodes[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				key := timer.OnceKey("once")
				lose(c, c.homes(key, 1)[0], func(n *node) {
					if _, err := n.Delete(c.Context(), timer.ID{Key: key, RF: 2}); err != nil {
						c.Error(err)
					}
				})
				receipt, err := c.nodes[1].CreateOnce(c.Context(), "once", nil, oneShot(time.Minute))
				if err != nil || receipt.Replayed || receipt.Copies != 2 {
					c.Errorf("created: %+v, %v; want two copies, not replayed", receipt, err)
				}
				pass(2 * time.Minute)
				c.wantOnce(key, 1, maxLate)
			}, secondBehind)
		})
	}
}

// secondBehind puts the second node's clock half an hour back.
func secondBehind(config *settings.Config) {
	if config.Node == nodeName(1) {
		config.Wall = func() time.Time { return time.Now().Add(-30 * time.Minute) }
	}
}

// keysOn are keys whose first copy belongs on a shard.
func (c *cluster) keysOn(shard string, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("k%d", i); c.homes(key, 1)[0] == shard {
			keys = append(keys, key)
		}
	}
	return keys
}

// A copy that has not heard of its timer's end yet holds up no new message.
func TestAdmitWhereACopyHasMissedTheEnd(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		first := c.homes("k", 2)[0]
		c.insist(c.nodes[0], message("k", "t:0:1", time.Second))
		c.connect(first, storetest.LinkCut)
		pass(10 * time.Second)
		c.wantOrigins("k", "t:0:1")
		c.Inject(func(op, shard string) error {
			if op == "claim" && shard == first {
				return errors.New("no claims here")
			}
			return nil
		}, nil)
		c.connect(first, storetest.LinkUp)
		pass(1100 * time.Millisecond)
		m := message("k", "t:0:2", 10*time.Second)
		c.wantKnown("the one before is over", m, replica.StandingNew)
		c.wantStanding("the one before is over", c.insist(c.nodes[1], m), replica.StandingNew)
		c.Inject(nil, nil)
		pass(time.Minute)
		c.wantOrigins("k", "t:0:1", "t:0:2")
	}, remembering)
}

// The first try of a message ended early. The message does not count as stored without enough
// copies, and soon has all copies.
func TestAdmitAgainHasItsCopies(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		homes := c.homes("k", 2)
		c.connect(homes[1], storetest.LinkCut)
		m := message("k", "t:0:1", time.Hour)
		for range 5 {
			if got := c.standing(admit, c.nodes[0], m); !errors.Is(got.Err, timer.ErrUnavailable) {
				c.Errorf("with one copy of two: standing %d, %v; want unavailable", got.Standing, got.Err)
			}
			pass(time.Second)
		}
		c.connect(homes[1], storetest.LinkUp)
		c.insist(c.nodes[1], m)
		if got := c.holders("k"); len(got) != 2 {
			c.Errorf("copies are on %v, want two", got)
		}
	}, func(config *settings.Config) { config.MinCopies = 2 })
}

func TestAdmitAgainAfterAHaltHasItsCopies(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		homes := c.homes("k", 2)
		ctx, cancel := context.WithCancel(c.Context())
		c.Inject(nil, func(op, shard string) error {
			if op == "merge" && shard == homes[0] {
				cancel()
			}
			return nil
		})
		all := []replica.Admission{message("k", "t:0:1", time.Hour)}
		c.nodes[0].Admit(ctx, all)
		c.Inject(nil, nil)
		if !errors.Is(all[0].Err, timer.ErrUnavailable) {
			c.Errorf("ended early: %+v", all[0])
		}
		c.wantStanding("once more", c.insist(c.nodes[1], all[0]), replica.StandingAgain)
		pass(10 * time.Second)
		if got := c.holders("k"); len(got) != 2 {
			c.Errorf("copies are on %v, want two", got)
		}
	}, remembering)
}

// Links fail, data is lost, clocks differ, and other nodes admit or remember messages of the key:
// at least one message is called back.
//
// No wait in the test is 0. Timer channels of a bubble that are due at once run in whichever
// goroutine receives, with one context of the race detector (go 1.26), and the runtime crashes now
// and then.
func TestAdmitThroughFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inCluster(t, 2+int(seed%3), 3, func(c *cluster) {
				draw := rand.New(rand.NewPCG(seed, 0))
				for round := range 25 {
					c.storm(draw, round)
				}
			}, remembering, secondBehind)
		})
	}
}

// storm brings faults to a key that may have had timers before. Shards lose links, or a shard loses
// all data.
func (c *cluster) storm(draw *rand.Rand, round int) {
	key, shards := fmt.Sprintf("k%d", round%8), c.Open("probe").Shards()
	before := len(c.origins(key))
	slow := func(string, string) error {
		<-time.After(time.Duration(1+rand.IntN(4)) * time.Millisecond)
		return nil
	}
	c.Inject(slow, slow)
	var wg sync.WaitGroup
	soon := draw.IntN(2) == 0
	same := draw.IntN(3) == 0
	got := make([]replica.Admission, len(c.nodes))
	for k, n := range c.nodes {
		wait, does := time.Duration(1+draw.IntN(40))*time.Millisecond, draw.IntN(4)
		due := 20 * time.Second
		if soon {
			due = time.Duration(draw.IntN(1000)) * time.Millisecond
		}
		wg.Go(func() {
			<-time.After(wait)
			m := message(key, fmt.Sprintf("t:%d:%d", k, 2*round), due)
			if same {
				m = message(key, fmt.Sprintf("t:0:%d", 2*round), due)
			}
			if does == 0 && k > 0 {
				m.Origin = fmt.Sprintf("t:%d:%d", k, 2*round+1)
				got[k] = c.standing(remember, n, m)
				return
			}
			got[k] = c.insist(n, m)
		})
	}
	links := draw.IntN(8)
	if links == 0 {
		<-time.After(time.Duration(1+draw.IntN(60)) * time.Millisecond)
		c.Wipe(shards[draw.IntN(len(shards))])
	}
	for range links {
		node, shard := nodeName(draw.IntN(len(c.nodes))), shards[draw.IntN(len(shards))]
		c.Connect(node, shard, storetest.Link(draw.IntN(4)))
		<-time.After(time.Duration(1+draw.IntN(600)) * time.Millisecond)
		if draw.IntN(3) > 0 {
			c.Connect(node, shard, storetest.LinkUp)
		}
	}
	for _, shard := range shards {
		c.connect(shard, storetest.LinkUp)
	}
	wg.Wait()
	pass(40 * time.Second)
	if len(c.origins(key)) == before {
		c.Errorf("%s was not called back in round %d; answered were %+v", key, round, got)
	}
}

// While a shard comes, some nodes know of the shard and some nodes don't. Every node finds the
// messages that other nodes have admitted, waiting or over.
func TestAdmitWhileAShardComes(t *testing.T) {
	for _, rf := range []int{1, 2} {
		inCluster(t, 3, 2, func(c *cluster) {
			before, announced, after := layouts()
			stages := [][2]storetest.Layout{{before, before}, {before, announced}, {announced, announced}, {announced, after}, {after, after}}
			var waiting, reused []replica.Admission
			at := time.Now().Add(2 * time.Minute)
			of := func(key, origin string, in time.Duration) replica.Admission {
				m := message(key, origin, in)
				m.Timer.ReplicationFactor = rf
				return m
			}
			for i := range 30 { // over when shards come
				c.insist(c.nodes[i%2], of(fmt.Sprintf("reused%d", i), "t:0:1", time.Second))
			}
			pass(5 * time.Second)
			for i, made := range stages {
				c.lay(made)
				var fresh []replica.Admission
				for k := range 12 {
					m := of(fmt.Sprintf("k%d.%d", i, k), "t:0:1", time.Until(at))
					c.wantStanding("new", c.insist(c.nodes[k%2], m), replica.StandingNew)
					fresh = append(fresh, m)
				}
				for k := range 6 {
					m := of(fmt.Sprintf("reused%d", 6*i+k), "t:0:1", 0)
					c.wantStanding("over", c.insist(c.nodes[k%2], m), replica.StandingAgain)
					m = of(m.Key, "t:0:2", time.Until(at))
					c.wantStanding("once more", c.insist(c.nodes[k%2], m), replica.StandingNew)
					reused = append(reused, m)
					fresh = append(fresh, m)
				}
				c.lay(stages[min(i+1, len(stages)-1)]) // nodes are at most one stage apart
				for k, m := range fresh {
					other := m
					other.Origin = "t:0:3"
					n := c.nodes[(k+1)%2]
					c.wantStanding("known", c.standing(known, n, m), replica.StandingAgain)
					c.wantStanding("again", c.insist(n, m), replica.StandingAgain)
					c.wantStanding("another known", c.standing(known, n, other), replica.StandingDuplicate)
					c.wantStanding("another", c.insist(n, other), replica.StandingDuplicate)
				}
				waiting = append(waiting, fresh...)
			}
			pass(5 * time.Minute)
			for _, m := range waiting {
				want := []string{"t:0:1"}
				if slices.ContainsFunc(reused, func(r replica.Admission) bool { return r.Key == m.Key }) {
					want = append(want, "t:0:2")
				}
				c.wantOrigins(m.Key, want...)
			}
		}, remembering)
	}
}
