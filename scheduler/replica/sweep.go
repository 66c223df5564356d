package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// sweepInterval is how often a node looks for something to sweep.
	sweepInterval = time.Second
	// sweepPage is how many copies are looked at together at most, firstPage how many at first, and
	// maxSweepBytes about how many bytes the copies may take.
	sweepPage     = 100
	firstPage     = 25
	maxSweepBytes = 8 << 20
	// idleInterval is how often a partition is swept though nothing asks for a sweep. The rate is
	// then 1/idleShare of the usual rate.
	idleInterval = time.Hour
	idleShare    = 10
)

// sweep is the sweep of one shard.
type sweep struct {
	k     *Keeper
	shard *shard.Shard

	epoch int64                       // as seen last
	since time.Time                   // since when the epoch is the same and steady
	tried [store.Partitions]time.Time // when this node swept every partition last, clean or not

	wanted atomic.Bool // another shard has missed something: copies here may belong there

	doubts  map[string]timer.State // states of copies that the hourly pass found uneven, by key, for a second look
	doubted time.Time              // when the last doubt was noted
}

// Sweep brings copies to their owners (rule "sweep copies to their owners"), in the partitions that
// this node is the first to look after. Sweep does so after every change of the topology, when a
// shard has missed something, and hourly anyway, until ctx ends.
func (k *Keeper) Sweep(ctx context.Context, sh *shard.Shard) {
	sw := k.sweeps.Of(sh)
	ticker := time.NewTicker(1 + rand.N(sweepInterval)) // shards and nodes that begin together don't sweep in unison
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(sweepInterval)
		}
		for sw.sweepNext(ctx) && ctx.Err() == nil {
		}
	}
}

// sweepNext looks whether this shard, or another shard, has missed something, and sweeps one
// partition if a sweep is wanted. more reports whether further partitions may wait.
func (sw *sweep) sweepNext(ctx context.Context) (more bool) {
	if epoch, steady := sw.k.store.Epoch(sw.shard.Name); epoch != sw.epoch || !steady {
		sw.epoch, sw.since = epoch, time.Now()
	}
	if sw.shard.Reach() >= shard.Late {
		return false
	}
	bounded, cancel := sw.k.config.Awake.WithTimeout(ctx, timing.CopyPatience)
	defer cancel()
	state, err := sw.k.store.Swept(bounded, sw.shard.Name)
	if err == nil {
		err = sw.catchUp(bounded, &state)
	}
	if err != nil {
		sw.shard.Log.Debug("the sweep has to wait", "err", err)
		return false
	}
	left := 0
	for p := range state.Marks {
		if !state.Done(p, sw.epoch) {
			left++
		}
	}
	sw.k.unswept.WithLabelValues(sw.shard.Name).Set(float64(left))
	waited := state.NowMs - state.WantedMs
	if time.Since(sw.since) < timing.SweepDelay || waited >= 0 && waited < timing.RepairDelay.Milliseconds() {
		return false
	}
	sw.sweepOver(ctx, &state, left)
	if left == 0 {
		sw.lookAgain(ctx)
		return sw.sweepOldest(ctx, &state, func(p int) bool { return state.NowMs-state.Marks[p].AtMs > idleInterval.Milliseconds() }, idleShare)
	}
	clear(sw.doubts) // the full sweep covers these timers
	return sw.sweepOldest(ctx, &state, func(p int) bool { return !state.Done(p, sw.epoch) }, 1)
}

// sweepOldest sweeps one of the wanted partitions that this node is the first to look after, at
// 1/share of the rate: the partition that was tried longest ago. found reports whether a partition
// was wanted.
func (sw *sweep) sweepOldest(ctx context.Context, state *store.SweepState, wanted func(p int) bool, share int) (found bool) {
	tried, oldest := &sw.tried, -1
	for p := range state.Marks {
		if wanted(p) && sw.shard.Ownership.First(p) && time.Since(tried[p]) >= sweepInterval && (oldest < 0 || tried[p].Before(tried[oldest])) {
			oldest = p
		}
	}
	if oldest < 0 {
		return false
	}
	sw.sweepPartition(ctx, oldest, store.SweepMark{Epoch: sw.epoch, AtMs: state.NowMs}, share)
	tried[oldest] = time.Now()
	return true
}

// sweepOver forgets the former places of timers once all is swept for the epoch. A shard that was
// given up joins again once nothing is left to sweep.
func (sw *sweep) sweepOver(ctx context.Context, state *store.SweepState, left int) {
	if !sw.shard.Ownership.First(0) {
		return
	}
	for _, mark := range state.Marks {
		if mark.Epoch < sw.epoch {
			return
		}
	}
	switch {
	case !sw.k.store.Lost(sw.shard.Name):
		if err := sw.k.store.Forget(ctx, sw.epoch); err != nil {
			sw.shard.Log.Debug("the sweep is not over on all shards", "epoch", sw.epoch, "err", err)
		}
	case left == 0:
		if err := sw.k.store.Regain(ctx, sw.shard.Name); err != nil {
			sw.shard.Log.Debug("the shard can't join again yet", "err", err)
		}
	}
}

