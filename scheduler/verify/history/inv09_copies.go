package history

import (
	"slices"
	"time"
)

// copiesAtHome is invariant 9, judged if the shards were dumped at least 60 s (Limits.Heal) after the last fault. The
// invariant is about timers that certainly have pops to come (fateOf), and about timers with any copy in the dump:
//
//   - The copies are on exactly the shards that the timer's Home names.
//   - Every copy has the rank of its place in the Home.
//   - All copies are in the same state, and no tombstone is elsewhere.
//
// Timers that are leased or due within 2 s (Limits.Busy) are left alone. A shard that takes no timers (End.Active)
// has nothing at all.
func copiesAtHome(r *run, f *Finding) {
	switch {
	case r.h.Header.Mode == Safety:
		f.excuse("faults last to the end")
		return
	case !r.hasDump():
		f.notJudged("the shards were not dumped")
		return
	case r.dumped() < r.healed()+r.l.Heal:
		f.notJudged("the shards were dumped too soon after the last fault")
		return
	}
	homes := make(map[string][]string)
	for _, h := range r.h.Homes {
		if h.UntilNs == 0 {
			homes[h.Key] = h.Shards
		}
	}
	found := r.copiesByKey()
	for i := range r.h.Copies {
		if c := &r.h.Copies[i]; len(r.h.End.Active) > 0 && !slices.Contains(r.h.End.Active, c.Shard) {
			f.violation("timer %s: shard %s, which takes no timers, has %s", c.Key, c.Shard, c.state())
		}
	}
	for _, t := range r.timers {
		if len(found[t.key]) == 0 && r.fateOf(t) == live {
			f.violation("timer %s: it has pops to come, and no copy", t.key)
		}
	}
	for _, key := range sortedKeys(found) {
		copies := found[key]
		switch {
		case !slices.ContainsFunc(copies, func(c *Copy) bool { return !c.Ended }):
		case slices.ContainsFunc(copies, func(c *Copy) bool { return c.Leased || !c.Ended && c.look() < r.l.Busy }):
		case homes[key] == nil:
			r.problem("invariant 9: timer %s has copies, and the history does not say where they belong", key)
		default:
			judgeCopies(f, key, copies, homes[key])
		}
	}
}

func (r *run) healed() (last time.Duration) {
	for i := range r.h.Faults {
		if f := &r.h.Faults[i]; !f.explainsLittle() {
			last = max(last, f.ended(r.end))
		}
	}
	return last
}

func (r *run) copiesByKey() map[string][]*Copy {
	found := make(map[string][]*Copy)
	for i := range r.h.Copies {
		c := &r.h.Copies[i]
		found[c.Key] = append(found[c.Key], c)
	}
	return found
}

func judgeCopies(f *Finding, key string, copies []*Copy, home []string) {
	at := make(map[string]*Copy)
	for _, c := range copies {
		rank := slices.Index(home, c.Shard)
		switch {
		case at[c.Shard] != nil:
			f.violation("timer %s: shard %s has two copies", key, c.Shard)
		case rank < 0:
			f.violation("timer %s: shard %s has a copy and is not among %v", key, c.Shard, home)
		case rank != c.Rank:
			f.violation("timer %s: the copy on shard %s has rank %d instead of %d", key, c.Shard, c.Rank, rank)
		case c.state() != copies[0].state():
			f.violation("timer %s: %s on shard %s, %s on shard %s", key, copies[0].state(), copies[0].Shard, c.state(), c.Shard)
		}
		at[c.Shard] = c
	}
	for _, shard := range home {
		if at[shard] == nil {
			f.violation("timer %s: shard %s has no copy", key, shard)
		}
	}
}
