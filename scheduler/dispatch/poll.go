package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/flow"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// lane takes one shard's timers through this node. Polls, fences and settlements of a shard never
// wait for another shard: the shards share only the slots.
type lane struct {
	d     *Dispatcher
	shard *shard.Shard

	credit      *flow.Credit
	fences      *flow.Queue[*claim]
	settlements *flow.Queue[*claim]
	held        held // fences and settlements that wait for a shard with late answers
	adoptions   *flow.Queue[adoption]
	afar        *flow.Queue[*claim] // claims that have to be compared with the copies of other sites
	graves      *flow.Queue[*claim] // claimed tombstones, which copies may have to hear of
	renewals    *renewals           // of fences
	returns     returns             // of claims of limited and paused destinations; guarded by the gate

	claiming atomic.Int64 // how long the last claim took, ns
}

// held are the claims that wait for a shard with late answers, apart from the rest.
type held struct{ fences, settlements *flow.Queue[*claim] }

func newHeld() held { return held{flow.NewQueue[*claim](), flow.NewQueue[*claim]()} }

// The most that one call may claim. The shard does nothing else meanwhile: 1,000 timers take some
// milliseconds, and more bytes might take longer than a shard may keep silent. While few timers are
// due, a call for few timers costs the shard less, since all partitions are in one script call.
// But if answers take long, a second call for the other timers would come too late.
const (
	fewClaims     = 128
	maxClaims     = 1000
	maxClaimBytes = 8 << 20
)

func newLane(d *Dispatcher, sh *shard.Shard) *lane {
	return &lane{
		d: d, shard: sh, credit: flow.NewCredit(d.config.Slots),
		fences: flow.NewQueue[*claim](), settlements: flow.NewQueue[*claim](), held: newHeld(),
		adoptions: flow.NewQueue[adoption](), afar: flow.NewQueue[*claim](), graves: flow.NewQueue[*claim](), renewals: newRenewals(),
	}
}

// poll claims due timers until ctx ends: in a quarter of the node's own partitions at a time, in
// poked partitions, and in partitions that other nodes neglect.
func (l *lane) poll(ctx context.Context) {
	step := l.d.config.PollInterval / shard.PollParts
	next, turn := time.Now(), 0
	// Partitions in which more timers may be due than the last poll, or the last look, could take.
	again, lookAgain := shard.PartitionSet(shard.AllPartitions), shard.PartitionSet(0)
	for ctx.Err() == nil {
		now := time.Now()
		own, others := l.shard.Ownership.TakePoked(now), shard.PartitionSet(0)
		// A poll may take longer than a step: then turns come together, and no turn falls out.
		for missed := 0; !now.Before(next) && missed < shard.PollParts; missed++ {
			mine, theirs := l.shard.Ownership.Turn(turn, now)
			own, others, turn = own|mine, others|theirs, turn+1
			// Jitter keeps nodes that were started together from polling in unison.
			next = next.Add(step - step/10 + rand.N(step/5))
		}
		if next.Before(now) {
			next = now.Add(step)
		}
		if !l.credit.Scarce() {
			own, others = own|again, others|lookAgain
		}
		others &^= own
		again, lookAgain = again&^own, lookAgain&^others
		room := l.credit.Left()
		if (own&again)|(others&lookAgain) == 0 && time.Duration(l.claiming.Load()) < step {
			room = min(room, fewClaims)
		}
		moreOwn, moreOthers := l.claimBoth(ctx, own, others, room)
		again, lookAgain = again|moreOwn, lookAgain|moreOthers
		if left := again | lookAgain; left == 0 || l.credit.Scarce() {
			l.pause(ctx, next, left != 0)
		}
	}
}

// pause waits for the next turn, for a poked instant, or, if more timers can be claimed, for room.
func (l *lane) pause(ctx context.Context, next time.Time, more bool) {
	alarm := time.NewTimer(time.Until(next))
	defer alarm.Stop()
	var room <-chan struct{}
	if more {
		room = l.credit.Free
	}
	for {
		if poked := l.shard.Ownership.NextPoked(); !poked.IsZero() && poked.Before(next) {
			alarm.Reset(time.Until(poked))
		}
		select {
		case <-ctx.Done():
			return
		case <-alarm.C:
			return
		case <-room:
			return
		case <-l.shard.Ownership.Pokes:
		}
	}
}

