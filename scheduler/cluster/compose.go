package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/pulse"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Status is the cluster as of now, by the last inspection of the shards and by what the nodes have told. The
// error wraps timer.ErrUnavailable: ctx ended first.
func (o *Observer) Status(ctx context.Context) (Status, error) {
	told, heardAll := o.told.Get(ctx, o.hear)
	samples, sampled := o.samples.Get(ctx, o.sample)
	if !heardAll || !sampled {
		return Status{}, fmt.Errorf("%w: look at the cluster: %w", timer.ErrUnavailable, ctx.Err())
	}
	found, conditions := o.latest(ctx)
	s := Status{View: found.View, Epoch: found.Epoch, Timers: Timers{About: int64(samples.timers + .5), Sampled: samples.looked}}
	unreached := make(map[string]bool)
	for _, name := range slices.Concat(told.unreached, samples.unreached) {
		unreached[name] = true
	}
	now := time.Now()
	for i := range conditions {
		sh := o.shardOf(&conditions[i], now)
		if sh.Copies == nil || !sh.Up {
			unreached[sh.Name] = true
		}
		if sh.Copies != nil {
			s.Timers.Copies += *sh.Copies
		}
		s.Dead += sh.Letters
		s.Shards = append(s.Shards, sh)
	}
	s.Unreached = slices.Sorted(maps.Keys(unreached))
	o.addNodes(&s, &told)
	s.Alarms = o.alarms(&s)
	return s, nil
}

// shardOf is the condition of a shard.
func (o *Observer) shardOf(c *condition, now time.Time) Shard {
	s := Shard{
		Name: c.Name, URL: c.URL, State: c.State, Lost: c.Lost, Removable: c.Removable, Problem: c.Problem, Due: c.Due, OldestDue: max(c.Overdue, 0), Letters: c.Letters,
		ClockOffset: c.Facts.ClockAhead, Persists: cmp.Or(c.Facts.Persists, "unknown"), Evicts: c.Facts.Evicts, Version: c.Facts.Version,
		UsedMemory: c.Facts.UsedMemory, MaxMemory: c.Facts.MaxMemory, SweepLeft: c.progress.left(now),
	}
	if known := o.shards.Shard(c.Name); known != nil {
		s.Up = known.Usable() && !known.Away()
	}
	if c.answered {
		s.Copies, s.Swept = new(c.Copies), new(float64(c.Swept)/store.Partitions)
	}
	return s
}

// addNodes adds what the nodes have told.
func (o *Observer) addNodes(s *Status, told *telling) {
	by := make(map[string]*Destination)
	for _, id := range slices.Sorted(maps.Keys(told.nodes)) {
		h := told.nodes[id]
		if h.ago += time.Since(told.at); h.ago > shownFor {
			continue
		}
		n := Node{
			ID: id, Host: h.Host, Version: h.Version, Format: h.Format, Public: h.Public, Admin: h.Admin, Started: h.Started, Seen: h.ago,
			PerSecond: Rates{h.Timers.Fired, h.Timers.Failed}, InFlight: h.Timers.InFlight, Late: latenessOf(h.LateMs), Self: id == o.config.Node,
		}
		s.Nodes = append(s.Nodes, n)
		if n.Seen > timing.NodeLife {
			continue // the node does not call back any more
		}
		s.PerSecond.Fired += n.PerSecond.Fired
		s.PerSecond.Failed += n.PerSecond.Failed
		s.InFlight += n.InFlight
		s.Late = latest(s.Late, n.Late)
		for i := range h.Destinations {
			addDestination(by, &h.Destinations[i])
		}
	}
	busy := func(d *Destination) float64 {
		return d.PerSecond.Fired + d.PerSecond.Failed + float64(d.InFlight+d.Waiting)
	}
	for _, d := range by {
		s.Destinations = append(s.Destinations, *d)
	}
	slices.SortFunc(s.Destinations, func(a, b Destination) int {
		return cmp.Or(cmp.Compare(busy(&b), busy(&a)), strings.Compare(a.Name, b.Name))
	})
}

func addDestination(by map[string]*Destination, told *pulse.Destination) {
	d := by[told.Destination]
	if d == nil {
		d = &Destination{Name: told.Destination}
		by[told.Destination] = d
	}
	d.PerSecond.Fired += told.Fired
	d.PerSecond.Failed += told.Failed
	d.InFlight += told.InFlight
	d.Waiting += told.Waiting
	d.P99 = max(d.P99, ofMs(told.P99Ms))
	if told.Fired+told.Failed > 0 || d.Last == "" {
		d.Last = told.LastStatus
	}
}

func latenessOf(l pulse.LateMs) Lateness {
	return Lateness{P50: ofMs(l.P50), P99: ofMs(l.P99), P999: ofMs(l.P999), Max: ofMs(l.Max)}
}

func ofMs(ms float64) time.Duration { return time.Duration(min(ms, 1e12) * float64(time.Millisecond)) }

// latest is each quantile of the node that is latest.
func latest(a, b Lateness) Lateness {
	return Lateness{max(a.P50, b.P50), max(a.P99, b.P99), max(a.P999, b.P999), max(a.Max, b.Max)}
}
