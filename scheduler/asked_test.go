package scheduler_test

import (
	"context"
	"slices"
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

// What a timer may ask for itself: how long an attempt takes, when attempts follow, and when a pop
// expires.

func failing(attempt) (time.Duration, dispatch.Delivered) {
	return 0, dispatch.Delivered{Reason: "status 503"}
}

func TestOwnRetryPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		retry   timer.Retry
		want    int
		longest []time.Duration // pauses before the second attempt, the third, …
	}{
		"default": {timer.Retry{}, 5, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		"once":    {timer.Retry{Attempts: 1}, 1, nil},
		"own": {
			timer.Retry{Attempts: 4, First: 10 * time.Second, Factor: 10, Longest: 30 * time.Second}, 4,
			[]time.Duration{10 * time.Second, 30 * time.Second, 30 * time.Second},
		},
		"more attempts than the node's": {timer.Retry{Attempts: 40, First: 100 * time.Millisecond, Factor: 1}, 40, []time.Duration{100 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				r.respond = failing
				n := startNode(t, m.Open("a"), "a", r)
				asked := oneShot(time.Second)
				asked.Callback.Retry = c.retry
				create(t, n, asked)
				pass(10 * time.Minute)
				seen := r.seen()
				if len(seen) != c.want {
					t.Fatalf("%d attempts, want %d", len(seen), c.want)
				}
				for i, longest := range c.longest {
					if pause := seen[i+1].at.Sub(seen[i].at); pause > longest+maxLate {
						t.Errorf("%v between attempts %d and %d, want at most %v", pause, i+1, i+2, longest)
					}
				}
				if dead := m.DeadLetters("main"); len(dead) != 1 || dead[0].State.Attempt != c.want {
					t.Errorf("dead letters: %+v", dead)
				}
			})
		})
	}
}

func TestOwnTimeout(t *testing.T) {
	for _, c := range []struct {
		timeout, takes time.Duration
		delivered      bool
	}{
		{0, 1900 * time.Millisecond, true},
		{0, 3 * time.Second, false},
		{500 * time.Millisecond, 450 * time.Millisecond, true},
		{500 * time.Millisecond, 600 * time.Millisecond, false},
		{30 * time.Second, 29 * time.Second, true},
		{10 * time.Second, time.Hour, false},
	} {
		inCluster(t, 3, 3, func(k *cluster) {
			k.respond = func(attempt) (time.Duration, dispatch.Delivered) {
				return c.takes, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			asked := oneShot(time.Second)
			asked.Callback.Timeout, asked.Callback.Retry.Attempts = c.timeout, 1
			key := k.create(asked).ID.Key
			pass(40 * time.Second)
			seen, told := k.callbacks(key), k.told()
			if len(seen) != 1 || (len(told) != 0) == c.delivered {
				k.Errorf("timeout %v, answer after %v: %d attempts, %d of them ended; want one attempt, delivered %v", c.timeout, c.takes, len(seen), len(told), c.delivered)
			}
			want := c.timeout
			if want == 0 {
				want = timer.DefaultTimeout
			}
			for _, end := range told {
				if took := end.at.Sub(seen[0].at); took < want-100*time.Millisecond || took > want+maxLate {
					k.Errorf("timeout %v: the attempt ended after %v", c.timeout, took)
				}
			}
			if letters := len(k.letters(asked)); (letters == 0) != c.delivered {
				k.Errorf("timeout %v, answer after %v: %d dead letters", c.timeout, c.takes, letters)
			}
			k.wantLog("suspected", false)
			k.wantNoneRenewed()
			k.wantEmpty()
		})
	}
}

// A node that stops waits for the callbacks under way, as long as these may take.
func TestAStoppingNodeWaitsForLongCallbacks(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.respond = allLast(20 * time.Second)
		asked := oneShot(time.Second)
		asked.Callback.Timeout = 25 * time.Second
		var keys []string
		for range 20 {
			keys = append(keys, c.create(asked).ID.Key)
		}
		pass(3 * time.Second)
		for _, n := range c.nodes {
			n.stop()
		}
		startNode(c.T, c.Open("later"), "later", c.recorder, briefly)
		pass(time.Minute)
		for _, key := range keys {
			c.wantOnce(key, 1, maxLate)
		}
		if told := c.told(); len(told) != 0 {
			c.Errorf("%d callbacks were ended", len(told))
		}
		c.wantEmpty()
	})
}

