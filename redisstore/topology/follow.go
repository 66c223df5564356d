package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// unusedFor is how long connections to a removed shard are kept.
	unusedFor = 30 * time.Second
	// leftAlone is after how many looks another node finishes a begun change.
	leftAlone = 3
)

// Follow has the node work by the latest topology that the shards agree on, and completes announced changes, until
// ctx ends.
func (c *Cluster) Follow(ctx context.Context) {
	ticker := time.NewTicker(timing.FollowInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.o.Guest {
			c.look(ctx)
			c.enactAfter(ctx, 2*c.o.Announced) // unless a node of the site has: a new site has no nodes yet
			continue
		}
		if c.Topology().Epoch == 0 {
			_ = c.Join(ctx) // Join has logged why
			continue
		}
		c.look(ctx)
		switch {
		case !c.sure.Load():
			c.found(ctx)
			continue // the shards may have gone on from the node's topology
		case c.begun.Load() >= leftAlone:
			c.finish(ctx)
		case c.behind.Load():
			c.restore(ctx)
		}
		c.enactAfter(ctx, c.o.Announced)
	}
}

// enactAfter has a topology count that has been announced for so long.
func (c *Cluster) enactAfter(ctx context.Context, announced time.Duration) {
	if l := c.Topology(); l.Next == nil || c.since(&c.adopted) <= announced {
		return
	}
	if _, err := c.change(ctx, func(l *Topology) (Topology, error) { return l.enactAnnounced() }); err != nil {
		c.o.Log.Debug("the announced topology does not count yet", "err", err)
	}
}

// look reads the topology from all shards, and works by the agreed topology.
func (c *Cluster) look(ctx context.Context) {
	all, err := c.survey(ctx)
	if err != nil {
		c.o.Log.Error("a later topology can't be followed", "err", err)
		return
	}
	c.weigh(all)
	if err := c.retire(time.Now().Add(-unusedFor)); err != nil {
		c.o.Log.Debug("connections to a shard that is gone could not be closed", "err", err)
	}
}

// retire ends the connections to shards that nobody has used since an instant: calls from before that instant are
// over.
func (c *Cluster) retire(since time.Time) error {
	inUse := c.current.Load().Shards
	var gone []Shard
	c.mu.Lock()
	c.opened = slices.DeleteFunc(c.opened, func(sh Shard) bool {
		at, waits := c.unused[sh]
		switch {
		case slices.Contains(inUse, sh):
			delete(c.unused, sh)
		case !waits:
			c.unused[sh] = time.Now()
		case at.Before(since):
			delete(c.unused, sh)
			gone = append(gone, sh)
			return true
		}
		return false
	})
	c.mu.Unlock()
	var errs []error
	for _, sh := range gone {
		errs = append(errs, sh.Close())
	}
	return errors.Join(errs...)
}

// weigh judges the topologies that the shards hold.
func (c *Cluster) weigh(all []stand) {
	mine := c.Topology()
	best, ofFew := agreed(all), false
	if best == nil && mine.Epoch == 0 {
		// Most shards are away; the topology of a few shards is better than no topology.
		best, ofFew = latest(all), true
	}
	if best != nil && c.o.Guest && best.Cluster != mine.Cluster {
		c.sure.Store(false) // the site has begun anew, with an earlier epoch
	}
	// A topology that only a few shards held gives way to an agreed topology, even to an earlier topology.
	instead := best != nil && !c.sure.Load() && !best.same(&mine) && slices.ContainsFunc(all, func(at stand) bool {
		_, member := best.member(at.shard.Name())
		return member && at.topology != nil && at.topology.same(best)
	})
	if instead || best != nil && best.Epoch > mine.Epoch {
		if ofFew {
			c.sure.Store(false)
			c.read.Store(0)
		}
		if err := c.adopt(best); err != nil {
			c.o.Log.Error("a later topology can't be followed", "epoch", best.Epoch, "err", err)
			return
		}
		mine = *best
	}
	c.behind.Store(slices.ContainsFunc(all, func(at stand) bool {
		_, member := mine.member(at.shard.Name())
		return member && at.err == nil && (at.topology == nil || at.topology.Epoch < mine.Epoch)
	}))
	c.noteDrained(all)
	answered := slices.ContainsFunc(all, func(at stand) bool { return at.err == nil })
	l := latest(all)
	if l == nil || l.Epoch <= mine.Epoch {
		c.begun.Store(0)
	} else {
		c.begun.Add(1)
	}
	if stands(all, &mine) {
		c.sure.Store(true)
	}
	if answered && c.sure.Load() && !slices.ContainsFunc(all, func(at stand) bool {
		return at.topology != nil && at.topology.Epoch > mine.Epoch && mayCount(all, at.topology)
	}) {
		c.read.Store(max(int64(firstAsked(all).Sub(c.origin)), 1)) // in a test no time may have passed; 0 is never
	}
}

