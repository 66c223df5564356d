package topology

import (
	"maps"
	"slices"
)

// Loss is how a shard was given up.
type Loss struct {
	Epoch   int64 `json:"epoch"`             // of the topology that gave up the shard
	Rejoins bool  `json:"rejoins,omitempty"` // the shard takes timers again once the shard is back and swept
}

// lossOf are the lost shards, with the given loss for the named shard.
func (l *Topology) lossOf(name string, loss Loss) map[string]Loss {
	lost := maps.Clone(l.Lost)
	if lost == nil {
		lost = map[string]Loss{}
	}
	lost[name] = loss
	return lost
}

// lose gives up a shard that has been away for long: the shard is drained.
func (l *Topology) lose(name string) (Topology, error) {
	if err := l.free(); err != nil {
		return *l, err
	}
	_, is := l.member(name)
	takes := slices.Contains(l.Active, name)
	switch _, lost := l.Lost[name]; {
	case !is || lost:
		return *l, l.Refuse("shard %s is given up already", name)
	case takes && len(l.Active) == 1:
		return *l, l.Refuse("shard %s is the only one that takes timers", name)
	}
	next := *l
	next.Lost = l.lossOf(name, Loss{Epoch: l.Epoch + 1, Rejoins: takes})
	if takes {
		next.Next = without(l.Active, name)
	}
	return next, nil
}

// regain takes back a shard that was given up and is swept. The shard joins as a new shard does, unless the shard was
// being drained before.
func (l *Topology) regain(name string) (Topology, error) {
	if err := l.free(); err != nil {
		return *l, err
	}
	loss, lost := l.Lost[name]
	if !lost {
		return *l, l.Refuse("shard %s is not given up", name)
	}
	next := *l
	next.Lost = maps.Clone(l.Lost)
	delete(next.Lost, name)
	if loss.Rejoins {
		next.Next = next.inOrder(func(n string) bool { return n == name || slices.Contains(l.Active, n) })
	}
	return next, nil
}
