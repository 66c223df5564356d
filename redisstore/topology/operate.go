package topology

import (
	"context"
	"errors"
	"time"

	"chronos/redisstore/endpoint"
)

// AddShard announces a new shard, or again a shard that is being drained and then needs no URL. A second database of
// a Redis that has a shard already needs force. AddShard returns the topology after the change; a *RefusedError says
// why nothing was changed.
func (c *Cluster) AddShard(ctx context.Context, m Member, force bool) (Topology, error) {
	t := c.Topology()
	_, member := t.member(m.Name)
	if m.URL != "" && !member && !endpoint.SamePlace(c.known(m).URL, m.URL) {
		return t, t.Refuse("this node was started with a shard %s at another place in CHRONOS_REDIS, and would use that one; give the new one another name", m.Name)
	}
	return c.changeBy(ctx, force, func(now *Topology) (Topology, error) { return now.add(m) })
}

// DrainShard announces that a shard takes no more timers; the sweep then moves the shard's timers. A shard that can't
// be reached needs force: then the shard has no voice in this change and in later changes, so that one of two shards
// can be given up. Results as AddShard.
func (c *Cluster) DrainShard(ctx context.Context, name string, force bool) (Topology, error) {
	t := c.Topology()
	if _, err := t.drain(name, force); err != nil {
		return t, err
	}
	if force {
		return c.change(ctx, func(now *Topology) (Topology, error) { return now.drain(name, true) }, name)
	}
	if sh, err := c.Placement().Shard(name); err == nil {
		if _, err := HeldBy(ctx, sh); err != nil {
			return t, t.Refuse("shard %s can't be reached (%v); if it is gone for good, drain it with force: what has no copy elsewhere is lost", name, err)
		}
	}
	return c.change(ctx, func(now *Topology) (Topology, error) { return now.drain(name, false) })
}

// Lost is store.GivingUp's.
func (c *Cluster) Lost(shard string) bool {
	_, lost := c.Placement().Topology.Lost[shard]
	return lost
}

// Lose is store.GivingUp's.
func (c *Cluster) Lose(ctx context.Context, shard string) error {
	_, err := c.change(ctx, func(now *Topology) (Topology, error) { return now.lose(shard) })
	return ignoreRefusal(err)
}

// Regain is store.GivingUp's.
func (c *Cluster) Regain(ctx context.Context, shard string) error {
	epoch, _ := c.Epoch(shard)
	if err := c.o.Swept(ctx, shard, epoch); err != nil {
		return err
	}
	_, err := c.change(ctx, func(now *Topology) (Topology, error) { return now.regain(shard) })
	return ignoreRefusal(err)
}

// Forget is store.Sweeping's.
func (c *Cluster) Forget(ctx context.Context, epoch int64) error {
	t := c.Topology()
	if t.Moved != epoch || len(t.Former) == 0 || t.Next != nil {
		return nil
	}
	for _, name := range t.names() {
		if _, lost := t.Lost[name]; lost {
			continue // a lost shard is swept before the shard fires anything
		}
		if err := c.o.Swept(ctx, name, epoch); err != nil {
			return err
		}
	}
	_, err := c.change(ctx, func(now *Topology) (Topology, error) {
		if now.Moved != epoch || len(now.Former) == 0 || now.Next != nil {
			return *now, now.Refuse("the topology has changed since")
		}
		return now.swept(), nil
	})
	return ignoreRefusal(err)
}

// ignoreRefusal is for changes that any node makes: another node made the change, or another change came first.
func ignoreRefusal(err error) error {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil
	}
	return err
}

// RemoveShard forgets a drained and empty shard, or, with force, a shard with timers. Without force the dead letters
// there are brought to another shard first. Results as AddShard.
func (c *Cluster) RemoveShard(ctx context.Context, name string, force bool) (Topology, error) {
	t := c.Topology()
	if _, err := t.remove(name); err != nil {
		return t, err
	}
	if !force {
		if err := c.isDrained(ctx, &t, name); err != nil {
			return t, err
		}
		if err := c.o.Vacate(ctx, &t, name); err != nil {
			return t, err
		}
	}
	var voiceless []string
	if force {
		voiceless = []string{name}
	}
	return c.change(ctx, func(now *Topology) (Topology, error) { return now.remove(name) }, voiceless...)
}

// wholeSeconds rounds up, since nobody can try again in 0s.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// isDrained is nil if a shard has said for long enough that the shard is drained.
func (c *Cluster) isDrained(ctx context.Context, t *Topology, name string) error {
	sh, err := c.Placement().Shard(name)
	if err != nil {
		return err
	}
	if _, err := HeldBy(ctx, sh); err != nil {
		return t.RefuseUnseen(name, err)
	}
	says, wait := c.drainedIn(name)
	if says && wait > 0 {
		return t.Refuse("shard %s was told a moment ago that it is drained; try again in %v", name, wholeSeconds(wait))
	}
	if !says {
		return t.Refuse("shard %s has not been told yet that it is drained; try again in some seconds", name)
	}
	return nil
}

// drainedIn reports whether a shard says that the shard is drained, and for how long the shard must say so yet.
func (c *Cluster) drainedIn(name string) (says bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, says := c.drained[name]
	return says, c.o.Drained - time.Since(since)
}

// SaysDrained reports whether a shard has said for long enough that the shard is drained. Once the shard is empty, the
// shard can be removed.
func (c *Cluster) SaysDrained(name string) bool {
	says, wait := c.drainedIn(name)
	return says && wait <= 0
}

// RefuseUnseen is the error that a shard can't be looked at, and therefore is not removed.
func (l *Topology) RefuseUnseen(name string, err error) error {
	return l.Refuse("shard %s can't be looked at (%v); if it is gone for good, remove it with force: what has no other copy is lost", name, err)
}
