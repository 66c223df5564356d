package model

import (
	"fmt"
	"testing"
)

// mended follows what the model asks for where shards change; docs/decisions/model.md says why.
func mended(sc Scenario) Scenario {
	v := &sc.Variants
	v.LeaseAsked, v.SweepDue, v.SweepOnto, v.ToldLive = true, true, true, true
	return sc
}

// created is a timer of one copy that is made while its home moves.
func created() Scenario {
	sc := mended(Changing(Joins, 1))
	sc.Start = Later
	return sc
}

// soon has all of it happen early, so that there is less of it.
func soon(sc Scenario, opBy int8) Scenario {
	sc.ChangeBy, sc.OpBy = 0, opBy
	return sc
}

// changes are runs in which the homes of a timer change.
func changes() []scenario {
	backup := mended(Changing(Joins, 2))
	backup.Moves = 1
	var all []scenario
	for _, c := range []struct {
		name string
		sc   Scenario
		one  bool // there may be one copy alone, and it may be lost
	}{
		{"a shard comes for rank 0", mended(Changing(Joins, 2)), false},
		{"a shard comes for rank 1", backup, false},
		{"a shard is drained", mended(Changing(Drains, 2)), true},
		{"a shard comes for the only copy", created(), true},
	} {
		for _, op := range []Op{NoOp, Delete, Put} {
			for _, f := range []struct {
				name string
				kind Fault
			}{{"no fault", 0}, {"crash", Crash}, {"cut", Cut}, {"pause", Pause}, {"lost answer", Lost}, {"wipe", Wipe}, {"stall", Stall}, {"dead", Dead}} {
				if !c.one && op == Put && f.kind == Stall {
					continue // it is too large
				}
				s := scenario{name: fmt.Sprintf("%s, %s, %s", c.name, f.name, op), sc: withOp(c.sc, op)}
				s.full = f.kind != 0 && (op != NoOp || f.kind&(Lost|Wipe) == 0) || op == Put
				if f.kind != 0 {
					s.sc = withFaults(s.sc, f.kind, 1)
					s.sc.Bound += c.sc.Bound
				}
				if f.kind != 0 && op != NoOp {
					s.sc = soon(s.sc, s.sc.OpBy)
				}
				if !c.one && (op == Put && f.kind != 0 || op == Delete && f.kind&(Cut|Stall) != 0) {
					s.sc.OpBy = 3
				}
				if c.one && f.kind&(Wipe|Dead) != 0 {
					s.known = []Violation{Missed, Late, AfterAnswer}
				}
				if c.sc.Moves == 0 && f.kind == Wipe && op == Delete {
					s.known = append(s.known, AfterAnswer) // docs/decisions/model.md says why
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// TestWithoutRuleOfChanges is TestWithoutRule of the rules for changes of the shards.
func TestWithoutRuleOfChanges(t *testing.T) {
	moved := mended(Changing(Joins, 2))
	paused := withFaults(created(), Pause, 1)
	bare := mended(Changing(Joins, 1))
	for _, c := range []struct {
		rule string
		off  func(*Scenario)
		sc   Scenario
		want Violation
	}{
		{"Announce", func(sc *Scenario) { sc.Rules.Announce = false }, withOp(soon(paused, 3), Delete), AfterAnswer},
		{"Others", func(sc *Scenario) { sc.Rules.Others = false }, moved, Needless},
		{"Others, DELETE", func(sc *Scenario) { sc.Rules.Others = false }, withOp(created(), Delete), AfterAnswer},
		{"SweepSteady", func(sc *Scenario) { sc.Rules.SweepSteady = false }, moved, Needless},
		{"SweepSteady, one copy", func(sc *Scenario) { sc.Rules.SweepSteady = false }, created(), Missed},
		{"CopyThenLeave", func(sc *Scenario) { sc.Rules.CopyThenLeave = false }, created(), Missed},
		{"LeaveExact", func(sc *Scenario) { sc.Rules.LeaveExact = false }, withOp(soon(withFaults(bare, Pause, 1), 4), Put), Missed},
	} {
		t.Run(c.rule, func(t *testing.T) { switchOff(t, c.sc, c.off, c.want) })
	}
}

// TestVariantsOfChanges has what the protocol as it is breaks where shards change, and
// what mends it.
func TestVariantsOfChanges(t *testing.T) {
	quick := withOp(Changing(Joins, 2), Put)
	quick.Interval = 3
	quick = soon(quick, 3)
	short := withOp(Changing(Joins, 1), Put)
	short.Interval, short.OpBy = 2, 6
	onlyTold := soon(withOp(withFaults(Changing(Joins, 1), Cut, 1), Delete), 7)
	onlyTold.End = 14
	wiped := soon(withOp(withFaults(Changing(Joins, 2), Wipe, 1), Delete), 5)
	wiped.Moves, wiped.Interval, wiped.Heal, wiped.End = 1, 5, 6, 14
	drained := mended(withOp(Changing(Drains, 2), Put))
	drained.Interval, drained.OpBy = 3, 6
	for _, c := range []struct {
		name string
		sc   Scenario
		mend func(*Variants)
		want Violation // found; "": nothing breaks
	}{
		{"a callback takes all of its time", Changing(Drains, 2), func(*Variants) {}, Needless},
		{"LeaseAsked", Changing(Drains, 2), func(v *Variants) { v.LeaseAsked = true }, ""},
		{"a backup that waits is swept", quick, func(v *Variants) { v.LeaseAsked = true }, Needless},
		{"SweepDue", quick, func(v *Variants) { v.LeaseAsked, v.SweepDue = true, true }, ""},
		{"only a tombstone was told", onlyTold, func(v *Variants) { v.LeaseAsked, v.SweepDue = true, true }, LateAfterAnswer},
		{"ToldLive", onlyTold, func(v *Variants) { v.LeaseAsked, v.SweepDue, v.ToldLive = true, true, true }, ""},
		{"a home is lost between reading and writing", wiped, func(v *Variants) { v.LeaseAsked, v.SweepDue = true, true }, AfterAnswer},
		{"SweepOnto", wiped, func(v *Variants) { v.LeaseAsked, v.SweepDue, v.SweepOnto = true, true, true }, ""},
		{"live records name no copies elsewhere", drained, func(v *Variants) { v.NoNote = true }, Needless},
		{"and copies are made there", drained, func(v *Variants) { v.NoNote, v.Union = true, true }, Needless},
		{"or only changed there", drained, func(v *Variants) { v.NoNote, v.OntoLive = true, true }, ""},
		{"due before all nodes know", mended(short), func(*Variants) {}, Needless},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.mend(&c.sc.Variants)
			c.sc.Bound = never
			r := explore(t, c.sc)
			if c.want != "" && r.Counts[c.want] == 0 {
				t.Errorf("%q was not found", c.want)
			}
			for _, v := range r.Broken() {
				if v != c.want {
					t.Errorf("%s:\n\t%s", v, wayTo(r, v))
				}
			}
		})
	}
}
