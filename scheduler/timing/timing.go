// Package timing has the times by which nodes, shards and the copies of a timer rely on each
// other. docs/protocol.md has the rules. The relations between the times, and between these
// times and the settings, are one table in scheduler/settings, which Config.Validate checks.
// A time that concerns a single file is in that file.
package timing

import "time"

// Writes.
const (
	// CommandLife is how long a shard may carry out a command that creates, leases or copies,
	// after the command was made (rule "no late writes"). Tombstones must outlive the command,
	// and the caller must still wait for the answer: a lease that nobody knows of delays a timer.
	CommandLife = 800 * time.Millisecond
	// AnswerLimit is how long after its first write an operation may still be acknowledged
	// (rule "what an answer may say"). The first answers are too old afterwards.
	AnswerLimit = time.Second
	// RoundPatience is how long a round of writes waits for a shard. There must be time for
	// a second round, which names the shards that did not answer.
	RoundPatience = 450 * time.Millisecond
	// RecallPatience is how long owners are asked about a create with an idempotency key. Over
	// a slow link the question may wait for earlier writes, and a single owner may know the
	// create. The rest of AnswerLimit is for the writes that follow.
	RecallPatience = AnswerLimit - RoundPatience
)

// Ends of timers.
const (
	// YoungFor is how long after a write the same version, or an earlier one, may still
	// arrive: from a write that was sent twice or came late, from a repair of an earlier write,
	// or from a shard that has lost its last seconds.
	YoungFor = 5 * time.Second
	// YoungLife is how long the tombstone stays that the end of a young version leaves. The
	// tombstone must outlive everything that YoungFor counts, and the quiet of a shard.
	YoungLife = 10 * time.Second
	// OvertakenLife is how long the end of a timer that finds no copy stays on a shard that is
	// no owner: as long as the create that the end may have overtaken can come. The owners keep
	// nothing of such an end, so a longer life would refuse a later timer of the key that a
	// node makes whose clock is behind.
	OvertakenLife = 2 * time.Second
	// NonOwnerTombLife is how long a deleted timer's tombstone stays on a shard that is no
	// owner. The tombstones of the owners guard against later arrivals.
	NonOwnerTombLife = 10 * time.Second
	// LostTail is how much of its last writes a shard may lose when the shard dies, and how
	// late a node may notice an outage.
	LostTail = 5 * time.Second
)

// Callbacks.
const (
	// PromptAnswer is how long a prompt answer takes at most. A node that asks one shard about
	// the claims of another shard waits as long: claims without a copy on the first shard
	// wait, too.
	PromptAnswer = 50 * time.Millisecond
	// LateAskPatience is how long the comparison waits for a shard that answers late: long
	// enough to connect over a slow link. The lease may end meanwhile; the comparison of the
	// next claim finds the shard connected.
	LateAskPatience = 2 * time.Second
	// AnswerLife is how long the answers of the other copies are good for. Other nodes do
	// without a shard that keeps silent for longer, or answers late for long.
	AnswerLife = 200 * time.Millisecond
	// SlotWait is how long a claim waits in hand for a slot at most. The lease of the claim
	// lasts for longer.
	SlotWait = 500 * time.Millisecond
	// QuietTime is how long after a shard has lost data no callback starts from there, and each
	// write to the shard is answered as in flight (rule "a shard that lost data is quiet"). The
	// firing marks of callbacks that may still start may be lost.
	QuietTime = 2 * time.Second
	// SettleTime is the part of a lease that is left after the longest callback, to tell the
	// outcome to the other copies and to settle the outcome.
	SettleTime = time.Second
	// TellPatience is how long an outcome waits for the other copies.
	TellPatience = 400 * time.Millisecond
	// LateTellPatience is TellPatience where the shard of a copy answers late. The lease must
	// last until the outcome is settled.
	LateTellPatience = 900 * time.Millisecond
	// LateMargin is how long a claim on a slow shard waits after the other copies were due, so
	// that an outcome from there can arrive.
	LateMargin = time.Second
)

// Repairs and the sweep.
const (
	// CopyPatience is how long after a look at a timer a copy of the timer may be made: the
	// timer may be over later. Where no lease guards the copy, stops of the process count.
	CopyPatience = time.Second
	// RepairDelay is how long a missing copy is left missing: after a write that missed an
	// owner, and after a shard has missed something (rule "wait before repairing"). By then
	// every callback has started that the lost firing mark told of.
	RepairDelay = 3 * time.Second
	// DueSoon is how long before its due time a timer is left alone: the outcome of the callback
	// repairs the other copies. No timer that a page of the sweep reads may be over before the
	// page is written.
	DueSoon = 2 * time.Second
	// SweepDelay is how long after a change of the topology the sweep begins. By then no node
	// writes by the former topology, since a node that has not heard of the change refuses
	// to, and no node sweeps by the former topology.
	SweepDelay = 6 * time.Second
	// DoubtFor is how long after the hourly pass has found a timer uneven the sweep looks
	// again. By then a write under way has reached all owners, or has been repaired.
	DoubtFor = 15 * time.Second
)

