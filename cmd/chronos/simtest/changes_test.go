package simtest

import (
	"math/rand/v2"
	"slices"
	"time"
)

// changesEvery is the average time between two changes of the topology. A change takes some 16 s if all goes
// well.
const changesEvery = 22 * time.Second

// mostCalls is about how many script calls a node makes for a change, the second step included.
const mostCalls = 40

func changeRules() []rule {
	return []rule{
		{kind: topoOne, weight: 8, instant: true},
		{kind: topoTwo, weight: 5, instant: true},
		{kind: topoKill, weight: 4, node: true},
		{kind: topoCut, weight: 4, node: true},
	}
}

// isChange reports whether the fault is a change of the topology.
func (f fault) isChange() bool {
	switch f.kind {
	case topoOne, topoTwo, topoKill, topoCut:
		return true
	default:
		return false
	}
}

// drawChanges draws changes of the topology, in order, until the load ends.
func drawChanges(r *rand.Rand, s *setting, o options) []fault {
	var all []fault
	rules := slices.DeleteFunc(o.wanted(changeRules()), func(k rule) bool { return k.node && o.quiet })
	for at := calm; len(rules) > 0; {
		at += time.Second + time.Duration(r.ExpFloat64()*float64(changesEvery-time.Second))
		if at >= s.load {
			break
		}
		chosen := drawRule(r, rules)
		f := fault{kind: chosen.kind, at: at.Truncate(time.Millisecond), node: -1, shard: -1, pick: r.Uint64()}
		if chosen.node {
			f.node = r.IntN(s.nodes)
		}
		if !chosen.instant {
			last := 2*time.Second + time.Duration(r.ExpFloat64()*float64(5*time.Second))
			f.last = min(last, 20*time.Second, s.load-f.at).Truncate(time.Millisecond)
		}
		if fits(all, f, s.nodes) {
			all = append(all, f)
		}
	}
	return all
}

// The next methods read the parts of a change's pick that do not choose the change.

// call is the number of the script call after which the change's node is killed.
func (f fault) call() int { return 1 + int(f.pick>>8%mostCalls) }

// cutsOff reports whether the change's node is cut off from the shard.
func (f fault) cutsOff(shard int) bool { return f.pick>>16>>shard&1 == 1 }
