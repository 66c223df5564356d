package flow

import (
	"context"
	"sync"

	"chronos/scheduler/timer"
)

// Credit bounds the claims in hand of one shard by their weight: a poll claims no
// more than there is room for, so every queue behind it is bounded too. What a
// poll brings may outweigh the room by what it was short of.
type Credit struct {
	Bytes int // of timers that one unit carries
	mu    sync.Mutex
	room  int
	all   int
	Free  chan struct{} // has a token when there is room again after there was little
	whole chan struct{} // closed when all is given back; nil unless somebody waits for that
}

// claimRoom is how many claims of a shard may be on their way to a slot while all slots
// are in use. Claims are made up to a horizon before they are due, so a shard can still
// bring several thousand timers a second to destinations that have slots.
const claimRoom = 1024

// weightBytes is how much of a timer one unit of weight carries.
const weightBytes = 16 << 10

func creditOf(all int) *Credit {
	return &Credit{room: all, all: all, Bytes: weightBytes, Free: make(chan struct{}, 1)}
}

// NewCredit makes the credit of a shard: for a claim in each slot and for claims on their
// way to a slot; with 4,096 slots for 72 MiB of timers.
func NewCredit(slots int) *Credit {
	c := creditOf(slots + claimRoom)
	c.Bytes = (slots + slots/8) * weightBytes / c.all
	return c
}

// Weight is how much credit a claim of the timer takes.
func (c *Credit) Weight(t *timer.Timer) int { return 1 + t.Size()/c.Bytes }

// Left is how many more may be claimed.
func (c *Credit) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room
}

// InHand is how much has been claimed.
func (c *Credit) InHand() int { return c.all - c.Left() }

// Scarce is when it is better to wait than to claim: many small claims cost more
// than a few large ones.
func (c *Credit) Scarce() bool { return c.Left() < c.all/8 }

// Take is for what was claimed. The room may become negative.
func (c *Credit) Take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

// Give is for what is settled.
func (c *Credit) Give(n int) {
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
		case c.Free <- struct{}{}:
		default:
		}
	}
}

// Settled waits until nothing is in hand and reports whether ctx lasted so long.
// Nothing may be taken meanwhile, and only one may wait.
func (c *Credit) Settled(ctx context.Context) bool {
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