// claimBoth claims in the node's own partitions and, at the same time, in partitions of other
// nodes.
func (l *lane) claimBoth(ctx context.Context, own, others shard.PartitionSet, room int) (moreOwn, moreOthers shard.PartitionSet) {
	switch {
	case others == 0:
		return l.claim(ctx, own, 0, room), 0
	case own == 0:
		return 0, l.claim(ctx, others, timing.OverduePatience, room)
	}
	var looked sync.WaitGroup
	looked.Go(func() { moreOthers = l.claim(ctx, others, timing.OverduePatience, room/2) })
	moreOwn = l.claim(ctx, own, 0, room-room/2)
	looked.Wait()
	return moreOwn, moreOthers
}

// claim claims the due timers of the partitions, and sends the claims on their way. If neglected
// is not 0, the partitions belong to other nodes, and only timers that these nodes have neglected
// for so long count. claim returns the partitions in which more timers may be due.
func (l *lane) claim(ctx context.Context, partitions shard.PartitionSet, neglected time.Duration, room int) (more shard.PartitionSet) {
	if partitions == 0 || l.d.store.Lost(l.shard.Name) || l.d.sites.Hollow() {
		return 0 // timers that are over may be on a shard that is given up, or unknown to a site that waits for its timers
	}
	if room <= 0 {
		return partitions
	}
	began, horizon := l.shard.Answers.Begin(), l.horizon()
	// A stop must not lose the answer: the leased timers would wait for the end of the lease.
	result, err := l.d.store.Claim(context.WithoutCancel(ctx), l.shard.Name, store.ClaimRequest{
		Partitions: partitions.List(), Neglected: neglected, Horizon: horizon,
		Limit: min(room, maxClaims), MaxBytes: min(room*l.credit.Bytes, maxClaimBytes),
		Grace: l.d.config.Grace, LeaveOwnRetries: l.shard.OthersLive(), KeepTombstones: l.d.keepTombstones(l.shard),
	})
	answered := time.Now()
	l.claiming.Store(int64(l.shard.Answers.Took(began)))
	l.shard.ClaimAnswered(ctx, began, err)
	if result.PutOff > 0 {
		l.d.metrics.putOff.Add(float64(result.PutOff))
		l.d.lines.putOff.Log(l.shard.Log, putOffLine, "timers", result.PutOff)
	}
	claims, weight := make([]*claim, len(result.Claims)), 0
	for i := range claims {
		claims[i] = newClaim(l, &result.Claims[i])
		claims[i].look = answered.Add(claims[i].DueIn)
		weight += claims[i].weight
	}
	l.credit.Take(weight)
	for _, c := range claims {
		l.accept(c)
	}
	if result.More {
		return partitions
	}
	return 0
}

// horizon is how far ahead of their due time timers are claimed. If answers take long, the next
// poll begins as much later, and the answer to that poll comes later still.
func (l *lane) horizon() time.Duration {
	return l.d.config.Horizon() + 2*min(time.Duration(l.claiming.Load()), maxAhead)
}

// maxAhead is how long a claim may take for timers to be claimed in time. A lease must not begin
// long before the timer is due.
const maxAhead = 500 * time.Millisecond

// accept sends a claim to the next station.
func (l *lane) accept(c *claim) {
	d := l.d
	d.shards.Heard(c.Record.State.Written())
	if c.Previous != "" && c.Previous != d.config.Node {
		d.metrics.takenOver.Inc()
		d.lines.suspected.Log(l.shard.Log, "suspected failure of "+c.Previous+" for "+d.nameOf(&c.Record),
			"node", c.Previous, "timer", c.Record.ID.String())
	}
	switch {
	case c.Err != nil:
		d.lines.unreadable.Log(l.shard.Log, "timer can't be read; it goes to the dead letters", "timer", c.Lease.Key, "err", c.Err)
		c.settle(store.Settlement{Outcome: store.OutcomeDead, Reason: "its record can't be read"})
	case c.Record.State.Ended:
		l.graves.Put(c)
	default:
		if delay := c.putOff(); delay > 0 {
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
			return
		}
		c.destination = d.deliverer.Destination(c.Record.Timer.Callback)
		if !c.inTouch() {
			l.afar.Put(c)
			return
		}
		d.turnAt(c.look, c)
	}
}

func newClaim(l *lane, claimed *store.Claimed) *claim {
	c := &claim{Claimed: *claimed, lane: l, weight: l.credit.Weight(&claimed.Record.Timer)}
	if c.Err == nil {
		c.locate()
	}
	return c
}
