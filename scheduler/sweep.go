package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

const (
	// sweepDelay is how long after a change of the topology the sweep begins: by then
	// no node writes where timers belonged before (nodes that have not heard of the
	// change refuse to), and none sweeps by what counted then.
	sweepDelay = 6 * time.Second
	// repairDelay is how long the sweep waits after a shard has missed something: by then
	// every callback that began before is over (rule "wait before repairing").
	repairDelay = 3 * time.Second
	// sweepInterval is how often a node looks whether there is something to sweep.
	sweepInterval = time.Second
	// sweepPage is how many copies are looked at together at most, firstPage how many at
	// first, and maxSweepBytes how much they may be, about.
	sweepPage     = 100
	firstPage     = 25
	maxSweepBytes = 8 << 20
	// sweepPatience is how long a page may take. What is due within the quiet is left alone,
	// so nothing is over meanwhile.
	sweepPatience = copyPatience
	// idleInterval is how often a partition is swept that nobody wants swept, and
	// idleShare the part of the rate at which that is.
	idleInterval = time.Hour
	idleShare    = 10
)

// sweeping is what the sweep knows of a shard.
type sweeping struct {
	epoch int64                       // as seen last
	since time.Time                   // when it was seen first
	tried [store.Partitions]time.Time // when each was swept last by this node, clean or not

	wanted      atomic.Bool  // another shard has missed something: what is here may belong there
	missedSince atomic.Int64 // ns on the clock of silence, maybe before its begin; 0 if the shard misses nothing
}

// missedFor is how long ago the shard began to miss what nobody has told it since.
func (sh *shard) missedFor() time.Duration {
	since := sh.sweeping.missedSince.Load()
	if since == 0 {
		return 0
	}
	return max(sh.silence.now()-time.Duration(since), 1)
}

// sweep brings copies where they belong (rule "sweep copies to their owners"), in the
// partitions that this node is the first to look after. It does so after each change
// of the topology, when a shard has missed something, and now and then anyway, until ctx ends.
func (sh *shard) sweep(ctx context.Context) {
	ticker := time.NewTicker(1 + rand.N(sweepInterval)) // shards and nodes that begin together don't go on in unison
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(sweepInterval)
		}
		for sh.sweepNext(ctx) && ctx.Err() == nil {
		}
	}
}

// sweepNext looks whether the shard, or another one, has missed something, and
// sweeps one partition if that is wanted. It reports whether there may be more.
func (sh *shard) sweepNext(ctx context.Context) (more bool) {
	if epoch, steady := sh.s.store.Epoch(sh.name); epoch != sh.sweeping.epoch || !steady {
		sh.sweeping.epoch, sh.sweeping.since = epoch, time.Now()
	}
	if sh.silence.lasts() || sh.slow() {
		return false
	}
	bounded, cancel := sh.s.config.Awake.WithTimeout(ctx, sweepPatience)
	defer cancel()
	state, err := sh.s.store.Swept(bounded, sh.name)
	if err == nil {
		err = sh.catchUp(bounded, &state)
	}
	if err != nil {
		sh.log.Debug("the sweep has to wait", "err", err)
		return false
	}
	left := 0
	for p := range state.Marks {
		if !state.Done(p, sh.sweeping.epoch) {
			left++
		}
	}
	sh.s.metrics.unswept.WithLabelValues(sh.name).Set(float64(left))
	waited := state.NowMs - state.WantedMs
	if time.Since(sh.sweeping.since) < sweepDelay || waited >= 0 && waited < repairDelay.Milliseconds() {
		return false
	}
	sh.sweepOver(ctx, &state, left)
	if left == 0 {
		return sh.sweepOldest(ctx, &state, func(p int) bool { return state.NowMs-state.Marks[p].AtMs > idleInterval.Milliseconds() }, idleShare)
	}
	return sh.sweepOldest(ctx, &state, func(p int) bool { return !state.Done(p, sh.sweeping.epoch) }, 1)
}

// sweepOldest sweeps that one of the node's partitions which was swept, or tried, longest
// ago among those that are wanted, for a share of the rate, and reports whether there
// was one.
func (sh *shard) sweepOldest(ctx context.Context, state *store.SweepState, wanted func(p int) bool, share int) (found bool) {
	tried, oldest := &sh.sweeping.tried, -1
	for p := range state.Marks {
		if wanted(p) && sh.ownership.first(p) && time.Since(tried[p]) >= sweepInterval && (oldest < 0 || tried[p].Before(tried[oldest])) {
			oldest = p
		}
	}
	if oldest < 0 {
		return false
	}
	sh.sweepPartition(ctx, oldest, store.SweepMark{Epoch: sh.sweeping.epoch, AtMs: state.NowMs}, share)
	tried[oldest] = time.Now()
	return true
}

