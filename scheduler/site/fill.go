package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// fill is what a node knows of whether its own site has its timers.
type fill struct {
	hollow atomic.Bool // no shard of the own site has been filled, or the node does not know yet
}

// begun is the beginning of the note that a site fills a shard. The rest names the fill: a shard that is emptied meanwhile
// has lost the note.
const begun = "begun:"

// Hollow reports whether the own site has lost all timers, and no other site has filled the own site yet. Nothing is
// called back then, and nothing is answered (rule "an emptied site is filled before it answers").
func (s *Sites) Hollow() bool { return s.fill.hollow.Load() }

// Ready is nil, or says that the own site waits for its timers. The error wraps timer.ErrUnavailable.
func (s *Sites) Ready() error {
	if s.Hollow() {
		return fmt.Errorf("%w: the shards of site %s are empty, and wait for the timers of the other sites; if there are none, run: chronos topology init", timer.ErrUnavailable, s.ownName())
	}
	return nil
}

// KeepFilled finds out each second whether the own site has its timers, until ctx ends. A node that starts counts its site
// as empty until the first shard answers.
func (s *Sites) KeepFilled(ctx context.Context) {
	for known := false; ; {
		known = s.lookAtFill(ctx) || known
		wait := timing.BeatInterval
		if !known {
			wait /= 10
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// lookAtFill reports whether a shard of the own site has answered.
func (s *Sites) lookAtFill(ctx context.Context) bool {
	if s.None() {
		s.fill.hollow.Store(false)
		return true
	}
	bounded, cancel := s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	hollow, err := s.own.hollow(bounded)
	if err != nil {
		return false // as before
	}
	if hollow && s.allHollow(bounded) {
		hollow = s.beginAll(bounded) != nil
	}
	s.fill.hollow.Store(hollow)
	return true
}

// hollow reports whether no shard of the site that answers has been filled. The error says that no shard has answered.
func (site *Site) hollow(ctx context.Context) (bool, error) {
	err := fmt.Errorf("%w: no shard answers", timer.ErrUnavailable)
	for name, sh := range site.Shards.All() {
		if sh.Away() {
			continue
		}
		from, failed := site.Shards.Store.Filled(ctx, name)
		switch {
		case failed != nil:
			continue
		case len(filledBy(from)) > 0:
			return false, nil
		}
		err = nil
	}
	return err == nil, err
}

func filledBy(noted []string) []string {
	return slices.DeleteFunc(slices.Clone(noted), func(s string) bool { return len(s) >= len(begun) && s[:len(begun)] == begun })
}

// allHollow reports whether all other sites can be reached, and are empty, too: the cluster is new.
func (s *Sites) allHollow(ctx context.Context) bool {
	if len(s.all()) < len(s.own.Shards.Store.Sites().All)-1 {
		return false
	}
	for _, o := range s.all() {
		if !o.reached() {
			return false
		}
		if hollow, err := o.hollow(ctx); err != nil || !hollow {
			return false
		}
	}
	return true
}

// Begin notes that the own site has all timers of all sites.
func (s *Sites) Begin(ctx context.Context) error {
	return s.own.begin(ctx, s.own.Shards.Store.Sites().All)
}

// beginAll notes that every site has all timers of all sites.
func (s *Sites) beginAll(ctx context.Context) error {
	sites, errs := s.own.Shards.Store.Sites().All, []error{s.Begin(ctx)}
	for _, o := range s.all() {
		errs = append(errs, o.begin(ctx, sites))
	}
	return errors.Join(errs...)
}

// begin notes that the site has all timers of the named sites.
func (site *Site) begin(ctx context.Context, sites []string) error {
	var errs []error
	for name := range site.Shards.All() {
		errs = append(errs, site.Shards.Store.NoteFilled(ctx, name, sites))
	}
	return errors.Join(errs...)
}

// fillAgain fills the shards of another site that have lost their timers, until ctx ends. One node of the own site does so:
// the first to look after the first partition of the first shard.
func (o *Other) fillAgain(ctx context.Context) {
	ticker := time.NewTicker(timing.BeatInterval)
	defer ticker.Stop()
	lacking := map[string]time.Time{} // since when a shard lacks a fill
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !o.s.fillsOthers() || !o.reached() {
			clear(lacking)
			continue
		}
		var names []string
		for name, sh := range o.Shards.All() {
			if sh.Away() || o.isFilled(ctx, name) {
				delete(lacking, name)
				continue
			}
			if lacking[name].IsZero() {
				lacking[name] = time.Now()
			}
			if time.Since(lacking[name]) >= timing.FillDelay {
				names = append(names, name)
			}
		}
		if len(names) > 0 && o.fillShards(ctx, names) {
			clear(lacking)
		}
	}
}

// watchFill finds out each second whether the site has its timers, until ctx ends.
func (o *Other) watchFill(ctx context.Context) {
	for awake.Sleep(ctx, timing.BeatInterval) {
		bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
		if hollow, err := o.hollow(bounded); err == nil {
			o.empty.Store(hollow)
		}
		cancel()
	}
}

// fillsOthers reports whether this node fills other sites for its own site, which must have its own timers.
func (s *Sites) fillsOthers() bool {
	if s.Hollow() {
		return false
	}
	var first *shard.Shard
	for _, sh := range s.own.Shards.All() {
		if first == nil || sh.Name < first.Name {
			first = sh
		}
	}
	return first != nil && first.Ownership.First(0)
}

// isFilled reports whether a shard of the site has the timers of the own site, or does not say.
func (o *Other) isFilled(ctx context.Context, name string) bool {
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	from, err := o.Shards.Store.Filled(bounded, name)
	return err != nil || slices.Contains(from, o.s.ownName())
}

// fillShards tells the site of all timers of the own site, and then notes that the named shards are filled.
func (o *Other) fillShards(ctx context.Context, names []string) bool {
	own := o.s.ownName()
	note := begun + own + ":" + time.Now().UTC().Format(time.RFC3339Nano)
	for _, name := range names {
		if err := o.Shards.Store.NoteFilled(ctx, name, []string{note}); err != nil {
			return false
		}
	}
	began := time.Now()
	o.s.config.Log.Info("a site has lost timers, and is filled", "site", o.Name, "shards", names)
	if !o.tellAll(ctx) {
		o.s.config.Log.Warn("the fill of a site has to begin again", "site", o.Name)
		return false
	}
	for _, name := range names {
		if from, err := o.Shards.Store.Filled(ctx, name); err != nil || !slices.Contains(from, note) {
			return false // emptied meanwhile
		}
		if err := o.Shards.Store.NoteFilled(ctx, name, []string{own}); err != nil {
			return false
		}
	}
	o.s.config.Log.Info("the site is filled", "site", o.Name, "shards", names, "took", time.Since(began).Round(time.Millisecond))
	return true
}

const (
	// fillPage is how many timers are told together, and fillScan how many keys are listed together.
	fillPage = 100
	fillScan = 500
)

// fillLoops is how many partitions are told at the same time. A page takes two round trips to the other site: with 16 pages
// on their way, SweepRate is reached up to 160 ms apart.
const fillLoops = 16

// tellAll tells a site of all timers of the own site. The result is false if a timer could not be told.
func (o *Other) tellAll(ctx context.Context) bool {
	type part struct {
		shard     *shard.Shard
		partition int
	}
	parts := make(chan part, len(o.s.own.Shards.All())*store.Partitions)
	for _, sh := range o.s.own.Shards.All() {
		for p := range store.Partitions {
			parts <- part{sh, p}
		}
	}
	close(parts)
	var untold atomic.Bool
	var loops sync.WaitGroup
	for range fillLoops {
		loops.Go(func() {
			for p := range parts {
				if untold.Load() || !o.tellPartition(ctx, p.shard, p.partition, true) {
					untold.Store(true)
				}
			}
		})
	}
	loops.Wait()
	return !untold.Load()
}

// tellPartition tells a site of all timers in a partition of a shard of the own site, those that are about to be called back
// included. The result is false if a timer could not be told.
func (o *Other) tellPartition(ctx context.Context, sh *shard.Shard, partition int, filling bool) bool {
	for cursor, more := "", true; more; {
		bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.CopyPatience)
		keys, next, err := o.s.own.Shards.Store.Scan(bounded, sh.Name, partition, cursor, fillScan)
		cancel()
		if err != nil {
			return false
		}
		cursor, more = next, next != ""
		for page := range slices.Chunk(keys, fillPage) {
			if o.s.pace.WaitN(ctx, len(page)) != nil || !o.tellPage(ctx, page, filling) {
				return false
			}
		}
	}
	return true
}

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
