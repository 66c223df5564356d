package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Callbacks that last as long as necessary, while their fences are renewed.

func renewing(config *settings.Config) { config.Renew = true }

// limit and hold are the settings of the engines in these tests.
func limit() time.Duration { return settings.Default("", nil).Limit }

func hold() time.Duration { return settings.Default("", nil).Hold }

// firstLasts has the first callback take so long, and later callbacks no time.
func firstLasts(takes time.Duration) func(attempt) (time.Duration, dispatch.Delivered) {
	var calls atomic.Int32
	return func(attempt) (time.Duration, dispatch.Delivered) {
		if calls.Add(1) > 1 {
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		return takes, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	}
}

func allLast(takes time.Duration) func(attempt) (time.Duration, dispatch.Delivered) {
	return func(attempt) (time.Duration, dispatch.Delivered) {
		return takes, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	}
}

// wantNoneRenewed checks that the engines know of no callback under way.
func (c *cluster) wantNoneRenewed() {
	c.Helper()
	for i, n := range c.nodes {
		if left := n.Renewing(); left != 0 {
			c.Errorf("node %d renews %d fences of callbacks that are over", i, left)
		}
	}
}

// wantLog checks whether some node's log has these words.
func (c *cluster) wantLog(words string, want bool) {
	c.Helper()
	has := false
	for _, n := range c.nodes {
		has = has || strings.Contains(n.log.String(), words)
	}
	if has != want {
		c.Errorf("log says %q: %t, want %t", words, has, want)
	}
}

func TestRenewedCallbackComesOnce(t *testing.T) {
	for _, shards := range []int{1, 3} {
		inCluster(t, shards, 3, func(c *cluster) {
			c.respond = allLast(10 * limit())
			var once, twice []string
			for i := range 20 {
				once = append(once, c.create(oneShot(time.Duration(i)*100*time.Millisecond)).ID.Key)
				twice = append(twice, c.create(recurring(12*limit(), 2)).ID.Key)
			}
			pass(5 * time.Second)
			renewed := 0
			for _, n := range c.nodes {
				renewed += n.Renewing()
			}
			if renewed != len(once) {
				c.Errorf("%d callbacks are under way, want %d", renewed, len(once))
			}
			pass(40 * limit())
			for i := range once {
				c.wantOnce(once[i], 1, maxLate)
				c.wantOnce(twice[i], 2, maxLate)
			}
			if told := c.told(); len(told) != 0 {
				c.Errorf("%d were told that their time is over", len(told))
			}
			c.wantLog("suspected", false)
			c.wantLog("lost", false)
			c.wantNoneRenewed()
			c.wantEmpty()
		}, renewing)
	}
}

// A long callback fails and is retried exactly like a short callback.
func TestRenewedCallbackIsTriedAgain(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt < 3 {
				return 3 * limit(), dispatch.Delivered{Reason: "status 500"}
			}
			return 3 * limit(), dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		key := c.create(oneShot(time.Second)).ID.Key
		pass(time.Minute)
		seen := c.callbacks(key)
		for i, a := range seen {
			if a.Attempt != i+1 || i > 0 && a.at.Sub(seen[i-1].at) < 3*limit() {
				c.Errorf("callback %d is attempt %d at %v", i+1, a.Attempt, a.at)
			}
		}
		if len(seen) != 3 {
			c.Errorf("%d callbacks, want 3", len(seen))
		}
		c.wantNoneRenewed()
		c.wantEmpty()
	}, renewing)
}

// Two of three renewals may fail, and answers may be lost.
func TestRenewalThatFailsIsTriedAgain(t *testing.T) {
	for name, executed := range map[string]bool{"not executed": false, "not answered": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 1, 2, func(c *cluster) {
				c.respond = firstLasts(10 * limit())
				key := c.create(oneShot(time.Second)).ID.Key
				pass(1500 * time.Millisecond)
				var calls atomic.Int32
				fails := func(op, _ string) error {
					if op == "fire" && calls.Add(1)%3 != 0 {
						return errors.New("no answer")
					}
					return nil
				}
				if executed {
					c.Inject(nil, fails)
				} else {
					c.Inject(fails, nil)
				}
				pass(15 * limit())
				c.wantOnce(key, 1, maxLate)
				if told := c.told(); len(told) != 0 || calls.Load() < 9 {
					c.Errorf("%d were told that their time is over, after %d renewals", len(told), calls.Load())
				}
				c.wantNoneRenewed()
			}, renewing)
		})
	}
}

