package model

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// without is a scenario in which a rule matters.
type without struct {
	rule string
	sc   Scenario
	want Violation // with the rule off
}

// with changes a scenario.
func with(sc Scenario, change func(*Scenario)) Scenario {
	change(&sc)
	return sc
}

// TestWithoutRule switches one rule off at a time. The violation must appear, and must not appear
// with the rule on.
func TestWithoutRule(t *testing.T) {
	rows := slices.Concat(ofStates(), ofFiring(), ofWrites(), ofPatches(), ofHastenings(), ofRepairs(), ofChanges())
	for field := range reflect.TypeFor[Rules]().Fields() {
		if name := field.Name; !slices.ContainsFunc(rows, func(c without) bool { return c.rule == name }) {
			t.Errorf("nothing shows what breaks without %s", name)
		}
	}
	for _, c := range rows {
		t.Run(c.rule, func(t *testing.T) {
			if on := explore(t, c.sc); on.Counts[c.want] > 0 {
				t.Errorf("with the rule on: %s:\n\t%s", c.want, wayTo(on, c.want))
			}
			reflect.ValueOf(&c.sc.Rules).Elem().FieldByName(c.rule).SetBool(false)
			off := explore(t, c.sc)
			if off.Counts[c.want] == 0 {
				t.Errorf("without the rule %q was not found", c.want)
			}
			if lines := off.Trace(c.want); len(lines) == 0 || !strings.HasSuffix(lines[len(lines)-1], string(c.want)) {
				t.Errorf("no trace of %q: %q", c.want, lines)
			}
		})
	}
}

// twoPops is a timer of two pops on two shards.
func twoPops() Scenario { return with(Recurring(), func(sc *Scenario) { sc.Pops = 2 }) }

// ofStates are rows for the order of states, merges and ends.
func ofStates() []without {
	swept := withFaults(withOp(with(twoPops(), func(sc *Scenario) { sc.Sweeping = true }), Delete), Wipe, 1)
	create := with(OneShot(2), func(sc *Scenario) { sc.Start, sc.Interval = Creating, 0 })
	ended := with(withFaults(withOp(OneShot(3), Put), Pause, 2), func(sc *Scenario) {
		sc.Paused, sc.OpBy, sc.Life, sc.Interval, sc.LastIn, sc.End, sc.Heal = 3, 1, 4, 8, 5, 11, 10
	})
	return []without{
		{"NewerOnly", swept, AfterAnswer},
		{"MarkKept", twice(OneShot(2), Put, Delete), AfterAnswer},
		{"DoneTombstone", withFaults(withOp(OneShot(2), Put), Pause, 1), LateAfterAnswer},
		{"YoungEnds", soon(lastIn(withOp(Changing(Joins, 1), Put), 1), 6), AfterAnswer},
		{"YoungEnds", with(lastIn(withFaults(twice(OneShot(2), Put, Put), Cut, 1), 1), func(sc *Scenario) { sc.OpBy = 3 }), AfterAnswer},
		{"FreshEnds", create, Needless},
		{"FreshEnds", with(create, func(sc *Scenario) { sc.Resent, sc.Interval = true, 1 }), Needless},
		{"EndsLast", ended, LateAfterAnswer},
		{"MissedNoted", withFaults(shortLived(), Cut, 1), LateAfterAnswer},
		{"TombstonesWait", withFaults(shortLived(), Wipe, 1), AfterAnswer},
	}
}

