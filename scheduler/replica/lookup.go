package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Lookup reads the newest copy of a timer. Errors: ErrNotFound, if no shard has a live one;
// ErrUnavailable, if none has that could be asked, or this node doesn't know where
// timers belong.
func (k *Keeper) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	if err := k.store.Writable(); err != nil {
		return store.ReadResult{}, err
	}
	if k.shards.Several() {
		var cancel context.CancelFunc
		ctx, cancel = k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
		defer cancel()
	}
	found, newest := k.find(ctx, id)
	if newest == nil {
		for i := range found {
			f := &found[i]
			if !errors.Is(f.Err, timer.ErrNotFound) && !f.Vanished() {
				return store.ReadResult{}, f.Err
			}
		}
		return store.ReadResult{}, timer.ErrNotFound
	}
	result := newest.ReadResult
	result.Record.ID.Hint = k.shards.HintOf(holders(found))
	return result, result.Err
}

// find reads all copies of a timer, and says which is the newest; nil if there is
// none.
func (k *Keeper) find(ctx context.Context, id timer.ID) (found []finding, newest *finding) {
	found = k.findMany(ctx, []timer.ID{id})[0]
	return found, newestOf(found)
}

// findMany reads all copies of several timers together.
func (k *Keeper) findMany(ctx context.Context, ids []timer.ID) [][]finding {
	found := make([][]finding, len(ids))
	for i, id := range ids {
		for _, p := range k.shards.Places(id) {
			found[i] = append(found[i], finding{Place: p})
		}
	}
	k.look(ctx, ids, found)
	for i, id := range ids {
		if newest := newestOf(found[i]); newest != nil {
			found[i] = k.widen(id.Key, found[i], newest)
		}
	}
	k.look(ctx, ids, found)
	return found
}

// widen adds where else copies may be by the record of the newest, which knows how many
// there should be.
func (k *Keeper) widen(key string, found []finding, newest *finding) []finding {
	rf := newest.Record.ID.RF
	for _, p := range k.shards.Places(timer.ID{Key: key, RF: rf}) {
		if i := slices.IndexFunc(found, func(f finding) bool { return f.Shard == p.Shard }); i >= 0 {
			found[i].Place = p
		} else {
			found = append(found, finding{Place: p})
		}
	}
	for i := range found {
		found[i].Home = found[i].Home && found[i].Rank < rf
	}
	return found
}

// finding is what was found of a timer at a place.
type finding struct {
	shard.Place
	store.ReadResult
}

// there reports whether a copy is, live or ended.
func (f *finding) there() bool { return f.Record.State.Version != 0 }

// look reads the copies of timers at those places, but for those that were read, whose
// shards aren't silent.
func (k *Keeper) look(ctx context.Context, ids []timer.ID, found [][]finding) {
	var spots []store.Spot
	var of []*finding
	for i, id := range ids {
		for k := range found[i] {
			switch f := &found[i][k]; {
			case f.there() || f.Err != nil:
			case f.Shard.Away():
				f.Err = fmt.Errorf("%w: shard %s is silent", timer.ErrUnavailable, f.Shard.Name)
			default:
				spots, of = append(spots, store.Spot{Shard: f.Shard.Name, Key: id.Key}), append(of, f)
			}
		}
	}
	if len(spots) == 0 {
		return
	}
	for i, result := range k.store.Read(ctx, spots) {
		of[i].ReadResult = result
		k.shards.Heard(result.Record.State.Version)
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

func holders(found []finding) (all []shard.Place) {
	for i := range found {
		if f := &found[i]; f.there() && f.Err == nil {
			all = append(all, f.Place)
		}
	}
	return all
}

// CopyOf is the write that makes the copy at a place what was read elsewhere a
// moment ago.
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

// EndOf is the write that tells a copy at a place of the end that was read elsewhere. It
// makes nothing where nothing is.
func (k *Keeper) EndOf(r *store.Record, to shard.Place) store.Write {
	return store.EndExisting(to.Copy(r.ID), to.Tombstone(k.config, r.State, r.BodyHash))
}

// looksFrom is how long after its pops a copy at a place is looked at, and when it is
// for its retry, if it waits for one: as that which was read a moment ago, by its own skew.
func (k *Keeper) looksFrom(read *store.ReadResult, to shard.Place) (offset, retry time.Duration) {
	r := &read.Record
	skew := k.config.Skew.Of(r.Timer.Interval, r.ID.RF)
	if offset = to.Offset(skew); r.State.Attempt > 0 {
		retry = max(read.LookIn-time.Duration(r.Rank)*skew, 0) + offset
	}
	return offset, retry
}