// firstAsked is the instant for which the answers of all shards are known.
func firstAsked(all []stand) time.Time {
	first := time.Now()
	for _, at := range all {
		if !at.asked.IsZero() && at.asked.Before(first) {
			first = at.asked
		}
	}
	return first
}

func (c *Cluster) noteDrained(all []stand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := map[string]time.Time{}
	for _, at := range all {
		name := at.shard.Name()
		if at.topology != nil && at.topology.StateOf(name) == Draining {
			said[name] = time.Now()
			if since, before := c.drained[name]; before {
				said[name] = since
			}
		}
	}
	c.drained = said
}

// finish has a change agreed on that another node has begun and left.
func (c *Cluster) finish(ctx context.Context) {
	p, err := c.propose(ctx)
	if err != nil {
		return // another node is at work, or the next look finishes the change
	}
	defer p.end()
	if _, err := p.base(ctx); err != nil {
		c.o.Log.Debug("the change that was begun is not finished", "err", err)
		return
	}
	c.weigh(p.all)
}

// restore gives the topology to shards that have lost or missed the topology.
func (c *Cluster) restore(ctx context.Context) {
	p, err := c.propose(ctx)
	if err != nil {
		return // another node restores, or the next look
	}
	defer p.end()
	best, mine := agreed(p.all), c.Topology()
	if best == nil || mine.Epoch > best.Epoch {
		best = &mine // of two shards one that has lost the topology is half of them
	}
	if l := latest(p.all); l != nil && l.Epoch > best.Epoch {
		return // a begun change is to be finished first
	}
	if err := p.write(ctx, best); err != nil {
		c.o.Log.Error("the topology can't be restored", "err", err)
	}
}

// adopt has the node work by a topology, unless the node by now works by a later topology and is sure.
func (c *Cluster) adopt(l *Topology) error {
	shards, err := c.shardsOf(l)
	if err != nil {
		return err
	}
	c.o.Adopt(l)
	c.adopting.Lock()
	defer c.adopting.Unlock()
	before := c.current.Load()
	if before.Topology.same(l) || before.Topology.Epoch >= l.Epoch && c.sure.Load() {
		return nil
	}
	c.current.Store(NewPlacement(*l, shards))
	c.adopted.Store(int64(time.Since(c.origin)))
	close(before.changed)
	if before.Topology.Epoch == 0 && !slices.Equal(before.Topology.Active, l.Active) {
		c.warnOfOutdatedList(&before.Topology, l)
		return nil
	}
	level := slog.LevelInfo
	if before.Topology.Epoch == 0 {
		level = slog.LevelDebug // the topology is as this node was told
	}
	c.o.Log.Log(context.Background(), level, "the topology has changed", "epoch", l.Epoch, "active", strings.Join(l.Active, ","), "next", strings.Join(l.Next, ","))
	return nil
}

// Writable is store.Store's. A node that could not read the topology for long may work by an outdated topology. A
// node that has just started may do so, too, until half of the shards have confirmed the node's topology. A write to a
// removed shard would never be called back.
func (c *Cluster) Writable() error {
	if err := c.unfound(); err != nil {
		return err
	}
	if c.read.Load() == 0 {
		return fmt.Errorf("%w: this node has just started, and fewer than half of the shards hold the topology of epoch %d that it found", timer.ErrUnavailable, c.Topology().Epoch)
	}
	if since := c.since(&c.read); c.Topology().Epoch > 0 && since > timing.BlindFor {
		return fmt.Errorf("%w: for %v it could not be known which topology counts: no shard can be read, or a change that was begun waits for one that can't be", timer.ErrUnavailable, since.Round(time.Second))
	}
	return nil
}

// since is how long ago an instant of this node was, by the monotonic clock.
func (c *Cluster) since(at *atomic.Int64) time.Duration {
	return time.Since(c.origin) - time.Duration(at.Load())
}
