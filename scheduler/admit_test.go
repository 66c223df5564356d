package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/replica"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Timers from a stream: messages of a key differ in the origin. The callback shows the origin.

// message is a message that is due after in.
func message(key, origin string, in time.Duration) replica.Admission {
	asked := oneShot(0)
	asked.At = time.Now().Add(in)
	asked.Callback.Opaque = origin
	return replica.Admission{Key: key, Origin: origin, Timer: asked}
}

// standing is the answer of a call for one message.
func (c *cluster) standing(call func(*scheduler.Scheduler, *cluster, []replica.Admission), n *node, m replica.Admission) replica.Admission {
	all := []replica.Admission{m}
	call(n.Scheduler, c, all)
	return all[0]
}

func admit(s *scheduler.Scheduler, c *cluster, all []replica.Admission) { s.Admit(c.Context(), all) }

func known(s *scheduler.Scheduler, c *cluster, all []replica.Admission) { s.Known(c.Context(), all) }

func remember(s *scheduler.Scheduler, c *cluster, all []replica.Admission) {
	s.Remember(c.Context(), all)
}

func (c *cluster) wantStanding(when string, got replica.Admission, want replica.Standing) {
	c.Helper()
	if got.Standing != want || got.Err != nil {
		c.Errorf("%s: %s of %s has standing %d, %v; want %d", when, got.Origin, got.Key, got.Standing, got.Err, want)
	}
}

// wantKnown and wantAdmitted ask every node.
func (c *cluster) wantKnown(when string, m replica.Admission, want replica.Standing) {
	c.Helper()
	for _, n := range c.nodes {
		c.wantStanding(when+", known", c.standing(known, n, m), want)
	}
}

func (c *cluster) wantAdmitted(when string, m replica.Admission, want replica.Standing) {
	c.Helper()
	for _, n := range c.nodes {
		c.wantStanding(when+", admitted", c.standing(admit, n, m), want)
	}
}

// insist admits a message until the message is answered, as the reader of a stream does.
func (c *cluster) insist(n *node, m replica.Admission) replica.Admission {
	c.Helper()
	for range 100 {
		m = c.standing(admit, n, m)
		if m.Err == nil {
			return m
		}
		<-time.After(100 * time.Millisecond)
	}
	c.Errorf("%s of %s is never answered: %v", m.Origin, m.Key, m.Err)
	return m
}

// origins are the messages of a key that were called back, in order.
func (c *cluster) origins(key string) (all []string) {
	for _, a := range c.callbacks(key) {
		all = append(all, a.Callback.Opaque)
	}
	return all
}

func (c *cluster) wantOrigins(key string, want ...string) {
	c.Helper()
	if got := c.origins(key); !slices.Equal(got, want) {
		c.Errorf("of %s were called back %v, want %v", key, got, want)
	}
}

// rememberFor is how long messages are remembered in these tests.
const rememberFor = 10 * time.Minute

func remembering(config *settings.Config) { config.IdempotencyLife = rememberFor }

func TestAdmitIsOncePerKeyWhileItWaits(t *testing.T) {
	for _, shards := range []int{1, 3} {
		inCluster(t, shards, 2, func(c *cluster) {
			first, other := message("k", "t:0:1", time.Minute), message("k", "t:0:2", time.Hour)
			c.wantKnown("before", first, replica.StandingNew)
			c.wantStanding("first", c.standing(admit, c.nodes[0], first), replica.StandingNew)
			homes := slices.Sorted(slices.Values(c.homes("k", min(shards, 2))))
			if got := c.holders("k"); !slices.Equal(got, homes) {
				c.Errorf("copies are on %v, want %v", got, homes)
			}
			for _, when := range []string{"waiting", "about to fire"} {
				c.wantKnown(when, first, replica.StandingAgain)
				c.wantAdmitted(when, first, replica.StandingAgain)
				c.wantKnown(when, other, replica.StandingDuplicate)
				c.wantAdmitted(when, other, replica.StandingDuplicate)
				pass(time.Minute - 20*time.Millisecond)
			}
			c.wantOnce("k", 1, maxLate)
			for range 3 {
				c.wantKnown("over", first, replica.StandingAgain)
				c.wantAdmitted("over", first, replica.StandingAgain)
				c.wantKnown("over", other, replica.StandingNew)
				pass(rememberFor/3 - 30*time.Second)
			}
			pass(2 * time.Minute)
			c.wantKnown("forgotten", first, replica.StandingNew)
			again := message("k", "t:0:1", time.Second)
			c.wantStanding("forgotten", c.standing(admit, c.nodes[1], again), replica.StandingNew)
			pass(5 * time.Second)
			c.wantOrigins("k", "t:0:1", "t:0:1")
			pass(rememberFor)
			c.wantEmpty()
		}, remembering)
	}
}

