package history

import (
	"slices"
	"time"
)

// indexHomes notes the owners of all timers.
func (r *run) indexHomes() {
	r.homes = make(map[string][]*Home)
	for i := range r.h.Homes {
		h := &r.h.Homes[i]
		r.homes[h.Key] = append(r.homes[h.Key], h)
	}
}

// during tells whether the Home holds at some time within [from, to].
func (h *Home) during(from, to time.Duration) bool {
	return time.Duration(h.FromNs) <= to && (h.UntilNs == 0 || time.Duration(h.UntilNs) >= from)
}

// owners are the shards on which copies of a timer belonged at some time within [from, to]; nil if the history
// doesn't say.
func (r *run) owners(key string, from, to time.Duration) (owners []string) {
	for _, h := range r.homes[key] {
		if !h.during(from, to) {
			continue
		}
		for _, shard := range h.Shards {
			if !slices.Contains(owners, shard) {
				owners = append(owners, shard)
			}
		}
	}
	return owners
}

// owns tells whether a shard owned a timer at some time within [from, to]. If the history doesn't say, any shard may
// have owned the timer.
func (r *run) owns(shard, key string, from, to time.Duration) bool {
	owners := r.owners(key, from, to)
	return owners == nil || slices.Contains(owners, shard)
}

// hurtsTimer tells whether a fault hurt any node, or an owner of the timer within [from, to]. Any node may call any
// timer.
func (r *run) hurtsTimer(f *Fault, key string, from, to time.Duration) bool {
	return f.Shard == "" || r.owns(f.Shard, key, from, to)
}

// witness tells whether a fault hurt the shard after the only owner of a one-copy timer. Nodes ask this shard, too,
// while the owner was away lately, has joined lately, or is not swept yet (rule "compare before firing").
func (r *run) witness(f *Fault, w *write, from, to time.Duration) bool {
	lately := from - r.l.TombstoneLife
	return w.rf == 1 && f.Shard != "" && slices.ContainsFunc(r.homes[w.timer()], func(h *Home) bool {
		return h.Next == f.Shard && h.during(from, to)
	}) && (r.changing(lately, to) || slices.ContainsFunc(r.windows, func(o window) bool {
		return o.ofShard() && o.started() <= to && o.healed >= lately && r.owns(o.Shard, w.timer(), from, to)
	}))
}

// hurtsCalls tells whether the fault of a node hurt a node that called or wrote, or the fault of a shard an owner. An
// unknown node may be any node.
func (r *run) hurtsCalls(f *Fault, w *write, calls ...*Callback) bool {
	if f.ofNode() {
		return slices.Contains(w.nodes, f.Node) ||
			slices.ContainsFunc(calls, func(c *Callback) bool { return c.Node == f.Node || c.Node == "" })
	}
	return slices.ContainsFunc(calls, func(c *Callback) bool {
		return r.hurtsTimer(f, c.Key, min(f.started(), c.arrived()), c.arrived())
	})
}