// ofFiring are rows for leases, comparisons, callbacks and outcomes.
func ofFiring() []without {
	wiped := withFaults(twoPops(), Wipe, 1)
	ahead := with(withFaults(withOp(OneShot(2), Delete), Cut, 1), func(sc *Scenario) {
		sc.Variants.AskAhead, sc.Variants.SlowSend = 2, true
		sc.OpBy, sc.Heal, sc.End, sc.Bound = 5, 6, 12, never
	})
	overdue := with(withFaults(Recurring(), Wipe, 1), func(sc *Scenario) { sc.Interval, sc.Skew, sc.End = 1, 1, 14 })
	unknown := with(withFaults(withOp(OneShot(2), Put), Pause, 1), func(sc *Scenario) { sc.Start, sc.OpBy = Unknown, 5 })
	apart := with(withFaults(OneShot(2), Cut, 1), func(sc *Scenario) { sc.CutOff, sc.Bound = 1, never })
	return []without{
		{"AskOthers", apart, Duplicate},
		{"LeasedAdoption", with(OneShot(2), func(sc *Scenario) { sc.Failures = 1 }), Needless},
		{"Yield", Changing(Drains, 2), Needless},
		{"Ask", withFaults(withOp(twoPops(), Delete), Cut, 1), LateAfterAnswer},
		{"AskThenFence", withFaults(twoPops(), Pause, 1), Overtaken},
		{"AskTwo", unknown, LateAfterAnswer},
		{"Promote", Changing(Drains, 3), Late},
		{"LeaseAsked", Changing(Drains, 2), Needless},
		{"Limit", withFaults(withOp(twoPops(), Delete), Stall, 1), AfterAnswer},
		{"LimitFromAsk", ahead, LateAfterAnswer},
		{"Tell", wiped, OldPop},
		{"RestoreAfterSettle", withFaults(shortLived(), Stall, 1), LateAfterAnswer},
		{"OverdueFromNow", overdue, OldPop},
		{"RecurringEnds", overdue, OldPop},
	}
}

// ofWrites are rows for clients' writes and their answers.
func ofWrites() []without {
	both := twice(OneShot(2), Put, Delete)
	behind := with(withFaults(both, Crash, 1), func(sc *Scenario) { sc.Behind = true })
	restarted := with(withFaults(withOp(twoPops(), Put), Gap, 1), func(sc *Scenario) { sc.Interval, sc.LastIn, sc.OpBy = 3, 1, 4 })
	asking := with(twice(OneShot(2), Put, Put), func(sc *Scenario) { sc.If = BothAsk })
	missed := with(withFaults(asking, Pause, 2), func(sc *Scenario) {
		sc.If, sc.OpBy, sc.Interval, sc.Heal, sc.End, sc.Bound = SecondAsks, 3, 8, 4, 6, never // nothing is due
	})
	return []without{
		{"AllAsked", missed, Unmet},
		{"FirstDecides", asking, Unmet},
		{"LossDecides", withFaults(asking, Wipe, 1), Unmet},
		{"SteadyOwners", soon(with(asking, func(sc *Scenario) {
			sc.Change, sc.Skew, sc.Interval, sc.Bound = Drains, 2, 7, 2
		}), 4), Unmet},
		{"LookAgain", behind, AfterAnswer},
		{"FirstInForce", with(asking, func(sc *Scenario) { sc.If = SecondAsks }), Unmet},
		{"AnswerInTime", withFaults(shortLived(), Stall, 1), AfterAnswer},
		{"LossSaid", withFaults(both, Wipe, 1), AfterAnswer},
		{"LossQuiet", restarted, AfterAnswer},
		{"NotAfter", withFaults(twice(OneShot(2), Put, Put), Cut, 1), AfterAnswer},
	}
}

// ofPatches are rows for a PATCH.
func ofPatches() []without {
	two := withOp(twoPops(), Patch)
	swept := withFaults(with(two, func(sc *Scenario) { sc.Sweeping = true }), Wipe, 1)
	restarted := withFaults(withOp(OneShot(2), Patch), Gap, 1)
	return []without{
		{"PatchKept", swept, LateAfterAnswer},
		{"PatchAsked", restarted, AfterAnswer},
		{"PatchEndsLease", two, AfterAnswer},
		{"PatchWhole", restarted, LateAfterAnswer},
		{"PatchedEnds", restarted, LateAfterAnswer},
	}
}

