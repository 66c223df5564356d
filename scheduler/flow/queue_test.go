package flow

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/awake"
)

func TestQueueHandsOverEverythingOnceInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each, most = 8, 500, 64
		q := NewQueue[int]()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		seen := map[int]int{}
		var takers sync.WaitGroup
		for range 2 {
			takers.Go(func() {
				for {
					batch := q.take(ctx, nil, AtMost(most))
					if len(batch) == 0 {
						return
					}
					if len(batch) > most {
						t.Errorf("a batch of %d, want at most %d", len(batch), most)
					}
					mu.Lock()
					for _, item := range batch {
						seen[item]++
					}
					mu.Unlock()
				}
			})
		}
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					q.Put(w*each + i)
				}
			})
		}
		writing.Wait()
		synctest.Wait()
		cancel()
		takers.Wait()
		for i := range writers * each {
			if seen[i] != 1 {
				t.Fatalf("item %d was handed over %d times", i, seen[i])
			}
		}
	})
}

func TestCreditWakesWhenThereIsRoomAgain(t *testing.T) {
	c := creditOf(80)
	c.Take(80)
	if c.Left() != 0 || !c.Scarce() {
		t.Fatalf("left %d, scarce %v; want none and true", c.Left(), c.Scarce())
	}
	for range 9 {
		c.Give(1)
	}
	select {
	case <-c.Free:
		t.Fatal("woken while a claim would be tiny")
	default:
	}
	c.Give(1)
	select {
	case <-c.Free:
	default:
		t.Fatal("not woken though an eighth is free")
	}
	if c.Left() != 10 || c.Scarce() {
		t.Errorf("left %d, scarce %v; want 10 and false", c.Left(), c.Scarce())
	}
}

// TestCreditFollowsWhatIsSettled: of the claims that wait for no receiver, a shard has at first
// firstRoom in hand, and then as many more as are settled within wayTime.
func TestCreditFollowsWhatIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(RecentSpan - time.Duration(time.Now().UnixNano())%RecentSpan) // a span begins
		c := NewCredit(4096)
		want := func(left int, when string) {
			t.Helper()
			if got := c.Left(); got != left {
				t.Errorf("%s: left %d, want %d", when, got, left)
			}
		}
		want(firstRoom, "at first")
		c.Take(firstRoom)
		want(0, "with all in hand")
		c.ToReceiver(100)
		want(100, "while 100 wait for their receivers")
		c.FromReceiver(100)
		want(0, "when the 100 have an outcome")
		const settled = 200 // a half span
		for range 4 {
			c.Give(settled)
			c.Take(settled)
			<-time.After(RecentSpan / 2)
		}
		want(2*settled*5/2, "when the span before had 2 * 200, and the present span has none")
		<-time.After(time.Second)
		want(0, "when none was settled for a second")
		c.ToReceiver(5000)
		c.Take(5000)
		want(4096+claimRoom-firstRoom-5000, "when memory is the bound")
	})
}

// TestLoopsInTurnBeginApart: an item waits for a part of a batch at most, however many items come
// at once.
func TestLoopsInTurnBeginApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, apart = 400 * time.Millisecond, 7 * time.Millisecond
		q, turns := NewQueue[time.Time](), newTurns(awake.Always())
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var longest time.Duration
		taken := 0
		var loops sync.WaitGroup
		for range lateLoops {
			loops.Go(func() {
				q.drainInTurn(ctx, turns, AtMost(1000), func(_ context.Context, batch []time.Time) {
					mu.Lock()
					taken += len(batch)
					for _, put := range batch {
						longest = max(longest, time.Since(put))
					}
					mu.Unlock()
					time.Sleep(took)
				})
			})
		}
		items := 0
		put := func(n int) {
			for range n {
				q.Put(time.Now())
				items++
			}
		}
		put(1)
		time.Sleep(2 * took)
		for range 300 {
			put(1 + items%3)
			time.Sleep(apart)
		}
		time.Sleep(2 * took)
		cancel()
		loops.Wait()
		if taken != items || longest > took/lateLoops || longest == 0 {
			t.Errorf("%d of %d items taken, the longest wait %v; want all, and at most %v", taken, items, longest, took/lateLoops)
		}
	})
}

// TestAnItemWaitsForNoEmptyBatch: a loop that was woken in vain delays no item. A batch during
// which the process stood still delays no item, either.
func TestAnItemWaitsForNoEmptyBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, stop = 400 * time.Millisecond, 20 * time.Second
		begun := time.Now()
		var stopped atomic.Int64
		clock := awake.Following(func() (theAwake, resumed time.Duration) {
			return time.Since(begun) - time.Duration(stopped.Load()), 0
		})
		q, turns := NewQueue[time.Time](), newTurns(clock)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan time.Duration, 1)
		var loops sync.WaitGroup
		for range lateLoops {
			loops.Go(func() {
				q.drainInTurn(ctx, turns, AtMost(1000), func(_ context.Context, batch []time.Time) {
					waited <- time.Since(batch[0])
					time.Sleep(took + stop)
					stopped.Add(int64(stop))
				})
			})
		}
		for range 3 {
			q.Put(time.Now())
			if late := <-waited; late > 0 {
				t.Errorf("an item waited for %v while all loops were idle", late)
			}
			time.Sleep(took + stop + took/lateLoops)
			for range 3 * lateLoops {
				q.Put()
				q.signal()
				time.Sleep(took / 100)
			}
		}
		cancel()
		loops.Wait()
	})
}