// The shard of the lease can't be reached for longer than the limit. The callback is told, other
// nodes may call back, and nothing is left behind.
func TestRenewalThatIsNotAnswered(t *testing.T) {
	for name, link := range map[string]storetest.Link{"cut": storetest.LinkCut, "silent": storetest.LinkMute, "lossy": storetest.LinkLossy} {
		for _, shards := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				inCluster(t, shards, 2, func(c *cluster) {
					c.respond = firstLasts(time.Hour)
					key := c.create(oneShot(time.Second)).ID.Key
					pass(5 * time.Second)
					from := time.Now()
					c.connect(c.homes(key, 1)[0], link)
					pass(20 * time.Second)
					told := c.told()
					if len(told) != 1 {
						c.Fatalf("%d were told that their time is over, want one", len(told))
					}
					if took := told[0].at.Sub(from); took < limit()/2 || took > limit()*3/2 {
						c.Errorf("it was told after %v, want about %v", took, limit())
					}
					c.connect(c.homes(key, 1)[0], storetest.LinkUp)
					pass(time.Minute)
					if seen := c.callbacks(key); len(seen) < 2 || len(seen) > 3 || seen[0].Attempt != 1 {
						c.Errorf("callbacks %+v, want another one", seen)
					}
					c.wantNoneRenewed()
					c.wantEmpty()
				}, renewing)
			})
		}
	}
}

// The lease ends when a shard loses all its data, and by a client's PUT and DELETE.
func TestRenewalOfALeaseThatIsGone(t *testing.T) {
	for name, ends := range map[string]func(c *cluster, id timer.ID) (callbacks int){
		"wiped": func(c *cluster, id timer.ID) int {
			c.Wipe(c.homes(id.Key, 1)[0])
			return 2
		},
		"deleted": func(c *cluster, id timer.ID) int {
			if r, err := c.nodes[1].Delete(c.Context(), id); err != nil || !r.InFlight {
				c.Errorf("deleted: %+v, %v; want it in flight", r, err)
			}
			return 1
		},
		"replaced": func(c *cluster, id timer.ID) int {
			if r, err := c.nodes[1].Replace(c.Context(), id, oneShot(time.Minute)); err != nil || !r.InFlight {
				c.Errorf("replaced: %+v, %v; want it in flight", r, err)
			}
			return 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 2, func(c *cluster) {
				c.respond = firstLasts(time.Hour)
				id := c.create(oneShot(time.Second)).ID
				pass(10 * time.Second)
				from := time.Now()
				want := ends(c, id)
				pass(2 * time.Minute)
				told := c.told()
				if len(told) != 1 || told[0].at.Sub(from) > limit()/2 {
					c.Errorf("told were %+v, want one within %v", told, limit()/2)
				}
				if seen := c.callbacks(id.Key); len(seen) != want {
					c.Errorf("%d callbacks, want %d", len(seen), want)
				}
				c.wantLog("lost their leases", true)
				c.wantNoneRenewed()
				c.wantEmpty()
			}, renewing)
		})
	}
}

// frozenStore is a node's store that does nothing while the node is frozen.
type frozenStore struct {
	store.Store
	thawed atomic.Pointer[chan struct{}] // nil while the node runs
}

func (s *frozenStore) freeze() (thaw func()) {
	thawed := make(chan struct{})
	s.thawed.Store(&thawed)
	return func() { s.thawed.Store(nil); close(thawed) }
}

func (s *frozenStore) wait() {
	if thawed := s.thawed.Load(); thawed != nil {
		<-*thawed
	}
}

func (s *frozenStore) Claim(ctx context.Context, shard string, req store.ClaimRequest) (store.ClaimResult, error) {
	s.wait()
	return s.Store.Claim(ctx, shard, req)
}

func (s *frozenStore) Beat(ctx context.Context, shard string, own store.Announcement) (store.Announced, error) {
	s.wait()
	return s.Store.Beat(ctx, shard, own)
}

func (s *frozenStore) Fire(ctx context.Context, shard string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	s.wait()
	return s.Store.Fire(ctx, shard, terms, fences)
}

func (s *frozenStore) Settle(ctx context.Context, shard string, o []store.Settlement) []store.Settled {
	s.wait()
	return s.Store.Settle(ctx, shard, o)
}

func (s *frozenStore) Tell(ctx context.Context, shard string, writes []store.Write) []store.Written {
	s.wait()
	return s.Store.Tell(ctx, shard, writes)
}

