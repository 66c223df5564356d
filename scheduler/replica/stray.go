package replica

import (
	"context"
	"errors"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// stray is a copy on the way to where it belongs.
type stray struct {
	store.ReadResult
	k      *Keeper
	own    shard.Place
	homes  []shard.Place
	behind []lag         // those that are to be brought up
	waits  []shard.Place // those that wait longer than they are to, while this copy is to go
	over   timer.State   // that the timer has ended with elsewhere, which this copy doesn't know; zero if it hasn't
	busy   bool          // it is about to fire, or firing
	stays  bool          // for now
	absent int           // homes that have nothing of the timer
}

// lag is a home that is behind, or has nothing of the timer.
type lag struct {
	shard.Place
	missing bool
}

// sweepKeys brings some timers of the shard where they belong, and reports whether
// they are, and how many bytes their timers take.
func (sw *sweep) sweepKeys(ctx context.Context, keys []string) (clean bool, bytes int) {
	all, clean, bytes := sw.read(ctx, keys)
	sw.bringHome(ctx, all)
	return sw.settleDown(ctx, all) && clean, bytes
}

// read looks at some timers of the shard and asks the other owners about them. It reports
// whether all could be read, and how many bytes the timers take.
func (sw *sweep) read(ctx context.Context, keys []string) (all []*stray, clean bool, bytes int) {
	spots := make([]store.Spot, len(keys))
	for i, key := range keys {
		spots[i] = store.Spot{Shard: sw.shard.Name, Key: key}
	}
	clean = true
	for i, read := range sw.k.store.Read(ctx, spots) {
		switch {
		case errors.Is(read.Err, timer.ErrNotFound) && read.Record.State.Version == 0:
			continue // it is gone
		case read.Err != nil && !read.Record.State.Ended:
			clean = false
			continue
		}
		read.Record.ID.Key = keys[i]
		bytes += read.Record.Timer.Size()
		all = append(all, sw.strayOf(read))
	}
	sw.k.swept.WithLabelValues(sw.shard.Name, "seen").Add(float64(len(keys)))
	sw.askHomes(ctx, all)
	return all, clean, bytes
}

// strayOf looks where a copy belongs. What is about to fire, or firing, brings its
// other copies up itself. So does one that waits for a better copy's callback, and is
// looked at after that.
func (sw *sweep) strayOf(read store.ReadResult) *stray {
	id := read.Record.ID
	s := &stray{ReadResult: read, k: sw.k, own: shard.Place{Shard: sw.shard, Rank: read.Record.Rank}}
	for _, p := range sw.k.shards.Homes(timer.ID{Key: id.Key, RF: max(id.RF, 1)}) {
		if p.Shard == sw.shard {
			s.own = p
		} else {
			s.homes = append(s.homes, p)
		}
	}
	asked := &read.Record.Timer
	offset := s.own.Offset(sw.k.config.Skew.Of(asked.Interval, id.RF))
	state := &read.Record.State
	s.busy = read.Leased || !state.Ended && (read.LookIn-offset < timing.DueSoon || state.Attempt == 0 && read.DueIn < timing.DueSoon)
	if sw.k.store.Lost(sw.shard.Name) {
		s.busy = false // nothing fires there
	}
	s.stays = s.busy && !s.own.Home
	return s
}

// forsaken reports whether a copy on a shard that was given up is to go: nobody
// waited for it when its timer ended, so a timer that no other owner knows is over (rule
// "tombstones outlive what was missed").
func (s *stray) forsaken() bool {
	return s.k.store.Lost(s.own.Shard.Name) && s.Record.ID.RF > 1 && !s.stays && len(s.homes) > 0 && s.absent == len(s.homes)
}

// askHomes finds out which of the other homes are behind, and whether any is ahead
// because the timer is over: nobody would tell this copy so again. What is newer and
// lives is brought here from there.
func (sw *sweep) askHomes(ctx context.Context, all []*stray) {
	type question struct {
		to     *shard.Shard
		about  []*stray
		places []shard.Place
		states []store.KeyState
	}
	var questions []*question
	by := map[*shard.Shard]*question{}
	for _, s := range all {
		if s.busy {
			continue
		}
		for _, p := range s.homes {
			if p.Shard.Away() { // the question would use up the time of the whole page
				s.stays = true
				continue
			}
			q := by[p.Shard]
			if q == nil {
				q = &question{to: p.Shard}
				by[p.Shard], questions = q, append(questions, q)
			}
			q.about, q.places = append(q.about, s), append(q.places, p)
			state := store.KeyState{Key: s.Record.ID.Key, State: s.Record.State}
			if !s.own.Home {
				state.RankFrom = p.Rank + 1
			}
			q.states = append(q.states, state)
		}
	}
	for _, q := range questions {
		differences, err := sw.k.store.Ask(ctx, q.to.Name, q.states)
		if err != nil {
			for _, s := range q.about {
				s.stays = true
			}
			continue
		}
		for _, d := range differences {
			s := q.about[d.Index]
			if d.Missing {
				s.absent++
			}
			switch {
			case d.Missing || d.State.Compare(s.Record.State) < 0:
				s.behind = append(s.behind, lag{q.places[d.Index], d.Missing})
			case d.State.Ended && d.State.Compare(s.over) > 0:
				s.over = d.State
			case !s.own.Home && d.State == s.Record.State:
				s.waits = append(s.waits, q.places[d.Index])
			}
		}
	}
}

// rankAt gives a copy of the timer the rank that is its shard's now.
func (s *stray) rankAt(p shard.Place) store.Write {
	offset, retry := s.k.looksFrom(&s.ReadResult, p)
	return store.Rank(p.Copy(s.Record.ID), &s.Record, offset, retry)
}

// writeTo brings a home up to the copy.
func (s *stray) writeTo(p lag) store.Write {
	r := &s.Record
	if !r.State.Ended {
		return s.k.CopyOf(&s.ReadResult, p.Place)
	}
	end := p.Tombstone(s.k.config, r.State, r.BodyHash)
	end.Life, end.Away = s.LookIn, r.Away
	if p.missing {
		return store.End(p.Copy(r.ID), end)
	}
	// If nothing is there by now, the copy has just been lost, and must not look as if it had been told.
	return store.EndExisting(p.Copy(r.ID), end)
}

// bringHome makes the homes that are behind what the copies are, and has the others
// take the place of those that are to go.
func (sw *sweep) bringHome(ctx context.Context, all []*stray) {
	writes, about := map[*shard.Shard][]store.Write{}, map[*shard.Shard][]*stray{}
	for _, s := range all {
		if s.over.Version != 0 || s.Record.State.Ended && s.own.Home || s.forsaken() {
			continue // it is not to be made anew, or it is buried from here
		}
		for _, p := range s.waits { // only its own sweep would tell it so, maybe long after this copy has gone
			writes[p.Shard], about[p.Shard] = append(writes[p.Shard], s.rankAt(p)), append(about[p.Shard], s)
		}
		for _, p := range s.behind {
			writes[p.Shard], about[p.Shard] = append(writes[p.Shard], s.writeTo(p)), append(about[p.Shard], s)
		}
	}
	for to, batch := range writes {
		for i, answer := range sw.k.store.Tell(ctx, to.Name, batch) {
			if answer.Err != nil || answer.Status != store.WriteStored && answer.Status != store.WriteSame && answer.Status != store.WriteNewer {
				about[to][i].stays = true
			}
		}
		sw.k.swept.WithLabelValues(to.Name, "brought").Add(float64(len(batch)))
	}
}

// settleDown removes what is in place elsewhere, and gives what has another rank
// now that one. It reports whether all are in place.
func (sw *sweep) settleDown(ctx context.Context, all []*stray) (clean bool) {
	clean = true
	var writes []store.Write
	for _, s := range all {
		r, to := &s.Record, s.own.Copy(s.Record.ID)
		switch {
		case s.over.Version != 0:
			writes = append(writes, store.EndExisting(to, s.own.Tombstone(sw.k.config, s.over, "")))
		case s.stays:
			clean = false
		case s.forsaken():
			writes = append(writes, store.Drop(to, r.State))
		case !s.own.Home:
			writes = append(writes, store.Leave(to, r.State))
		case r.Rank == s.own.Rank || r.State.Ended:
		case s.busy: // nobody has looked whether there are better copies
			writes = append(writes, store.Rank(to, r, s.LookIn-s.DueIn, 0))
		default:
			writes = append(writes, s.rankAt(s.own))
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
