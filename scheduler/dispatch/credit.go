package dispatch

import (
	"context"
	"sync"

	"chronos/scheduler/timer"
)

// credit bounds the claims in hand of one shard by their weight: a poll claims no
// more than there is room for, so every queue behind it is bounded too. What a
// poll brings may outweigh the room by what it was short of.
type credit struct {
	bytes int // of timers that one unit carries
	mu    sync.Mutex
	room  int
	all   int
	free  chan struct{} // has a token when there is room again after there was little
	whole chan struct{} // closed when all is given back; nil unless somebody waits for that
}

// claimRoom is how many claims of a shard may be on their way to a slot while all slots
// are in use. Claims are made up to a horizon before they are due, so a shard can still
// bring several thousand timers a second to destinations that have slots.
const claimRoom = 1024

// weightBytes is how much of a timer one unit of weight carries.
const weightBytes = 16 << 10

func newCredit(all int) *credit {
	return &credit{room: all, all: all, bytes: weightBytes, free: make(chan struct{}, 1)}
}

// creditFor makes the credit of a shard: for a claim in each slot and for claims on their
// way to a slot; with 4,096 slots for 72 MiB of timers.
func creditFor(slots int) *credit {
	c := newCredit(slots + claimRoom)
	c.bytes = (slots + slots/8) * weightBytes / c.all
	return c
}

// weight is how much credit a claim of the timer takes.
func (c *credit) weight(t *timer.Timer) int { return 1 + t.Size()/c.bytes }

// left is how many more may be claimed.
func (c *credit) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room
}

// inHand is how much has been claimed.
func (c *credit) inHand() int { return c.all - c.left() }

// scarce is when it is better to wait than to claim: many small claims cost more
// than a few large ones.
func (c *credit) scarce() bool { return c.left() < c.all/8 }

func (c *credit) take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

func (c *credit) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.room
	c.room += n
	if c.room == c.all && c.whole != nil {
		close(c.whole)
		c.whole = nil
	}
	if before < c.all/8 && c.room >= c.all/8 {
		select {
		case c.free <- struct{}{}:
		default:
		}
	}
}

// settled waits until nothing is in hand and reports whether ctx lasted so long.
// Nothing may be taken meanwhile, and only one may wait.
func (c *credit) settled(ctx context.Context) bool {
	c.mu.Lock()
	if c.room == c.all {
		c.mu.Unlock()
		return true
	}
	whole := make(chan struct{})
	c.whole = whole
	c.mu.Unlock()
	select {
	case <-whole:
		return true
	case <-ctx.Done():
		return false
	}
}