// A pop that nobody could call back in time is not called any more.
func TestPopsExpire(t *testing.T) {
	for _, c := range []struct {
		away, expires time.Duration
		called        bool
	}{{10 * time.Second, 5 * time.Second, false}, {10 * time.Second, 20 * time.Second, true}, {10 * time.Second, 0, true}} {
		inCluster(t, 2, 1, func(k *cluster) {
			asked := oneShot(5 * time.Second)
			asked.ExpiresAfter = c.expires
			key := k.create(asked).ID.Key
			k.nodes[0].stop()
			pass(5*time.Second + c.away)
			startNode(k.T, k.Open("later"), "later", k.recorder, briefly)
			pass(20 * time.Second)
			if seen := k.callbacks(key); len(seen) == 1 != c.called {
				k.Errorf("expires after %v, overdue by %v: %d callbacks", c.expires, c.away, len(seen))
			}
			letters := k.letters(asked)
			if !c.called && (len(letters) != 1 || letters[0].Reason != "expired" || letters[0].Record.State.Attempt != 0) || c.called && len(letters) != 0 {
				k.Errorf("expires after %v: dead letters %+v", c.expires, letters)
			}
			k.wantEmpty()
		})
	}
}

// An attempt that fails is not followed by another after the pop has expired.
func TestRetriesEndWhenThePopExpires(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 10 * time.Second}
		}
		asked := oneShot(time.Second)
		asked.ExpiresAfter = 15 * time.Second
		key := c.create(asked).ID.Key
		pass(time.Minute)
		if seen := c.callbacks(key); len(seen) != 2 {
			c.Errorf("%d attempts, want 2: at once, and after 10 s", len(seen))
		}
		if letters := c.letters(asked); len(letters) != 1 || letters[0].Reason != "expired" || letters[0].Record.State.Attempt != 2 {
			c.Errorf("dead letters %+v", letters)
		}
		c.wantEmpty()
	})
}

// The expired pops of a recurring timer are left out; the timer goes on.
func TestARecurringTimerLeavesExpiredPopsOut(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		asked := recurring(time.Second, 20)
		asked.ExpiresAfter = 1500 * time.Millisecond
		key := c.create(asked).ID.Key
		pass(3500 * time.Millisecond)
		c.nodes[0].stop()
		before := len(c.callbacks(key))
		pass(5 * time.Second)
		startNode(c.T, c.Open("later"), "later", c.recorder, briefly)
		pass(30 * time.Second)
		seen := c.callbacks(key)
		left := 0
		for i, a := range seen {
			left += a.LeftOut
			if a.late > asked.ExpiresAfter || i > 0 && a.Seq != seen[i-1].Seq+1+a.LeftOut {
				c.Errorf("callback %d is of pop %d, %v late, with %d left out", i+1, a.Seq, a.late, a.LeftOut)
			}
		}
		if before < 3 || left < 3 || len(seen)+left != 20 {
			c.Errorf("%d pops were called before the stop, %d in all, and %d left out; want 20 together", before, len(seen), left)
		}
		if log := c.nodes[0].log.String(); strings.Contains(log, "expired") {
			c.Errorf("the first node says that a pop has expired: %s", log)
		}
		c.wantEmpty()
	})
}

// Callbacks that last for longer than 2 s count double, so a destination with many such callbacks has a
// third of the slots, and other destinations have slots at once.
func TestLongCallbacksCountDouble(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		const slots = 96
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.URI == "http://slow/" {
				return 29 * time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Slots = slots })
		for i := range 3 * slots {
			asked := oneShot(time.Duration(i/10+1) * time.Second) // ten a second
			asked.Callback.URI, asked.Callback.Timeout = "http://slow/", 30*time.Second
			create(t, n, asked)
		}
		pass(25 * time.Second)
		slow := len(r.seen())
		if slow < slots/3-2 || slow > slots/3+20 { // the callbacks of the last 2 s don't count double yet
			t.Errorf("%d of %d slots have long callbacks, want about a third", slow, slots)
		}
		asked := oneShot(0)
		create(t, n, asked)
		pass(time.Second)
		if seen := r.seen(); seen[len(seen)-1].Callback.URI != asked.Callback.URI || seen[len(seen)-1].late > 50*time.Millisecond {
			t.Errorf("the last callback is %+v, want one of another destination at once", seen[len(seen)-1])
		}
	})
}