// sweepPartition looks at all copies of a partition, page by page, at 1/share of the rate. The
// partition is marked if every copy is in place: no copy was left alone because a node works on the
// copy, and every move succeeded.
func (sw *sweep) sweepPartition(ctx context.Context, partition int, mark store.SweepMark, share int) {
	clean, page := true, firstPage
	for cursor, more := "", true; more; {
		bounded, cancel := sw.k.config.Awake.WithTimeout(ctx, timing.CopyPatience)
		keys, next, err := sw.k.store.Scan(bounded, sw.shard.Name, partition, cursor, sweepPage)
		cancel()
		if err != nil {
			return
		}
		cursor, more = next, next != ""
		for len(keys) > 0 {
			n := min(page, len(keys))
			if epoch, steady := sw.k.store.Epoch(sw.shard.Name); epoch != mark.Epoch || !steady || sw.k.sweepPace.WaitN(ctx, n) != nil {
				return
			}
			for range share - 1 { // leave the rest of the rate to others
				if sw.k.sweepPace.WaitN(ctx, n) != nil {
					return
				}
			}
			bounded, cancel := context.WithTimeout(ctx, timing.CopyPatience)
			look := sw.sweepKeys
			if share == idleShare {
				look = sw.doubt
			}
			inPlace, bytes := look(bounded, keys[:n])
			cancel()
			clean, keys = clean && inPlace, keys[n:]
			page = nextPage(page, bytes)
		}
	}
	if !clean {
		return
	}
	bounded, cancel := sw.k.config.Awake.WithTimeout(ctx, timing.CopyPatience)
	defer cancel()
	if err := sw.k.store.MarkSwept(bounded, sw.shard.Name, partition, mark); err != nil {
		sw.shard.Log.Debug("the partition can't be marked", "partition", partition, "err", err)
	}
	sw.k.recount(ctx, sw.shard, partition)
}

// nextPage is how many copies are looked at next, after a page of so many bytes: a body may be a
// megabyte.
func nextPage(page, bytes int) int {
	switch {
	case bytes > maxSweepBytes:
		return max(page/2, 1)
	case bytes < maxSweepBytes/4:
		return min(page*2, sweepPage)
	}
	return page
}

// catchUp has all shards swept after this shard has missed something: the missed writes are
// elsewhere, and this shard may have copies of timers that are over. This shard is asked last: if
// this node dies meanwhile, this shard still tells the next node.
func (sw *sweep) catchUp(ctx context.Context, state *store.SweepState) error {
	ago, over := sw.shard.Answers.Outage.Over()
	if state.Restarted {
		ago, over = max(ago, state.Missed, 1), true
	}
	if over {
		ago += timing.LostTail
		if err := sw.wantAllSwept(ctx, ago); err != nil {
			return err
		}
		sw.shard.Answers.Outage.Forget()
		switch {
		case !sw.k.shards.Several():
		case state.Restarted && state.WantedMs == 0:
			sw.shard.Log.Info("the shard is empty; all shards are swept, and it gets the copies that belong there")
		default:
			sw.shard.Log.Info("the shard has missed something; all shards are swept", "since", ago.Round(time.Second), "restarted", state.Restarted)
		}
		state.WantedMs, state.Missed = state.NowMs, max(state.Missed, ago)
	}
	if err := sw.wantSweep(ctx); err != nil {
		return err
	}
	sw.shard.MissesSince(state.Missed)
	return nil
}

// wantAllSwept has all shards swept, since this shard began to miss writes so long ago.
func (sw *sweep) wantAllSwept(ctx context.Context, ago time.Duration) error {
	for _, other := range sw.k.shards.All() {
		if other != sw.shard {
			sw.k.sweeps.Of(other).wanted.Store(true)
		}
	}
	for _, other := range sw.k.shards.All() {
		if other != sw.shard && other.Reach() != shard.Down {
			if err := sw.k.sweeps.Of(other).wantSweep(ctx); err != nil && !errors.Is(err, timer.ErrRefused) {
				sw.shard.Log.Debug("a shard could not be told to be swept", "other", other.Name, "err", err)
			}
		}
	}
	return sw.k.store.WantSweep(ctx, sw.shard.Name, ago)
}

// wantSweep has the shard swept if another shard has missed something.
func (sw *sweep) wantSweep(ctx context.Context) error {
	if !sw.wanted.Load() {
		return nil
	}
	if err := sw.k.store.WantSweep(ctx, sw.shard.Name, 0); err != nil {
		return err
	}
	sw.wanted.Store(false)
	return nil
}