// ofRepairs are rows for repairs and the sweep.
func ofRepairs() []without {
	swept := with(withFaults(withOp(OneShot(2), Delete), Wipe, 1), func(sc *Scenario) {
		sc.Interval, sc.OpBy, sc.Life, sc.End = 14, 3, 5, 34
	})
	missed := with(withFaults(withOp(OneShot(2), Put), Pause, 1), func(sc *Scenario) {
		sc.Interval, sc.LastIn, sc.OpBy, sc.Heal, sc.Bound = 12, 9, 2, 3, 1
	})
	create := with(withFaults(OneShot(2), Lost, 1), func(sc *Scenario) { sc.Start, sc.Interval = Creating, 1 })
	return []without{
		{"Repair", missed, Late}, // a backup fires
		{"RepairReads", create, Duplicate},
		{"SweepWaits", swept, AfterAnswer},
	}
}

// ofChanges are rows for changes of the shards.
func ofChanges() []without {
	moved, only := Changing(Joins, 2), withOp(Changing(Joins, 1), Put)
	quick := soon(withOp(with(moved, func(sc *Scenario) { sc.Interval = 3 }), Put), 3)
	drained := soon(lastIn(withOp(Changing(Drains, 2), Put), 2), 4)
	left := with(soon(lastIn(only, 4), 5), func(sc *Scenario) { sc.Interval, sc.End = 5, 16 })
	// One of two rules is enough: a write without an owner is refused, or the sweep leaves the
	// copy alone.
	unheard := soon(with(withFaults(only, Pause, 1), func(sc *Scenario) { sc.Heal, sc.End = 6, 12 }), 4)
	missed := with(soon(withFaults(withOp(Changing(GivesUp, 2), Put), Pause, 1), 1), func(sc *Scenario) {
		sc.Paused, sc.LastIn, sc.Heal, sc.End, sc.Bound = 1, 5, 9, 9, never
	})
	return []without{
		{"OwnersTold", with(unheard, func(sc *Scenario) { sc.Rules.LeaveExact = false }), LateAfterAnswer},
		{"LeaveExact", with(unheard, func(sc *Scenario) { sc.Rules.OwnersTold = false }), LateAfterAnswer},
		{"OutRemoved", returned(), AfterAnswer},
		{"OutTold", missed, LateAfterAnswer},
		{"Announce", soon(withOp(withFaults(made(), Pause, 1), Delete), 3), AfterAnswer},
		{"Others", moved, Needless},
		{"Others", withOp(made(), Delete), AfterAnswer},
		{"OntoLive", left, Needless},
		{"HalfSkew", drained, Needless},
		{"SweepSteady", moved, Needless},
		{"SweepSteady", made(), Missed},
		{"SweepDue", quick, Needless},
		{"CopyThenLeave", made(), Missed},
	}
}

// TestVariants walks departures from the protocol: nothing breaks except the known violations.
func TestVariants(t *testing.T) {
	two := withFaults(twoPops(), Cut|Pause, 1)
	kept := with(returned(), func(sc *Scenario) { sc.Variants.OutKept = true })
	for _, c := range []struct {
		name  string
		sc    Scenario
		known []Violation
	}{
		{"silent shards are skipped", with(two, func(sc *Scenario) { sc.Variants.SkipSilent = true }), nil},
		{"the comparison is a tick old", with(two, func(sc *Scenario) { sc.Variants.AskAhead, sc.Bound = 1, never }), []Violation{OldPop}},
		{"the latest overdue pop alone is called", with(withFaults(twoPops(), Wipe, 1), func(sc *Scenario) {
			sc.Variants.LatestOnly, sc.Interval, sc.Skew, sc.Bound = true, 1, 1, never
		}), nil},
		{"the only copy moves from a shard that returns", kept, []Violation{Missed, LeftOver}},
	} {
		t.Run(c.name, func(t *testing.T) { nothingBroken(t, explore(t, c.sc), c.known...) })
	}
}
