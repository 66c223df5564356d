package model

// Kinds of a copy.
const (
	absent int8 = iota
	live
	tombstone
)

// Tokens of a lease: no lease, a lease whose claim lost its answer, or a node's lease.
const (
	noToken int8 = iota
	lostToken
	firstToken
)

// stored is one copy of the timer.
type stored struct {
	Kind, Version, Pop, Attempt int8
	Score                       int8 // when a node must look next
	Token                       int8
	Mark                        int8 // firing until then
	Rank                        int8
	Fired                       bool // under this lease
	Rev                         int8 // revision of the version; 0 before a PATCH
}

// Phases of a node's work on a copy.
const (
	idle int8 = iota
	held
	asking
	sent
	lettering
	telling
	settling
	restoring
	leaving
)

// How far a fence is.
const (
	unfenced int8 = iota
	fenced
	fenceUnknown // the answer was lost; the node sends the same fence again
)

// Outcomes of a callback.
const (
	succeeded int8 = 1 + iota
	failed
	givenUp
)

// task is a node's work on the copy of one shard.
type task struct {
	Phase, Version, Pop, Attempt, Rank int8
	Asked, Missed, Missing             uint8 // masks of shards
	Fence, FencedAt, AskedAt           int8
	Outcome                            int8
	Epoch                              int8  // what the node knew at the claim, or when it wrote the outcome
	Skipped                            uint8 // shards that did not answer the comparison; only with more than one fault
	Rev                                int8
	Since                              int8 // when a pop came due that was hastened; 0 for any other pop
	Again                              bool // the claim found a retry
}

// delayed is a write that arrives late.
type delayed struct {
	On, Shard, NotAfter, Version, Rank, Delete int8
	Way                                        int8 // the obstacle: way…
	Rev                                        int8 // of a PATCH
	Hastens                                    bool // a FIRE
}

// Obstacles of a write. The link of node n is wayOfLinks + n.
const (
	wayOfShard int8 = iota // a pause
	wayOfRetry             // nothing: the write was sent twice
	wayOfLinks
)

// Phases of a client's write.
const (
	notBegun int8 = iota
	begun
	answered
)

// Answers to a client's write.
const (
	unanswered int8 = iota
	clean
	inFlight
	refused
	unmet // the condition did not hold
)

// Findings of a write on the shards.
const (
	foundFiring    uint8 = 1 << iota // a callback may still start
	foundElsewhere                   // a record on a shard that is no owner
	foundNothing                     // a PATCH: an owner has no copy
)

// operation is a client's DELETE or PUT.
type operation struct {
	Phase, Node, Began  int8
	Version             int8 // of the last try
	Epoch               int8 // what the node knew at the beginning
	Sent, Missed, Found uint8
	Answer, AnsweredAt  int8
	After               bool  // the first write was answered before; only with Scenario.Behind
	Read                uint8 // owners that were asked for the condition; only with a condition
	patching                  // only of PATCH, FIRE and DELAY
	rivalry                   // only with two writes
}

// patching is what a PATCH has read, and the revision that the PATCH makes.
type patching struct {
	Base, BaseRev, Rev int8
	Over               bool // the newest copy is a tombstone
	Pop, Attempt       int8 // of the newest copy; only of FIRE and DELAY
	Busy               bool // a callback is under way; only of FIRE and DELAY
}

// rivalry is what a write learns of another write of the same time. The first six are masks
// of shards.
type rivalry struct {
	Took, Refused, Ended uint8 // took this write; have a newer state; have a newer tombstone
	Barred               uint8 // have a newer state of a write with a condition
	Looked, Passed       uint8 // were asked again; have a newer state by now
	Above                int8  // the newest version that was met
}

// repairing is what the node of a write still has to repair.
type repairing struct {
	At   int8 // when; 0: never
	Owes uint8
	Seen bool // an owner still has exactly the state of the write
	Pop  int8 // of the owner that was seen; only of a PATCH
}

// creation is a client's POST.
type creation struct {
	Phase        int8
	Sent, Missed uint8
}

