package scheduler

import (
	"context"
	"errors"
	"time"
)

const (
	// sweepDelay is how long after a change of the topology the sweep begins: by then
	// no node writes where timers belonged before (nodes that have not heard of the
	// change refuse to).
	sweepDelay = 6 * time.Second
	// sweepInterval is how often a node looks whether there is something to sweep.
	sweepInterval = time.Second
	// sweepPage is how many timers are looked at together.
	sweepPage = 200
	// sweepPatience is how long a page may take.
	// What is due within the quiet is left alone, so nothing is over meanwhile.
	sweepPatience = time.Second
)

// sweep brings the copies of those partitions that this node is the first to look
// after where they belong (rule P9), after each change of the topology, until ctx
// ends.
func (sh *shard) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	var seen, done int64
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		epoch := sh.s.store.Epoch()
		if epoch != seen {
			seen, since = epoch, time.Now()
		}
		if done == epoch || time.Since(since) < sweepDelay || sh.silence.lasts() {
			continue
		}
		if sh.sweepAll(ctx, epoch) {
			done = epoch
		}
	}
}

// sweepAll sweeps the node's partitions for an epoch, and reports whether the
// whole shard has been.
func (sh *shard) sweepAll(ctx context.Context, epoch int64) bool {
	marks, err := sh.s.store.Swept(ctx, sh.name)
	if err != nil {
		return false
	}
	all := true
	for p, mark := range marks {
		if mark >= epoch {
			continue
		}
		if !sh.ownership.first(p) || !sh.sweepPartition(ctx, p) || sh.s.store.Epoch() != epoch ||
			sh.s.store.MarkSwept(ctx, sh.name, p, epoch) != nil {
			all = false
		}
	}
	if all && sh.ownership.first(0) {
		if err := sh.s.store.Forget(ctx, epoch); err != nil {
			sh.log.Debug("the sweep is not over on all shards", "epoch", epoch, "err", err)
			return false
		}
	}
	return all
}

// sweepPartition reports whether every copy is in place: none was left alone since
// somebody is at it, or could not be moved.
func (sh *shard) sweepPartition(ctx context.Context, partition int) (clean bool) {
	clean = true
	for cursor := ""; ctx.Err() == nil; {
		bounded, cancel := context.WithTimeout(ctx, sweepPatience)
		keys, next, err := sh.s.store.Scan(bounded, sh.name, partition, cursor, sweepPage)
		if err == nil {
			clean = sh.sweepKeys(bounded, keys) && clean
		}
		cancel()
		if err != nil || next == "" {
			return clean && err == nil
		}
		cursor = next
		if sh.s.sweepPace.WaitN(ctx, min(len(keys), sh.s.sweepPace.Burst())) != nil {
			return false
		}
	}
	return false
}

// stray is a copy on the way to where it belongs.
type stray struct {
	ReadResult
	own    place
	homes  []place
	behind []place // those that are to be brought up
	busy   bool    // it is about to fire, or firing
	stays  bool    // for now
}

// sweepKeys brings some timers of the shard where they belong, and reports whether
// they are.
func (sh *shard) sweepKeys(ctx context.Context, keys []string) (clean bool) {
	spots := make([]Spot, len(keys))
	for i, key := range keys {
		spots[i] = Spot{Shard: sh.name, Key: key}
	}
	clean = true
	var all []*stray
	for i, read := range sh.s.store.Read(ctx, spots) {
		switch {
		case errors.Is(read.Err, ErrNotFound) && read.Record.State.Version == 0:
			continue // it is gone
		case read.Err != nil && !read.Record.State.Ended:
			clean = false
			continue
		}
		read.Record.ID.Key = keys[i]
		all = append(all, sh.strayOf(read))
	}
	sh.askHomes(ctx, all)
	sh.bringHome(ctx, all)
	return sh.settleDown(ctx, all) && clean
}

