package dispatch

import (
	"context"
	"errors"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// hesitation is how long before a copy is looked at again when a better one's
// shard was slow to answer.
const hesitation = 250 * time.Millisecond

// contend takes for each claim the best copy that can be claimed (rule "take the better copy
// first"): the right to fire is the lease on that copy. Leases are sought only upwards, so
// nobody waits in a circle.
func (l *lane) contend(ctx context.Context, batch []*claim) {
	l.contendHeld(ctx, l.hold(batch, l.held.contenders, func(*claim) bool { return true }))
}

func (l *lane) contendHeld(ctx context.Context, batch []*claim) {
	at := make([]int, len(batch)) // into each claim's others
	for _, c := range batch {
		c.relocate()
	}
	for len(batch) > 0 {
		by := make(map[*shard.Shard]*contest)
		for i, c := range batch {
			for at[i] < len(c.others) && !c.better(c.others[at[i]]) {
				at[i]++
			}
			if at[i] == len(c.others) {
				l.fireOwn(c)
				continue
			}
			place := c.others[at[i]]
			if by[place.Shard] == nil {
				by[place.Shard] = &contest{own: l, better: place.Shard}
			}
			by[place.Shard].add(c, place, at[i])
		}
		var still []*claim
		var next []int
		for _, on := range by {
			on.take(ctx)
			still, next = append(still, on.goOn...), append(next, on.next...)
		}
		batch, at = still, next
	}
}

// contest is about the copies of some claims on one other shard, which are better
// than the claims' own.
type contest struct {
	own    *lane
	better *shard.Shard
	claims []*claim
	places []shard.Place
	at     []int

	goOn []*claim // those for which the next best copy is to be tried
	next []int    // where that is
	// What has to be brought up to the claims' states.
	older []raising
	// What has to be given the rank that it has now that the shards have changed.
	outranked []raising
	reranked  bool
}

// raising is a better copy that is of an earlier state than a claim's.
type raising struct {
	claim *claim
	to    shard.Place
	i     int // among the contest's
}

func (on *contest) add(c *claim, to shard.Place, at int) {
	on.claims, on.places, on.at = append(on.claims, c), append(on.places, to), append(on.at, at)
}

// take tries to lease the copies.
func (on *contest) take(ctx context.Context) {
	if on.better.Away() || on.better.Slow() {
		for i := range on.claims {
			on.pass(i)
		}
		return
	}
	keys := make([]string, len(on.claims))
	for i, c := range on.claims {
		keys[i] = c.Lease.Key
	}
	began := on.better.Answers.Begin()
	answers := on.own.d.store.Take(ctx, on.better.Name, on.own.d.config.Grace, keys)
	on.better.Answers.Answered(began, answers[0].Err)
	for i := range answers {
		on.answered(i, &answers[i])
	}
	on.promote(ctx)
	for _, r := range on.own.raise(ctx, on.better, on.older) {
		on.pass(r.i)
	}
}

// promote gives better copies that wait as the backups that they were, before the
// shards changed, the rank that they have now, and takes them then: the sweep has
// not come to them yet. They are due as the claims are: no copy that is better still
// is there.
func (on *contest) promote(ctx context.Context) {
	if len(on.outranked) == 0 {
		return
	}
	writes, keys := make([]store.Write, len(on.outranked)), make([]string, len(on.outranked))
	for k, r := range on.outranked {
		c := r.claim
		keys[k] = c.Lease.Key
		writes[k] = store.Write{
			Kind: store.WriteRank, Shard: on.better.Name, Key: c.Lease.Key, State: c.Record.State, RF: max(c.Record.ID.RF, 1),
			Rank: r.to.Rank, Timer: &c.Record.Timer, Retry: -time.Millisecond,
		}
	}
	bounded, cancel := on.own.d.config.Awake.WithTimeout(ctx, tellPatience)
	defer cancel()
	on.own.d.store.Tell(bounded, on.better.Name, writes) // what it can't tell waits, as before
	on.reranked = true
	answers := on.own.d.store.Take(bounded, on.better.Name, on.own.d.config.Grace, keys)
	for k := range answers {
		on.answered(on.outranked[k].i, &answers[k])
	}
}

// pass leaves the copy out: the next best is to be tried.
func (on *contest) pass(i int) {
	on.goOn, on.next = append(on.goOn, on.claims[i]), append(on.next, on.at[i]+1)
}

func (on *contest) answered(i int, taken *store.Taken) {
	c, place := on.claims[i], on.places[i]
	older := taken.Record.State.Compare(c.Record.State) < 0
	replaced := taken.Record.State.Version > c.Record.State.Version
	switch taken.Status {
	case store.TakeGot:
		if on.better.Gone() {
			on.pass(i) // nobody works on its claims any more
			return
		}
		lane := on.own.d.lanes.Of(on.better)
		next := newClaim(lane, &taken.Claimed)
		next.contended = true
		lane.credit.Take(next.weight)
		c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: c.skew()})
		lane.accept(next, time.Now())
	case store.TakeWaiting, store.TakeLeased:
		switch {
		case older && taken.Status == store.TakeWaiting && !on.raises(place, c):
			on.pass(i)
		case older && taken.Status == store.TakeWaiting:
			// When that was to be looked at says nothing of the timer.
			on.older = append(on.older, raising{c, place, i})
		case replaced:
			// Without the better one the earlier version would fire.
			on.own.adoptions.Put(adoption{c, on.better})
		case taken.Status == store.TakeWaiting && !on.reranked && on.own.d.shards.Changing(c.Lease.Key):
			on.outranked = append(on.outranked, raising{c, place, i})
		default:
			on.waitFor(i, taken.Wait)
		}
	case store.TakeEnded:
		switch {
		case !older:
			on.own.adoptions.Put(adoption{c, on.better})
		case place.Home && on.raises(place, c):
			on.older = append(on.older, raising{c, place, i})
		default:
			on.pass(i) // nothing is made there
		}
	case store.TakeMissing:
		on.pass(i)
	case store.TakeFailed:
		if errors.Is(taken.Err, timer.ErrRefused) || on.better.Away() {
			on.pass(i)
			return
		}
		c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation})
	}
}

