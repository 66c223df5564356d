package forecast

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

const (
	// life is how long an answer is given again, so that frequent readers cost the shards little.
	life = 10 * time.Second
	// maxKept is how many answers are kept.
	maxKept = 32
	// patience is how long the shards are waited for.
	patience = time.Second
)

// Forecaster counts what comes due. Forecaster is safe for concurrent use.
type Forecaster struct {
	config *settings.Config
	shards *shard.Registry
	store  store.Store

	turn chan struct{} // held by the reader
	kept []answer      // the oldest first
}

type answer struct {
	query Query
	load  Load
	read  time.Time
}

// New makes a forecaster.
func New(config *settings.Config, shards *shard.Registry) *Forecaster {
	return &Forecaster{config: config, shards: shards, store: shards.Store, turn: make(chan struct{}, 1)}
}

// Steps are the lengths that buckets may have.
func Steps() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}
}

// Read counts what comes due. An answer is at most 10 s old; callers wait for one reader. The query must be
// valid. The error wraps timer.ErrUnavailable: no shard answered, or ctx ended first.
func (f *Forecaster) Read(ctx context.Context, q Query) (Load, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return Load{}, fmt.Errorf("%w: read the load: %w", timer.ErrUnavailable, ctx.Err())
	}
	f.kept = slices.DeleteFunc(f.kept, func(a answer) bool { return time.Since(a.read) >= life })
	if at := slices.IndexFunc(f.kept, func(a answer) bool { return a.query == q }); at >= 0 {
		return f.kept[at].load, nil
	}
	load, err := f.count(context.WithoutCancel(ctx), q) // the answer is kept for others, too
	if err != nil {
		return Load{}, err
	}
	if len(f.kept) == maxKept {
		f.kept = f.kept[1:]
	}
	f.kept = append(f.kept, answer{q, load, time.Now()})
	return load, nil
}

// counted is what a shard answers.
type counted struct {
	due    []int64
	sample store.Sample
	err    error
}

func (f *Forecaster) count(ctx context.Context, q Query) (Load, error) {
	ctx, cancel := f.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	if q.From.IsZero() {
		q.From = f.config.Wall()
	}
	var all []*shard.Shard
	for _, sh := range f.shards.All() {
		all = append(all, sh)
	}
	slices.SortFunc(all, func(a, b *shard.Shard) int { return cmp.Compare(a.Index, b.Index) })
	found := make([]counted, len(all))
	var asked sync.WaitGroup
	for i, sh := range all {
		if sh.Away() {
			found[i].err = timer.ErrUnavailable
			continue
		}
		asked.Go(func() {
			c := &found[i]
			if c.due, c.err = f.store.DueCounts(ctx, sh.Name, q.From, q.Step, q.Buckets); c.err == nil {
				c.sample, c.err = f.store.Sample(ctx, sh.Name)
			}
		})
	}
	asked.Wait()
	load := Load{From: q.From, Step: q.Step, Copies: make([]int64, q.Buckets), Timers: make([]int64, q.Buckets)}
	about := make([]float64, q.Buckets)
	for i, sh := range all {
		if found[i].err != nil {
			load.Unreached = append(load.Unreached, sh.Name)
			continue
		}
		share := 0.
		if s := &found[i].sample; s.Copies > 0 {
			share = min(s.Timers/float64(s.Copies), 1)
		}
		for b, n := range found[i].due {
			load.Copies[b] += n
			about[b] += float64(n) * share
		}
	}
	if len(load.Unreached) == len(all) {
		return Load{}, fmt.Errorf("%w: read the load: no shard answers", timer.ErrUnavailable)
	}
	for b, n := range about {
		load.Timers[b] = int64(n + .5)
	}
	return load, nil
}