// A key is free once its timer is over, for messages with another origin.
func TestAdmitAnewOnceItIsOver(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var want []string
		for i := range 6 {
			m := message("k", fmt.Sprintf("t:0:%d", i), 2*time.Second)
			want = append(want, m.Origin)
			c.wantStanding("after the one before", c.standing(admit, c.nodes[i%2], m), replica.StandingNew)
			pass(5 * time.Second)
			c.wantAdmitted("over", m, replica.StandingAgain)
		}
		c.wantOrigins("k", want...)
		pass(rememberFor)
		c.wantEmpty()
	}, remembering)
}

func TestAdmitWhileItIsCalledBack(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 10 * time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		first, other := message("k", "t:0:1", time.Second), message("k", "t:0:2", time.Minute)
		c.insist(c.nodes[0], first)
		pass(6 * time.Second)
		if n := len(c.seen()); n != 1 {
			c.Fatalf("%d callbacks, want one under way", n)
		}
		c.wantKnown("firing", first, replica.StandingAgain)
		c.wantAdmitted("firing", first, replica.StandingAgain)
		c.wantKnown("firing", other, replica.StandingDuplicate)
		c.wantAdmitted("firing", other, replica.StandingDuplicate)
		pass(10 * time.Second)
		c.wantStanding("over", c.standing(admit, c.nodes[1], other), replica.StandingNew)
		pass(2 * time.Minute)
		c.wantOrigins("k", "t:0:1", "t:0:2")
	}, renewing)
}

// Two messages of a key in one call: the first counts, whatever else the call contains.
func TestAdmitManyAtOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var all []replica.Admission
		const keys = 100
		for i := range keys {
			key := fmt.Sprintf("k%d", i)
			first := message(key, fmt.Sprintf("t:0:%d", 4*i), 2*time.Second)
			last := message(key, "t:0:last", time.Second)
			wrong := message(key, "", time.Second)
			all = append(all, first, last, first, wrong)
		}
		c.nodes[0].Admit(c.Context(), all)
		for i, a := range all {
			want := []replica.Standing{replica.StandingNew, replica.StandingDuplicate, replica.StandingAgain, replica.StandingUnknown}[i%4]
			if _, refused := errors.AsType[*timer.InvalidError](a.Err); a.Standing != want || refused != (i%4 == 3) {
				c.Errorf("%d: %s of %s has standing %d, %v; want %d", i, a.Origin, a.Key, a.Standing, a.Err, want)
			}
		}
		pass(10 * time.Second)
		for i := range keys {
			c.wantOrigins(all[4*i].Key, all[4*i].Origin)
		}
	}, remembering)
}

func TestAdmitRefusesWhatIsWrong(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		denied, far, many := message("k", "o", 0), message("k", "o", 2*timer.MaxInterval), message("k", "o", 0)
		denied.Timer.Callback.URI, many.Timer.ReplicationFactor = "http://denied/", timer.MaxReplicationFactor+1
		far.Timer.At = time.Now().Add(timer.MaxInterval).Add(time.Hour)
		for what, m := range map[string]replica.Admission{
			"no origin": message("k", "", 0), "no key": message("", "o", 0), "no key of an id": message("a b", "o", 0),
			"a denied callback": denied, "too far ahead": far, "too many copies": many,
		} {
			got := c.standing(admit, c.nodes[0], m)
			if _, refused := errors.AsType[*timer.InvalidError](got.Err); !refused || got.Standing != replica.StandingUnknown {
				c.Errorf("%s: standing %d, %v; want it refused", what, got.Standing, got.Err)
			}
		}
		if n := len(c.Copies("s0")); n != 0 {
			c.Errorf("%d were stored", n)
		}
	})
}

