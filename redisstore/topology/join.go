package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"

	"github.com/google/uuid"

	"chronos/scheduler/awake"
)

// Join takes the topology that the shards agree on. If no shard has a topology yet, Join stores the topology of the
// shards that the node was started with.
func (c *Cluster) Join(ctx context.Context) error {
	c.look(ctx)
	if c.o.Guest || c.Topology().Epoch > 0 {
		return nil
	}
	p, err := c.propose(ctx)
	for try := 1; errors.Is(err, errHeld) && try < lockTries && awake.Sleep(ctx, lockPause/2+rand.N(lockPause)); try++ {
		c.look(ctx)
		if c.Topology().Epoch > 0 {
			return nil // another node with the lock has stored the first topology
		}
		p, err = c.propose(ctx)
	}
	if err != nil {
		level := slog.LevelDebug // Join tries again each second
		if !c.warned.Swap(true) {
			level = slog.LevelWarn
		}
		c.o.Log.Log(ctx, level, "the topology is not stored yet: most shards can't be reached, or another node is about to", "err", err)
		return nil // the node works with the shards that the node was started with, and tries again
	}
	defer p.end()
	if latest(p.all) != nil {
		c.look(ctx)
		return nil
	}
	first := c.Topology()
	first.Epoch, first.Change = 1, uuid.NewString()
	first.Cluster = first.Change
	if err := p.write(ctx, &first); err != nil {
		return fmt.Errorf("join the shards: %w", err)
	}
	c.founded.Store(&first)
	c.look(ctx)
	return nil
}

// found stores the first topology, which this node has made, once more, for shards that were too late to take it. Most
// shards must hold this topology or none, and no shard another.
func (c *Cluster) found(ctx context.Context) {
	first := c.founded.Load()
	if first == nil {
		return
	}
	p, err := c.propose(ctx)
	if err != nil {
		return // another node is at work, or the next look
	}
	defer p.end()
	free := map[string]bool{}
	for _, at := range p.all {
		if at.topology != nil && !at.topology.same(first) {
			return
		}
		free[at.shard.Name()] = at.err == nil && p.locked[at.shard.Name()]
	}
	if !majority(first.names(), func(name string) bool { return free[name] }) {
		return
	}
	if err := p.write(ctx, first); err != nil {
		c.o.Log.Error("the first topology can't be stored", "err", err)
	}
}

// warnOfOutdatedList names the shards that the node was given and that the stored
// topology lacks, with the command that adds each.
func (c *Cluster) warnOfOutdatedList(given, stored *Topology) {
	args := []any{"epoch", stored.Epoch, "shards", strings.Join(stored.names(), ","), "given", strings.Join(given.names(), ",")}
	for _, name := range given.names() {
		if _, member := stored.member(name); !member {
			args = append(args, "to_add", "chronos topology add "+name+" URL")
		}
	}
	c.o.Log.Warn("CHRONOS_REDIS is outdated: this node follows the topology that is stored on the shards", args...)
}
