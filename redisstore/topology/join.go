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
	if c.Topology().Epoch > 0 {
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
	c.weigh(p.all)
	if c.Topology().Epoch > 0 {
		c.sure.Store(true) // most shards held no topology, and were locked: the others get this one from Follow
	}
	return nil
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
