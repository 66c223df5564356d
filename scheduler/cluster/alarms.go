package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/timing"
)

const (
	// overdueAlarm is how long a timer must be due to be an alarm: a fault that ends by itself takes less.
	overdueAlarm = 10 * time.Second
	// ClockAlarm is by how much a clock may be off: a timer that moves between shards moves by as much.
	ClockAlarm = 500 * time.Millisecond
	// fullAlarm is the share of its memory that a shard may use.
	fullAlarm = .9
)

// alarms are what an operator should look at: first what hurts callbacks now, then what may hurt later.
func (o *Observer) alarms(s *Status) (all []Alarm) {
	add := func(code AlarmCode, shard, format string, args ...any) {
		all = append(all, Alarm{Code: code, Shard: shard, Text: fmt.Sprintf(format, args...)})
	}
	for i := range s.Shards {
		sh := &s.Shards[i]
		switch {
		case sh.Lost:
			add(ShardLost, sh.Name, "shard %s: %s", sh.Name, sh.Problem)
		case !sh.Up:
			add(ShardDown, sh.Name, "this node does not reach shard %s; timers without a copy elsewhere wait; start the Redis, or look at the network", sh.Name)
		case sh.Problem != "":
			add(ShardProblem, sh.Name, "shard %s: %s", sh.Name, sh.Problem)
		}
	}
	for i := range s.Shards {
		sh := &s.Shards[i]
		known := o.shards.Shard(sh.Name)
		switch {
		case sh.Up && sh.OldestDue >= overdueAlarm:
			add(Overdue, sh.Name, "a timer on shard %s has been due for %s and nobody has called back; look at the nodes, and at limits and pauses of destinations",
				sh.Name, sh.OldestDue.Round(time.Second))
		case known != nil && known.Neglected() != nil:
			add(Overdue, sh.Name, "timers on shard %s are overdue and no node claims the timers; look at the nodes that announce themselves on the shard", sh.Name)
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Seen > timing.NodeLife {
			add(NodeSilent, "", "node %s on %s has not been heard of for %s; other nodes do the work of the node", n.ID, n.Host, n.Seen.Round(time.Second))
		}
	}
	for i := range s.Shards {
		conditionAlarms(&s.Shards[i], add)
	}
	var versions []string
	for i := range s.Nodes {
		if v := s.Nodes[i].Version; !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if len(versions) > 1 {
		add(VersionsMixed, "", "nodes run several versions: %s; finish the upgrade", strings.Join(versions, ", "))
	}
	return all
}

func conditionAlarms(sh *Shard, add func(code AlarmCode, shard, format string, args ...any)) {
	if sh.Evicts {
		add(Evicts, sh.Name, "shard %s drops timers when the memory is full; run CONFIG SET maxmemory-policy noeviction, and put the line into the configuration", sh.Name)
	}
	if sh.Persists == "none" {
		add(PersistsNot, sh.Name, "shard %s keeps nothing on disk, and loses all timers when the Redis restarts; set appendonly yes", sh.Name)
	}
	if sh.MaxMemory > 0 && float64(sh.UsedMemory) >= fullAlarm*float64(sh.MaxMemory) {
		add(MemoryFull, sh.Name, "shard %s has used %d %% of its memory; a full Redis takes no new timers: raise maxmemory, or add a shard", sh.Name, 100*sh.UsedMemory/sh.MaxMemory)
	}
	if off := sh.ClockOffset; sh.Up && (off >= ClockAlarm || off <= -ClockAlarm) {
		add(ClockOff, sh.Name, "the clock of shard %s differs by %s from this machine's clock; set both by NTP", sh.Name, off.Round(10*time.Millisecond))
	}
}
