package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// pauseFor pauses the limited destination by node i.
func (c *cluster) pauseFor(i int, d time.Duration) destinations.Pausing {
	c.Helper()
	p, err := c.nodes[i].Pause(c.Context(), limited, time.Now().Add(d))
	if err != nil {
		c.Fatalf("pause: %v", err)
	}
	return p
}

func (c *cluster) resume(i int) destinations.Pausing {
	c.Helper()
	p, err := c.nodes[i].Resume(c.Context(), limited)
	if err != nil {
		c.Fatalf("resume: %v", err)
	}
	return p
}

// soon is how long after the end of a pause its timers are called at the latest: the longest delay of
// few timers, and the way of the resume to the other nodes.
const soon = 5*time.Second + 2*time.Second

func TestAllNodesHearOfAPauseAndOfItsEnd(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inCluster(t, 2, nodes, func(c *cluster) {
				begun, n := time.Now(), 0
				for at := begun; at.Before(begun.Add(40 * time.Second)); at = at.Add(40 * time.Millisecond) {
					c.dueAt(at, 1, limited)
					n++
				}
				others := c.spreadFrom(begun, 40*time.Second)
				pass(5 * time.Second)
				c.pauseFor(0, time.Hour)
				pass(2 * time.Second)
				before := len(c.to(limited))
				pass(20 * time.Second)
				if after := len(c.to(limited)); after != before {
					c.Errorf("%d callbacks later than 2 s after the pause", after-before)
				}
				c.resume(nodes - 1)
				pass(soon)
				for _, a := range c.to(limited)[before:] {
					if a.Due.Before(begun.Add(20*time.Second)) && a.at.Sub(begun) > 27*time.Second+soon {
						c.Errorf("timer due at %v was called at %v", a.Due.Sub(begun), a.at.Sub(begun))
					}
				}
				pass(30 * time.Second)
				c.wantCalledOnce(limited, n)
				wantPrompt(c.T, c.to(answers), others)
			})
		})
	}
}

func TestAPauseEndsByItself(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.pauseFor(0, 20*time.Second)
		c.dueAt(time.Now().Add(5*time.Second), 50, limited)
		pass(19 * time.Second)
		if n := len(c.to(limited)); n > 0 {
			c.Errorf("%d callbacks during the pause", n)
		}
		pass(time.Second + soon)
		c.wantCalledOnce(limited, 50)
		for i, n := range c.nodes {
			if all := n.Destinations(); len(all) > 0 {
				c.Errorf("node %d lists %+v after the pause", i, all)
			}
		}
	})
}

// TestAShardThatWasAwayBringsBackNoPause: a shard hears of a pause and not of the resume. The other
// shard knows better, also for a node that starts later, and tells the shard.
func TestAShardThatWasAwayBringsBackNoPause(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.pauseFor(0, 23*time.Hour)
		pass(2 * time.Second)
		c.connect("s1", storetest.LinkCut)
		pass(5 * time.Second)
		if p := c.resume(1); !slices.Equal(p.Untold, []string{"s1"}) {
			c.Errorf("not told are %v, want s1", p.Untold)
		}
		pass(5 * time.Second)
		c.connect("s1", storetest.LinkUp)
		late := startNode(c.T, c.Open("late"), "late", c.recorder)
		pass(3 * time.Second)
		for i, n := range append(c.nodes, late) {
			if all := n.Destinations(); len(all) > 0 {
				c.Errorf("node %d lists %+v after the resume", i, all)
			}
		}
		said, err := c.Open("judge").Beat(c.Context(), "s1", store.Announcement{Clock: time.Now()})
		if err != nil || len(said.Decisions) != 1 || !said.Decisions[0].Until.IsZero() {
			c.Errorf("the shard that was away knows %+v, %v; want the resume", said.Decisions, err)
		}
		due := time.Now().Add(time.Second)
		c.dueAt(due, 20, limited)
		pass(2 * time.Second)
		c.wantCalledOnce(limited, 20)
		wantOnTime(c.T, c.to(limited), time.Second)
	})
}

