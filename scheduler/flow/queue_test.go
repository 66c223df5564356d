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
