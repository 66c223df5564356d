package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"chronos/scheduler/awake"
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
	own := s.own.countNotes(bounded)
	if own.filled+own.begun+own.without == 0 {
		return false // as before
	}
	hollow := own.hollow()
	if hollow && own.silent == 0 {
		all, others := s.allHollow(bounded)
		switch {
		case all && own.begun > 0:
			// Nobody has more of the timers than the own site.
			hollow = s.own.begin(bounded, []string{s.ownName()}) != nil
		case all && !others:
			hollow = s.beginAll(bounded) != nil
		}
	}
	s.fill.hollow.Store(hollow)
	return true
}

// noteCount counts the shards of a site by their notes.
type noteCount struct{ silent, filled, begun, without int }

// countNotes asks all shards of the site for their notes: of sites, of a fill that has begun, or none.
func (site *Site) countNotes(ctx context.Context) (n noteCount) {
	for name, sh := range site.Shards.All() {
		if sh.Away() {
			n.silent++
			continue
		}
		noted, err := site.Shards.Store.Filled(ctx, name)
		switch {
		case err != nil:
			n.silent++
		case slices.ContainsFunc(noted, func(note string) bool { return !strings.HasPrefix(note, begun) }):
			n.filled++
		case len(noted) > 0:
			n.begun++
		default:
			n.without++
		}
	}
	return n
}

// hollow reports whether no shard of those that answer has been filled.
func (n noteCount) hollow() bool { return n.filled == 0 && n.begun+n.without > 0 }

// hollow reports whether no shard of the site that answers has been filled. The error says that no shard has answered.
func (site *Site) hollow(ctx context.Context) (bool, error) {
	n := site.countNotes(ctx)
	if n.filled+n.begun+n.without == 0 {
		return false, fmt.Errorf("%w: no shard answers", timer.ErrUnavailable)
	}
	return n.hollow(), nil
}

// allHollow reports whether all shards of all other sites answer, and none has been filled, and whether a fill of some has
// begun. Without a fill the cluster is new.
func (s *Sites) allHollow(ctx context.Context) (all, filling bool) {
	if len(s.all()) < len(s.own.Shards.Store.Sites().All)-1 {
		return false, false
	}
	for _, o := range s.all() {
		if !o.reached() {
			return false, false
		}
		n := o.countNotes(ctx)
		if n.filled+n.silent > 0 {
			return false, false
		}
		filling = filling || n.begun > 0
	}
	return true, filling
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
		errs = append(errs, site.Shards.Store.NoteFilled(ctx, name, "", sites))
	}
	return errors.Join(errs...)
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