// Whether a shard is there.
const (
	paused int8 = iota
	up
	gone
)

// crashed is the entry of a dead node. Any other entry is the tick until which the node is
// frozen.
const crashed int8 = -1

// state is everything at one moment. All fields are small numbers, so states compare and
// hash as they lie in memory.
type state struct {
	Now      int8
	Copies   [maxShards]stored
	Shards   [maxShards]int8
	Silent   [nodes][maxShards]int8 // since when a shard that can't be reached counts as silent
	Back     [nodes][maxShards]int8 // until when a node may still take a shard for silent
	Nodes    [nodes]int8
	Cut      uint8
	Tasks    [nodes][maxShards]task
	Budget   int8
	Failures int8
	Create   creation
	Ops      [2]operation         // the second only with Scenario.Second
	Saved    [2][maxShards]stored // the copies one and two ticks ago, with the fault Gap
	Repairs  [3]repairing         // of the client's writes, and of the create
	Delayed  [2]delayed           // a write of each client; the first may be the create's
	Unswept  [nodes]uint8
	LostAt   int8  // when a shard last lost data, plus 1
	LostOn   uint8 // shards that have lost data less than 2 s ago
	Changing changing

	// The past, for the checks.
	Succeeded, Called     uint8
	HighestPop, HighestAt int8
	Letters               [2]uint8 // by version: shards with a dead letter; with one write alone
}

// order is rule "order of states": by version, pop and attempt. A tombstone is the last state
// of its version.
func order(kind, version, pop, attempt int8) int {
	if kind == tombstone {
		return int(version)*1000 + 999
	}
	return int(version)*1000 + int(pop)*20 + int(attempt)
}

func (c *stored) order() int { return order(c.Kind, c.Version, c.Pop, c.Attempt) }

func (t *task) order() int { return order(live, t.Version, t.Pop, t.Attempt) }

func link(node, shard int8) uint8 { return 1 << (node*maxShards + shard) }

func (s *state) reach(node, shard int8) bool {
	return s.Shards[shard] == up && s.Cut&link(node, shard) == 0
}

// silent reports whether the node has waited for the shard for a tick without an answer.
func (s *state) silent(node, shard int8) bool {
	since := s.Silent[node][shard]
	return !s.reach(node, shard) && since > 0 && s.Now >= since
}

func (s *state) awake(node int8) bool { return s.Nodes[node] >= 0 && s.Nodes[node] <= s.Now }

// due is when the copy of this rank is due for the pop.
func (s *state) due(sc *Scenario, version, pop, rank int8) int8 {
	interval, from := sc.Interval, int8(0)
	if version > 1 {
		op := s.op(sc, version)
		if from = op.Began; sc.LastIn > 0 && (op == &s.Ops[1] || sc.Second == NoOp) {
			interval = sc.LastIn
		}
	}
	return from + interval*pop + rank*sc.Skew
}

// op is the write that made a version: the first makes 2 and 4, the second 3 and 5. With
// Scenario.Behind the first makes 3 and 5.
func (s *state) op(sc *Scenario, version int8) *operation {
	if sc.Behind {
		version++
	}
	return &s.Ops[version%2]
}

// single reports whether a version has one copy, though clients don't know. A PUT that reached
// the first owner knows. Otherwise the version counts as new, and has two copies.
func (s *state) single(sc *Scenario, version int8) bool {
	return sc.unknown() && (version == 1 || s.op(sc, version).Missed&1 == 0)
}

// holds reports whether the lease of the task is still the node's.
func (s *state) holds(node, shard int8) bool {
	c := &s.Copies[shard]
	return s.reach(node, shard) && c.Kind == live && c.Token == firstToken+node &&
		c.Version == s.Tasks[node][shard].Version
}

// noteMissed has all nodes keep tombstones until the shards are swept.
func (s *state) noteMissed(sc *Scenario, shards uint8) {
	if !sc.Rules.MissedNoted || sc.Life == 0 {
		return
	}
	for n := range s.Unswept {
		s.Unswept[n] |= shards
	}
}
