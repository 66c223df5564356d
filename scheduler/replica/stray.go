package replica

import (
	"context"
	"errors"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// stray is a copy on the way to its owner.
type stray struct {
	finding
	comparison // with the copies of the other owners, of which only the state is known; newest is this copy
	k          *Keeper
	waits      []shard.Place // owners whose copies have a higher rank than they should, while this copy is to go
	over       timer.State   // the end of the timer elsewhere, unknown to this copy; zero if the timer has not ended
	busy       bool          // about to fire, or firing
	stays      bool          // is not to go for now
}

// sweepKeys brings some timers of the shard to their owners. clean reports whether all are in
// place; bytes is how much memory the timers take.
func (sw *sweep) sweepKeys(ctx context.Context, keys []string) (clean bool, bytes int) {
	all, clean, bytes := sw.read(ctx, keys)
	sw.bringHome(ctx, all)
	return sw.settleDown(ctx, all) && clean, bytes
}

// read looks at some timers of the shard and asks the other owners about the timers. clean reports
// whether all could be read; bytes is how much memory the timers take.
func (sw *sweep) read(ctx context.Context, keys []string) (all []*stray, clean bool, bytes int) {
	spots := make([]store.Spot, len(keys))
	for i, key := range keys {
		spots[i] = store.Spot{Shard: sw.shard.Name, Key: key}
	}
	clean = true
	for _, read := range sw.k.store.Read(ctx, spots) {
		switch {
		case errors.Is(read.Err, timer.ErrNotFound) && read.Record.State.Version == 0:
			continue // the copy is gone
		case errors.Is(read.Err, timer.ErrUpgrading):
			continue // upgraded nodes see to the copy
		case read.Err != nil && !read.Record.State.Ended:
			clean = false
			continue
		}
		bytes += read.Record.Timer.Size()
		all = append(all, sw.strayOf(read))
	}
	sw.k.swept.WithLabelValues(sw.shard.Name, "seen").Add(float64(len(keys)))
	sw.askOwners(ctx, all)
	return all, clean, bytes
}

// strayOf finds out where a copy belongs.
func (sw *sweep) strayOf(read store.ReadResult) *stray {
	id := read.Record.ID
	s := &stray{finding: finding{shard.Place{Shard: sw.shard, Rank: read.Record.Rank}, read}, k: sw.k}
	for _, p := range sw.k.shards.Homes(id.WithoutHint()) {
		if p.Shard == sw.shard {
			s.Place = p
		} else {
			s.copies = append(s.copies, finding{Place: p})
		}
	}
	s.newest = &s.finding
	s.busy = s.aboutToFire(sw.k.shards) && !sw.k.store.Lost(sw.shard.Name) // a lost shard fires nothing
	s.stays = s.busy && !s.Home
	return s
}

// forsaken reports whether a copy on a shard that was given up must go. No tombstone waited for the
// copy, so a timer that no other owner knows is over (rule "tombstones outlive what was missed").
func (s *stray) forsaken() bool {
	return s.k.store.Lost(s.Shard.Name) && s.Record.ID.RF > 1 && !s.stays && len(s.copies) > 0 &&
		!slices.ContainsFunc(s.copies, func(f finding) bool { return f.there() })
}

// askOwners finds out which owners are behind, and whether an owner knows that the timer is over:
// nobody else would tell this copy of the end. The sweep of the other shard brings a newer live
// state here.
func (sw *sweep) askOwners(ctx context.Context, all []*stray) {
	type question struct {
		about  []*stray
		copies []*finding
		states []store.KeyState
	}
	questions := map[*shard.Shard]*question{}
	for _, s := range all {
		for f := range each(s.copies) {
			switch {
			case s.busy:
				continue
			case f.Shard.Away(): // the question would use up the time of the whole page
				s.stays = true
				continue
			case questions[f.Shard] == nil:
				questions[f.Shard] = &question{}
			}
			q, state := questions[f.Shard], store.KeyState{Key: s.Record.ID.Key, State: s.Record.State}
			if !s.Home {
				state.RankFrom = f.Rank + 1
			}
			f.Record.State = state.State // unless the answer says otherwise
			q.about, q.copies, q.states = append(q.about, s), append(q.copies, f), append(q.states, state)
		}
	}
	for to, q := range questions {
		differences, err := sw.k.store.Ask(ctx, to.Name, q.states)
		for i := range q.about {
			q.about[i].stays = q.about[i].stays || err != nil
		}
		for _, d := range differences {
			s, f := q.about[d.Index], q.copies[d.Index]
			f.Record.State = d.State
			switch {
			case d.Missing:
				f.Err = timer.ErrNotFound
			case d.Later: // upgraded nodes see to the owner's copy
				s.stays = s.stays || !s.Home && d.State.Version < s.Record.State.Version
				f.Record.State = s.Record.State
			case d.State.Compare(s.Record.State) < 0:
			case d.State.Ended && d.State.Compare(s.over) > 0:
				s.over = d.State
			case !s.Home && d.State.Compare(s.Record.State) == 0:
				s.waits = append(s.waits, f.Place)
			}
		}
	}
}

// inTurn reports whether the copy has the rank of its place and is looked at when that rank is due.
// A copy that was changed while its shard was no owner yet is looked at half a skew later.
func (s *stray) inTurn() bool {
	r := &s.Record
	return r.State.Ended || r.Rank == s.Rank && (s.busy || r.State.Attempt > 0 ||
		(s.LookIn-s.DueIn-s.Offset(s.k.shards.Spacing(r))).Abs() < time.Millisecond)
}

// rankAt gives the copy at a place the present rank of the place.
func (s *stray) rankAt(p shard.Place) store.Write {
	offset, retry := s.k.looksFrom(&s.ReadResult, p)
	return store.Rank(p.Copy(s.Record.ID), &s.Record, offset, retry)
}

// writeTo brings an owner up to this copy.
func (s *stray) writeTo(f *finding) store.Write {
	r := &s.Record
	if !r.State.Ended {
		return s.k.CopyOf(&s.ReadResult, f.Place)
	}
	end := f.Tombstone(s.k.config, r.State, r.BodyHash)
	end.Life, end.Away = s.LookIn, r.Away
	if !f.there() {
		return store.End(f.Copy(r.ID), end)
	}
	// A copy that is missing by now has just been lost, and must not look as if told.
	return store.EndExisting(f.Copy(r.ID), end)
}

// bringHome brings owners that are behind up to the copies, and gives the right rank to copies that
// take the place of a leaving copy.
func (sw *sweep) bringHome(ctx context.Context, all []*stray) {
	var writes []store.Write
	var about []*stray
	for _, s := range all {
		if s.over.Version != 0 || s.Record.State.Ended && s.Home || s.forsaken() {
			continue // the timer is over, or a node will tell the owners when the node removes this tombstone
		}
		for _, p := range s.waits { // otherwise only the owner's own sweep does, maybe long after this copy has gone
			writes, about = append(writes, s.rankAt(p)), append(about, s)
		}
		for _, f := range s.behind() {
			writes, about = append(writes, s.writeTo(f)), append(about, s)
		}
	}
	for i, answer := range sw.k.tell(ctx, writes) {
		if answer.Err != nil || !accepted(answer.Status) && answer.Status != store.WriteNewer {
			about[i].stays = true
		}
		sw.k.swept.WithLabelValues(writes[i].Shard, "brought").Inc()
		sw.k.brought.Inc()
	}
}

// settleDown removes copies that are in place elsewhere, and corrects ranks. clean reports whether
// all copies are in place.
func (sw *sweep) settleDown(ctx context.Context, all []*stray) (clean bool) {
	clean = true
	var writes []store.Write
	for _, s := range all {
		r, to := &s.Record, s.Copy(s.Record.ID)
		switch {
		case s.over.Version != 0:
			writes = append(writes, store.EndExisting(to, s.Tombstone(sw.k.config, s.over, "")))
		case s.stays:
			clean = false
		case s.forsaken():
			writes = append(writes, store.Drop(to, r.State))
		case !s.Home:
			writes = append(writes, store.Leave(to, r.State))
		case s.inTurn():
		case s.busy: // nobody has asked for better copies, so the time to look stays
			writes = append(writes, store.Rank(to, r, s.LookIn-s.DueIn, 0))
		default:
			writes = append(writes, s.rankAt(s.Place))
		}
	}
	if len(writes) == 0 {
		return clean
	}
	for _, answer := range sw.k.store.Tell(ctx, sw.shard.Name, writes) {
		clean = clean && answer.Err == nil && (answer.Status == store.WriteStored || answer.Status == store.WriteNone)
	}
	sw.k.swept.WithLabelValues(sw.shard.Name, "settled").Add(float64(len(writes)))
	return clean
}
