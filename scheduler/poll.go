package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// shard is the engine's work on one shard. One shard's polls, fences and
// settlements never wait for another's; what they share are the slots.
type shard struct {
	s     *Scheduler
	index int // in list order
	name  string
	mask  timer.Hint // that names it
	log   *slog.Logger

	silence *silence

	credit      *credit
	fences      *queue[*claim]
	settlements *queue[*claim]
	contenders  *queue[*claim] // of copies that are not the best
	held        held           // those of the above that wait for a shard which answers late
	adoptions   *queue[adoption]
	graves      *queue[*claim] // tombstones that not all copies have been told of
	renewals    *renewals      // of fences

	fastest    atomic.Pointer[fastestClock] // of its nodes; nil until that is known
	unheard    atomic.Int64                 // since when it has not answered this node's announcements, ns on the clock of silence, until what it missed is known; 0 if it does
	othersLive atomic.Bool                  // other nodes announced themselves lately
	health     atomic.Int32                 // what the last claim said of the shard, or the last beat if that was long ago
	claiming   atomic.Int64                 // how long the last claim took, ns
	claimed    atomic.Int64                 // when that was, ns on the clock of silence

	ownership *ownership
	neglect   neglect
	sweeping  sweeping
	removed   atomic.Bool // it isn't among the shards any more
	gaveUp    time.Time   // when it was tried last to give the shard up
}

// held are claims that wait for a shard which answers late, apart from those that don't.
type held struct{ fences, settlements, contenders *queue[*claim] }

func newHeld() held { return held{newQueue[*claim](), newQueue[*claim](), newQueue[*claim]()} }

// What is known of a shard's health.
const (
	healthUnknown int32 = iota
	healthUp
	healthSilent
)

// What one claim may bring. The shard does nothing else meanwhile: so many timers
// take some milliseconds, and more bytes might take longer than it may keep silent.
const (
	maxClaims     = 1000
	maxClaimBytes = 8 << 20
)

func newShard(s *Scheduler, index int, name string) *shard {
	return &shard{
		s: s, index: index, name: name, mask: s.store.HintOf(name), log: s.log.With("shard", name), silence: newSilence(s.config.Awake),
		credit: creditFor(s.config.Slots),
		fences: newQueue[*claim](), settlements: newQueue[*claim](), contenders: newQueue[*claim](), held: newHeld(), adoptions: newQueue[adoption](), graves: newQueue[*claim](), renewals: newRenewals(),
		ownership: newOwnership(),
	}
}

const (
	// pokeLead is how long before due a poked poll begins.
	pokeLead = 20 * time.Millisecond
	// pokeGap is how long a poke waits for others: many short timers share a poll.
	pokeGap = time.Millisecond
)

// pokeIfSoon has a timer that is due before the next poll might find it claimed in
// time: a hint, nothing more.
func (sh *shard) pokeIfSoon(partition int, due time.Duration) {
	if due < sh.s.config.horizon() {
		sh.poke(partition, due)
	}
}

func (sh *shard) poke(partition int, due time.Duration) {
	sh.ownership.poke(partition, time.Now().Add(max(due-pokeLead, pokeGap)))
}

// poll claims what is due until ctx ends: a quarter of the node's own partitions
// at a time, what was poked, and what other nodes neglect.
func (sh *shard) poll(ctx context.Context) {
	step := sh.s.config.PollInterval / pollParts
	next, turn := time.Now(), 0
	// What may have more than the last poll, and the last look, could take.
	again, lookAgain := partitionSet(allPartitions), partitionSet(0)
	for ctx.Err() == nil {
		now := time.Now()
		own, others := sh.ownership.takePoked(now), partitionSet(0)
		// A poll may take longer than a step: then turns come together, none falls out.
		for missed := 0; !now.Before(next) && missed < pollParts; missed++ {
			mine, theirs := sh.ownership.turn(turn, now)
			own, others, turn = own|mine, others|theirs, turn+1
			// Jitter keeps nodes that were started together from polling in unison.
			next = next.Add(step - step/10 + rand.N(step/5))
		}
		if next.Before(now) {
			next = now.Add(step)
		}
		if !sh.credit.scarce() {
			own, others = own|again, others|lookAgain
		}
		others &^= own
		again, lookAgain = again&^own, lookAgain&^others
		moreOwn, moreOthers := sh.claimBoth(ctx, own, others)
		again, lookAgain = again|moreOwn, lookAgain|moreOthers
		if left := again | lookAgain; left == 0 || sh.credit.scarce() {
			sh.pause(ctx, next, left != 0)
		}
	}
}

// pause waits for the next turn, for what was poked for, or, when there is more
// to claim, for room.
func (sh *shard) pause(ctx context.Context, next time.Time, more bool) {
	alarm := time.NewTimer(time.Until(next))
	defer alarm.Stop()
	var room <-chan struct{}
	if more {
		room = sh.credit.free
	}
	for {
		if poked := sh.ownership.nextPoked(); !poked.IsZero() && poked.Before(next) {
			alarm.Reset(time.Until(poked))
		}
		select {
		case <-ctx.Done():
			return
		case <-alarm.C:
			return
		case <-room:
			return
		case <-sh.ownership.pokes:
		}
	}
}

