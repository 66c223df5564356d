package model

// The nodes of every scenario, and the most shards that a scenario has.
const (
	nodes     = 2
	maxShards = 4
)

// Lengths in ticks that no scenario changes.
const (
	limit        int8 = 2 // for a callback to start, and for its answer
	grace        int8 = 1 // of a lease before the fence
	stallFor     int8 = 6
	quietFor     int8 = 2 // how long nothing fires from a shard that lost data, and the shard says so
	lossKnown    int8 = 3 // how long the sweep waits after a loss
	repairAfter  int8 = 3 // from the answer of a write to its repair
	youngFor     int8 = 5 // a restart loses up to 2 s, a callback takes up to 2 s
	youngLife    int8 = 10
	leftFor      int8 = 5   // a pop is left to a node that reaches more
	freshFor     int8 = 3   // a create is answered within 1 s, and its writes are valid for 1 s
	leftoverLife int8 = 10  // of a tombstone on a shard that is no owner
	learnIn      int8 = 2   // until a node that runs has heard of a step of a change
	stepTakes    int8 = 2   // from the moment when all nodes know a step to the next step
	forever      int8 = 120 // beyond every run
)

// Fault is a set of kinds of faults.
type Fault uint8

// The kinds of faults.
const (
	Crash Fault = 1 << iota // a node dies
	Cut                     // the link between a node and a shard is cut for a while
	Pause                   // a shard answers nobody for a while
	Lost                    // an answer is lost
	Wipe                    // a shard loses its data
	Stall                   // a node freezes for 6 s
	Dead                    // a shard dies for good
	Gap                     // a shard restarts without its last one or two seconds

	// AnyFault is every kind above except Gap.
	AnyFault = Crash | Cut | Pause | Lost | Wipe | Stall | Dead
)

// Op is a write of a client.
type Op int8

// The writes.
const (
	NoOp Op = iota
	Delete
	Put
	Patch // without timing
	Fire  // the next pop is due now
	Delay // the next pop, and the pops behind, come later
)

// Condition is which writes ask for version 1 as the newest version.
type Condition int8

// The conditions.
const (
	NoCondition Condition = iota
	BothAsk
	SecondAsks
)

// Start is where a scenario begins.
type Start int8

// The starts.
const (
	Stored   Start = iota // every owner has its copy
	Creating              // a POST is about to be sent
	Later                 // a POST comes during the change of the shards, through either node
	Unknown               // of two owners only the first has a copy, and clients don't know the factor
)

// Scenario is one timer and all that may happen to the timer. Times are in ticks.
type Scenario struct {
	Rules    Rules
	Variants Variants

	Start    Start
	Change   Change
	Moves    int8 // the rank whose owner changes with Joins
	ChangeBy int8 // the change begins no later
	LearnIn  int8 // a node that runs has heard of a step by then; 0 for 2
	Interval int8 // a one-shot timer's due time
	Pops     int8
	Skew     int8
	Shards   int8 // owners first
	Factor   int8 // the replication factor
	Hold     int8

	Op        Op
	Second    Op   // a second write, through the other node, once the first has begun
	LastIn    int8 // due time of the timer that the last write makes; 0: Interval
	Behind    bool // the second write's node has a slow clock, and has heard of nothing
	If        Condition
	LinkHolds bool // a cut link delivers late what a write has sent meanwhile
	Resent    bool // a create takes up to a tick, and one of its writes may arrive twice
	OpBy      int8 // the writes come no later
	Failures  int8 // callbacks that may fail
	Attempts  int8 // until a one-shot timer becomes a dead letter; 0: without end
	Retry     int8 // from a failure to the next attempt
	Sweeping  bool // the sweep may copy at any moment
	Life      int8 // of a tombstone; 0: longer than the run

	Faults Fault
	Paused int8 // plus 1: this shard is paused at the start; the pause is a fault of Budget
	CutOff int8 // plus 1: the first node is cut from this shard at the start; the cut is a fault of Budget
	Budget int8 // faults in all
	Heal   int8 // cuts and pauses end by then
	End    int8
	Bound  int8 // a pop's first callback may be so late
}

// Recurring is a timer of three pops on two shards, with all rules and no fault.
func Recurring() Scenario {
	return Scenario{
		Rules: AllRules(), Interval: 4, Pops: 3, Skew: 2, Shards: 2, Factor: 2, Hold: 3,
		OpBy: 7, Retry: 1, Heal: 9, End: 24,
	}
}

// OneShot is a timer of one pop on as many shards, with all rules and no fault.
func OneShot(shards int8) Scenario {
	sc := Recurring()
	sc.Pops, sc.Shards, sc.Factor = 1, shards, shards
	if shards > 2 {
		sc.Skew = 1
	}
	return sc
}

// Changing is a one-shot timer whose owners change once, with all rules and no fault.
func Changing(change Change, factor int8) Scenario {
	sc := OneShot(factor)
	sc.Change, sc.ChangeBy, sc.Skew, sc.Interval, sc.Bound = change, 4, 2, 7, 2
	if change == Joins || change == GivesUp {
		sc.Shards++
	}
	return sc
}

func (sc *Scenario) pops(version int8) int8 {
	if version == 1 {
		return sc.Pops
	}
	return 1
}

// bit is the place of a pop in the sets of pops that were sent or have succeeded.
func (sc *Scenario) bit(version, pop int8) uint8 {
	if version > 1 {
		return 1 << (2 + version)
	}
	return 1 << (pop - 1)
}

// write is the kind of the client's write i.
func (sc *Scenario) write(i int) Op {
	if i == 0 {
		return sc.Op
	}
	return sc.Second
}

// replaces reports whether a write makes a new version.
func (o Op) replaces() bool { return o != NoOp && o != Patch && o != Fire }

// writer is the client's write that made the version.
func (sc *Scenario) writer(version int8) int {
	second := version%2 == 1
	if sc.Behind {
		second = !second
	}
	if second {
		return 1
	}
	return 0
}

// asks reports whether the client's write i has a condition.
func (sc *Scenario) asks(i int) bool { return sc.If == BothAsk || sc.If == SecondAsks && i == 1 }

// unknown reports whether clients don't know the replication factor.
func (sc *Scenario) unknown() bool { return sc.Start == Unknown }

// halfSkew is the extra delay of a leftover.
func (sc *Scenario) halfSkew() int8 {
	if sc.Rules.HalfSkew {
		return 1
	}
	return 0
}
