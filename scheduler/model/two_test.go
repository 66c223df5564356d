package model

import (
	"fmt"
	"testing"
)

// twice lets a second client write the timer while the first one does.
func twice(sc Scenario, first, second Op) Scenario {
	sc.Op, sc.Second, sc.LinkHolds, sc.OpBy = first, second, true, 4
	sc.Variants.LossSaid = true
	return sc
}

// twoOperations are runs with two client operations, each through its own node.
func twoOperations() []scenario {
	var all []scenario
	for _, ops := range [][2]Op{{Delete, Put}, {Put, Put}, {Put, Delete}} {
		for _, f := range []struct {
			name string
			kind Fault
		}{{"no fault", 0}, {"crash", Crash}, {"lost answer", Lost}, {"wipe", Wipe}, {"cut", Cut}, {"pause", Pause}, {"stall", Stall}, {"dead", Dead}} {
			sc := twice(OneShot(2), ops[0], ops[1])
			if f.kind != 0 {
				sc = withFaults(sc, f.kind, 1)
			}
			all = append(all, scenario{
				name: fmt.Sprintf("two writes, %s and %s, %s", ops[0], ops[1], f.name), sc: sc,
			})
		}
	}
	return all
}

// TestWithoutRuleOfTwoOperations is TestWithoutRule where two operations meet.
func TestWithoutRuleOfTwoOperations(t *testing.T) {
	both := twice(OneShot(2), Put, Delete)
	behind := withFaults(both, Crash, 1)
	behind.Behind = true
	for _, c := range []struct {
		rule string
		off  func(*Scenario)
		sc   Scenario
		want Violation
	}{
		{"LookAgain", func(sc *Scenario) { sc.Rules.LookAgain = false }, behind, AfterAnswer},
		{"NotAfter", func(sc *Scenario) { sc.Rules.NotAfter = false }, withFaults(both, Cut, 1), AfterAnswer},
		{"LossSaid", func(sc *Scenario) { sc.Variants.LossSaid = false }, withFaults(both, Wipe, 1), AfterAnswer},
	} {
		t.Run(c.rule, func(t *testing.T) { switchOff(t, c.sc, c.off, c.want) })
	}
}
