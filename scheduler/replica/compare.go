package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// comparison holds the answers of all copies of one timer.
type comparison struct {
	id     timer.ID
	copies []finding // for every place where a copy may be, owners first
	newest *finding  // nil if there is no copy, live or ended
}

// finding is the answer of one place about a timer.
type finding struct {
	shard.Place
	store.ReadResult
}

// compare reads all copies of some timers together. The newest copy of a timer says how many copies
// belong to the timer, so further places are read after the newest copy is known.
func (k *Keeper) compare(ctx context.Context, ids []timer.ID) []comparison {
	all := make([]comparison, len(ids))
	for i, id := range ids {
		all[i].id = id
	}
	for range 2 {
		for c := range each(all) {
			c.lay(k.shards.Places(c.id))
		}
		k.look(ctx, all)
	}
	return all
}

// lay sets the places of the copies, and keeps places that were read before.
func (c *comparison) lay(places []shard.Place) {
	for f := range each(c.copies) {
		f.Home = false
	}
	for _, p := range places {
		if i := slices.IndexFunc(c.copies, func(f finding) bool { return f.Shard == p.Shard }); i >= 0 {
			c.copies[i].Place = p
		} else {
			c.copies = append(c.copies, finding{Place: p})
		}
	}
}

// look reads the copies that were not read yet, except on silent shards.
func (k *Keeper) look(ctx context.Context, all []comparison) {
	var spots []store.Spot
	var of []*finding
	for c := range each(all) {
		for f := range each(c.copies) {
			switch {
			case f.there() || f.Err != nil:
			case f.Shard.Away():
				f.Err = fmt.Errorf("%w: shard %s is silent", timer.ErrUnavailable, f.Shard.Name)
			default:
				spots, of = append(spots, store.Spot{Shard: f.Shard.Name, Key: c.id.Key}), append(of, f)
			}
		}
	}
	if len(spots) > 0 {
		for i, result := range k.store.Read(ctx, spots) {
			of[i].ReadResult = result
			k.shards.Heard(result.Record.State.Written())
		}
	}
	for c := range each(all) {
		c.weigh()
	}
}

// weigh finds the newest copy, and gives that copy's state the newest revision.
func (c *comparison) weigh() {
	c.newest = nil
	for f := range each(c.copies) {
		if f.there() && (c.newest == nil || f.Record.State.Compare(c.newest.Record.State) > 0) {
			c.newest, c.id.RF = f, f.Record.ID.RF
		}
	}
	for f := range each(c.copies) {
		if c.newest != nil && f.Record.State.Revised(c.newest.Record.State) {
			joined := *c.newest
			joined.Record.State.Rev, joined.Record.Timer = f.Record.State.Rev, f.Record.Timer
			c.newest = &joined
		}
	}
}

// unanswered is the error of a place without an answer; nil if all places have answered. A shard
// that is gone and was no owner need not answer.
func (c *comparison) unanswered() error {
	for f := range each(c.copies) {
		if !f.answered() && !f.Vanished() {
			return f.Err
		}
	}
	return nil
}

// firing reports whether a callback of the newest version may be under way.
func (c *comparison) firing() bool {
	return slices.ContainsFunc(c.copies, func(f finding) bool {
		return f.there() && f.Fired && f.Record.State.Version == c.newest.Record.State.Version
	})
}

// later reports whether a copy is in a later format. Upgraded nodes look after the timer then.
func (c *comparison) later() bool {
	return slices.ContainsFunc(c.copies, func(f finding) bool { return errors.Is(f.Err, timer.ErrUpgrading) })
}

// behind are the places that lack the newest state.
func (c *comparison) behind() (all []*finding) {
	for f := range each(c.copies) {
		if f.lacks(c.newest.Record.State) {
			all = append(all, f)
		}
	}
	return all
}

// there reports whether the place has a copy, live or ended.
func (f *finding) there() bool { return f.Record.State.Version != 0 }

// answered reports whether the shard has answered.
func (f *finding) answered() bool { return f.there() || errors.Is(f.Err, timer.ErrNotFound) }

// lacks reports whether a copy is older than the state, or has an older revision, or an owner has no copy.
func (f *finding) lacks(state timer.State) bool {
	if f.there() {
		return f.Record.State.Lacks(state)
	}
	return f.Home && errors.Is(f.Err, timer.ErrNotFound)
}

// aboutToFire reports whether a copy is about to fire, or firing: then the outcome brings up the
// remaining copies. A copy that waits for a better copy is looked at after the better copy's callback,
// and may still wait by a former rank.
func (f *finding) aboutToFire(shards *shard.Registry) bool {
	r := &f.Record
	spacing := shards.Spacing(r)
	offset := max(f.Offset(spacing), spacing.Of(r.Rank))
	return f.Leased || !r.State.Ended && (f.LookIn-offset < timing.DueSoon || r.State.Attempt == 0 && f.DueIn < timing.DueSoon)
}

// tell sends repairs to all shards at the same time, and returns the answers in the order of the writes.
func (k *Keeper) tell(ctx context.Context, writes []store.Write) []store.Written {
	answers, of := make([]store.Written, len(writes)), map[string][]int{}
	for i := range writes {
		of[writes[i].Shard] = append(of[writes[i].Shard], i)
	}
	var tells sync.WaitGroup
	for name, indexes := range of {
		tells.Go(func() {
			batch := make([]store.Write, len(indexes))
			for n, i := range indexes {
				batch[n] = writes[i]
			}
			for n, answer := range k.store.Tell(ctx, name, batch) {
				answers[indexes[n]] = answer
			}
		})
	}
	tells.Wait()
	return answers
}

// fix is the write that brings a copy up to the newest copy.
func (k *Keeper) fix(newest *finding, to shard.Place) store.Write {
	if newest.Record.State.Ended {
		return k.EndOf(&newest.Record, to)
	}
	return k.CopyOf(&newest.ReadResult, to)
}

// CopyOf is the write that brings the copy at a place to a state that was read elsewhere a moment ago.
func (k *Keeper) CopyOf(read *store.ReadResult, to shard.Place) store.Write {
	r := &read.Record
	if r.State.Ended {
		end := to.Tombstone(k.config, r.State, r.BodyHash)
		end.Away = r.Away
		return store.End(to.Copy(r.ID), end)
	}
	offset, retry := k.looksFrom(read, to)
	return store.Copy(to.Copy(r.ID), r, store.Times{DueIn: read.DueIn, Offset: offset, Retry: retry})
}

// EndOf is the write that tells the copy at a place of an end that was read elsewhere. EndOf makes
// nothing where no copy is.
func (k *Keeper) EndOf(r *store.Record, to shard.Place) store.Write {
	return store.EndExisting(to.Copy(r.ID), to.Tombstone(k.config, r.State, r.BodyHash))
}

// looksFrom says when to look at a copy at a place: how long after every pop, and, while a retry waits,
// how long from now. The times come from the copy that was read a moment ago, by the place's own skew.
func (k *Keeper) looksFrom(read *store.ReadResult, to shard.Place) (offset, retry time.Duration) {
	r := &read.Record
	spacing := k.shards.Spacing(r)
	if offset = to.Offset(spacing); r.State.Attempt > 0 {
		retry = max(read.LookIn-spacing.Of(r.Rank), 0) + offset
	}
	return offset, retry
}

// each yields pointers to the elements of a slice, for changes in place.
func each[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}
