package statistics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/awake"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// MaxTagTypes is how many types of tags the statistics tell apart, in answers and as
// a metric. Clients choose types, and may choose a new one for each timer.
const MaxTagTypes = 1000

const (
	// statisticsLife is how long an answer is given again, so that frequent readers cost the
	// shards nothing.
	statisticsLife = time.Second
	// statisticsInterval is how often the sums are read for the metric, surveyPatience how long a
	// shard may take to answer then.
	statisticsInterval = 5 * time.Second
	surveyPatience     = time.Second
	// readPatience is how long Read waits for the shards.
	readPatience = 450 * time.Millisecond
	// recountPatience is how long the count of a partition's timers may take.
	recountPatience = 10 * time.Second
)

// Sums add up the tags of the live timers.
type Sums struct {
	// Tags are the sums of the tags' counts by type: the greatest sums, at most MaxTagTypes.
	// Nobody may change the map.
	Tags map[string]int64
	// Truncated says that more types exist. Then sums may be too small, and a type with a greater
	// sum may be missing.
	Truncated bool
	// Incomplete are the shards that could not be asked: timers whose primary is on such a shard
	// are not counted.
	Incomplete []string
}

// Counter reads and keeps the statistics, and is a collector of metrics. All methods are safe for
// concurrent use.
type Counter struct {
	config *settings.Config
	shards *shard.Registry
	store  store.Store

	turn chan struct{} // held by the reader
	last Sums          // of the last reader
	read time.Time     // when last was read

	mu      sync.Mutex
	byShard map[*shard.Shard]store.TagSums // the last answers of the shards; for the metric
	off     map[place]map[string]int64     // by how much sums were wrong at the last count
}

// place is a partition of a shard.
type place struct {
	shard     *shard.Shard
	partition int
}

// New makes a counter.
func New(config *settings.Config, shards *shard.Registry) *Counter {
	return &Counter{config: config, shards: shards, store: shards.Store, turn: make(chan struct{}, 1), byShard: map[*shard.Shard]store.TagSums{}, off: map[place]map[string]int64{}}
}

// Read counts the tags of all live timers; a timer counts once, however many copies there are. The
// sums are at most a second old. The error wraps ErrUnavailable, if no shard could be asked, or
// ctx ended first.
func (c *Counter) Read(ctx context.Context) (Sums, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return Sums{}, fmt.Errorf("%w: read statistics: %w", timer.ErrUnavailable, ctx.Err())
	}
	if !c.read.IsZero() && time.Since(c.read) < statisticsLife {
		return c.last, nil
	}
	found, err := c.readAll(ctx)
	if err == nil {
		c.last, c.read = found, time.Now()
	}
	return found, err
}

func (c *Counter) readAll(ctx context.Context) (Sums, error) {
	ctx, cancel := c.config.Awake.WithTimeout(ctx, readPatience)
	defer cancel()
	shards := slices.Collect(maps.Values(c.shards.Gather()))
	answers, faults := make([]store.TagSums, len(shards)), make([]error, len(shards))
	var asked sync.WaitGroup
	for i, sh := range shards {
		if sh.Away() {
			faults[i] = timer.ErrUnavailable
			continue
		}
		asked.Go(func() { answers[i], faults[i] = c.store.Tags(ctx, sh.Name, MaxTagTypes) })
	}
	asked.Wait()
	var all Sums
	for i, sh := range shards {
		if faults[i] != nil {
			all.Incomplete = append(all.Incomplete, sh.Name)
		}
	}
	if len(all.Incomplete) == len(shards) {
		return Sums{}, fmt.Errorf("read statistics: %w", errors.Join(faults...))
	}
	slices.Sort(all.Incomplete)
	var beyond int64
	all.Tags, beyond, all.Truncated = sumOf(answers)
	all.Truncated = all.Truncated || beyond > 0
	return all, nil
}

// sumOf adds up the shards' answers, and keeps the MaxTagTypes types with the greatest sums;
// beyond is the sum of the rest.
func sumOf(answers []store.TagSums) (kept map[string]int64, beyond int64, partial bool) {
	kept = map[string]int64{}
	for _, answer := range answers {
		partial = partial || answer.Partial
		for typ, n := range answer.ByType {
			kept[typ] += n
		}
	}
	if len(kept) <= MaxTagTypes {
		return kept, 0, partial
	}
	types := slices.SortedFunc(maps.Keys(kept), func(a, b string) int {
		return cmp.Or(cmp.Compare(kept[b], kept[a]), strings.Compare(a, b))
	})
	for _, typ := range types[MaxTagTypes:] {
		beyond += kept[typ]
		delete(kept, typ)
	}
	return kept, beyond, partial
}

// Watch reads a shard's sums for the metric now and then until ctx ends.
func (c *Counter) Watch(ctx context.Context, sh *shard.Shard) {
	defer c.forget(sh)
	// Shards and nodes that begin together don't go on in unison.
	for wait := 1 + rand.N(surveyPatience); awake.Sleep(ctx, wait); wait = statisticsInterval {
		c.survey(ctx, sh)
	}
}

// survey reads the shard's sums for the metric. If the read fails, the sums stay as before: the
// shard still has the timers, and chronos_shard_up says that the shard is away.
func (c *Counter) survey(ctx context.Context, sh *shard.Shard) {
	if sh.Away() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, surveyPatience)
	defer cancel()
	found, err := c.store.Tags(bounded, sh.Name, MaxTagTypes)
	if err != nil {
		sh.Log.Debug("could not read the statistics", "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byShard[sh] = found
}

// forget drops the sums of a shard that is gone.
func (c *Counter) forget(sh *shard.Shard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byShard, sh)
	maps.DeleteFunc(c.off, func(at place, _ map[string]int64) bool { return at.shard == sh })
}

// Recount counts the tags of a swept partition, and corrects a sum that was wrong by the same
// amount after the sweep before.
func (c *Counter) Recount(ctx context.Context, sh *shard.Shard, partition int) {
	bounded, cancel := context.WithTimeout(ctx, recountPatience)
	defer cancel()
	c.mu.Lock()
	before := c.off[place{sh, partition}]
	c.mu.Unlock()
	off, err := c.store.Recount(bounded, sh.Name, partition, before)
	if err != nil {
		sh.Log.Debug("did not recount the tags", "partition", partition, "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.off, place{sh, partition})
	if len(off) > 0 && len(off) <= MaxTagTypes && !sh.Gone() {
		c.off[place{sh, partition}] = off
	}
}

func tagsDesc() *prometheus.Desc {
	return prometheus.NewDesc("chronos_timers_tagged",
		"Sums of the tags of live timers by type, of the whole cluster: take the maximum over nodes. Beyond 1,000 types the rest has an empty type.",
		[]string{"type"}, nil)
}

// Describe implements prometheus.Collector.
func (*Counter) Describe(ch chan<- *prometheus.Desc) { ch <- tagsDesc() }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	answers := slices.Collect(maps.Values(c.byShard))
	c.mu.Unlock()
	sums, beyond, _ := sumOf(answers) // nobody changes the maps of an answer
	if beyond > 0 {
		sums[""] = beyond // no client's type: a type is never empty
	}
	desc := tagsDesc()
	for typ, n := range sums {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), typ)
	}
}