// waitFor leaves the pop to the better copy, which is looked at after so long. Where its shard
// answers late, the claim soon looks again: the shard may be slow by then, and what waits
// there be put off.
func (on *contest) waitFor(i int, wait time.Duration) {
	c := on.claims[i]
	delay := wait + c.skew()
	switch {
	case on.better.Slow():
		on.pass(i)
		return
	case on.better.Answers.Tardy.Load():
		delay = min(delay, hesitation)
	}
	c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
}

// raises reports whether an earlier copy at the place may be made what the claim's is: not
// where the sweep may just have removed it, nor by a node that may not know where timers
// belong.
func (on *contest) raises(p shard.Place, c *claim) bool {
	d := on.own.d
	return (p.Home || d.shards.Takes(c.Lease.Key, p.Shard.Name)) && d.store.Writable() == nil
}

// raise makes better copies what the claims' are, which then wait for them, but for
// those that it returns: their shard refuses to write, or is silent.
func (l *lane) raise(ctx context.Context, better *shard.Shard, all []raising) (refused []raising) {
	if len(all) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, replica.CopyPatience)
	defer cancel()
	spots := make([]store.Spot, len(all))
	for i, r := range all {
		spots[i] = store.Spot{Shard: l.shard.Name, Key: r.claim.Lease.Key}
	}
	var writes []store.Write
	var about []raising
	for i, own := range l.d.store.Read(bounded, spots) {
		if own.Record.State != all[i].claim.Record.State {
			all[i].claim.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation})
			continue
		}
		own.LookIn = 0 // it is due
		writes, about = append(writes, l.d.copies.CopyOf(&own, all[i].to)), append(about, all[i])
	}
	if len(writes) == 0 {
		return nil
	}
	for i, answer := range l.d.store.Tell(bounded, better.Name, writes) {
		if errors.Is(answer.Err, timer.ErrRefused) || answer.Err != nil && better.Away() {
			refused = append(refused, about[i])
			continue
		}
		about[i].claim.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation})
	}
	return refused
}

// fireOwn goes on with the claim itself: there is no better copy.
func (l *lane) fireOwn(c *claim) {
	c.contended = true
	l.d.turnIn(time.Now(), c)
}