// Several nodes admit different messages of a key at once: one message is taken.
func TestAdmitOnTwoNodesAtOnce(t *testing.T) {
	inCluster(t, 3, 3, func(c *cluster) {
		const rounds = 100
		for i := range rounds {
			key := fmt.Sprintf("k%d", i%40) // some keys have a timer that is over
			c.Inject(nil, func(op, shard string) error {
				if op == "merge" {
					<-time.After(time.Duration(len(shard)+i*7%5) * time.Millisecond / 2)
				}
				return nil
			})
			var wg sync.WaitGroup
			got := make([]replica.Admission, len(c.nodes))
			for k, n := range c.nodes {
				wg.Go(func() { got[k] = c.standing(admit, n, message(key, fmt.Sprintf("t:%d:%d", k, i), time.Second)) })
			}
			wg.Wait()
			var stored []string
			for _, a := range got {
				switch {
				case a.Standing == replica.StandingNew:
					stored = append(stored, a.Origin)
				case a.Standing != replica.StandingDuplicate || a.Err != nil:
					c.Errorf("round %d: standing %d, %v", i, a.Standing, a.Err)
				}
			}
			if len(stored) != 1 {
				c.Fatalf("round %d: stored were %v, want one", i, stored)
			}
			before := len(c.origins(key))
			pass(3 * time.Second)
			if after := c.origins(key)[before:]; !slices.Equal(after, stored) {
				c.Errorf("round %d: called back were %v, want %v", i, after, stored)
			}
		}
	}, remembering)
}

func TestRemember(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		m, other := message("k", "t:0:1", 0), message("k", "t:0:2", time.Second)
		if err := c.standing(remember, c.nodes[0], m).Err; err != nil {
			c.Fatal(err)
		}
		for range 2 {
			c.wantKnown("remembered", m, replica.StandingAgain)
			c.wantAdmitted("remembered", m, replica.StandingAgain)
			c.wantKnown("remembered", other, replica.StandingNew)
			pass(rememberFor - time.Minute)
			if err := c.standing(remember, c.nodes[1], m).Err; err != nil {
				c.Fatal(err)
			}
		}
		c.wantStanding("beside it", c.standing(admit, c.nodes[1], other), replica.StandingNew)
		if err := c.standing(remember, c.nodes[0], m).Err; err != nil {
			c.Errorf("while another one waits: %v", err)
		}
		c.wantKnown("it waits", other, replica.StandingAgain)
		c.wantKnown("another one waits", m, replica.StandingDuplicate)
		pass(5 * time.Second)
		c.wantOrigins("k", "t:0:2")
		if err := c.standing(remember, c.nodes[0], m).Err; err != nil {
			c.Errorf("after another one: %v", err)
		}
		c.wantKnown("after another one", m, replica.StandingAgain)
		pass(rememberFor + time.Second)
		c.wantKnown("forgotten", m, replica.StandingNew)
		c.wantEmpty()
	}, remembering)
}

// The whole store is away, or all shards are silent.
func TestAdmitWithoutAnyShard(t *testing.T) {
	for name, link := range map[string]storetest.Link{"cut": storetest.LinkCut, "silent": storetest.LinkMute, "lossy": storetest.LinkLossy} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				for _, shard := range []string{"s0", "s1", "s2"} {
					c.connect(shard, link)
				}
				for range 4 {
					for i := range 3 {
						m := message(fmt.Sprintf("k%d", i), "t:0:1", 5*time.Second)
						for what, call := range map[string]func(*scheduler.Scheduler, *cluster, []replica.Admission){
							"admit": admit, "known": known, "remember": remember,
						} {
							if what == "remember" && link == storetest.LinkLossy {
								continue // the message is executed
							}
							begun := time.Now()
							got := c.standing(call, c.nodes[0], m)
							if !errors.Is(got.Err, timer.ErrUnavailable) || got.Standing != replica.StandingUnknown {
								c.Errorf("%s: standing %d, %v; want unavailable", what, got.Standing, got.Err)
							}
							if took := time.Since(begun); took > 1100*time.Millisecond {
								c.Errorf("%s took %v", what, took)
							}
						}
					}
				}
				for _, shard := range []string{"s0", "s1", "s2"} {
					c.connect(shard, storetest.LinkUp)
				}
				for i := range 3 {
					m := message(fmt.Sprintf("k%d", i), "t:0:1", 5*time.Second)
					got := c.insist(c.nodes[1], m)
					if link != storetest.LinkLossy {
						c.wantStanding("they are back", got, replica.StandingNew)
					}
				}
				pass(30 * time.Second)
				for i := range 3 {
					c.wantOrigins(fmt.Sprintf("k%d", i), "t:0:1")
				}
			}, remembering)
		})
	}
}

func TestAdmitReasonsAreTold(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		c.connect("s0", storetest.LinkMute)
		got := c.standing(known, c.nodes[0], message("k", "o", 0))
		if got.Err == nil || !strings.Contains(got.Err.Error(), "s0") {
			c.Errorf("%v, want the shard's name", got.Err)
		}
	})
}
