package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// fillAgain fills the shards of another site that have lost their timers, until ctx ends. The nodes of the own site share the
// fill: each tells of its own partitions first, and then of those that other nodes have left.
func (o *Other) fillAgain(ctx context.Context) {
	lacking := map[string]time.Time{} // since when a shard lacks a fill that has begun
	for failing := false; awake.Sleep(ctx, timing.BeatInterval); {
		if !o.reached() {
			clear(lacking)
			continue
		}
		some, failed := o.fillNext(ctx, lacking)
		for ; some && !failed; some, failed = o.fillNext(ctx, lacking) {
			clear(lacking) // nobody has looked meanwhile
		}
		if failed && !failing && ctx.Err() == nil {
			o.s.config.Log.Warn("a part of the fill of a site has to begin again", "site", o.Name)
		}
		failing = failed
	}
}

// fillNext fills shards with the timers of some partitions. The results are whether a partition was left, and whether a timer
// could not be told.
func (o *Other) fillNext(ctx context.Context, lacking map[string]time.Time) (some, failed bool) {
	if o.s.Hollow() {
		return false, false
	}
	open := o.openFills(ctx, lacking)
	parts := o.nextParts(open)
	var fills sync.WaitGroup
	var untold atomic.Bool
	for _, p := range parts {
		fills.Go(func() {
			if !o.fillPart(ctx, open, p, fillLoops/len(parts)) {
				untold.Store(true)
			}
		})
	}
	fills.Wait()
	return len(parts) > 0, untold.Load()
}

// fillPart fills shards with the timers of a partition, so many pages at the same time. The result is false if a timer could
// not be told.
func (o *Other) fillPart(ctx context.Context, open map[string]openFill, p, atOnce int) bool {
	if !o.tellPart(ctx, p, atOnce) {
		return false
	}
	noted := true
	for name, fill := range open {
		noted = o.note(ctx, name, fill.note, fill.part(p)) && noted
	}
	return noted
}

// openFill is a fill of a shard that lacks timers of some partitions.
type openFill struct {
	note string // of the beginning
	told [store.Partitions]bool
}

// part is the note that the shard has all timers of a partition.
func (f *openFill) part(p int) string { return fmt.Sprintf("%s/%d", f.note, p) }

// readFill takes the latest fill by the own site from the notes of a shard. The note of the beginning is empty without a fill.
func (s *Sites) readFill(noted []string) (f openFill) {
	for _, note := range noted {
		if strings.HasPrefix(note, s.begunHere()) && !strings.Contains(note, "/") {
			f.note = max(f.note, note)
		}
	}
	for p := range f.told {
		f.told[p] = slices.Contains(noted, f.part(p))
	}
	return f
}

// begunHere is the begin of the notes of fills by the own site. The rest is the time, which names the fill.
func (s *Sites) begunHere() string { return begun + s.ownName() + ":" }

// openFills are the fills of shards that lack timers of the own site. Fills begin and end here, too: the first node begins a
// fill, or any other node if the first does not.
func (o *Other) openFills(ctx context.Context, lacking map[string]time.Time) map[string]openFill {
	open := map[string]openFill{}
	wait := timing.FillDelay
	if !o.s.tellsFirst(0) {
		wait *= 2
	}
	var begins, ends []string
	for name, sh := range o.Shards.All() {
		noted, lacks := o.lacksFill(ctx, sh)
		if !lacks {
			delete(lacking, name)
			continue
		}
		fill := o.s.readFill(noted)
		if fill.note == "" {
			if lacking[name].IsZero() {
				lacking[name] = time.Now()
			}
			fill.note = o.s.begunHere() + time.Now().UTC().Format(time.RFC3339Nano)
			if time.Since(lacking[name]) < wait || !o.note(ctx, name, "", fill.note) {
				continue
			}
			begins = append(begins, name)
		}
		delete(lacking, name)
		if slices.Contains(fill.told[:], false) {
			open[name] = fill
		} else if o.note(ctx, name, fill.note, o.s.ownName()) {
			ends = append(ends, name)
		}
	}
	if len(begins) > 0 {
		o.s.config.Log.Info("a site has lost timers, and is filled", "site", o.Name, "shards", begins)
	}
	if len(ends) > 0 {
		o.s.config.Log.Info("the site is filled", "site", o.Name, "shards", ends)
	}
	return open
}

// lacksFill reports whether a shard of the site lacks timers of the own site, and returns the notes of the shard. A shard
// that does not answer lacks none.
func (o *Other) lacksFill(ctx context.Context, sh *shard.Shard) (noted []string, lacks bool) {
	if sh.Away() {
		return nil, false
	}
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	noted, err := o.Shards.Store.Filled(bounded, sh.Name)
	return noted, err == nil && !slices.Contains(noted, o.s.ownName())
}

// note makes a note on a shard of the site that has an earlier note (before; "" for none), and reports whether the note is made.
func (o *Other) note(ctx context.Context, name, before, note string) bool {
	return o.Shards.Store.NoteFilled(ctx, name, before, []string{note}) == nil
}

// tellsFirst reports whether this node is the first of the own site to tell other sites of a partition.
func (s *Sites) tellsFirst(p int) bool {
	var first *shard.Shard
	for _, sh := range s.own.Shards.All() {
		if first == nil || sh.Name < first.Name {
			first = sh
		}
	}
	return first != nil && first.Ownership.First(p)
}

