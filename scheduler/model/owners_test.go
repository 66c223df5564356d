package model

import (
	"fmt"
	"testing"
)

// lastIn has what the last operation makes come due so soon.
func lastIn(sc Scenario, in int8) Scenario {
	sc.LastIn = in
	return sc
}

// owners are runs in which copies are only ever made at owners.
func owners() []scenario {
	var all []scenario
	add := func(name string, sc Scenario) {
		all = append(all, scenario{name: "owners only, " + name, sc: OwnersOnly(sc)})
	}
	two := Recurring()
	two.Pops, two.Sweeping, two.LinkHolds, two.OpBy = 2, true, true, 5
	for _, op := range []Op{NoOp, Delete, Put} {
		for _, f := range []struct {
			name string
			kind Fault
		}{{"crash", Crash}, {"cut", Cut}, {"pause", Pause}, {"lost answer", Lost}, {"wipe", Wipe}, {"stall", Stall}, {"dead", Dead}, {"gap", Gap}} {
			add(fmt.Sprintf("recurring, %s, %s", f.name, op), withFaults(withOp(two, op), f.kind, 1))
		}
	}
	for _, second := range []Op{Delete, Put} {
		for _, kind := range []Fault{0, Lost, Wipe, Gap} {
			sc := lastIn(twice(OneShot(2), Put, second), 1)
			if kind != 0 {
				sc = withFaults(sc, kind, 1)
			}
			add(fmt.Sprintf("two writes, PUT and %s, fault %d", second, kind), sc)
		}
	}
	for _, kind := range []Fault{Cut, Pause, Wipe, Gap} {
		sc := withFaults(buried(), kind, 1)
		sc.Life = 5
		add(fmt.Sprintf("short tombstones, fault %d", kind), sc)
	}
	moves := soon(lastIn(withOp(Changing(Joins, 1), Put), 1), 6)
	add("its only home moves, PUT", moves)
	drained := withOp(Changing(Drains, 2), Put)
	drained.Interval, drained.OpBy = 3, 6
	add("a shard is drained, PUT", drained)
	given := withFaults(Changing(GivesUp, 2), Dead, 1)
	given.Bound = never
	add("a shard is given up", given)
	add("a shard is given up, DELETE", withOp(given, Delete))
	for i := range all {
		if all[i].sc.Faults&Gap != 0 {
			all[i].known = []Violation{Overtaken} // it fires nothing for 3 s
			all[i].sc.Bound = 6
		}
	}
	return all
}

// TestOwnersOnlyWithoutRule is TestWithoutRule where copies are only ever made at owners.
func TestOwnersOnlyWithoutRule(t *testing.T) {
	both := lastIn(twice(OneShot(2), Put, Put), 1)
	moves := soon(lastIn(withOp(Changing(Joins, 1), Put), 1), 6)
	unknown := withFaults(withOp(OneShot(2), Put), Pause, 1)
	unknown.Start, unknown.OpBy = Unknown, 5
	gap := lastIn(withFaults(withOp(Recurring(), Put), Gap, 1), 1)
	gap.Pops, gap.Interval, gap.OpBy = 2, 3, 4
	restarted := lastIn(withFaults(withOp(OneShot(2), Put), Gap, 1), 1)
	restarted.Interval, restarted.OpBy, restarted.Life, restarted.End = 9, 4, 4, 30
	swept := withFaults(withOp(OneShot(2), Delete), Wipe, 1)
	swept.Interval, swept.OpBy, swept.Life, swept.End = 14, 3, 5, 34
	for _, c := range []struct {
		rule string
		off  func(*Scenario)
		sc   Scenario
		want Violation
	}{
		{"YoungEnds, two writes", func(sc *Scenario) { sc.Variants.YoungEnds = false }, withFaults(both, Cut, 1), AfterAnswer},
		{"YoungEnds, no fault", func(sc *Scenario) { sc.Variants.YoungEnds = false }, moves, AfterAnswer},
		{"RepairSeen", func(sc *Scenario) { sc.Variants.RepairSeen, sc.Variants.YoungEnds = false, false }, withFaults(repaired(), Lost, 1), AfterAnswer},
		{"MissedNoted", func(sc *Scenario) { sc.Variants.MissedNoted = false }, withFaults(buried(), Cut, 1), LateAfterAnswer},
		{"AskTwo", func(sc *Scenario) { sc.Variants.AskTwo = false }, unknown, LateAfterAnswer},
		{"LossSaid", func(sc *Scenario) { sc.Variants.LossSaid = false }, withFaults(twice(OneShot(2), Put, Delete), Wipe, 1), AfterAnswer},
		{"LossQuiet", func(sc *Scenario) { sc.Variants.LossQuiet = false }, gap, AfterAnswer},
		{"TombstonesWait", func(sc *Scenario) { sc.Rules.TombstonesWait = false }, restarted, AfterAnswer},
		{"SweepWaits", func(sc *Scenario) { sc.Rules.SweepWaits = false }, swept, AfterAnswer},
		{"DoneTombstone", func(sc *Scenario) { sc.Rules.DoneTombstone = false }, withFaults(withOp(OneShot(2), Put), Pause, 1), LateAfterAnswer},
	} {
		t.Run(c.rule, func(t *testing.T) { switchOff(t, OwnersOnly(c.sc), c.off, c.want) })
	}
}

// repaired is a timer of two PUTs that is over before what the first one missed is
// written once more.
func repaired() Scenario {
	sc := twice(OneShot(2), Put, Put)
	sc.Interval, sc.OpBy = 2, 3
	return sc
}
