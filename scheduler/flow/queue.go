package flow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/awake"
)

// Queue passes items from many goroutines to a few, which take batches. The users bound the
// queue: items in the queue hold credit (credit.go). Queue is safe for concurrent use.
type Queue[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // has a token whenever there may be items
}

// NewQueue makes an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{ready: make(chan struct{}, 1)} }

// Put adds items at the end.
func (q *Queue[T]) Put(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	q.signal()
}

func (q *Queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take waits for items, then asks most for a limit, and appends up to so many items to batch.
// When ctx has ended, take appends nothing.
func (q *Queue[T]) take(ctx context.Context, batch []T, most func(context.Context) int) []T {
	for {
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also when both were ready
			return batch
		}
		limit := most(ctx)
		q.mu.Lock()
		n := min(limit, len(q.items))
		batch = append(batch, q.items[:n]...)
		rest := copy(q.items, q.items[n:])
		clear(q.items[rest:])
		q.items = q.items[:rest]
		q.mu.Unlock()
		if rest > 0 {
			q.signal()
		}
		if n > 0 {
			return batch
		}
	}
}

// AtMost is for Drain: batches of up to n.
func AtMost(n int) func(context.Context) int { return func(context.Context) int { return n } }

// Drain passes all items to do, in batches of up to most, batch after batch, until ctx ends. A
// batch is valid only during the call of do.
func (q *Queue[T]) Drain(ctx context.Context, most func(context.Context) int, do func(ctx context.Context, batch []T)) {
	var batch []T
	for {
		clear(batch) // keeps no item alive that do was given
		batch = q.take(ctx, batch[:0], most)
		if len(batch) == 0 {
			return
		}
		do(ctx, batch)
	}
}

// lateLoops is how many loops drain a queue of items that wait for a shard with late answers.
const lateLoops = 4

// DrainLate begins the loops that drain a queue of items that wait for a shard with late answers.
func (q *Queue[T]) DrainLate(ctx context.Context, clock *awake.Clock, loops *sync.WaitGroup, most func(context.Context) int, do func(context.Context, []T)) {
	t := newTurns(clock)
	for range lateLoops {
		loops.Go(func() { q.drainInTurn(ctx, t, most, do) })
	}
}

// turns are the turns of the lateLoops loops that drain a queue. Batches begin apart, by an equal
// share of the time of a batch: loops that began together would all be busy when the next item
// comes.
type turns struct {
	clock *awake.Clock  // a stop of the process makes no batch take longer
	now   chan struct{} // has a token unless a loop is taking a batch
	begun time.Duration // when the last batch began; for the holder of the token
	took  atomic.Int64  // how long the last batch to end took, ns
}

func newTurns(clock *awake.Clock) *turns {
	t := &turns{clock: clock, now: make(chan struct{}, 1)}
	t.now <- struct{}{}
	return t
}

// await waits until the next batch may begin.
func (t *turns) await(ctx context.Context) {
	if left := t.begun + time.Duration(t.took.Load())/lateLoops - t.clock.Now(); left > 0 {
		awake.Sleep(ctx, left)
	}
}

// drainInTurn is Drain for a loop that takes turns with other loops.
func (q *Queue[T]) drainInTurn(ctx context.Context, t *turns, most func(context.Context) int, do func(ctx context.Context, batch []T)) {
	spaced := func(ctx context.Context) int {
		t.await(ctx)
		return most(ctx)
	}
	var batch []T
	for {
		select {
		case <-t.now:
		case <-ctx.Done():
			return
		}
		clear(batch)
		batch = q.take(ctx, batch[:0], spaced)
		begun := t.clock.Now()
		t.begun = begun
		t.now <- struct{}{}
		if len(batch) == 0 {
			return
		}
		do(ctx, batch)
		t.took.Store(int64(t.clock.Now() - begun))
	}
}
