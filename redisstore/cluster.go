package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// foreignError says that a shard holds the topology of another cluster.
type foreignError struct{ topology *Topology }

func (e *foreignError) Error() string {
	return "the Redis " + e.whose() + ": once nobody needs what it holds, empty it, and the nodes fill it again"
}

func (e *foreignError) whose() string {
	return fmt.Sprintf("belongs to another chronos, or did (its topology is epoch %d with %s)", e.topology.Epoch, strings.Join(e.topology.names(), ", "))
}

// sift has what other clusters have stored be an error of the shard that holds it, and
// gives the id of this one to what was stored before there were ids.
func (l *Topology) sift(all []stand) {
	id := l.clusterAmong(all)
	newest := l.Epoch
	for _, at := range all {
		if at.topology != nil && at.topology.Cluster == id {
			newest = max(newest, at.topology.Epoch)
		}
	}
	judge := func(own bool, members *Topology) {
		for i, at := range all {
			_, mine := l.member(at.shard.name)
			if t := at.topology; t == nil || mine != own || id != "" && t.Cluster == id {
				continue
			}
			// Each change carries the id on, so that what has none is from before.
			_, member := members.member(at.shard.name)
			if t := at.topology; t.Cluster == "" && member && (id == "" || t.Epoch <= newest) {
				t.Cluster = id
				continue
			}
			all[i] = stand{shard: at.shard, foreign: at.topology, err: &foreignError{at.topology}}
		}
	}
	judge(true, l)
	later := l // it may name shards that are new
	for _, at := range all {
		if _, mine := l.member(at.shard.name); mine && at.topology != nil && at.topology.Epoch > later.Epoch {
			later = at.topology
		}
	}
	judge(false, later)
}

// clusterAmong is the id of this cluster, "" if none is known. One that has none is
// given it by its next change, which others may have made: that of who works by no
// topology yet is the only one that is there.
func (l *Topology) clusterAmong(all []stand) string {
	if l.Cluster != "" {
		return l.Cluster
	}
	holders := map[string][]string{}
	for _, at := range all {
		if _, mine := l.member(at.shard.name); mine && at.topology != nil && at.topology.Cluster != "" {
			holders[at.topology.Cluster] = append(holders[at.topology.Cluster], at.shard.name)
		}
	}
	for id, names := range holders {
		if l.Epoch == 0 && len(holders) == 1 || l.Epoch > 0 && (id == l.Change || 2*len(names) > len(l.Shards)) {
			return id
		}
	}
	return ""
}

// apart is why a node that was started with these shards can't tell which topology is
// its own, nil if it can.
func apart(all []stand) error {
	if !slices.ContainsFunc(all, func(at stand) bool { return at.foreign != nil }) {
		return nil
	}
	var held []string
	for _, at := range all {
		if t := cmp.Or(at.topology, at.foreign); t != nil {
			held = append(held, fmt.Sprintf("%s that of epoch %d with %s", at.shard.name, t.Epoch, strings.Join(t.names(), ", ")))
		}
	}
	return fmt.Errorf("the shards of CHRONOS_REDIS hold topologies of different clusters, %s; name the shards of one, or empty those of the others", strings.Join(held, "; "))
}

// report logs once which own shards hold the topology of another cluster.
func (s *Store) report(all []stand) {
	mine := s.Topology()
	for _, at := range all {
		switch _, member := mine.member(at.shard.name); {
		case at.err == nil:
			at.shard.foreign.Store(false)
		case member && at.foreign != nil && !at.shard.foreign.Swap(true):
			at.shard.log.Error("the topology that the shard holds is not this cluster's", "err", at.err)
		}
	}
}

// vet refuses to have a shard join that holds the topology of another cluster, or may.
// It is locked from then on, so that none comes to be there before the change is.
func (p *proposal) vet(ctx context.Context, base, next *Topology) error {
	for _, m := range next.Shards {
		if next.StateOf(m.Name) != MemberJoining || base.StateOf(m.Name) == MemberJoining {
			continue
		}
		// It is not one of the store's: a shard that is refused leaves nothing there.
		sh, err := newShard(p.s.config(m), p.s.scripts, p.s.times, p.s.log)
		if err != nil {
			return err
		}
		if err := p.vetShard(ctx, base, sh); err != nil {
			bounded, cancel := context.WithTimeout(ctx, topologyPatience)
			_ = sh.topologyCall(bounded, "unlocked", "unlock", p.token, "", "", "", "") // it ends by itself, too
			cancel()
			return errors.Join(err, sh.close())
		}
		if err := sh.close(); err != nil {
			return fmt.Errorf("close connections to shard %s: %w", m.Name, err)
		}
	}
	return nil
}

func (p *proposal) vetShard(ctx context.Context, base *Topology, sh *shard) error {
	bounded, cancel := context.WithTimeout(ctx, topologyPatience)
	defer cancel()
	locked := sh.lockTopology(bounded, p.token)
	all := pollTopology(ctx, []*shard{sh})
	base.sift(all)
	at := all[0]
	var foreign *foreignError
	switch {
	case errors.As(at.err, &foreign):
		return base.refuse("the Redis of shard %s %s: empty it first, or give it another database", sh.name, foreign.whose())
	case at.err != nil:
		return base.refuse("the Redis of shard %s can't be read (%v), and may belong to another chronos; try again when it can", sh.name, at.err)
	case at.topology != nil && at.topology.Epoch > base.Epoch:
		return base.refuse("the Redis of shard %s holds a later topology of this chronos (epoch %d), of a change that was left; empty it first", sh.name, at.topology.Epoch)
	case locked != nil:
		return base.refuse("the Redis of shard %s could not be locked (%v): somebody else adds it, too; try again in %v", sh.name, locked, lockLife)
	}
	return nil
}
