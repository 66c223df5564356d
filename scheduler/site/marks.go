package site

import (
	"context"
	"errors"
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
	// markAgain is how often a site is told again that could not be told of all copies.
	markAgain = time.Second
	// markPage is how many marks of a partition are told together.
	markPage = 50
)

// MarkOutcomes marks timers on a shard of the own site whose outcomes all other sites have to hear of.
func (s *Sites) MarkOutcomes(ctx context.Context, name string, keys []string) error {
	marks := make([]store.Mark, 0, len(keys)*len(s.all()))
	for other := range s.all() {
		for _, key := range keys {
			marks = append(marks, store.Mark{Site: other, Key: key, Outcome: true})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	return s.own.Shards.Store.Mark(ctx, name, marks)
}

// Marks reports whether marks wait on the own site: a timer of an older version than YoungFor may be marked.
func (s *Sites) Marks() bool {
	for _, o := range s.all() {
		if o.waiting.some() {
			return true
		}
	}
	return false
}

// tellMarks tells a site the present state of the timers that are marked on a shard of the own site, in the partitions
// that this node is the first to look after, until ctx ends (rule "tell the present state").
func (o *Other) tellMarks(ctx context.Context, sh *shard.Shard) {
	defer o.waiting.note(sh, 0, -1)
	ticker := time.NewTicker(1 + rand.N(markInterval))
	defer ticker.Stop()
	pause := markInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(pause)
		}
		if sh.Away() {
			continue
		}
		bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.AnswerLimit)
		oldest, err := o.s.own.Shards.Store.OldestMark(bounded, sh.Name, o.Name)
		cancel()
		if err == nil {
			o.waiting.note(sh, o.s.config.SinceBoot(), oldest)
		}
		pause = markInterval
		if err != nil || oldest < 0 || !o.reached() {
			continue
		}
		if oldest > markAgain {
			pause = markAgain // the site was told, and lacks copies yet
		}
		for o.tellMarksOf(ctx, sh) && ctx.Err() == nil {
		}
	}
}

// tellMarksOf tells the oldest marks of the partitions that this node is the first to look after, and reports whether
// more marks may wait.
func (o *Other) tellMarksOf(ctx context.Context, sh *shard.Shard) (more bool) {
	own := o.s.own.Shards.Store
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, 2*timing.AnswerLimit)
	defer cancel()
	var single []store.Mark
	var all *store.Mark // one at a time, so that the single marks of other partitions don't wait for many
	for p := range store.Partitions {
		if !sh.Ownership.First(p) {
			continue
		}
		marks, err := own.Marks(bounded, sh.Name, p, o.Name, markPage)
		if err != nil {
			return false
		}
		more = more || len(marks) == markPage
		for _, m := range marks {
			if !m.All {
				single = append(single, m)
			} else if len(marks) < markPage {
				all = &m
			}
		}
	}
	if told := o.tellStates(bounded, single); len(told) > 0 {
		if err := own.Unmark(bounded, sh.Name, told); err != nil {
			sh.Log.Debug("marks could not be ended", "err", err)
			return false
		}
		add(o.s.metrics.told, o.Name, len(told))
	} else if all == nil {
		return false
	}
	return (all == nil || o.tellAllOf(ctx, sh, *all)) && (more || all != nil)
}

// tellAllOf tells a site of all timers in the partition of a mark for all, and ends the mark: at SweepRate, that may take minutes.
func (o *Other) tellAllOf(ctx context.Context, sh *shard.Shard, m store.Mark) bool {
	if !o.tellPartition(ctx, sh, m.Partition) {
		return false
	}
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.AnswerLimit)
	defer cancel()
	if o.s.own.Shards.Store.Unmark(bounded, sh.Name, []store.ToldMark{{Mark: m}}) != nil {
		return false
	}
	add(o.s.metrics.told, o.Name, 1)
	return true
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
	var whole []bool
	for i, seen := range o.s.own.Copies.See(ctx, ids) {
		switch {
		case seen.Newest.Record.State.Version == 0 && seen.Whole:
			told = append(told, store.ToldMark{Mark: marks[i]})
		case seen.Newest.Record.State.Version == 0, seen.Newest.Leased:
		default:
			foreign, of = append(foreign, o.s.foreign(&o.s.own, &o.Site, seen.Newest, marks[i].Outcome)), append(of, i)
			whole = append(whole, seen.Alike)
		}
	}
	if len(foreign) == 0 {
		return told
	}
	before, errs := o.Copies.BringUp(ctx, foreign)
	var alike []*store.Record
	var replaced []timer.ID
	for n, err := range errs {
		if err != nil && !errors.Is(err, replica.ErrOtherFactor) {
			o.s.config.Log.Debug("a site could not be told", "site", o.Name, "timer", foreign[n].Read.Record.ID.Key, "err", err)
			continue
		}
		r := &foreign[n].Read.Record
		switch {
		case err != nil: // the site has a timer of the key with another replication factor, and keeps that timer
			o.s.config.Log.Warn("a timer of another replication factor is at the other site, and stays there", "site", o.Name, "timer", r.ID.Key)
			add(o.s.metrics.lost, o.Name, 1)
		case replaces(r.State, before[n]):
			replaced = append(replaced, r.ID)
		case replaces(before[n], r.State) && !marks[of[n]].Outcome:
			add(o.s.metrics.lost, o.Name, 1)
		}
		if whole[n] && err == nil {
			alike = append(alike, r)
		}
		told = append(told, store.ToldMark{Mark: marks[of[n]], State: r.State})
	}
	o.countLost(ctx, &o.Site, o.s.ownName(), replaced)
	o.clear(ctx, alike)
	return told
}
