package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// sweepDelay is how long after a change of the topology the sweep begins: by then
	// no node writes where timers belonged before (nodes that have not heard of the
	// change refuse to), and none sweeps by what counted then.
	sweepDelay = 6 * time.Second
	// repairDelay is how long it waits after a shard has missed something: a callback
	// that began before that is over by then (rule P9).
	repairDelay = 3 * time.Second
	// sweepInterval is how often a node looks whether there is something to sweep.
	sweepInterval = time.Second
	// sweepPage is how many timers are looked at together.
	sweepPage = 200
	// sweepPatience is how long a page may take.
	// What is due within the quiet is left alone, so nothing is over meanwhile.
	sweepPatience = time.Second
	// idleInterval is how often a partition is swept that nobody wants swept, and
	// idleShare the part of the rate at which that is.
	idleInterval = time.Hour
	idleShare    = 10
)

// sweeping is what the sweep knows of a shard.
type sweeping struct {
	epoch int64     // as seen last
	since time.Time // when it was seen first

	wanted      atomic.Bool  // another shard has missed something: what is here may belong there
	missedSince atomic.Int64 // ns since 1970; 0 if the shard misses nothing
}

// missed is how long ago the shard began to miss what nobody has told it since.
func (sw *sweeping) missed() time.Duration {
	since := sw.missedSince.Load()
	if since == 0 {
		return 0
	}
	return max(time.Since(time.Unix(0, since)), 1)
}

// sweep brings the copies of those partitions that this node is the first to look
// after where they belong (rule P9), after each change of the topology, and when a
// shard has missed something, and now and then anyway, until ctx ends.
func (sh *shard) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if epoch, steady := sh.s.store.Epoch(sh.name); epoch != sh.sweeping.epoch || !steady {
			sh.sweeping.epoch, sh.sweeping.since = epoch, time.Now()
		}
		if sh.silence.lasts() {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, sweepPatience)
		state, err := sh.s.store.Swept(bounded, sh.name)
		if err == nil {
			err = sh.recover(bounded, &state)
		}
		cancel()
		if err != nil {
			sh.log.Debug("the sweep has to wait", "err", err)
			continue
		}
		sh.sweepWanted(ctx, &state)
	}
}

// sweepWanted sweeps those of the node's partitions that are to be swept, and has
// what counted before forgotten when all of the shard is.
func (sh *shard) sweepWanted(ctx context.Context, state *SweepState) {
	epoch := sh.sweeping.epoch
	left, settled := 0, true
	for p := range state.Marks {
		if !state.Done(p, epoch) {
			left++
		}
		settled = settled && state.Marks[p].Epoch >= epoch
	}
	sh.s.metrics.unswept.WithLabelValues(sh.name).Set(float64(left))
	switch {
	case time.Since(sh.sweeping.since) < sweepDelay || state.NowMs-state.WantedMs < repairDelay.Milliseconds() && state.NowMs >= state.WantedMs:
		return
	case left == 0:
		sh.sweepIdly(ctx, state)
	default:
		for p := range state.Marks {
			if !state.Done(p, epoch) && sh.ownership.first(p) {
				sh.sweepPartition(ctx, p, SweepMark{Epoch: epoch, AtMs: state.NowMs}, sweepPage)
			}
		}
	}
	switch {
	case !settled || !sh.ownership.first(0):
	case sh.s.store.Lost(sh.name):
		if left > 0 {
			return
		}
		if err := sh.s.store.Regain(ctx, sh.name); err != nil {
			sh.log.Debug("the shard can't be taken back yet", "err", err)
		}
	default:
		if err := sh.s.store.Forget(ctx, epoch); err != nil {
			sh.log.Debug("the sweep is not over on all shards", "epoch", epoch, "err", err)
		}
	}
}

// sweepIdly sweeps the partition of the node that was swept longest ago, if that is
// long ago.
func (sh *shard) sweepIdly(ctx context.Context, state *SweepState) {
	oldest := -1
	for p, mark := range state.Marks {
		if sh.ownership.first(p) && (oldest < 0 || mark.AtMs < state.Marks[oldest].AtMs) {
			oldest = p
		}
	}
	if oldest >= 0 && state.NowMs-state.Marks[oldest].AtMs > idleInterval.Milliseconds() {
		sh.sweepPartition(ctx, oldest, SweepMark{Epoch: sh.sweeping.epoch, AtMs: state.NowMs}, sweepPage/idleShare)
	}
}

// sweepPartition looks at all of a partition, so many copies at a time, and marks it
// if every one is in place: none was left alone since somebody is at it, or could
// not be moved.
func (sh *shard) sweepPartition(ctx context.Context, partition int, mark SweepMark, page int) {
	clean := true
	for cursor, more := "", true; more; {
		if epoch, steady := sh.s.store.Epoch(sh.name); epoch != mark.Epoch || !steady {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, sweepPatience)
		keys, next, err := sh.s.store.Scan(bounded, sh.name, partition, cursor, page)
		if err == nil {
			clean = sh.sweepKeys(bounded, keys) && clean
		}
		cancel()
		if err != nil {
			return
		}
		cursor, more = next, next != ""
		// A smaller page pays as a whole one does, so that it takes its share of the rate.
		if cost := len(keys) * sweepPage / page; sh.s.sweepPace.WaitN(ctx, min(cost, sh.s.sweepPace.Burst())) != nil {
			return
		}
	}
	if !clean {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	if err := sh.s.store.MarkSwept(bounded, sh.name, partition, mark); err != nil {
		sh.log.Debug("the partition can't be marked", "partition", partition, "err", err)
	}
}

// recover has all shards swept after this one has missed something: what it was to
// be told is elsewhere, and it may have what is over. The others come first: if
// this node dies meanwhile, it is this shard that tells the next one.
func (sh *shard) recover(ctx context.Context, state *SweepState) error {
	ago, over := sh.silence.outage.over()
	if state.Restarted {
		ago, over = max(ago, state.Missed, 1), true
	}
	if over {
		ago += lostTail
		for _, other := range sh.s.shards.load() {
			if other != sh {
				other.sweeping.wanted.Store(true)
			}
		}
		for _, other := range sh.s.shards.load() {
			if other != sh && !other.silence.lasts() {
				if err := other.wantSweep(ctx); err != nil && !errors.Is(err, ErrRefused) {
					sh.log.Debug("a shard could not be told to be swept", "other", other.name, "err", err)
				}
			}
		}
		switch {
		case !sh.s.several():
		case state.Restarted && state.WantedMs == 0:
			sh.log.Info("the shard is new, or has lost all; all shards are swept")
		default:
			sh.log.Info("the shard has missed something; all shards are swept", "since", ago.Round(time.Second), "restarted", state.Restarted)
		}
		if err := sh.s.store.WantSweep(ctx, sh.name, ago); err != nil {
			return err
		}
		state.WantedMs, state.Missed = state.NowMs, max(state.Missed, ago)
	}
	if err := sh.wantSweep(ctx); err != nil {
		return err
	}
	missedSince := int64(0)
	if state.Missed > 0 {
		missedSince = time.Now().Add(-state.Missed).UnixNano()
	}
	sh.sweeping.missedSince.Store(missedSince)
	if !sh.silence.outage.pending() {
		sh.unheard.Store(0)
	}
	return nil
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
