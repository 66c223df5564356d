package model

// Rules are the protocol's rules, each a switch, so that a run can show what breaks without
// one. Each names the rule of docs/protocol.md that it belongs to. The zero value follows
// none; see [AllRules].
type Rules struct {
	// NewerOnly (rule "order of states"): a merge onto a newer state does nothing.
	NewerOnly bool
	// MarkKept (rule "merge keeps the firing mark"): a merge keeps the firing mark of the copy it changes.
	MarkKept bool
	// DoneTombstone (rule "done removes only its predecessor"): a done that finds anything but its predecessor, or that
	// could not be told to every copy, leaves a tombstone.
	DoneTombstone bool
	// DoneOnNothing (rule "done removes only its predecessor"): a done that finds nothing at an owner leaves a tombstone. Without
	// DoneTombstone it doesn't either.
	DoneOnNothing bool
	// LeasedAdoption (rule "leased writes need the lease"): a newer state seen elsewhere is adopted by a leased
	// write, which does nothing when the lease is gone.
	LeasedAdoption bool
	// Take (rule "take the better copy first"): a backup that is due takes the better copies first.
	Take bool
	// Ask (rule "compare before firing"): before a callback is sent the other copies are asked.
	Ask bool
	// AskThenFence (rule "compare before firing"): the fence comes after all asks, not in any order.
	AskThenFence bool
	// Limit (rule "no late callbacks"): no callback starts 2 s after its fence or later.
	Limit bool
	// Tell (rule "tell every copy the outcome"): outcomes are told to all copies.
	Tell bool
	// RestoreAfterSettle (rule "tell every copy the outcome"): a missing copy is restored only after the leased
	// copy's settle was accepted.
	RestoreAfterSettle bool
	// AwayFirst (copies away from owners, which the product makes no more): outcomes go to copies away from home first.
	AwayFirst bool
	// OverdueFromNow (rule "tell every copy the outcome"): a next pop that is overdue when it is told is looked at from
	// then on, rank skews later by each copy.
	OverdueFromNow bool
	// MissingUntold (rule "what an answer may say"): a home copy missing beside a present one counts as
	// not told.
	MissingUntold bool
	// LookAgain (rule "what an answer may say"): an operation that one copy took, and another refused as older, is
	// answered as carried out only if the copies that took it have something newer by now.
	LookAgain bool
	// AnswerInTime (rule "what an answer may say"): an operation that took too long is not acknowledged.
	AnswerInTime bool
	// TombstonesWait (rule "tombstones outlive what was missed"): no tombstone is buried by a node that has seen a shard
	// away which has not been swept since.
	TombstonesWait bool
	// TellOwed (rule "tombstones outlive what was missed"): a tombstone names the copies that were not told, and who
	// buries it tells them first.
	TellOwed bool
	// Look (copies away from owners, which the product makes no more): a copy away from home is looked at a second before it is due.
	Look bool
	// RenewThenBring (copies away from owners, which the product makes no more): a lease is renewed between seeing that home lacks a
	// copy and bringing it home.
	RenewThenBring bool
	// KnowAway (copies away from owners, which the product makes no more): every copy knows where its substitutes are.
	KnowAway bool
	// NameFirst (copies away from owners, which the product makes no more): a substitute is made once a home names it, and not if a home has
	// something newer by then.
	NameFirst bool
	// SweepWaits (rule "wait before repairing"): the sweep starts 3 s after a shard was seen to have lost
	// its data.
	SweepWaits bool
	// NotAfter (rule "no late writes"): a write carries an instant after which it does nothing.
	NotAfter bool
	// Announce (rule "look wherever a copy may be"): a change of the shards is announced to all nodes before it counts.
	Announce bool
	// Others (rule "look wherever a copy may be"): while the shards change, timers are looked for where they belonged
	// before, and where they are about to, too.
	Others bool
	// SweepSteady (rule "sweep copies to their owners"): nothing is swept before every node knows what counts, nor while
	// a change is announced.
	SweepSteady bool
	// CopyThenLeave (rule "sweep copies to their owners"): the sweep removes a copy when the homes have answered that
	// they have it, not before.
	CopyThenLeave bool
	// LeaveExact (rule "sweep copies to their owners"): what is removed, since it is in place elsewhere, is exactly the
	// state that was read, and nobody is at it.
	LeaveExact bool
}

// AllRules returns the protocol as the design words it.
func AllRules() Rules {
	return Rules{
		NewerOnly: true, MarkKept: true, DoneTombstone: true, DoneOnNothing: true, LeasedAdoption: true,
		Take: true,
		Ask:  true, AskThenFence: true, Limit: true,
		Tell: true, RestoreAfterSettle: true, AwayFirst: true, OverdueFromNow: true,
		MissingUntold: true, LookAgain: true, AnswerInTime: true,
		TombstonesWait: true, TellOwed: true,
		Look: true, RenewThenBring: true, KnowAway: true, NameFirst: true,
		SweepWaits: true,
		NotAfter:   true,
		Announce:   true, Others: true,
		SweepSteady: true, CopyThenLeave: true, LeaveExact: true,
	}
}

