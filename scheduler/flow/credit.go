package flow

import (
	"context"
	"sync"

	"chronos/scheduler/timer"
)

// Credit bounds the weight of a shard's claims in hand. A poll makes no more claims than the room
// allows, so every queue behind the poll is bounded, too. The claims of a poll may weigh more than
// the room. Credit is safe for concurrent use.
type Credit struct {
	Bytes int // of a timer for a unit of weight
	mu    sync.Mutex
	room  int
	all   int
	Free  chan struct{} // has a token when the room is no longer scarce
	whole chan struct{} // closed when all is given back; nil unless Settled waits
}

// claimRoom is how many claims of a shard may wait for a slot while all slots are in use. A poll
// claims timers up to a horizon before the due time, so a shard can still bring several thousand
// timers a second to destinations with free slots.
const claimRoom = 1024

// weightBytes is how many bytes of a timer a unit of weight carries.
const weightBytes = 16 << 10

func creditOf(all int) *Credit {
	return &Credit{room: all, all: all, Bytes: weightBytes, Free: make(chan struct{}, 1)}
}

// NewCredit makes the credit of a shard: for a claim in every slot, and for claimRoom claims on the
// way to a slot. With 4,096 slots the credit carries 72 MiB of timers.
func NewCredit(slots int) *Credit {
	c := creditOf(slots + claimRoom)
	c.Bytes = (slots + slots/8) * weightBytes / c.all
	return c
}

// Weight is how much credit a claim of the timer takes.
func (c *Credit) Weight(t *timer.Timer) int { return 1 + t.Size()/c.Bytes }

// Left is how much more may be claimed.
func (c *Credit) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room
}

// InHand is how much has been claimed.
func (c *Credit) InHand() int { return c.all - c.Left() }

// Scarce reports whether a poll should rather wait than claim: many small polls cost more than a
// few large polls.
func (c *Credit) Scarce() bool { return c.Left() < c.all/8 }

// Take takes credit for claims. The room may become negative.
func (c *Credit) Take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

// Give gives credit back for settled claims.
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
// Nobody may call Take meanwhile, and only one caller may wait.
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