// The health of a shard, as a node sees the shard.
const (
	// DialTimeout, IOTimeout and PoolTimeout bound every conversation with a shard: connecting,
	// an answer, and the wait for a free connection.
	DialTimeout = 900 * time.Millisecond
	IOTimeout   = 900 * time.Millisecond
	PoolTimeout = 500 * time.Millisecond
	// SilentAfter is how long a shard may leave calls unanswered before nodes do without the
	// shard (rule "do without silent shards"). One slow answer is not silence.
	SilentAfter = time.Second
	// LeftToOthers is how long a pop may be overdue to be left to a node that reaches a shard which
	// this node does not reach.
	LeftToOthers = 5 * time.Second
	// SlowAnswer is how long a quick answer takes at most, connecting included. A shard none
	// of whose answers was quick for SlowAfter is slow, until all were for as long.
	SlowAnswer = 200 * time.Millisecond
	SlowAfter  = 3 * time.Second
	// OutageAfter is how long calls must have failed for a shard to have missed more than a few
	// writes, and OutageOver how long no call may have failed since.
	OutageAfter = time.Second
	OutageOver  = 3 * time.Second
)

// Nodes among themselves.
const (
	// BeatInterval is how often a node announces itself on each shard.
	BeatInterval = time.Second
	// NodeLife is how long a node counts as alive after its last announcement. One
	// announcement may fail.
	NodeLife = 3 * time.Second
	// StatusLife is how long a node is shown after its last announcement: an operator should see that
	// the node has fallen silent.
	StatusLife = 10 * time.Second
	// MaxClockAhead is how far the clock of another node may be ahead of this node's clock. A
	// clock further ahead is broken: nobody follows that clock, nor the versions made by it.
	MaxClockAhead = time.Hour
	// ClockLife is how long the clock of a node is followed after the node's last announcement:
	// longer than a node is cut off in passing.
	ClockLife = 2 * time.Minute
	// LookInterval is how often the second node of a partition looks whether the owner neglects
	// the partition. Each further node looks half as often as the node before, so that many
	// nodes look not much more often than two.
	LookInterval = 400 * time.Millisecond
	// OverduePatience is how long a timer may be overdue before another node than the owner of
	// the partition claims the timer.
	OverduePatience = 100 * time.Millisecond
)

// Sites among themselves.
const (
	// YoungMark is the age below which a mark does not count: the other site is being told, or was told late.
	YoungMark = 500 * time.Millisecond
	// TouchLife is how long a reading of the marks of another site counts. Marks are read twice in a BeatInterval.
	TouchLife = 1200 * time.Millisecond
	// FillDelay is how long after a loss of data a shard is filled from another site: no callback of before starts any
	// more, and no write of before arrives.
	FillDelay = AnnouncedFor
)

// Pauses of destinations.
const (
	// MaxPause is how far ahead the end of a pause may be.
	MaxPause = 24 * time.Hour
	// DecisionLife is how long a shard keeps a decision about a destination, after the decision's
	// stamp. A shard that was away may come back with an earlier pause, which lasts for MaxPause at
	// most.
	DecisionLife = MaxPause + MaxClockAhead
	// KnownDecisionLife is how long a node knows a decision: until an earlier pause is over, and
	// so long before the shards forget the decision that no shard refuses to hear of it.
	KnownDecisionLife = MaxPause + MaxClockAhead/2
)

// The topology.
const (
	// FollowInterval is how often a node looks for a later topology.
	FollowInterval = time.Second
	// BlindFor is how long a node goes on writing without having read the topology.
	BlindFor = 5 * time.Second
	// AnnouncedFor is how long a change is announced before it counts. Every node has followed
	// by then, or refuses writes.
	AnnouncedFor = 7 * time.Second
	// DrainedFor is how long a shard must have said that it is drained before the shard may be
	// removed. A node that reaches no other shard has heard of the drain by then, and writes
	// nothing there.
	DrainedFor = 10 * time.Second
	// TopologyPatience is how long one round of reading or writing the topology waits, and
	// LockLife how long a node may take to change the topology, in several rounds.
	TopologyPatience = 500 * time.Millisecond
	LockLife         = 10 * time.Second
)
