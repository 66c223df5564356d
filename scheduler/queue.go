package scheduler

import (
	"context"
	"sync"
)

// queue hands items from many to a few who take them in batches. It is bounded
// by its users: what goes in holds credit (poll.go).
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // has a token whenever there may be items
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) put(items ...T) {
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take waits for items and returns up to as many of them as most says then,
// appended to batch; none when ctx has ended.
func (q *queue[T]) take(ctx context.Context, batch []T, most func(context.Context) int) []T {
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

func atMost(n int) func(context.Context) int { return func(context.Context) int { return n } }

// drain hands everything over in batches of up to most, one after the other,
// until ctx ends. The batch is valid during the call.
func (q *queue[T]) drain(ctx context.Context, most func(context.Context) int, do func(ctx context.Context, batch []T)) {
	var batch []T
	for {
		clear(batch) // what was handed over isn't ours to keep alive
		batch = q.take(ctx, batch[:0], most)
		if len(batch) == 0 {
			return
		}
		do(ctx, batch)
	}
}