// sweepOver has what counted before forgotten, or the shard taken back, when all of it
// is swept that had to be for that.
func (sh *shard) sweepOver(ctx context.Context, state *store.SweepState, left int) {
	if !sh.ownership.first(0) {
		return
	}
	for _, mark := range state.Marks {
		if mark.Epoch < sh.sweeping.epoch {
			return
		}
	}
	switch {
	case !sh.s.store.Lost(sh.name):
		if err := sh.s.store.Forget(ctx, sh.sweeping.epoch); err != nil {
			sh.log.Debug("the sweep is not over on all shards", "epoch", sh.sweeping.epoch, "err", err)
		}
	case left == 0:
		if err := sh.s.store.Regain(ctx, sh.name); err != nil {
			sh.log.Debug("the shard can't join again yet", "err", err)
		}
	}
}

// sweepPartition looks at all of a partition, some copies at a time, for a share of
// the rate, and marks it if every one is in place: none was left alone since somebody
// is at it, or could not be moved.
func (sh *shard) sweepPartition(ctx context.Context, partition int, mark store.SweepMark, share int) {
	clean, page := true, firstPage
	for cursor, more := "", true; more; {
		bounded, cancel := sh.s.config.Awake.WithTimeout(ctx, sweepPatience)
		keys, next, err := sh.s.store.Scan(bounded, sh.name, partition, cursor, sweepPage)
		cancel()
		if err != nil {
			return
		}
		cursor, more = next, next != ""
		for len(keys) > 0 {
			n := min(page, len(keys))
			if epoch, steady := sh.s.store.Epoch(sh.name); epoch != mark.Epoch || !steady || sh.s.sweepPace.WaitN(ctx, n) != nil {
				return
			}
			for range share - 1 { // what others may use meanwhile
				if sh.s.sweepPace.WaitN(ctx, n) != nil {
					return
				}
			}
			bounded, cancel := context.WithTimeout(ctx, sweepPatience)
			inPlace, weight := sh.sweepKeys(bounded, keys[:n])
			cancel()
			clean, keys = clean && inPlace, keys[n:]
			page = nextPage(page, weight)
		}
	}
	if !clean {
		return
	}
	bounded, cancel := sh.s.config.Awake.WithTimeout(ctx, sweepPatience)
	defer cancel()
	if err := sh.s.store.MarkSwept(bounded, sh.name, partition, mark); err != nil {
		sh.log.Debug("the partition can't be marked", "partition", partition, "err", err)
	}
	sh.recount(ctx, partition)
}

// nextPage is how many copies are looked at next, after so many that had this weight:
// bodies may be a megabyte each.
func nextPage(page, weight int) int {
	switch {
	case weight > maxSweepBytes/weightBytes:
		return max(page/2, 1)
	case weight < maxSweepBytes/weightBytes/4:
		return min(page*2, sweepPage)
	}
	return page
}

// catchUp has all shards swept after this one has missed something: what it was to
// be told is elsewhere, and it may have what is over. The others come first: if
// this node dies meanwhile, it is this shard that tells the next one.
func (sh *shard) catchUp(ctx context.Context, state *store.SweepState) error {
	ago, over := sh.silence.outage.over()
	if state.Restarted {
		ago, over = max(ago, state.Missed, 1), true
	}
	if over {
		ago += lostTail
		if err := sh.wantAllSwept(ctx, ago); err != nil {
			return err
		}
		sh.silence.outage.forget()
		switch {
		case !sh.s.several():
		case state.Restarted && state.WantedMs == 0:
			sh.log.Info("the shard is empty; all shards are swept, and it gets the copies that belong there")
		default:
			sh.log.Info("the shard has missed something; all shards are swept", "since", ago.Round(time.Second), "restarted", state.Restarted)
		}
		state.WantedMs, state.Missed = state.NowMs, max(state.Missed, ago)
	}
	if err := sh.wantSweep(ctx); err != nil {
		return err
	}
	missedSince := int64(0)
	if state.Missed > 0 {
		if missedSince = int64(sh.silence.now() - state.Missed); missedSince == 0 {
			missedSince = -1
		}
	}
	sh.sweeping.missedSince.Store(missedSince)
	if !sh.silence.outage.pending() {
		sh.unheard.Store(0)
	}
	return nil
}

// wantAllSwept has all shards swept, since this one began so long ago to miss what it was to
// be told.
func (sh *shard) wantAllSwept(ctx context.Context, ago time.Duration) error {
	for _, other := range sh.s.shards.load() {
		if other != sh {
			other.sweeping.wanted.Store(true)
		}
	}
	for _, other := range sh.s.shards.load() {
		if other != sh && !other.silence.lasts() {
			if err := other.wantSweep(ctx); err != nil && !errors.Is(err, timer.ErrRefused) {
				sh.log.Debug("a shard could not be told to be swept", "other", other.name, "err", err)
			}
		}
	}
	return sh.s.store.WantSweep(ctx, sh.name, ago)
}

// wantSweep has the shard swept if another one has missed something.
func (sh *shard) wantSweep(ctx context.Context) error {
	if !sh.sweeping.wanted.Load() {
		return nil
	}
	if err := sh.s.store.WantSweep(ctx, sh.name, 0); err != nil {
		return err
	}
	sh.sweeping.wanted.Store(false)
	return nil
}
