package model

// The nodes of every scenario, and the most shards one may have.
const (
	nodes     = 2
	maxShards = 4
)

// The lengths that no scenario changes, in ticks.
const (
	limit     int8 = 2 // for a callback to start and to answer
	grace     int8 = 1 // of a lease that has not fired
	stallFor  int8 = 6
	sweepWait int8 = 3
	// repairAfter is how long after its answer an operation is written once more to the
	// owners that it missed.
	repairAfter int8 = 3
	// youngFor is how old a version is of which a done leaves nothing: a restart may lose
	// 2 s, and a callback takes 2 s.
	youngFor  int8 = 5
	strayLife int8 = 10  // of a tombstone where none belongs, while shards change
	learnIn   int8 = 2   // until a node that is not frozen has heard of a step of a change
	stepTakes int8 = 2   // how long after every node knows a step of a change the next may follow
	forever   int8 = 120 // beyond every run
)

// Fault is a set of kinds of faults.
type Fault uint8

// The kinds of faults.
const (
	Crash Fault = 1 << iota // a node dies
	Cut                     // one node and one shard can't reach each other for a while
	Pause                   // a shard answers nobody for a while, and may then carry out what was sent meanwhile
	Lost                    // one answer is lost
	Wipe                    // a shard loses its data
	Stall                   // a node freezes for 6 s
	Dead                    // a shard dies for good
	Gap                     // a shard restarts without its last one or two seconds

	// AnyFault is any of those above but Gap.
	AnyFault = Crash | Cut | Pause | Lost | Wipe | Stall | Dead
)

// Op is what the client asks for while the timer lives.
type Op int8

// The operations.
const (
	NoOp Op = iota
	Delete
	Put
)

// Start is where a scenario begins.
type Start int8

// The starts.
const (
	AtHome      Start = iota // every home has its copy
	Creating                 // the create is about to be told
	Substitute0              // the home of rank 0 lacks its copy, which is on the shard behind the homes
	Substitute1              // the same of rank 1
	Later                    // it is created while the shards change, through either node
	Meeting                  // a PUT through node 0 is about to be told, and the operation may come meanwhile
	Unknown                  // of two homes the first has the only copy, and clients don't know that there is one only
)

// Scenario is one timer and what may happen to it. Times are in ticks.
type Scenario struct {
	Rules    Rules
	Variants Variants

	Start    Start
	Change   Change
	Moves    int8 // the rank whose home Joins moves
	ChangeBy int8 // the change begins no later
	LearnIn  int8 // a node that is not frozen has heard of a step by then; 0 for 2
	Interval int8 // a one-shot timer's due time
	Pops     int8
	Skew     int8
	Shards   int8 // homes first
	Homes    int8 // the replication factor
	Hold     int8

	Op        Op
	Second    Op   // another one through the other node, once the first has begun
	LastIn    int8 // due time of what the last operation makes; 0: Interval
	Behind    bool // the second one's node has a clock that is behind, and has heard of nothing
	LinkHolds bool // a link that was cut carries out late what an operation sent meanwhile
	OpBy      int8 // the operation comes no later
	BareKey   bool // the client's ID does not name the substitute
	Failures  int8 // callbacks that may fail
	Attempts  int8 // until a one-shot timer becomes a dead letter; 0: without end
	Retry     int8 // from a failure to the next attempt
	Sweeping  bool // the sweep may copy at any moment
	Repairing bool // a GET may come at any moment, and repairs
	Life      int8 // of a tombstone; 0: longer than the run

	Faults Fault
	Budget int8 // faults in all
	Heal   int8 // cuts and pauses end by then
	End    int8
	Bound  int8 // a pop's first send may be so late
}

// Recurring is a timer of three pops on two shards, with all rules and no fault.
func Recurring() Scenario {
	return Scenario{
		Rules: AllRules(), Interval: 4, Pops: 3, Skew: 2, Shards: 2, Homes: 2, Hold: 3,
		OpBy: 7, Retry: 1, Heal: 9, End: 24,
	}
}

// OneShot is a timer of one pop on as many shards, with all rules and no fault.
func OneShot(shards int8) Scenario {
	sc := Recurring()
	sc.Pops, sc.Shards, sc.Homes = 1, shards, shards
	if shards > 2 {
		sc.Skew = 1
	}
	return sc
}

// Changing is a one-shot timer whose homes change once, with all rules and no
// fault. Copies away from home go on half a skew later, as in the product.
func Changing(change Change, homes int8) Scenario {
	sc := OneShot(homes)
	sc.Change, sc.ChangeBy, sc.Skew, sc.Interval, sc.Bound = change, 4, 2, 7, 2
	sc.Variants = Variants{AwayAsBackup: true, AwayUpdated: true, AwayLater: 1}
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

func (sc *Scenario) bit(version, pop int8) uint8 {
	if version > 1 {
		return 1 << (2 + version)
	}
	return 1 << (pop - 1)
}

// asks is what the client's operation i asks for.
func (sc *Scenario) asks(i int) Op {
	if i == 0 {
		return sc.Op
	}
	return sc.Second
}
