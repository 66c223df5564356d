package site

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/shard"
)

// Standing is what a node knows of a site.
type Standing struct {
	Name    string
	Shards  []string // by name
	Reached bool
	// Filled says whether the answering shards have the timers of all other sites.
	Filled bool
	// Behind is since when the own site has changes of timers that the site has not been told of; 0 for no such change.
	// Behind is unknown if Known is false: a shard of the own site does not answer.
	Behind time.Duration
	Known  bool
}

// Standings asks the shards of all sites; the own site comes first. Without sites there is none.
func (s *Sites) Standings(ctx context.Context) []Standing {
	sites := s.own.Shards.Store.Sites()
	if sites.Own == "" {
		return nil
	}
	names := append([]string{sites.Own}, slices.DeleteFunc(slices.Clone(sites.All), func(name string) bool { return name == sites.Own })...)
	all, others := make([]Standing, len(names)), s.all()
	var asks sync.WaitGroup
	for i, name := range names {
		found := &all[i]
		found.Name = name
		asks.Go(func() {
			at := &s.own
			if other := others[name]; other != nil {
				at, found.Reached = &other.Site, other.reached()
				found.Behind, found.Known = s.untold(ctx, name)
			} else if name == sites.Own {
				found.Reached, found.Known = true, true
			} else {
				return // this node has just heard of the site
			}
			found.Shards = slices.Sorted(maps.Keys(at.Shards.All()))
			found.Filled = found.Reached && at.filled(ctx, name, sites.All)
		})
	}
	asks.Wait()
	return all
}

// untold is how old the oldest mark for another site is on the shards of the own site.
func (s *Sites) untold(ctx context.Context, name string) (behind time.Duration, known bool) {
	known = true
	for _, sh := range s.own.Shards.All() {
		oldest, err := s.own.Shards.Store.OldestMark(ctx, sh.Name, name)
		if err != nil {
			known = false
			continue
		}
		behind = max(behind, oldest)
	}
	return behind, known
}

// filled reports whether the answering shards of the site have the timers of all other sites.
func (site *Site) filled(ctx context.Context, name string, all []string) bool {
	answered := false
	for _, sh := range site.Shards.All() {
		from, err := site.notes(ctx, sh)
		if err != nil {
			continue
		}
		answered = true
		for _, other := range all {
			if other != name && !slices.Contains(from, other) {
				return false
			}
		}
	}
	return answered
}

var errAway = errors.New("the shard is away")

func (site *Site) notes(ctx context.Context, sh *shard.Shard) ([]string, error) {
	if sh.Away() {
		return nil, errAway
	}
	return site.Shards.Store.Filled(ctx, sh.Name)
}

// HasTimers is a reached site with timers to fill the own site; "" if there is none.
func (s *Sites) HasTimers(ctx context.Context) string {
	for name, other := range s.all() {
		if !other.reached() {
			continue
		}
		if hollow, err := other.hollow(ctx); err == nil && !hollow {
			return name
		}
	}
	return ""
}
