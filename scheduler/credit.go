package scheduler

import "sync"

// credit bounds the claims in hand of one shard: a poll claims no more than
// there is room for, so every queue behind it is bounded too.
type credit struct {
	mu   sync.Mutex
	room int
	all  int
	free chan struct{} // has a token when there is room again after there was little
}

func newCredit(all int) *credit {
	return &credit{room: all, all: all, free: make(chan struct{}, 1)}
}

// left is how many more may be claimed.
func (c *credit) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room
}

// scarce is when it is better to wait than to claim: many small claims cost more
// than a few large ones.
func (c *credit) scarce() bool { return c.left() < c.all/8 }

func (c *credit) take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

func (c *credit) give() {
	c.mu.Lock()
	c.room++
	enough := c.room == c.all/8
	c.mu.Unlock()
	if enough {
		select {
		case c.free <- struct{}{}:
		default:
		}
	}
}
