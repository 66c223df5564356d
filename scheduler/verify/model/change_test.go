package model

import (
	"fmt"
	"testing"
)

// made is a timer of one copy whose create meets a change of the owner.
func made() Scenario {
	sc := Changing(Joins, 1)
	sc.Start = Later
	return sc
}

// soon has the change and the write come early, for fewer states.
func soon(sc Scenario, opBy int8) Scenario {
	sc.ChangeBy, sc.OpBy = 0, opBy
	return sc
}

// changes are runs with a change of a timer's owners.
func changes() []scenario {
	backup := Changing(Joins, 2)
	backup.Moves = 1
	var all []scenario
	for _, c := range []struct {
		name   string
		sc     Scenario
		single bool // a fault may find a single copy, and lose the timer
	}{
		{"a shard comes for rank 0", Changing(Joins, 2), false},
		{"a shard comes for rank 1", backup, false},
		{"a shard is drained", Changing(Drains, 2), true},
		{"a shard comes for the only copy", made(), true},
	} {
		for _, op := range []Op{NoOp, Delete, Put} {
			for _, k := range kinds {
				if k.kind == Gap || !c.single && op == Put && k.kind == Stall {
					continue // not walked, or too large
				}
				s := scenario{name: fmt.Sprintf("%s, %s, %s", c.name, k.name, op), sc: withOp(c.sc, op)}
				s.full = k.kind != 0 && (op != NoOp || k.kind&(Lost|Wipe) == 0) || op == Put
				if k.kind != 0 {
					s.sc = withFaults(s.sc, k.kind, 1)
					s.sc.Bound += c.sc.Bound
				}
				if k.kind != 0 && op != NoOp {
					s.sc = soon(s.sc, s.sc.OpBy)
				}
				if !c.single && (op == Put && k.kind != 0 || op == Delete && k.kind&(Cut|Stall) != 0) {
					s.sc.OpBy = 3
				}
				if c.single && k.kind&(Wipe|Dead) != 0 {
					s.known = []Violation{Missed, Late, AfterAnswer}
				}
				if c.sc.Change == Drains && k.kind&(Crash|Stall) != 0 { // the copies put off for each other
					s.sc.Bound, s.sc.End, s.known = 9, 28, []Violation{OldAttempt}
				}
				all = append(all, s)
			}
		}
	}
	return append(all, early()...)
}

// early are changes with a PUT that is soon due, runs in which a shard is given up, and changes of
// timers with three copies.
func early() []scenario {
	drained := withOp(Changing(Drains, 2), Put)
	drained.Interval, drained.OpBy = 3, 6
	given := withFaults(Changing(GivesUp, 2), Dead, 1)
	given.Bound = never
	all := []scenario{
		{name: "a shard comes for the only copy, PUT, soon due", sc: soon(lastIn(withOp(Changing(Joins, 1), Put), 1), 6)},
		{name: "a shard is drained, PUT, soon due", sc: drained},
		{name: "a shard is given up", sc: given},
		{name: "a shard is given up, DELETE", sc: withOp(given, Delete)},
		{name: "a shard is given up with the only copy, DELETE", sc: returned(), known: []Violation{Missed}},
	}
	for _, op := range []Op{NoOp, Delete, Put} {
		all = append(all,
			scenario{name: fmt.Sprintf("one of three shards is drained, %s", op), sc: soon(withOp(Changing(Drains, 3), op), 3)},
			scenario{name: fmt.Sprintf("a third shard comes, %s", op), sc: soon(withOp(Changing(Grows, 3), op), 3)})
	}
	return all
}

// returned is a timer with one copy. The copy's shard is given up and returns.
func returned() Scenario {
	sc := soon(withFaults(withOp(Changing(GivesUp, 1), Delete), Pause, 1), 4)
	sc.Paused, sc.Life, sc.Interval, sc.Heal, sc.End, sc.Bound = 1, 3, 6, 3, 12, never
	return sc
}

// TestDueDuringAChange shows a duplicate that no rule prevents: a PUT comes due before both nodes
// know of the change.
func TestDueDuringAChange(t *testing.T) {
	sc := withOp(Changing(Joins, 1), Put)
	sc.Interval, sc.OpBy, sc.Bound = 2, 6, never
	r := explore(t, sc)
	if nothingBroken(t, r, Needless); r.Counts[Needless] == 0 {
		t.Errorf("%q was not found", Needless)
	}
}
