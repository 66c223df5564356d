package history

import (
	"slices"
	"time"
)

// indexHomes notes which shards own each timer.
func (r *run) indexHomes() {
	r.homes = make(map[string][]*Home)
	for i := range r.h.Homes {
		h := &r.h.Homes[i]
		r.homes[h.Key] = append(r.homes[h.Key], h)
	}
}

// during tells whether it holds at some time within [from, to].
func (h *Home) during(from, to time.Duration) bool {
	return time.Duration(h.FromNs) <= to && (h.UntilNs == 0 || time.Duration(h.UntilNs) >= from)
}

// owners are the shards on which copies of a timer belonged at some time within [from, to]; nil if the history doesn't say.
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

// owns tells whether a shard owned a timer at some time within [from, to]. Where the history doesn't say, any may have.
func (r *run) owns(shard, key string, from, to time.Duration) bool {
	owners := r.owners(key, from, to)
	return owners == nil || slices.Contains(owners, shard)
}

// hurtsTimer tells whether a fault hurt an owner of the timer within [from, to], or any node: each may call any timer.
func (r *run) hurtsTimer(f *Fault, key string, from, to time.Duration) bool {
	return f.Shard == "" || r.owns(f.Shard, key, from, to)
}

// witness tells whether a fault hurt the shard after the one owner of a timer of one copy: nodes ask that shard, too, while
// the owner has been away lately, or has joined or not been swept (rule "compare before firing").
func (r *run) witness(f *Fault, w *write, from, to time.Duration) bool {
	lately := from - r.l.TombstoneLife
	return w.rf == 1 && f.Shard != "" && slices.ContainsFunc(r.homes[w.timer()], func(h *Home) bool {
		return h.Next == f.Shard && h.during(from, to)
	}) && (r.changing(lately, to) || slices.ContainsFunc(r.windows, func(o window) bool {
		return o.ofShard() && o.started() <= to && o.healed >= lately && r.owns(o.Shard, w.timer(), from, to)
	}))
}

// hurtsCalls tells whether a fault of a node hurt one of those that called or wrote, or one of a shard an owner. A node that
// isn't known may be any.
func (r *run) hurtsCalls(f *Fault, w *write, calls ...*Callback) bool {
	if f.ofNode() {
		return slices.Contains(w.nodes, f.Node) ||
			slices.ContainsFunc(calls, func(c *Callback) bool { return c.Node == f.Node || c.Node == "" })
	}
	return slices.ContainsFunc(calls, func(c *Callback) bool {
		return r.hurtsTimer(f, c.Key, min(f.started(), c.arrived()), c.arrived())
	})
}
