package model

import "reflect"

// Rules are the rules of the protocol. Every field is a switch: a run shows what breaks without
// the rule. The comment of a field cites the rule of docs/protocol.md to which the field belongs.
// The zero value follows no rule; see [AllRules].
type Rules struct {
	// NewerOnly (rule "order of states"): a merge onto a newer state does nothing.
	NewerOnly bool
	// MarkKept (rule "merge keeps the firing mark"): a merge keeps the firing mark of the copy.
	MarkKept bool
	// DoneTombstone (rule "done removes only its predecessor"): a done leaves a tombstone on a
	// copy in another state than the predecessor, or if the done missed a copy.
	DoneTombstone bool
	// YoungEnds (rule "a young end leaves a tombstone"): a done leaves a tombstone for 10 s at
	// the owners if its version is less than 5 s old. A copy of an earlier version may be on its
	// way then, or may come back with a restart.
	YoungEnds bool
	// FreshEnds (rule "a young end leaves a tombstone"): a done leaves a tombstone for 3 s if its
	// version is the first of the key and less than 3 s old. No earlier version exists, but a
	// write of the create may be on its way.
	FreshEnds bool
	// RecurringEnds (rule "a young end leaves a tombstone"): a done of a recurring timer leaves a
	// tombstone for 10 s at the owners. A copy that the outcome of an earlier pop restores may
	// be on its way: several overdue pops are called within a moment.
	RecurringEnds bool
	// LeasedAdoption (rule "leased writes need the lease"): a node adopts a newer state by a
	// leased write, which does nothing once the lease has ended.
	LeasedAdoption bool
	// Yield (rule "yield to the better copy"): a backup that comes due leaves the pop to better
	// copies.
	Yield bool
	// Promote (rule "yield to the better copy"): a backup has a better copy come due that waits
	// though the turn of its rank has passed.
	Promote bool
	// Ask (rule "compare before firing"): a node compares with the other copies before it sends
	// a callback.
	Ask bool
	// AskThenFence (rule "compare before firing"): the fence follows the comparison.
	AskThenFence bool
	// AskTwo (rule "compare before firing"): the comparison asks the first two owners, whatever
	// the replication factor.
	AskTwo bool
	// LeaseAsked (rule "compare before firing"): the comparison waits for a callback of another
	// copy until the lease ends, not only the firing mark. The outcome is known by then.
	LeaseAsked bool
	// AskOthers (rule "do without silent shards"): a node leaves a pop to the other node if only
	// the other node reaches some shard of the timer. The rule holds until the pop is 5 s
	// overdue.
	AskOthers bool
	// Limit (rule "no late callbacks"): no callback starts 2 s after the comparison or later.
	Limit bool
	// LimitFromAsk (rule "no late callbacks"): the 2 s count from the comparison, not from the fence.
	LimitFromAsk bool
	// Tell (rule "tell every copy the outcome"): outcomes are merged into all copies.
	Tell bool
	// EndsLast (rule "tell every copy the outcome"): a done that missed an owner stays as a
	// tombstone on all owners, not on the leased copy alone.
	EndsLast bool
	// RestoreAfterSettle (rule "tell every copy the outcome"): a missing copy is restored only
	// after the leased copy has accepted the settle call.
	RestoreAfterSettle bool
	// OverdueFromNow (rule "tell every copy the outcome"): copies with an overdue next pop are
	// looked at from now on, in the order of their ranks, one skew apart.
	OverdueFromNow bool
	// OwnersTold (rule "a write needs an owner"): a write that no owner has acknowledged is
	// refused, even if other shards had copies.
	OwnersTold bool
	// Repair (rule "repair what a write missed"): a node writes again, 3 s later, to the owners
	// that a write has missed.
	Repair bool
	// RepairReads (rule "repair what a write missed"): the repair first reads an owner that has
	// taken the write. The repair writes only if the owner still has the state, and the state is
	// not due within 2 s.
	RepairReads bool
	// MissedNoted (rule "tombstones outlive what was missed"): once a write or an outcome has
	// missed a shard, all nodes keep tombstones until the shard is swept. The note is made
	// before the answer.
	MissedNoted bool
	// TombstonesWait (rule "tombstones outlive what was missed"): a node that has seen a shard
	// silent removes no tombstone before the shard is swept.
	TombstonesWait bool
	// OutRemoved (rule "tombstones outlive what was missed"): when a shard that was given up
	// returns, the only copy of a timer is removed there, too.
	OutRemoved bool
	// OutTold (rule "tombstones outlive what was missed"): a shard that is given up is written to
	// and asked until all nodes know. An end that missed the shard leaves tombstones.
	OutTold bool
	// AllAsked (rule "conditions"): a write with a condition is refused where an owner
	// does not answer.
	AllAsked bool
	// FirstDecides (rule "conditions"): the first owner takes a write with a condition only if
	// the owner has nothing newer than the condition allows, and the other owners come afterwards.
	FirstDecides bool
	// LossDecides (rule "conditions"): a write with a condition is refused where the first owner has
	// lost data lately.
	LossDecides bool
	// SteadyOwners (rule "conditions"): a write with a condition is refused while the shards change.
	SteadyOwners bool
	// PatchKept (rule "a patch is a revision"): a merge of two states of one version keeps the newer
	// revision, also with the newer state.
	PatchKept bool
	// PatchAsked (rule "a patch is a revision"): the comparison adopts a newer revision.
	PatchAsked bool
	// PatchEndsLease (rule "a patch is a revision"): a PATCH ends the lease of a copy that has not
	// fired. The copy comes due at once.
	PatchEndsLease bool
	// PatchWhole (rule "a patch is a revision"): a PATCH is refused where an owner has no copy. The
	// timer may just have ended.
	PatchWhole bool
	// PatchedEnds (rule "done removes only its predecessor"): a done leaves a tombstone on a copy that
	// got another revision since the claim.
	PatchedEnds bool
	// HastenExact (rule "fire now"): a FIRE hastens a copy only in exactly the state that was read.
	HastenExact bool
	// BestDecides (rule "fire now"): the copy of the best rank that answers decides about a FIRE, before any
	// other copy comes due.
	BestDecides bool
	// HastenSpreads (rule "fire now"): a backup whose pop was hastened has a better copy come due that
	// has missed the FIRE.
	HastenSpreads bool
	// HastenedEnds (rule "a young end leaves a tombstone"): a done leaves a tombstone for 10 s at the owners
	// if the pop was hastened. A copy that was read before may be on its way.
	HastenedEnds bool
	// RetriedEnds (rule "a young end leaves a tombstone"): a done leaves such a tombstone after a retry, too. A
	// node can't tell a retry that was hastened.
	RetriedEnds bool
	// DelayExact (rule "delay"): the first owner takes a DELAY only in exactly the state that was read.
	DelayExact bool
	// LookAgain (rule "what an answer may say"): one copy may take a write that another copy
	// refuses as older. The write is acknowledged only if the first copy has a newer state by
	// now.
	LookAgain bool
	// FirstInForce (rule "what an answer may say"): such a write is acknowledged only if no owner has
	// refused the write for a newer write with a condition, or a better owner took the write. The
	// condition may hold only before this write.
	FirstInForce bool
	// AnswerInTime (rule "what an answer may say"): a write that took too long is refused.
	AnswerInTime bool
	// LossSaid (rule "a shard that lost data is quiet"): a shard that has lost data less than 3 s ago
	// says so to each write. The answer to the write is in flight then.
	LossSaid bool
	// LossQuiet (rule "a shard that lost data is quiet"): nothing is claimed on a shard that has lost
	// data less than 3 s ago.
	LossQuiet bool
	// SweepWaits (rule "wait before repairing"): the sweep starts 3 s after a shard has lost data.
	SweepWaits bool
	// NotAfter (rule "no late writes"): a write carries an instant after which it does nothing.
	NotAfter bool
	// Announce (rule "look wherever a copy may be"): all nodes know of a change before it counts.
	Announce bool
	// Others (rule "look wherever a copy may be"): during a change nodes look at former and
	// coming owners, too.
	Others bool
	// OntoLive (rule "look wherever a copy may be"): on a shard that is no owner a write changes
	// a live copy, and makes nothing: no copy and no tombstone.
	OntoLive bool
	// HalfSkew (rule "look wherever a copy may be"): a leftover that was changed comes due half a
	// skew after its rank. No two copies come due at one instant.
	HalfSkew bool
	// SweepSteady (rule "sweep copies to their owners"): nothing is swept while a change is
	// announced, or before every node knows what counts.
	SweepSteady bool
	// SweepDue (rule "sweep copies to their owners"): from 2 s before a pop is due, the sweep of
	// a change leaves the timer's copies alone, also copies whose own turn is later.
	SweepDue bool
	// CopyThenLeave (rule "sweep copies to their owners"): the sweep removes a leftover only
	// after the owners have answered.
	CopyThenLeave bool
	// LeaveExact (rule "sweep copies to their owners"): the sweep removes a copy only in exactly
	// the state that was read, without a lease and a firing mark.
	LeaveExact bool
}

// AllRules returns the protocol with every rule on.
func AllRules() Rules {
	var r Rules
	fields := reflect.ValueOf(&r).Elem()
	for _, field := range fields.Fields() {
		field.SetBool(true)
	}
	return r
}

// Variants are departures from the protocol about which the model was asked. The zero value
// is the protocol.
type Variants struct {
	// AskAhead is how many ticks before the fence the comparison may begin.
	AskAhead int8
	// SlowSend: a node may take its time between the fence and the callback.
	SlowSend bool
	// SkipSilent: a node may believe for a tick that a shard is still silent, and leaves the
	// shard out of comparisons and outcomes.
	SkipSilent bool
	// LatestOnly: only the latest of several overdue pops is called, as with more overdue pops
	// than CHRONOS_CATCH_UP.
	LatestOnly bool
	// OutKept (instead of Rules.OutRemoved): while a shard is given up, tombstones stay until
	// the shard is swept, and a done leaves a tombstone. The only copy of a timer on a shard
	// that returns then moves to its owner.
	OutKept bool
}
