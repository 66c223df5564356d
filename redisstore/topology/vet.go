package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chronos/scheduler/timing"
)

// vet refuses a joining shard whose Redis holds, or may hold, the topology of another cluster: all nodes would follow
// the later of the two topologies, and forget the shards of the earlier. From vet on the joining shard is locked, so
// that no foreign topology comes to the shard before the change is stored. Force is AddShard's.
func (p *proposal) vet(ctx context.Context, base, next *Topology, force bool) error {
	for _, m := range next.Shards {
		if next.StateOf(m.Name) != Joining || base.StateOf(m.Name) == Joining {
			continue
		}
		// The connections are not the cluster's: a shard that is refused leaves nothing in the cluster.
		sh, err := p.c.o.Connect(p.c.known(m))
		if err != nil {
			return err
		}
		if err := p.vetShard(ctx, base, sh, force); err != nil {
			bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
			unlock(bounded, sh, p.token)
			cancel()
			return errors.Join(err, sh.Close())
		}
		if err := sh.Close(); err != nil {
			return fmt.Errorf("close connections to shard %s: %w", m.Name, err)
		}
	}
	return nil
}

func (p *proposal) vetShard(ctx context.Context, base *Topology, sh Shard, force bool) error {
	bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	locked := lock(bounded, sh, p.token)
	at := pollTopology(ctx, []Shard{sh})[0]
	l := at.topology
	switch {
	case at.err != nil:
		return base.Refuse("the Redis of shard %s can't be read (%v), and may belong to another chronos; try again when it can", sh.Name(), at.err)
	case l != nil && (!l.related(base) || l.Epoch > base.Epoch+1): // epoch+1 was begun by a node that died
		return base.Refuse("the Redis of shard %s belongs to another chronos, or did (its topology is epoch %d with %s): empty it first, or give it another database",
			sh.Name(), l.Epoch, strings.Join(l.names(), ", "))
	case locked != nil:
		return base.Refuse("the Redis of shard %s could not be locked (%v): somebody else adds it, too; try again in %v", sh.Name(), locked, timing.LockLife)
	}
	return p.vetTwin(base, sh, force)
}

// related reports whether two topologies descend from the same first topology. If a topology does not name its first,
// the two topologies must have a shard in common, as neighbouring topologies do.
func (l *Topology) related(to *Topology) bool {
	if l.Cluster != "" && to.Cluster != "" {
		return l.Cluster == to.Cluster
	}
	return slices.ContainsFunc(l.Shards, func(m Member) bool { return slices.Contains(to.Shards, m) })
}
