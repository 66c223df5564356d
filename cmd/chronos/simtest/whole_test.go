package simtest

import (
	"slices"

	"chronos/scheduler/verify/history"
)

// isWhole reports whether the fault hurts all nodes at once.
func (f fault) isWhole() bool {
	switch f.kind {
	case allSlow, allHole, allCross, allPause:
		return true
	default:
		return false
	}
}

// tells reports whether the code that begins the fault also records the fault.
func (f fault) tells() bool {
	switch f.kind {
	case linkStall, shardStall, nodeBusy:
		return true
	default:
		return f.isChange() || f.isWhole()
	}
}

// beginWhole begins a fault that hurts all nodes at once. The history has one fault for each node.
func (c *cluster) beginWhole(f fault) (undo func()) {
	var ends []func()
	begun := int64(c.journal.now())
	class, from := f.class(), make([]*shard, len(c.machines))
	members, active := c.members()
	for i := range from {
		if f.kind == allCross {
			from[i] = members[(int(f.pick>>8%64)+i)%len(members)]
		} else if f.shard >= 0 {
			from[i] = c.shards[f.shard]
		}
	}
	if f.kind == allCross && len(active) == 2 && !slices.ContainsFunc(from, func(s *shard) bool { return !slices.Contains(active, s.name) }) {
		class = history.NetSplit // no node reaches both shards that take timers
	}
	for i, m := range c.machines {
		h := history.Fault{Kind: string(f.kind), Class: class, Node: m.name, StartNs: begun}
		if f.kind == allPause {
			resume := m.pause()
			ends = append(ends, func() {
				resume()
				h.EndNs = int64(c.journal.now())
				if i == 0 {
					h.LateMs = f.last.Milliseconds() // no running node could take over
				}
				c.journal.fault(h)
			})
			continue
		}
		s := from[i]
		if h.Shard = s.name; h.Class == history.Slow {
			h.LateMs = 10 * f.by.Milliseconds()
		}
		lift := beginLink(m.links[s.name], f)
		ends = append(ends, func() {
			lift()
			c.recordOf(s, h)
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// members returns the shards of a node's topology, and the names of those that take timers. If no node runs, members
// returns the shards that nodes start with.
func (c *cluster) members() (all []*shard, active []string) {
	for _, m := range c.machines {
		if t, up := m.topology(); up && t.Epoch > 0 {
			for _, s := range c.shards {
				if slices.Contains(names(&t), s.name) {
					all = append(all, s)
				}
			}
			return all, t.Active
		}
	}
	for _, s := range c.shards[:c.setting.shards] {
		all, active = append(all, s), append(active, s.name)
	}
	return all, active
}
