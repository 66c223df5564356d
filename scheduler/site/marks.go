package site

import (
	"context"
	"math/rand/v2"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// markInterval is how often a node looks for marks to tell.
	markInterval = 200 * time.Millisecond
	// markPage is how many marks are told together.
	markPage = 100
)

// MarkOutcomes marks timers on a shard of the own site whose outcomes all other sites have to hear of.
func (s *Sites) MarkOutcomes(ctx context.Context, shard string, keys []string) error {
	marks := make([]store.Mark, 0, len(keys)*len(s.all()))
	for name := range s.all() {
		for _, key := range keys {
			marks = append(marks, store.Mark{Site: name, Key: key, Outcome: true})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	return s.own.Shards.Store.Mark(ctx, shard, marks)
}

// tellMarks tells a site the present state of the timers that are marked on a shard of the own site, in the partitions
// that this node is the first to look after, until ctx ends.
func (o *Other) tellMarks(ctx context.Context, sh *shard.Shard) {
	ticker := time.NewTicker(1 + rand.N(markInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(markInterval)
		}
		if sh.Away() || !o.reached() {
			continue
		}
		bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.AnswerLimit)
		oldest, err := o.s.own.Shards.Store.OldestMark(bounded, sh.Name, o.Name)
		cancel()
		if err != nil || oldest < 0 {
			continue
		}
		for p := range store.Partitions {
			if sh.Ownership.First(p) {
				for o.tellMarksOf(ctx, sh, p) && ctx.Err() == nil {
				}
			}
		}
	}
}

// tellMarksOf tells the oldest marks of a partition, and reports whether more marks may wait.
func (o *Other) tellMarksOf(ctx context.Context, sh *shard.Shard, partition int) (more bool) {
	own := o.s.own.Shards.Store
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, 2*timing.AnswerLimit)
	defer cancel()
	marks, err := own.Marks(bounded, sh.Name, partition, o.Name, markPage)
	if err != nil || len(marks) == 0 {
		return false
	}
	var told []store.ToldMark
	rest := marks[:0]
	for _, m := range marks {
		if m.All {
			if len(marks) < markPage && o.tellPartition(ctx, sh, partition, false) {
				told = append(told, store.ToldMark{Mark: m})
			}
			continue
		}
		rest = append(rest, m)
	}
	told = append(told, o.tellStates(bounded, rest)...)
	if len(told) == 0 {
		return false
	}
	if err := own.Unmark(bounded, sh.Name, told); err != nil {
		sh.Log.Debug("marks could not be ended", "err", err)
		return false
	}
	return len(marks) == markPage
}

// tellStates brings the copies of a site up to the present state of marked timers, and returns the marks that the site
// was told of. A timer that is about to be called back waits for the outcome.
func (o *Other) tellStates(ctx context.Context, marks []store.Mark) (told []store.ToldMark) {
	ids := make([]timer.ID, len(marks))
	for i := range marks {
		ids[i] = timer.ID{Key: marks[i].Key}
	}
	var foreign []replica.Foreign
	var of []int
	for i, seen := range o.s.own.Copies.See(ctx, ids) {
		switch {
		case seen.Newest.Record.State.Version == 0 && seen.Whole:
			told = append(told, store.ToldMark{Mark: marks[i]})
		case seen.Newest.Record.State.Version == 0, seen.Newest.Leased:
		default:
			foreign, of = append(foreign, o.s.foreign(&o.s.own, &o.Site, seen.Newest, marks[i].Outcome)), append(of, i)
		}
	}
	if len(foreign) == 0 {
		return told
	}
	_, errs := o.Copies.BringUp(ctx, foreign)
	for n, err := range errs {
		if err != nil {
			continue
		}
		r := &foreign[n].Read.Record
		o.clear(ctx, o.s.ownName(), r.ID, r.State)
		told = append(told, store.ToldMark{Mark: marks[of[n]], State: r.State})
	}
	return told
}