// Variants are departures from the design that the model was asked about.
// The zero value is the design.
type Variants struct {
	// AwayAsBackup: a copy away from home ranks right behind the home of its rank
	// and is never brought home.
	AwayAsBackup bool
	// AwayUpdated: a copy away from home that is there is merged onto like any
	// other, instead of being removed.
	AwayUpdated bool
	// AwayLater is how many ticks after the home of its rank a copy away from home
	// comes due, with AwayAsBackup and AwayUpdated. No other copy may be due then.
	AwayLater int8
	// RestoreWaits: neither an outcome nor a GET restores anything on a shard that
	// lost its data less than 3 s ago, just as the sweep doesn't.
	RestoreWaits bool
	// AskAhead is how many ticks before its fence a pop may be asked about.
	AskAhead int8
	// LimitFromAsk: the 2 s for sending count from the first ask.
	LimitFromAsk bool
	// SlowSend: a node may take its time between the fence and the send.
	SlowSend bool
	// SkipSilent: for a tick after a shard is back, a node may still think it
	// silent, and leave it out of its asks and outcomes.
	SkipSilent bool
	// RepairGuard is how many ticks a copy must be from due for a GET to spread it.
	RepairGuard int8
	// RepairStrict: RepairGuard counts to the pop's due time, not to the copy's,
	// which is later by its rank's skew; and holds for every copy that was read, not
	// for the newest alone.
	RepairStrict bool
	// LeaseAsked: an ask waits for a callback elsewhere until the lease ends under which
	// it was fenced, not for its firing mark alone, so that its outcome is told by then.
	LeaseAsked bool
	// SweepDue: the sweep of a change leaves a copy alone from 2 s before its pop is
	// due on, not before it is looked at next: one that waits for a better copy's
	// callback is looked at late.
	SweepDue bool
	// SweepOnto: the sweep of a change makes nothing of nothing on a home where it has
	// seen an older copy: that may have been lost meanwhile.
	SweepOnto bool
	// ToldLive: where no home of a timer could be told, an operation is acknowledged
	// only if it has told a live copy elsewhere, not a tombstone.
	ToldLive bool
	// RepairOlder: a GET spreads a copy onto older ones only, and leaves homes that
	// have none to the sweep.
	RepairOlder bool
	// NoNote: a PUT at a former or coming place is not noted in the live records at the
	// owners, so only the topology says where else copies are.
	NoNote bool
	// Union: while the shards change, a write makes a copy at former and coming places,
	// too, half a skew later than its rank.
	Union bool
	// OntoLive: at a former or coming place a client's write changes a live copy, and
	// makes none, not even of a tombstone.
	OntoLive bool
	// LossSaid (instead of MissingUntold and SweepWaits): a shard that lost its data less than 3 s ago says so to every operation,
	// which is answered in flight.
	LossSaid bool
	// NoSubstitutes: a copy is only ever made at an owner, so a write that misses an owner
	// leaves fewer copies.
	NoSubstitutes bool
	// OwnersTold: a write that told no owner is refused, whatever it found elsewhere.
	OwnersTold bool
	// EndsOntoLive: a DELETE leaves nothing where no copy belongs and none is.
	EndsOntoLive bool
	// DoneOntoLive: an outcome leaves nothing where no copy belongs and none is.
	DoneOntoLive bool
	// Repair: a node writes its client's operation once more to the owners that it missed,
	// 3 s after the answer.
	Repair bool
	// RepairOnto: that write changes an older copy, and makes none.
	RepairOnto bool
	// RepairSeen: before that write an owner that took the operation is read, and the
	// write is left out unless the state is there still, and not due within 2 s.
	RepairSeen bool
	// YoungEnds: a done leaves tombstones at the owners if its version was made less than
	// 5 s ago: a copy of the version before may be on its way, or come back with a restart.
	YoungEnds bool
	// RepairNotes (instead of TellOwed): where a repair fails, unless its node is dead, all
	// nodes keep tombstones until the owner that was missed is swept.
	RepairNotes bool
	// MissedNoted (instead of TellOwed): the same as soon as a write or an outcome misses an
	// owner.
	MissedNoted bool
	// AskTwo: before a callback the first two owners are asked, whatever the replication
	// factor.
	AskTwo bool
	// OutRemoved: when a shard that was given up comes back, timers of one copy are removed
	// there, too.
	OutRemoved bool
	// EndsLast: where a done could not be told to an owner, all owners that were told keep a
	// tombstone, not the leased copy alone.
	EndsLast bool
	// LossQuiet (with LossSaid): nothing is claimed on a shard that lost data less than 3 s
	// ago.
	LossQuiet bool
	// OutTold: a shard that is given up is told and asked until all nodes know that it is, so
	// an end that it misses leaves tombstones.
	OutTold bool
	// CatchUp: an overdue recurring timer is called for each overdue pop, and does not go
	// to its latest pop. (When such a pop is looked at is Rules.OverdueFromNow.)
	CatchUp bool
	// Yield: a backup that finds a better copy due looks again a skew later, instead of
	// leasing the better copy.
	Yield bool
}
