package replica

import (
	"context"
	"sync"
	"time"
)

// queuePatience is how long a write waits for earlier writes of the same timer, before the write
// goes on beside the earlier writes.
const queuePatience = 250 * time.Millisecond

// writeQueues have the writes of one timer through this node go one after another. Side by side the
// writes would get their versions in one order and reach the shards in another order, and the
// shards would refuse most as older. Only speed depends on the order. Safe for concurrent use.
type writeQueues struct {
	mu   sync.Mutex
	held map[string]*writeQueue // by the timer's key
}

// writeQueue is shared by the writes of one timer.
type writeQueue struct {
	sharers int
	free    chan struct{} // has a token when a write is done
}

func newWriteQueues() *writeQueues { return &writeQueues{held: make(map[string]*writeQueue)} }

// join waits for the turn of a write, and returns the function that ends the turn.
func (q *writeQueues) join(ctx context.Context, key string) (end func()) {
	q.mu.Lock()
	own, busy := q.held[key]
	if !busy {
		own = &writeQueue{free: make(chan struct{}, 1)}
		q.held[key] = own
	}
	own.sharers++
	q.mu.Unlock()
	mine := !busy || own.wait(ctx)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if own.sharers--; own.sharers == 0 {
			delete(q.held, key)
		}
		if mine {
			own.free <- struct{}{}
		}
	}
}

func (w *writeQueue) wait(ctx context.Context) (mine bool) {
	timer := time.NewTimer(queuePatience)
	defer timer.Stop()
	select {
	case <-w.free:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Queue waits for the turn of a write to a timer, for a while at most, and returns the
// function that ends the turn.
func (k *Keeper) Queue(ctx context.Context, key string) (end func()) { return k.writes.join(ctx, key) }