// A node that stands still loses its lease to another node, and learns of the loss.
func TestRenewalOfAFrozenNode(t *testing.T) {
	for name, stubborn := range map[string]bool{"its callback ends": false, "its callback goes on": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 0, func(c *cluster) {
				c.stubborn, c.respond = stubborn, firstLasts(time.Minute)
				backend := &frozenStore{Store: c.Open("frozen")}
				c.nodes = []*node{startNode(c.T, backend, "frozen", c.recorder, briefly, renewing)}
				pass(time.Second)
				key := c.create(oneShot(time.Second)).ID.Key
				pass(10 * time.Second)
				c.nodes = append(c.nodes, startNode(c.T, c.Open("other"), "other", c.recorder, briefly, renewing))
				pass(5 * time.Second)
				from := time.Now()
				thaw := backend.freeze()
				pass(2*hold() + time.Second)
				seen := c.callbacks(key)
				if len(seen) != 2 || seen[1].node != "other" || seen[1].Attempt != 2 {
					c.Fatalf("callbacks %+v, want a second one by the other node", seen)
				}
				if took := seen[1].at.Sub(from); took < hold()-limit() || took > hold()+time.Second {
					c.Errorf("the other node called back after %v, want about %v", took, hold())
				}
				thaw()
				pass(limit())
				if told := c.told(); len(told) != 1 || told[0].node != "frozen" {
					c.Errorf("told were %+v, want the frozen node", told)
				}
				pass(2 * time.Minute)
				if n := len(c.callbacks(key)); n != 2 {
					c.Errorf("%d callbacks, want 2", n)
				}
				c.wantNoneRenewed()
				c.wantEmpty()
			})
		})
	}
}

// At a stop a callback under way has the limit, and then its outcome is settled. A callback that
// lasts longer, and can't be taken back, is waited for.
func TestStopWaitsForRenewedCallbacks(t *testing.T) {
	settling := settings.Default("", nil).Settling
	for name, v := range map[string]struct {
		left     time.Duration // of the callback, at the stop
		stubborn bool
		takes    time.Duration
		calls    int
	}{
		"it ends in time":       {limit(), false, limit(), 1},
		"it is ended":           {time.Minute, false, limit() + settling, 2},
		"it can't be ended":     {time.Minute, true, time.Minute, 2},
		"it just ends in time":  {limit() + settling/2, true, limit() + settling/2, 1},
		"it ends while leaving": {settling / 2, false, 1150 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, 1, func(c *cluster) {
				const before = 10 * time.Second
				c.stubborn, c.respond = v.stubborn, firstLasts(before-time.Second+v.left)
				key := c.create(oneShot(time.Second)).ID.Key
				c.nodes = append(c.nodes, startNode(c.T, c.Open("staying"), "staying", c.recorder, briefly, renewing))
				leaving := c.nodes[0]
				pass(before)
				if by := c.callbacks(key); len(by) != 1 {
					c.Fatalf("%d callbacks are under way", len(by))
				} else if by[0].node == "staying" {
					leaving = c.nodes[1]
				}
				begun := time.Now()
				leaving.stop()
				// The stop also waits until the other node polls the partitions.
				if took := time.Since(begun); took < v.takes-10*time.Millisecond || took > v.takes+1200*time.Millisecond {
					c.Errorf("stopping took %v, want about %v", took, v.takes)
				}
				pass(2 * time.Minute)
				if n := len(c.callbacks(key)); n != v.calls {
					c.Errorf("%d callbacks, want %d", n, v.calls)
				}
				c.wantNoneRenewed()
			}, renewing)
		})
	}
}

// A shard goes while a callback with a lease on the shard is under way.
func TestShardGoesWhileACallbackIsRenewed(t *testing.T) {
	for name, stubborn := range map[string]bool{"it ends": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 1, func(c *cluster) {
				before, announced, after := layouts()
				for _, l := range []storetest.Layout{announced, after} {
					c.Lay(l)
					pass(5 * time.Second)
				}
				c.stubborn, c.respond = stubborn, allLast(time.Minute)
				asked := oneShot(2 * time.Second)
				asked.ReplicationFactor = 1
				var id timer.ID
				for id = c.create(asked).ID; c.homes(id.Key, 1)[0] != "s3"; {
					id = c.create(asked).ID
				}
				pass(5 * time.Second)
				from := time.Now()
				c.Lay(before)
				pass(10 * time.Second)
				for _, a := range c.told() {
					if took := a.at.Sub(from); a.ID.Key != id.Key || took > 2*limit() {
						c.Errorf("%s was told that its time is over after %v", a.ID, took)
					}
				}
				if n := len(c.told()); n != 1 {
					c.Errorf("%d were told that their time is over, want the one on the shard that went", n)
				}
				pass(2 * time.Minute)
				c.wantNoneRenewed()
			}, renewing)
		})
	}
}
