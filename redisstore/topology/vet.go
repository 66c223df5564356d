package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chronos/scheduler/timing"
)

// vet refuses to have a shard join whose Redis holds the topology of other nodes, or
// may: of the two the later would be followed by all, who would forget the shards of
// the other. It is locked from then on, so that none comes to be there before the
// change is. Force is AddShard's.
func (p *proposal) vet(ctx context.Context, base, next *Topology, force bool) error {
	for _, m := range next.Shards {
		if next.StateOf(m.Name) != Joining || base.StateOf(m.Name) == Joining {
			continue
		}
		// Its connections are not the cluster's: a shard that is refused leaves nothing there.
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
	case l != nil && (!l.related(base) || l.Epoch > base.Epoch+1): // the next one was begun by a node that died
		return base.Refuse("the Redis of shard %s belongs to another chronos, or did (its topology is epoch %d with %s): empty it first, or give it another database",
			sh.Name(), l.Epoch, strings.Join(l.names(), ", "))
	case locked != nil:
		return base.Refuse("the Redis of shard %s could not be locked (%v): somebody else adds it, too; try again in %v", sh.Name(), locked, timing.LockLife)
	}
	return p.vetTwin(base, sh, force)
}

// related reports whether two topologies came of the same first one. Where one of them
// doesn't say, they have to have a shard in common, as a change and the one before it.
func (l *Topology) related(to *Topology) bool {
	if l.Cluster != "" && to.Cluster != "" {
		return l.Cluster == to.Cluster
	}
	return slices.ContainsFunc(l.Shards, func(m Member) bool { return slices.Contains(to.Shards, m) })
}
