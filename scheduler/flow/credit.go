package flow

import (
	"context"
	"sync"
	"time"

	"chronos/scheduler/timer"
)

// Credit bounds the weight of a shard's claims in hand. A poll makes no more claims than the room
// allows, so every queue behind the poll is bounded, too. The claims of a poll may weigh more than
// the room.
//
// Claims that wait for receivers are bounded by memory alone. The other claims are at most as many
// as the node settles in half a second, so that no claim waits for longer on its way (Little's
// law). Otherwise leases would end in hand when nodes and shards are busy: claims would be made in
// vain, and callbacks would come twice. Credit is safe for concurrent use.
type Credit struct {
	Bytes   int // of a timer for a unit of weight
	mu      sync.Mutex
	room    int
	all     int           // the room with nothing in hand
	away    int           // weight of the claims that wait for their receivers
	settled Recent        // weight given back
	Free    chan struct{} // has a token when the room is no longer scarce
	whole   chan struct{} // closed when all is given back; nil unless Settled waits
}

const (
	// claimRoom is how many claims of a shard may wait for a slot while all slots are in use. A poll
	// claims timers up to a horizon before the due time, so a shard can still bring several thousand
	// timers a second to destinations with free slots.
	claimRoom = 1024
	// weightBytes is how many bytes of a timer a unit of weight carries.
	weightBytes = 16 << 10
	// wayTime is how long a claim should take, without the time for which it waits for its receiver.
	wayTime = 500 * time.Millisecond
	// firstRoom is how many claims of a shard are in hand at first, while the node has settled none.
	firstRoom = 512
)

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

// Left is how much more may be claimed; Left may be negative.
func (c *Credit) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit(time.Now()) - c.inHand()
}

// limit is how much may be in hand; c.mu is held.
func (c *Credit) limit(now time.Time) int {
	return min(c.all, firstRoom+c.away+c.settled.Within(now, wayTime))
}

// InHand is how much has been claimed.
func (c *Credit) InHand() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inHand()
}

func (c *Credit) inHand() int { return c.all - c.room }

// Scarce reports whether a poll should rather wait than claim: many small polls cost more than a
// few large polls.
func (c *Credit) Scarce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scarce(time.Now())
}

func (c *Credit) scarce(now time.Time) bool {
	limit := c.limit(now)
	return limit-c.inHand() < limit/8
}

// Take takes credit for claims. The room may become negative.
func (c *Credit) Take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= n
}

// ToReceiver notes that a claim of weight n waits for its receiver: for a slot, or in a callback.
func (c *Credit) ToReceiver(n int) {
	c.change(func(time.Time) { c.away += n })
}

// FromReceiver notes that a claim of weight n waits for its receiver no longer.
func (c *Credit) FromReceiver(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away -= n
}

// Give gives credit back for settled claims.
func (c *Credit) Give(n int) {
	c.change(func(now time.Time) {
		c.settled.Add(now, n)
		c.room += n
		if c.room == c.all && c.whole != nil {
			close(c.whole)
			c.whole = nil
		}
	})
}

// change makes more room, and tells a poll that waits for room.
func (c *Credit) change(do func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	before := c.scarce(now)
	do(now)
	if before && !c.scarce(now) {
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
