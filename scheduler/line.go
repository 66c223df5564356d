package scheduler

import (
	"context"
	"sync"
	"time"
)

// linePatience is how long a write waits for earlier writes of the same timer, before the
// write goes on beside these.
const linePatience = 250 * time.Millisecond

// lines have the writes of one timer through this node go one after another. Side by side
// the writes would get their versions in one order and reach the shards in another, and
// the shards would refuse most as older. Only speed depends on the order. Safe for
// concurrent use.
type lines struct {
	mu   sync.Mutex
	held map[string]*line // by the timer's key
}

// line is shared by the writes of one timer.
type line struct {
	sharers int
	free    chan struct{} // has a token when a write is done
}

func newLines() *lines { return &lines{held: make(map[string]*line)} }

// join waits for the turn of a write, and returns the function that ends the turn.
func (l *lines) join(ctx context.Context, key string) (end func()) {
	l.mu.Lock()
	own, busy := l.held[key]
	if !busy {
		own = &line{free: make(chan struct{}, 1)}
		l.held[key] = own
	}
	own.sharers++
	l.mu.Unlock()
	mine := !busy || own.wait(ctx)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.sharers--; own.sharers == 0 {
			delete(l.held, key)
		}
		if mine {
			own.free <- struct{}{}
		}
	}
}

func (n *line) wait(ctx context.Context) (mine bool) {
	timer := time.NewTimer(linePatience)
	defer timer.Stop()
	select {
	case <-n.free:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
