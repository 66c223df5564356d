package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Lookup reads the newest copy of a timer, and has those that are older or
// missing brought up to it. Errors: ErrNotFound, if no shard has a live one;
// ErrUnavailable, if none has that could be asked, or this node doesn't know where
// timers belong.
func (s *Scheduler) Lookup(ctx context.Context, id ID) (ReadResult, error) {
	if err := s.store.Writable(); err != nil {
		return ReadResult{}, err
	}
	if s.several() {
		var cancel context.CancelFunc
		ctx, cancel = s.config.Awake.WithTimeout(ctx, roundPatience)
		defer cancel()
	}
	found, newest := s.find(ctx, id)
	if newest == nil {
		for i := range found {
			f := &found[i]
			if !errors.Is(f.Err, ErrNotFound) && !f.vanished() {
				return ReadResult{}, f.Err
			}
		}
		return ReadResult{}, ErrNotFound
	}
	if uneven(found, newest) {
		s.mending.add(found, newest)
	}
	result := newest.ReadResult
	result.Record.ID.Hint = s.hintOf(holders(found))
	return result, result.Err
}

// find reads all copies of a timer, and says which is the newest; nil if there is
// none.
func (s *Scheduler) find(ctx context.Context, id ID) (found []finding, newest *finding) {
	for _, p := range s.places(id, nil) {
		found = append(found, finding{place: p})
	}
	s.look(ctx, id.Key, found)
	newest = newestOf(found)
	if newest == nil {
		return found, nil
	}
	found = s.widen(id.Key, found, newest)
	s.look(ctx, id.Key, found)
	return found, newestOf(found)
}

// widen adds where else copies may be by the record of the newest, which knows how many
// there should be.
func (s *Scheduler) widen(key string, found []finding, newest *finding) []finding {
	rf, away := newest.Record.ID.RF, newest.Record.Away
	for _, p := range s.places(ID{Key: key, RF: rf}, away) {
		if i := slices.IndexFunc(found, func(f finding) bool { return f.shard == p.shard }); i >= 0 {
			found[i].place = p
		} else {
			found = append(found, finding{place: p})
		}
	}
	for i := range found {
		found[i].home = found[i].home && found[i].rank < rf
	}
	return found
}

// finding is what was found of a timer at a place.
type finding struct {
	place
	ReadResult
}

// there reports whether a copy is, live or ended.
func (f *finding) there() bool { return f.Record.State.Version != 0 }

// look reads the copies at those places, but for those that were read, whose shards
// aren't silent.
func (s *Scheduler) look(ctx context.Context, key string, found []finding) {
	s.lookAll(ctx, []string{key}, [][]finding{found})
}

// lookAll does so for several timers together.
func (s *Scheduler) lookAll(ctx context.Context, keys []string, found [][]finding) {
	var spots []Spot
	var of []*finding
	for i, key := range keys {
		for k := range found[i] {
			switch f := &found[i][k]; {
			case f.there() || f.Err != nil:
			case f.shard.away():
				f.Err = fmt.Errorf("%w: shard %s is silent", ErrUnavailable, f.shard.name)
			default:
				spots, of = append(spots, Spot{Shard: f.shard.name, Key: key}), append(of, f)
			}
		}
	}
	if len(spots) == 0 {
		return
	}
	for k, result := range s.store.Read(ctx, spots) {
		of[k].ReadResult = result
		s.latest.heard(result.Record.State.Version, s.config.Wall)
	}
}

func newestOf(found []finding) (newest *finding) {
	for i := range found {
		if f := &found[i]; f.there() && (newest == nil || f.Record.State.Compare(newest.Record.State) > 0) {
			newest = f
		}
	}
	return newest
}

func holders(found []finding) (all []place) {
	for i := range found {
		if f := &found[i]; f.there() && f.Err == nil {
			all = append(all, f.place)
		}
	}
	return all
}

// copyOf is the write that makes the copy at a place what was read elsewhere a
// moment ago.
func (s *Scheduler) copyOf(read *ReadResult, to place) Write {
	r := &read.Record
	w := Write{
		Kind: WriteLive, Shard: to.shard.name, Key: r.ID.Key, State: r.State, RF: r.ID.RF, Rank: to.rank, Away: r.Away,
		Life: to.tombLife(&s.config), Keep: to.keepFor(&s.config), BodyHash: r.BodyHash, Failure: r.Failure,
	}
	if r.State.Ended {
		w.Kind, w.Failure = WriteGone, Failure{}
		return w
	}
	w.Timer, w.DueIn = &r.Timer, read.DueIn
	w.Offset, w.Retry = s.looksFrom(read, to)
	return w
}

// looksFrom is how long after its pops a copy at a place is looked at, and when it is
// for its retry, if it waits for one: as that which was read a moment ago, by its own skew.
func (s *Scheduler) looksFrom(read *ReadResult, to place) (offset, retry time.Duration) {
	r := &read.Record
	skew := s.config.Skew.Of(r.Timer.Interval, r.ID.RF)
	if offset = to.offset(skew); r.State.Attempt > 0 {
		retry = max(read.LookIn-time.Duration(r.Rank)*skew, 0) + offset
	}
	return offset, retry
}