// TestAPauseReachesAShardThatWasAway: the pause outlasts the shards that heard of it first.
func TestAPauseReachesAShardThatWasAway(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.connect("s1", storetest.LinkCut)
		pass(5 * time.Second)
		if p := c.pauseFor(0, time.Hour); !slices.Equal(p.Untold, []string{"s1"}) {
			c.Errorf("not told are %v, want s1", p.Untold)
		}
		c.connect("s1", storetest.LinkUp)
		pass(3 * time.Second)
		c.Wipe("s0")
		c.dueAt(time.Now().Add(time.Second), 20, limited)
		pass(20 * time.Second)
		if n := len(c.to(limited)); n > 0 {
			c.Errorf("%d callbacks during the pause", n)
		}
		c.resume(0)
		pass(soon)
		c.wantCalledOnce(limited, 20)
	})
}

func TestPausesWithNoShardFail(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		for name, until := range map[string]time.Duration{"over": -time.Second, "too late": 24*time.Hour + time.Second} {
			_, err := c.nodes[0].Pause(c.Context(), limited, time.Now().Add(until))
			if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != "until-range" {
				c.Errorf("until %s: %v, want until-range", name, err)
			}
		}
		c.connect("s0", storetest.LinkCut)
		c.connect("s1", storetest.LinkCut)
		if _, err := c.nodes[0].Pause(c.Context(), limited, time.Now().Add(time.Hour)); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("pause with all shards away: %v, want ErrUnavailable", err)
		}
	})
}

func TestTooManyPausesAreRefused(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		n := c.nodes[0]
		until := time.Now().Add(time.Hour)
		for i := range store.MaxPauses {
			if _, err := n.Pause(c.Context(), fmt.Sprintf("http://receiver%d/", i), until); err != nil {
				c.Fatalf("pause %d: %v", i, err)
			}
		}
		if _, err := n.Pause(c.Context(), limited, until); !errors.Is(err, destinations.ErrFull) {
			c.Errorf("one pause more: %v, want ErrFull", err)
		}
		if all := n.Destinations(); len(all) != store.MaxPauses || !all[0].Until.Equal(until.Truncate(time.Millisecond)) {
			c.Errorf("%d destinations are listed, the first until %v", len(all), all[0].Until)
		}
	})
}

// TestRecurringTimersCatchUpAfterAPause: as after an outage, up to CatchUp pops are made up for.
func TestRecurringTimersCatchUpAfterAPause(t *testing.T) {
	for catchUp, want := range map[int][]int{100: {1, 2, 3, 4, 5, 6}, 2: {1, 5, 6}} {
		t.Run(fmt.Sprint("catch up ", catchUp), func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				asked := recurring(10*time.Second, 6)
				asked.Callback.URI = limited
				create(c.T, c.nodes[0], asked)
				pass(12 * time.Second)
				c.pauseFor(0, time.Hour)
				pass(40 * time.Second) // pops 2 to 5 come due
				c.resume(0)
				pass(soon)
				if got, due := c.pops(), want[:len(want)-1]; !slices.Equal(got, due) {
					c.Errorf("pops %v after the pause, want %v", got, due)
				}
				pass(20 * time.Second)
				if got := c.pops(); !slices.Equal(got, want) {
					c.Errorf("pops %v, want %v", got, want)
				}
			}, func(s *settings.Config) { s.CatchUp = catchUp })
		})
	}
}

// TestTimersExpireInAPause: expires-after counts from the due time, also during a pause.
func TestTimersExpireInAPause(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		asked := oneShot(5 * time.Second)
		asked.Callback.URI, asked.ExpiresAfter = limited, 10*time.Second
		id := create(c.T, c.nodes[0], asked).ID
		c.pauseFor(0, 30*time.Second)
		pass(30*time.Second + soon)
		if n := len(c.seen()); n > 0 {
			c.Errorf("%d callbacks after the timer had expired", n)
		}
		dead := slices.Concat(c.DeadLetters("s0"), c.DeadLetters("s1"))
		if len(dead) != 1 || dead[0].Key != id.Key || dead[0].Reason != "expired" {
			c.Errorf("dead letters %+v, want the expired timer", dead)
		}
	})
}