// nextParts are the partitions of this node that some fill lacks. If there are none, another node's partition is taken that
// is left: two nodes may tell of that partition at the same time.
func (o *Other) nextParts(open map[string]openFill) (own []int) {
	var left []int
	for p := range store.Partitions {
		for _, fill := range open {
			if fill.told[p] {
				continue
			}
			if left = append(left, p); o.s.tellsFirst(p) {
				own = append(own, p)
			}
			break
		}
	}
	if len(own) == 0 && len(left) > 0 {
		own = append(own, left[rand.N(len(left))])
	}
	return own
}

const (
	// fillPage is how many timers are told together, and fillScan how many keys are listed together.
	fillPage = 100
	fillScan = 500
)

// fillLoops is how many pages a fill tells at the same time, at least one of each partition. A page takes two round trips to
// the other site: with 16 pages on their way, SweepRate is reached up to 160 ms apart.
const fillLoops = store.Partitions

// tellPart tells a site of all timers in a partition of all shards of the own site, so many pages at the same time. The result
// is false if a timer could not be told. A copy that moves from one shard of the own site to another may slip through a scan of
// both, but not through two scans in turn: see sweptFor.
func (o *Other) tellPart(ctx context.Context, partition, atOnce int) bool {
	before, swept := o.s.sweptFor(ctx, partition)
	if !o.tellShards(ctx, partition, atOnce) {
		return false
	}
	after, still := o.s.sweptFor(ctx, partition)
	return swept && still && maps.Equal(before, after) || o.tellShards(ctx, partition, atOnce)
}

// swept is when a partition of a shard was swept.
type swept struct {
	store.SweepMark

	wantedMs int64
}

// sweptFor returns when a partition of the shards of the own site was swept, and reports whether all copies of the partition
// are where they belong: no sweep is wanted, and no shard has lost data.
func (s *Sites) sweptFor(ctx context.Context, partition int) (map[string]swept, bool) {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, timing.CopyPatience)
	defer cancel()
	all := map[string]swept{}
	for name := range s.own.Shards.All() {
		epoch, steady := s.own.Shards.Store.Epoch(name)
		state, err := s.own.Shards.Store.Swept(bounded, name)
		if err != nil || !steady || state.Restarted || !state.Done(partition, epoch) {
			return nil, false
		}
		all[name] = swept{state.Marks[partition], state.WantedMs}
	}
	return all, true
}

// tellShards scans a partition of all shards of the own site, and tells a site of the timers. The result is false if a timer
// could not be told.
func (o *Other) tellShards(ctx context.Context, partition, atOnce int) bool {
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	pages := make(chan []string)
	var scans, loops sync.WaitGroup
	for _, sh := range o.s.own.Shards.All() {
		scans.Go(func() {
			if !o.scan(ctx, sh, partition, func(page []string) bool {
				select {
				case pages <- page:
					return true
				case <-ctx.Done():
					return false
				}
			}) {
				fail()
			}
		})
	}
	for range atOnce {
		loops.Go(func() {
			for page := range pages {
				if !o.tellPage(ctx, page, true) {
					fail()
				}
			}
		})
	}
	scans.Wait()
	close(pages)
	loops.Wait()
	return ctx.Err() == nil
}

// tellPartition tells a site of all timers in a partition of a shard of the own site. The result is false if a timer could
// not be told.
func (o *Other) tellPartition(ctx context.Context, sh *shard.Shard, partition int) bool {
	return o.scan(ctx, sh, partition, func(page []string) bool { return o.tellPage(ctx, page, false) })
}

// scan hands on the keys of all timers in a partition of a shard of the own site, those that are about to be called back
// included, until take returns false. The result is false if a timer may not have been handed on.
func (o *Other) scan(ctx context.Context, sh *shard.Shard, partition int, take func(page []string) bool) bool {
	for cursor, more := "", true; more; {
		bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.CopyPatience)
		keys, next, err := o.s.own.Shards.Store.Scan(bounded, sh.Name, partition, cursor, fillScan)
		cancel()
		if err != nil {
			return false
		}
		cursor, more = next, next != ""
		for page := range slices.Chunk(keys, fillPage) {
			if o.s.pace.WaitN(ctx, len(page)) != nil || !take(page) {
				return false
			}
		}
	}
	return true
}

// tellPage tells a site of timers of the own site. The result is false if a timer could not be told.
func (o *Other) tellPage(ctx context.Context, keys []string, filling bool) bool {
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, 2*timing.AnswerLimit)
	defer cancel()
	ids := make([]timer.ID, len(keys))
	for i, key := range keys {
		ids[i] = timer.ID{Key: key}
	}
	var foreign []replica.Foreign
	for _, seen := range o.s.own.Copies.See(bounded, ids) {
		switch {
		case seen.Newest.Record.State.Version == 0 && seen.Whole: // over meanwhile
		case seen.Newest.Record.State.Version == 0:
			return false
		default:
			foreign = append(foreign, o.s.foreign(&o.s.own, &o.Site, seen.Newest, false))
		}
	}
	if len(foreign) == 0 {
		return true
	}
	_, errs := o.Copies.BringUp(bounded, foreign)
	for _, err := range errs {
		if err != nil && !errors.Is(err, replica.ErrOtherFactor) {
			return false
		}
	}
	if filling {
		add(o.s.metrics.filled, o.Name, len(foreign))
	}
	return true
}
