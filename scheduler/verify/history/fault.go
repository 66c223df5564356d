package history

import (
	"fmt"
	"time"
)

// Class says which deviations a fault explains.
type Class string

// The classes. All but the last four explain late callbacks; all but the last six explain duplicates. The shard of a
// ShardAway, ShardLost, LinkCut, NetSplit or AnswersLost counts as faulty meanwhile.
const (
	NodeDeath  Class = "node_death"  // Node was killed at the start, and runs again at the end
	NodeFreeze Class = "node_freeze" // Node stood still
	LinkCut    Class = "link_cut"    // between Node (all nodes if empty) and Shard
	// NetSplit is a LinkCut of every node, so that no node reaches two Redis that take timers. Neither side can know
	// of the callbacks of the opposite side, so both sides call. The duplicates are counted, but no share of the
	// callbacks bounds the number.
	NetSplit    Class = "net_split"
	AnswersLost Class = "answers_lost" // of Shard to Node (all nodes if empty): commands are executed but seem to time out
	ShardAway   Class = "shard_away"   // Shard answers nobody, or only with errors
	ShardLost   Class = "shard_lost"   // Shard lost some or all of its data
	// HeldUp is a recorder that stood still, with the receivers and the links between processes that the recorder
	// plays. Callbacks and their answers came late. Nobody made this fault, so no minimum applies (MinPerFault).
	HeldUp Class = "held_up"
	Slow   Class = "slow" // a delay of LateMs in all
	// ClockStep says that Shard's clock jumped by StepMs at the start; a jump back is a fault of its own. ClockStep
	// explains only deviations of timers of this shard. A duplicate is explained if the jump may have ended a lease
	// (cutShort).
	ClockStep Class = "clock_step"
	NodeClock Class = "node_clock" // Node's wall clock jumped by StepMs; see forgotten and overruled; explains nothing else
	Harmless  Class = "harmless"   // explains nothing, as flushed scripts
	// NodeStop is a Node that ended in order, until the node runs again. NodeStop explains only a pop that was left
	// out: after the node's last callbacks, the next poll of another node finds the timers (ranInto).
	NodeStop Class = "node_stop"
	// TopologyChange is a change of the shards, until the change is swept and known to all nodes. TopologyChange
	// explains two things: a timer has at most as many copies as shards take timers (Active), and retries are late
	// (outranked). Comments at the uses of changing name further deviations.
	TopologyChange Class = "topology_change"
)

// Fault is a fault, written when the fault has ended, or at the end of the run with EndNs -1.
type Fault struct {
	// Kind is the harness's name of the fault; every kind must occur a few times.
	Kind    string `json:"kind"`
	Class   Class  `json:"class"`
	Node    string `json:"node,omitempty"`
	Shard   string `json:"shard,omitempty"`
	StartNs int64  `json:"start_ns"`
	EndNs   int64  `json:"end_ns"`
	// RepairedNs is when the sweep had passed over a shard that was away or lost data. The shard counts as faulty
	// until then. 0 means that nobody looked: the shard counts as faulty until the fault's window ends. -1 means that
	// the sweep had not passed by the end of the run.
	RepairedNs int64 `json:"repaired_ns,omitempty"`
	// LateMs is how much later a callback may be, beyond the allowance of the class.
	LateMs int64 `json:"late_ms,omitempty"`
	// StepMs is how far the clock was put forward, negative for back.
	StepMs int64 `json:"step_ms,omitempty"`
	// BackMs is how far back in time a ShardLost took the shard, 0 if the shard lost all data.
	BackMs int64 `json:"back_ms,omitempty"`
	// Mute marks a NodeFreeze of the callbacks alone: the node made attempts, and no attempt arrived.
	Mute bool `json:"mute,omitempty"`
	// CallMs is how long a callback of a Slow node takes to arrive, 0 if the calls of the node are not slow.
	CallMs int64 `json:"call_ms,omitempty"`
	// Restarted marks a ShardAway after which another process of the Redis answered: see quietUntil.
	Restarted bool `json:"restarted,omitempty"`
	// Active is the smallest number of shards that took timers before, during or after a TopologyChange, 0 if
	// unknown.
	Active int `json:"active,omitempty"`
}

// putBack tells whether the fault put the clock of a shard back.
func (f *Fault) putBack() bool { return f.Class == ClockStep && f.StepMs < 0 }

func (f *Fault) validate() error {
	switch f.Class {
	case NodeDeath, NodeFreeze, NodeClock, NodeStop:
		if f.Node == "" {
			return fmt.Errorf("fault of class %q names no node", f.Class)
		}
	case LinkCut, NetSplit, AnswersLost, ShardAway, ShardLost, ClockStep:
		if f.Shard == "" {
			return fmt.Errorf("fault of class %q names no shard", f.Class)
		}
	case Slow, HeldUp, Harmless, TopologyChange:
	default:
		return fmt.Errorf("class %q is unknown", f.Class)
	}
	if f.Mute && f.Class != NodeFreeze {
		return fmt.Errorf("mute fault is of class %q; it is one of a node that stood still", f.Class)
	}
	if f.EndNs != -1 && f.EndNs < f.StartNs {
		return fmt.Errorf("start_ns %d, end_ns %d: not in order", f.StartNs, f.EndNs)
	}
	return nil
}

// ofNode tells whether the fault holds up callbacks under way on a node.
func (f *Fault) ofNode() bool { return f.Class == NodeDeath || f.Class == NodeFreeze }

// ofShard tells whether the shard counts as faulty meanwhile.
func (f *Fault) ofShard() bool { return f.Class == ShardAway || f.Class == ShardLost || f.ofLink() }

func (f *Fault) ofLink() bool {
	return f.Class == LinkCut || f.Class == NetSplit || f.Class == AnswersLost
}

func (f *Fault) explainsDuplicates() bool { return f.ofNode() || f.ofShard() || f.Class == HeldUp }

// explainsGaps tells whether pops of a recurring timer may be left out because of the fault.
func (f *Fault) explainsGaps() bool { return !f.hasNoWindow() }

// hasNoWindow tells whether the fault explains nothing about the time around the fault.
func (f *Fault) hasNoWindow() bool {
	return f.explainsLittle() || f.Class == NodeClock
}

// explainsLittle tells whether everything works as usual during the fault.
func (f *Fault) explainsLittle() bool {
	return f.Class == Harmless || f.Class == NodeStop || f.Class == TopologyChange
}

// overlaps tells whether [from, to] overlaps the fault, the given time after the fault, or the time that the fault
// undid (BackMs).
func (f *Fault) overlaps(from, to, after time.Duration) bool {
	return f.started()-ms(f.BackMs) <= to && (f.EndNs == -1 || later(time.Duration(f.EndNs), after) >= from)
}

func (f *Fault) started() time.Duration { return time.Duration(f.StartNs) }

// ended is when the fault was over and repaired, or else the end of the run.
func (f *Fault) ended(end time.Duration) time.Duration {
	if f.EndNs == -1 || f.RepairedNs == -1 {
		return end
	}
	return time.Duration(max(f.EndNs, f.RepairedNs))
}
