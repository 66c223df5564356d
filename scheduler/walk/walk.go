// Package walk reads timers in the order of their due times, over all shards, while timers come, fire, and move
// between shards. docs/decisions/listing.md says why no timer is missed that exists throughout.
package walk

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Copy is the copy of the lowest rank among the copies with a timer's newest state and revision.
type Copy struct {
	store.Head

	Shard string
	Place store.Place // in the order of all timers, for the round that found the copy
}

// Walk is a reader's way through all timers. A Walk belongs to one goroutine.
type Walk struct {
	// Next is where the next round begins; nil at the end.
	Next *store.Place
	// Away are the shards that gave no answer. A shard is not asked again.
	Away map[string]bool
	// Looked is how many copies the shards have looked at.
	Looked int
	// Took is how long the last round's longest call took that reads many copies.
	Took time.Duration

	shards *shard.Registry
	hot    time.Duration
	pick   store.Pick
	lacks  func(away, all int) error
	found  map[string]bool
}

// Begin begins behind a place. A round finds the live copies that the shards pick. The function lacks
// returns an error if a reader must not go on without so many shards (away) of so many (all).
func Begin(config *settings.Config, shards *shard.Registry, after store.Place, pick store.Pick, lacks func(away, all int) error) *Walk {
	return &Walk{
		Next: &after, Away: map[string]bool{}, shards: shards, pick: pick, lacks: lacks, found: map[string]bool{},
		hot: config.Horizon().Truncate(time.Millisecond) + time.Millisecond,
	}
}

// onAll asks all shards at the same time, except shards that are away, and notes the shards that
// gave no answer.
func (w *Walk) onAll(ask func(name string) error) error {
	names := w.shards.Store.Shards()
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if sh := w.shards.Shard(name); w.Away[name] || sh == nil || sh.Away() { // nil if the shard was removed meanwhile
			errs[i] = timer.ErrUnavailable
			continue
		}
		wg.Go(func() { errs[i] = ask(name) })
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil && w.shards.Shard(name) != nil {
			w.Away[name] = true
		}
	}
	return w.lacks(len(w.Away), len(names))
}

// Round goes on to a further place, and returns the timers on the way, in order. Each partition of each shard looks at
// about n copies. The function wants says which copies the reader wants. The function enough is told of each timer
// that may be returned, in order, and reports whether the reader has no room for a later timer.
func (w *Walk) Round(ctx context.Context, n int, wants, enough func(h *store.Head) bool) ([]Copy, error) {
	after := *w.Next
	byShard, until, err := w.list(ctx, after, n)
	if err != nil {
		return nil, err
	}
	heads := slices.Concat(slices.Collect(maps.Values(byShard))...)
	within := func(p store.Place) bool { return p.Compare(after) > 0 && (until == nil || p.Compare(*until) <= 0) }
	slices.SortFunc(heads, func(a, b store.Head) int { return a.Place(after, w.hot).Compare(b.Place(after, w.hot)) })
	var keys []string
	asked := map[string]bool{}
	for i := range heads {
		h := &heads[i]
		place := h.Place(after, w.hot)
		if h.State.Ended || !timer.ValidKey(h.Key) || asked[h.Key] || w.found[h.Key] || !within(place) || !wants(h) {
			continue
		}
		asked[h.Key], keys = true, append(keys, h.Key)
		if enough(h) {
			until = &place
		}
	}
	all, err := w.find(ctx, keys, byShard, wants)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Place = all[i].Head.Place(after, w.hot)
	}
	all = slices.DeleteFunc(all, func(c Copy) bool { return !within(c.Place) })
	slices.SortFunc(all, func(a, b Copy) int { return a.Place.Compare(b.Place) })
	w.Next = until
	return all, nil
}

// list reads copies behind a place on all shards. The heads are complete up to until.
func (w *Walk) list(ctx context.Context, after store.Place, n int) (byShard map[string][]store.Head, until *store.Place, err error) {
	var mu sync.Mutex
	byShard, w.Took = map[string][]store.Head{}, 0
	err = w.onAll(func(shard string) error {
		begun := time.Now()
		page, err := w.shards.Store.List(ctx, shard, store.ListQuery{After: after, N: n, Hot: w.hot, Pick: w.pick})
		mu.Lock()
		defer mu.Unlock()
		w.Took = max(w.Took, time.Since(begun))
		w.Looked += page.Looked
		byShard[shard] = page.Heads
		if page.Until != nil && (until == nil || page.Until.Compare(*until) < 0) {
			until = page.Until
		}
		return err
	})
	return byShard, until, err
}

// Take says that the reader has taken a timer: the timer is not found again.
func (w *Walk) Take(c *Copy) { w.found[c.Key] = true }

// Find returns the best copies of the timers that are live and wanted, in no order.
func (w *Walk) Find(ctx context.Context, keys []string, wants func(h *store.Head) bool) ([]Copy, error) {
	return w.find(ctx, keys, nil, wants)
}

// find is Find. A shard is not asked for the copies that the shard has just told of (known).
func (w *Walk) find(ctx context.Context, keys []string, known map[string][]store.Head, wants func(h *store.Head) bool) ([]Copy, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	all, at := make([]Copy, len(keys)), make(map[string]int, len(keys))
	for i, key := range keys {
		at[key] = i
	}
	var mu sync.Mutex
	take := func(from string, heads []store.Head) {
		mu.Lock()
		defer mu.Unlock()
		for i := range heads {
			h := &heads[i]
			k, asked := at[h.Key]
			if !asked {
				continue
			}
			best := &all[k]
			if order := cmp.Or(compare(h.State, best.State), cmp.Compare(best.Rank, h.Rank), cmp.Compare(best.Shard, from)); best.State.Version == 0 || order > 0 {
				*best = Copy{Head: *h, Shard: from}
			}
		}
	}
	err := w.onAll(func(shard string) error {
		told := make(map[string]bool, len(known[shard]))
		for i := range known[shard] {
			told[known[shard][i].Key] = true
		}
		rest := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return told[key] })
		take(shard, known[shard])
		if len(rest) == 0 {
			return nil
		}
		heads, err := w.shards.Store.Heads(ctx, shard, rest, w.pick)
		take(shard, heads)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c Copy) bool { return c.State.Version == 0 || c.State.Ended || !wants(&c.Head) }), nil
}

// compare compares states, and revisions of one state.
func compare(a, b timer.State) int { return cmp.Or(a.Compare(b), cmp.Compare(a.Rev, b.Rev)) }
