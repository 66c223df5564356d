package resync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"chronos/scheduler/sample"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/walk"
)

// Resynchronisation errors.
var (
	// ErrShardsAway is an ErrUnavailable: too many shards are away, and timers of the default
	// replication factor might be left out.
	ErrShardsAway = fmt.Errorf("%w: too many shards are away", timer.ErrUnavailable)
)

// ViewError says that timers are placed by the view Present, not by the client's view.
type ViewError struct{ Present string }

func (e *ViewError) Error() string { return "timers are placed as in view " + e.Present }

// Query asks for the timers that should have a copy on a shard.
type Query struct {
	Shard string
	View  string // of the client; see Listing
	After store.Place
	Limit int // timers, at least 1
	Bytes int // size of the page, roughly; a page has one timer at least
}

// Page is some of the timers, in the order of At.
type Page struct {
	View   string
	Timers []Entry
	// Next is the place behind which the next page begins; nil at the end.
	Next *store.Place
	// Unreached is how many shards could not be asked: timers with copies on only such shards are
	// left out.
	Unreached int
}

// Entry is a timer, and the shards where its copies belong, and belonged before, by rank.
type Entry struct {
	store.ReadResult
	// At is the instant of the timer's place in the list. Most timers stand at the due time of the
	// next pop; a timer that waits for a retry, or is leased, may stand later.
	At               time.Time
	Replicas, Former []string
	Sites            []string // by which the timer comes due first, the home first; empty without sites
}

// Resyncer tells clients which timers a shard has. All methods are safe for concurrent use.
type Resyncer struct {
	config   *settings.Config
	shards   *shard.Registry
	store    store.Store
	log      *slog.Logger
	Unlisted *sample.Line
}

// New makes a resyncer.
func New(config *settings.Config, shards *shard.Registry) *Resyncer {
	return &Resyncer{
		config: config, shards: shards, store: shards.Store, log: config.Log,
		Unlisted: sample.New(slog.LevelWarn, "a timer can't be read, and is left out of a resynchronisation", sample.First, sample.PerSecond),
	}
}

const (
	// listPatience is how long a page is put together before the page is sent as it is.
	listPatience = 2 * time.Second
	// readTries is how often a timer is looked for while the timer is being moved.
	readTries = 3
)

// Read returns a page of the timers that should have a copy on a shard. A reader who goes on
// behind every page's Next finds a timer that exists throughout at least once, whatever is done
// meanwhile. Errors: ErrShardUnknown; a *ViewError; ErrUnavailable, which may be ErrShardsAway.
func (s *Resyncer) Read(ctx context.Context, q Query) (Page, error) {
	if err := s.shards.Knows(q.Shard); err != nil {
		return Page{}, err
	}
	if view := s.store.View(); view != q.View {
		return Page{}, &ViewError{Present: view}
	}
	r := &resync{s: s, Query: q, walk: walk.Begin(s.config, s.shards, q.After, store.Pick{}, lacks)}
	for began := time.Now(); r.walk.Next != nil && r.Limit > 0 && r.Bytes > 0 && time.Since(began) < listPatience; {
		if err := r.round(ctx); err != nil {
			return Page{}, err
		}
	}
	next, err := r.resume()
	if err != nil {
		return Page{}, err
	}
	page := Page{View: q.View, Next: next}
	if page.Timers, err = r.read(ctx); err != nil {
		return Page{}, err
	}
	page.Unreached = len(r.walk.Away)
	if view := s.store.View(); view != q.View {
		return Page{}, &ViewError{Present: view}
	}
	return page, nil
}

// lacks refuses to go on if timers of the default replication factor might be left out.
func lacks(away, all int) error {
	if away >= min(timer.DefaultReplicationFactor, all) {
		return fmt.Errorf("%w: %d of %d", ErrShardsAway, away, all)
	}
	return nil
}

// resume is where the next page begins. Somebody may have put a key into a Redis that no timer can
// have; a client never gets such a key as a place.
func (r *resync) resume() (*store.Place, error) {
	switch {
	case r.walk.Next == nil || r.walk.Next.Key == "" || timer.ValidKey(r.walk.Next.Key):
		return r.walk.Next, nil
	case len(r.best) > 0:
		return &r.best[len(r.best)-1].Place, nil
	}
	return nil, fmt.Errorf("%w: the list is full of records that can't be read", timer.ErrUnavailable)
}

// resync puts a page together.
type resync struct {
	s *Resyncer
	Query
	walk *walk.Walk
	best []walk.Copy // of the page's timers
}

// belongs reports whether a copy should be on the query's shard.
func (r *resync) belongs(h *store.Head) bool { return r.s.shards.IsHome(r.Shard, h) }

// round goes on to a further place, and takes the timers on the way while the page has room.
func (r *resync) round(ctx context.Context) error {
	bytes := 0
	all, err := r.walk.Round(ctx, min(max(r.Limit/8, 8), 100), r.belongs, func(h *store.Head) bool {
		bytes += h.Bytes
		return bytes >= r.Bytes
	})
	if err != nil {
		return err
	}
	for i := range all {
		if r.Limit <= 0 || r.Bytes <= 0 || len(r.best) > 0 && r.Bytes < all[i].Bytes {
			r.Limit, r.walk.Next = 0, &r.best[len(r.best)-1].Place
			return nil
		}
		r.walk.Take(&all[i])
		r.best = append(r.best, all[i])
		r.Limit--
		r.Bytes -= all[i].Bytes
	}
	return nil
}

// read reads the timers of the page. A timer that is not where it was found has been moved, or is
// over.
func (r *resync) read(ctx context.Context) ([]Entry, error) {
	timers, index := make([]Entry, len(r.best)), map[string]int{}
	for i := range r.best {
		index[r.best[i].Key] = i
	}
	pending := r.best
	for range readTries {
		spots := make([]store.Spot, len(pending))
		for i := range pending {
			spots[i] = store.Spot{Shard: pending[i].Shard, Key: pending[i].Key}
		}
		var missing []string
		for i, read := range r.s.store.Read(ctx, spots) {
			switch key := spots[i].Key; {
			case read.Err == nil:
				at := index[key]
				timers[at] = r.s.resynced(read)
				timers[at].At = r.best[at].Place.At
			case errors.Is(read.Err, timer.ErrNotFound), errors.Is(read.Err, timer.ErrUnavailable):
				missing = append(missing, key)
			default:
				r.s.Unlisted.Log(r.s.log, "a timer can't be read, and is left out of a resynchronisation", "id", key, "shard", spots[i].Shard, "err", read.Err)
			}
		}
		var err error
		if pending, err = r.walk.Find(ctx, missing, r.belongs); err != nil {
			return nil, err
		}
		if len(pending) == 0 {
			return slices.DeleteFunc(timers, func(t Entry) bool { return t.Record.State.Version == 0 }), nil
		}
	}
	return nil, fmt.Errorf("%w: %d timers are moved again and again", timer.ErrUnavailable, len(pending))
}

func (s *Resyncer) resynced(read store.ReadResult) Entry {
	id := &read.Record.ID
	first := func(ranked []string) []string { return ranked[:min(max(id.RF, 1), len(ranked))] }
	t := Entry{Replicas: first(s.store.Rank(id.Key)), Former: first(s.store.Formerly(id.Key))}
	for _, name := range t.Replicas {
		id.Hint |= s.store.HintOf(name)
	}
	if sites := s.store.Sites(); sites.Own != "" {
		t.Sites = sites.Order(id.Key, read.Record.Site)
	}
	t.ReadResult = read
	return t
}
