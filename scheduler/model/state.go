package model

// What a shard holds of the timer.
const (
	absent int8 = iota
	live
	tombstone
)

// Who holds the lease of a copy: nobody, a claim whose answer was lost, or a node.
const (
	noToken int8 = iota
	lostToken
	firstToken
)

// stored is one copy of the timer.
type stored struct {
	Kind, Version, Pop, Attempt int8
	Score                       int8 // when someone must next look
	Token                       int8
	Mark                        int8 // firing until then
	Rank                        int8
	Owed                        uint8 // of a tombstone: shards that were not told
	Fired                       bool  // under this lease, with Variants.LeaseAsked
	Named                       bool  // its record names the substitute; only where writes meet
}

// What a node does next with a copy it holds.
const (
	idle int8 = iota
	held
	asking
	sent
	lettering
	telling
	settling
	bringing
	restoring
	leaving
)

// How far a fence is.
const (
	unfenced int8 = iota
	fenced
	fenceUnknown // the answer was lost: to be sent again with the same token
)

// What a callback ended with.
const (
	succeeded int8 = 1 + iota
	failed
	givenUp
)

// What a node has noted about a copy away from home that it holds.
const (
	sawHomeLacks uint8 = 1 << iota
	renewed
	homeSilent
)

// task is a node's work on the copy of one shard.
type task struct {
	Phase, Version, Pop, Attempt, Rank int8
	Noted                              uint8
	Asked, Untold, Missing             uint8 // masks of shards
	Fence, FencedAt, AskedAt           int8
	Outcome                            int8
	Epoch                              int8  // what the node knew when it claimed, or when it told the others
	Skipped                            uint8 // shards that did not answer when asked; only with more than one fault
	Named                              bool  // the record that was claimed names the substitute
}

// buffered is a write that a paused shard carries out when it wakes.
type buffered struct {
	On, Shard, NotAfter, Version, Rank, Delete int8
	Link                                       int8 // of this node, plus 1; 0: the shard pauses
}

// The phases of a create and of the client's operation.
const (
	notBegun int8 = iota
	begun
	answered
)

// How the client's operation was answered.
const (
	unanswered int8 = iota
	clean
	inFlight
	refused
)

// What an operation found on the shards it told.
const (
	foundFiring uint8 = 1 << iota
	foundMissing
	foundPresent
	foundElsewhere // something, where none belongs
	foundLive      // a live copy there
)

// operation is the client's DELETE or PUT.
type operation struct {
	Phase, Node, Began  int8
	Version             int8 // of its last try
	Epoch               int8 // what its node knew when it began
	Told, Untold, Found uint8
	Away                uint8 // copies away from home that a PUT was told to, which the homes' know of
	Answer, AnsweredAt  int8
	Named               bool // a copy that was told names the substitute
	After               bool // the first one was answered before this one began, with Scenario.Behind
	rivalry                  // only where two operations meet
}

// rivalry is what an operation learns of another one of the same time.
type rivalry struct {
	Took, Refused, Ended uint8 // copies that took it; that have something newer; that is a tombstone
	Looked, Passed       uint8 // copies asked whether they still have it; that have something newer by now
	Above                int8  // the newest version that was met
}

// repairing is what a write still owes to the owners that it missed.
type repairing struct {
	At   int8 // when they are written once more; 0: never
	Owes uint8
	Seen bool // an owner that took the write still has exactly that state
}

// creation is the client's POST.
type creation struct {
	Phase        int8
	Told, Untold uint8
	Noted        uint8 // homes that were sent a note of the substitute
	Made         bool  // the substitute is there
}

// getting is a GET that repairs: the newest copy it has read so far.
type getting struct {
	Phase, Node, ReadAt, Busy int8
	Read, Missed, Older       uint8
	Best                      stored
}

// Whether a shard can be reached.
const (
	away int8 = iota
	up
	gone
)

// crashed is a node's entry when it is dead; otherwise it is the tick until which
// it is frozen.
const crashed int8 = -1

// state is everything at one moment. All of it is small numbers, so that states
// compare and hash as they lie in memory.
type state struct {
	Now      int8
	Copies   [maxShards]stored
	Shards   [maxShards]int8
	Silent   [nodes][maxShards]int8 // since when a shard that can't be reached counts as silent
	Back     [nodes][maxShards]int8 // until when one that is back may be thought silent
	Nodes    [nodes]int8
	Cut      uint8
	Tasks    [nodes][maxShards]task
	Budget   int8
	Failures int8
	Create   creation
	Ops      [2]operation // the second only with Scenario.Second
	Get      getting
	Saved    [2][maxShards]stored // the copies one and two ticks ago, with the fault Gap
	Repairs  [3]repairing         // of the operations, and of the create
	Buffered [2]buffered          // a write of each operation; the first may be the create's
	Unswept  [nodes]uint8
	WipedAt  int8  // plus 1
	WipedOn  uint8 // shards that lost their data less than 3 s ago, with Variants.LossSaid
	Changing changing

	// What has happened, for the checks.
	Succeeded, Sent       uint8
	HighestPop, HighestAt int8
	Letters               [2]uint8 // by version: shards with a dead letter; with one operation alone
}

// order is rule "order of states": by version, pop and attempt, a tombstone last of its version.
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

// silent reports whether the node has waited a tick for the shard in vain.
func (s *state) silent(node, shard int8) bool {
	since := s.Silent[node][shard]
	return !s.reach(node, shard) && since > 0 && s.Now >= since
}

func (s *state) awake(node int8) bool { return s.Nodes[node] >= 0 && s.Nodes[node] <= s.Now }

// due is when the copy of this rank is due for the pop.
func (s *state) due(sc *Scenario, version, pop, rank int8) int8 {
	due := sc.Interval*pop + rank*sc.Skew
	if version > 1 {
		op := s.op(sc, version)
		if sc.LastIn > 0 && (op == &s.Ops[1] || sc.Second == NoOp) {
			due = sc.LastIn*pop + rank*sc.Skew
		}
		due += op.Began
	}
	return due
}

// op is the operation that made a version: the first makes 2 and 4, the second 3 and 5,
// or the other way round where the second one's clock is behind.
func (s *state) op(sc *Scenario, version int8) *operation {
	if sc.Behind {
		version++
	}
	return &s.Ops[version%2]
}

// holds reports whether the lease of the task is still the node's.
func (s *state) holds(node, shard int8) bool {
	c := &s.Copies[shard]
	return s.reach(node, shard) && c.Kind == live && c.Token == firstToken+node &&
		c.Version == s.Tasks[node][shard].Version
}

// end is how long a tombstone made now is kept.
func (s *state) tombstoneEnd(sc *Scenario) int8 {
	if sc.Life > 0 {
		return s.Now + sc.Life
	}
	return forever
}