// claimBoth claims in the node's own partitions and in those of other nodes, and waits for
// neither answer before it asks the other question.
func (sh *shard) claimBoth(ctx context.Context, own, others partitionSet) (moreOwn, moreOthers partitionSet) {
	room := sh.credit.left()
	switch {
	case others == 0:
		return sh.claim(ctx, own, 0, room), 0
	case own == 0:
		return 0, sh.claim(ctx, others, patience, room)
	}
	var looked sync.WaitGroup
	looked.Go(func() { moreOthers = sh.claim(ctx, others, patience, room/2) })
	moreOwn = sh.claim(ctx, own, 0, room-room/2)
	looked.Wait()
	return moreOwn, moreOthers
}

// claim takes what is due in the partitions, of those of other nodes what they
// have neglected for so long, and puts it into the wheel. It returns the partitions in
// which more may be due.
func (sh *shard) claim(ctx context.Context, partitions partitionSet, neglected time.Duration, room int) (more partitionSet) {
	if partitions == 0 || sh.s.store.Lost(sh.name) {
		return 0 // what is over may be on a shard that is given up
	}
	if room <= 0 {
		return partitions
	}
	began, horizon := sh.silence.begin(), sh.horizon()
	// A stop must not lose the answer: what it leased would wait for the lease's end.
	result, err := sh.s.store.Claim(context.WithoutCancel(ctx), sh.name, store.ClaimRequest{
		Partitions: partitions.list(), Neglected: neglected, Horizon: horizon,
		Limit: min(room, maxClaims), MaxBytes: min(room*sh.credit.bytes, maxClaimBytes),
		Grace: sh.s.config.Grace, LeaveOwnRetries: sh.othersLive.Load(), KeepTombstones: sh.s.keepTombstones(sh),
	})
	sh.silence.heard(began, err)
	answered := time.Now()
	sh.claiming.Store(int64(sh.s.config.Awake.Now() - began.awake))
	sh.claimed.Store(int64(sh.silence.now()))
	sh.note(ctx, err)
	claims, weight := make([]*claim, len(result.Claims)), 0
	for i := range claims {
		claims[i] = newClaim(sh, &result.Claims[i])
		weight += claims[i].weight
	}
	sh.credit.take(weight)
	for _, c := range claims {
		sh.accept(c, answered)
	}
	if result.More {
		return partitions
	}
	return 0
}

// horizon is how far ahead of due a poll claims. Where answers take long, the next poll
// begins as much later, and its answer comes later still.
func (sh *shard) horizon() time.Duration {
	return sh.s.config.horizon() + 2*min(time.Duration(sh.claiming.Load()), maxAhead)
}

// maxAhead is how long a claim may take for timers to be claimed in time. A lease must not
// begin long before its timer is due.
const maxAhead = 500 * time.Millisecond

// accept sends a claim on its way.
func (sh *shard) accept(c *claim, answered time.Time) {
	s := sh.s
	s.latest.heard(c.Record.State.Version, s.config.Wall)
	if c.Previous != "" && c.Previous != s.config.Node {
		s.metrics.takenOver.Inc()
		s.lines.suspected.Log(sh.log, "suspected failure of "+c.Previous+" for "+s.nameOf(&c.Record),
			"node", c.Previous, "timer", c.Record.ID.String())
	}
	switch {
	case c.Err != nil:
		s.lines.unreadable.Log(sh.log, "timer can't be read; it goes to the dead letters", "timer", c.Lease.Key, "err", c.Err)
		c.settle(store.Settlement{Outcome: store.OutcomeDead, Reason: "its record can't be read"})
	case c.Record.State.Ended:
		sh.graves.put(c)
	default:
		if delay := c.putOff(); delay > 0 {
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
			return
		}
		c.destination = s.deliverer.Destination(c.Record.Timer.Callback)
		s.turnIn(answered.Add(c.DueIn), c)
	}
}

// turnIn puts a claim that is due at an instant into the wheel, unless it can only
// be given up.
func (s *Scheduler) turnIn(at time.Time, c *claim) {
	if c.Record.State.Attempt >= s.config.Attempts && !c.yields() {
		// Every fence was passed and nothing settled: it may be what ends the nodes.
		c.settle(s.giveUp(c, "no attempt at it was ever settled"))
		return
	}
	s.turnAt(at, c)
}

func newClaim(sh *shard, claimed *store.Claimed) *claim {
	c := &claim{Claimed: *claimed, shard: sh, weight: sh.credit.weight(&claimed.Record.Timer)}
	if c.Err == nil {
		c.locate()
	}
	return c
}

// away reports whether nobody should wait for the shard: it is gone, silent, too slow, or
// given up.
func (sh *shard) away() bool {
	return sh.gone() || sh.silence.lasts() || sh.tooSlow() || sh.s.store.Lost(sh.name)
}

// note keeps the log to one line when a shard falls silent and one when it is
// back.
func (sh *shard) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		sh.s.metrics.up.WithLabelValues(sh.name).Set(1)
		if sh.health.Swap(healthUp) == healthSilent {
			sh.log.Info("shard is back")
		}
	case ctx.Err() == nil:
		sh.s.metrics.up.WithLabelValues(sh.name).Set(0)
		if sh.health.Swap(healthSilent) != healthSilent {
			sh.log.Warn("shard can't be used; timers without a copy elsewhere wait until the shard is back", "err", err)
		}
	}
}
