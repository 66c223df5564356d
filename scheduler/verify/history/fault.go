package history

import (
	"fmt"
	"time"
)

// Class says what a fault explains.
type Class string

// The classes. Each explains late callbacks, except the last four, and duplicates, except the last six. The
// shard of ShardAway, ShardLost, LinkCut, NetSplit and AnswersLost counts as faulty meanwhile.
const (
	NodeDeath  Class = "node_death"  // Node was killed at the start; the end is when it runs again
	NodeFreeze Class = "node_freeze" // Node stood still
	LinkCut    Class = "link_cut"    // between Node (all if empty) and Shard
	// NetSplit is a LinkCut of each node such that two sides of nodes reach no Redis in common. Neither side can know that the
	// other one calls, so both call: its duplicates are counted, and no share of the callbacks bounds them.
	NetSplit    Class = "net_split"
	AnswersLost Class = "answers_lost" // of Shard to Node (all if empty): commands are executed but seem to time out
	ShardAway   Class = "shard_away"   // Shard answers nobody, or with errors only
	ShardLost   Class = "shard_lost"   // Shard lost some or all of its data
	// HeldUp is a recorder that stood still, with the receivers and the links between processes that it plays: callbacks and
	// answers to them came late. Nobody made this fault, so no run needs it a few times.
	HeldUp Class = "held_up"
	Slow   Class = "slow" // something takes LateMs longer in all
	// ClockStep says that Shard's clock jumped by StepMs at the start; a jump back is another fault. It explains something of this
	// shard's timers only, a duplicate if it may have ended a lease (cutShort).
	ClockStep Class = "clock_step"
	NodeClock Class = "node_clock" // Node's wall clock jumped by StepMs: see forgotten, it explains nothing else
	Harmless  Class = "harmless"   // explains nothing: scripts flushed
	// NodeStop is a Node that ended in order, until it runs again. It explains nothing but that what its last callbacks put
	// down for now is found by others (ranInto).
	NodeStop Class = "node_stop"
	// TopologyChange is a change of the shards, until it is swept and known to all nodes. It explains nothing but that timers
	// have no more copies than there are shards that take them (Active), and that retries are late (outranked).
	TopologyChange Class = "topology_change"
)

// Fault is one fault, written when it has ended or, with EndNs -1, at the end.
type Fault struct {
	// Kind is the harness's name of it; each kind must occur a few times.
	Kind    string `json:"kind"`
	Class   Class  `json:"class"`
	Node    string `json:"node,omitempty"`
	Shard   string `json:"shard,omitempty"`
	StartNs int64  `json:"start_ns"`
	EndNs   int64  `json:"end_ns"`
	// RepairedNs is when the sweep had passed over a shard that was away or lost data: until then it counts as faulty. 0
	// means that nobody looked; then it does until the fault's window ends. -1 means that it had not by the end.
	RepairedNs int64 `json:"repaired_ns,omitempty"`
	// LateMs is how much later a callback may be beyond what the class allows.
	LateMs int64 `json:"late_ms,omitempty"`
	// StepMs is how far the clock was put forward, negative for back.
	StepMs int64 `json:"step_ms,omitempty"`
	// BackMs is how much of the last that was done a ShardLost has undone, 0 if it lost all.
	BackMs int64 `json:"back_ms,omitempty"`
	// Mute says of a NodeFreeze that the node stood only for its callbacks: it made attempts, and none arrived.
	Mute bool `json:"mute,omitempty"`
	// Restarted says of a ShardAway that another process of the Redis answered after it: see quietUntil.
	Restarted bool `json:"restarted,omitempty"`
	// Active is the fewest shards that took timers before, during or after a TopologyChange, 0 if that isn't known.
	Active int `json:"active,omitempty"`
}

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

// ofNode tells whether callbacks under way on a node are held up by the fault.
func (f *Fault) ofNode() bool { return f.Class == NodeDeath || f.Class == NodeFreeze }

// ofShard tells whether the shard counts as faulty meanwhile.
func (f *Fault) ofShard() bool { return f.Class == ShardAway || f.Class == ShardLost || f.ofLink() }

func (f *Fault) ofLink() bool {
	return f.Class == LinkCut || f.Class == NetSplit || f.Class == AnswersLost
}

func (f *Fault) explainsDuplicates() bool { return f.ofNode() || f.ofShard() || f.Class == HeldUp }

// explainsGaps tells whether pops of a recurring timer may be left out because of the fault.
func (f *Fault) explainsGaps() bool { return !f.hasNoWindow() }

// hasNoWindow tells whether the fault explains nothing about the time around it.
func (f *Fault) hasNoWindow() bool {
	return f.explainsLittle() || f.Class == NodeClock
}

// explainsLittle tells whether all is as it should be meanwhile.
func (f *Fault) explainsLittle() bool {
	return f.Class == Harmless || f.Class == NodeStop || f.Class == TopologyChange
}

// overlaps tells whether the fault lasted, or had ended so long before, or undid what was done, at some time within [from, to].
func (f *Fault) overlaps(from, to, after time.Duration) bool {
	return f.started()-ms(f.BackMs) <= to && (f.EndNs == -1 || later(time.Duration(f.EndNs), after) >= from)
}

func (f *Fault) started() time.Duration { return time.Duration(f.StartNs) }

// ended is when all of the fault was over, by the end of the run at the latest.
func (f *Fault) ended(end time.Duration) time.Duration {
	if f.EndNs == -1 || f.RepairedNs == -1 {
		return end
	}
	return time.Duration(max(f.EndNs, f.RepairedNs))
}