// strayOf looks where a copy belongs. What is about to fire, or firing, brings its
// other copies up itself.
func (sh *shard) strayOf(read ReadResult) *stray {
	id := read.Record.ID
	s := &stray{ReadResult: read, own: place{shard: sh, rank: read.Record.Rank}}
	for _, p := range sh.s.homes(ID{Key: id.Key, RF: max(id.RF, 1)}, 0) {
		if p.shard == sh {
			s.own = p
		} else {
			s.homes = append(s.homes, p)
		}
	}
	timer := &read.Record.Timer
	offset := s.own.offset(sh.s.config.Skew.Of(timer.Interval, id.RF))
	s.busy = read.Leased || !read.Record.State.Ended && read.LookIn-offset < quiet
	s.stays = s.busy && !s.own.home
	return s
}

// askHomes finds out which of the other homes are behind.
func (sh *shard) askHomes(ctx context.Context, all []*stray) {
	type question struct {
		to     *shard
		about  []*stray
		places []place
		states []KeyState
	}
	var questions []*question
	by := map[*shard]*question{}
	for _, s := range all {
		if s.busy {
			continue
		}
		for _, p := range s.homes {
			q := by[p.shard]
			if q == nil {
				q = &question{to: p.shard}
				by[p.shard], questions = q, append(questions, q)
			}
			q.about, q.places = append(q.about, s), append(q.places, p)
			q.states = append(q.states, KeyState{Key: s.Record.ID.Key, State: s.Record.State})
		}
	}
	for _, q := range questions {
		differences, err := sh.s.store.Ask(ctx, q.to.name, q.states)
		if err != nil {
			for _, s := range q.about {
				s.stays = true
			}
			continue
		}
		for _, d := range differences {
			s := q.about[d.Index]
			if d.Missing || d.State.Compare(s.Record.State) < 0 {
				s.behind = append(s.behind, q.places[d.Index])
			}
		}
	}
}

// bringHome makes the homes that are behind what the copies are.
func (sh *shard) bringHome(ctx context.Context, all []*stray) {
	writes, about := map[*shard][]Write{}, map[*shard][]*stray{}
	for _, s := range all {
		for _, p := range s.behind {
			if s.Record.State.Ended && s.own.home {
				continue // it is buried from here
			}
			w := sh.s.copyOf(&s.ReadResult, p)
			if s.Record.State.Ended {
				w.Life = s.LookIn
			}
			writes[p.shard], about[p.shard] = append(writes[p.shard], w), append(about[p.shard], s)
		}
	}
	for to, batch := range writes {
		for i, answer := range sh.s.store.Tell(ctx, to.name, batch) {
			if answer.Err != nil || answer.Status != WriteStored && answer.Status != WriteSame && answer.Status != WriteNewer {
				about[to][i].stays = true
			}
		}
	}
}

// settleDown removes what is in place elsewhere, and gives what has another rank
// now that one. It reports whether all are in place.
func (sh *shard) settleDown(ctx context.Context, all []*stray) (clean bool) {
	clean = true
	var writes []Write
	for _, s := range all {
		r := &s.Record
		w := Write{Shard: sh.name, Key: r.ID.Key, State: r.State, RF: max(r.ID.RF, 1), Rank: s.own.rank}
		switch {
		case s.stays:
			clean = false
			continue
		case !s.own.home:
			w.Kind = WriteLeave
		case r.Rank != s.own.rank && !r.State.Ended:
			w.Kind, w.Timer = WriteRank, &r.Timer
			w.Offset = s.own.offset(sh.s.config.Skew.Of(r.Timer.Interval, r.ID.RF))
		default:
			continue
		}
		writes = append(writes, w)
	}
	if len(writes) == 0 {
		return clean
	}
	for _, answer := range sh.s.store.Tell(ctx, sh.name, writes) {
		clean = clean && answer.Err == nil && (answer.Status == WriteStored || answer.Status == WriteNone)
	}
	return clean
}