// lateFence answers a node's first fences so late that nothing may be sent any more.
type lateFence struct {
	store.Store
	left atomic.Int32
}

func (s *lateFence) Fire(ctx context.Context, shard string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	answers := s.Store.Fire(ctx, shard, terms, fences)
	if s.left.Add(-1) >= 0 {
		<-time.After(2500 * time.Millisecond)
	}
	return answers
}

// An attempt that was counted and could not be sent is not the last attempt.
func TestAnAttemptThatWasNotSentIsNotTheLast(t *testing.T) {
	inCluster(t, 1, 0, func(c *cluster) {
		backend := &lateFence{Store: c.Open("late")}
		backend.left.Store(2)
		c.nodes = []*node{startNode(c.T, backend, "late", c.recorder, briefly)}
		pass(time.Second)
		asked := oneShot(time.Second)
		asked.Callback.Retry.Attempts = 1
		key := c.create(asked).ID.Key
		pass(30 * time.Second)
		if seen := c.callbacks(key); len(seen) != 1 || seen[0].Attempt != 3 {
			c.Errorf("callbacks: %+v; want one, the third that was counted", seen)
		}
		if letters := c.letters(asked); len(letters) != 0 {
			c.Errorf("dead letters: %+v", letters)
		}
		c.wantEmpty()
	})
}

// A PUT or DELETE of a timer does not cut a long callback of the timer.
func TestAWriteDoesNotCutALongCallback(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.respond = allLast(10 * time.Second)
		asked := oneShot(time.Second)
		asked.Callback.Timeout = 20 * time.Second
		replaced, deleted := c.create(asked).ID, c.create(asked).ID
		pass(3 * time.Second)
		if _, err := c.nodes[1].Delete(c.Context(), deleted); err != nil {
			c.Fatal(err)
		}
		if _, err := c.nodes[1].Replace(c.Context(), replaced, asked); err != nil {
			c.Fatal(err)
		}
		pass(30 * time.Second)
		if told := c.told(); len(told) != 0 {
			c.Errorf("%d callbacks were cut: %+v", len(told), told)
		}
		if first, second := len(c.callbacks(deleted.Key)), len(c.callbacks(replaced.Key)); first != 1 || second != 2 {
			c.Errorf("%d callbacks of the deleted timer and %d of the replaced, want 1 and 2", first, second)
		}
		c.wantLog("lost their leases", false)
		c.wantNoneRenewed()
		c.wantEmpty()
	})
}

// A shard that becomes slow during a long callback is asked until the callback has ended.
func TestASlowShardLeavesLongCallbacksAlone(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = allLast(25 * time.Second)
		asked := oneShot(2 * time.Second)
		asked.Callback.Timeout = 30 * time.Second
		var keys []string
		for range 30 {
			keys = append(keys, c.create(asked).ID.Key)
		}
		pass(3 * time.Second)
		c.slowDown("s1", 300*time.Millisecond)
		pass(40 * time.Second)
		c.slowDown("s1", 0)
		for _, key := range keys {
			c.wantOnce(key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// Each of two nodes lacks another shard. Neither calls back for a timer whose long callback the other
// has under way.
func TestNodesThatLackShardsLeaveLongCallbacksAlone(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = allLast(20 * time.Second)
		c.Connect(nodeName(0), "s2", storetest.LinkCut)
		c.Connect(nodeName(1), "s0", storetest.LinkCut)
		pass(10 * time.Second) // the nodes know
		asked := oneShot(2 * time.Second)
		asked.Callback.Timeout = 30 * time.Second
		var keys []string
		for len(keys) < 10 {
			if key := c.create(asked).ID.Key; slices.Equal(c.homes(key, 2), []string{"s0", "s1"}) {
				keys = append(keys, key)
			}
		}
		pass(60 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 1, 10*time.Second)
		}
	})
}
