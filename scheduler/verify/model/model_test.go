package model

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var full = flag.Bool("model.full", false, "also walk the scenarios that take minutes")

// bound is more states than any scenario here has.
const bound = 20_000_000

// scenario is a scenario of a test, with its name.
type scenario struct {
	name  string
	sc    Scenario
	full  bool        // only with -model.full
	known []Violation // README explains them
}

func explore(t *testing.T, sc Scenario) *Result {
	t.Helper()
	r := Explore(sc, bound)
	t.Log(r)
	if r.Cut {
		t.Errorf("not all states were met: %s", r)
	}
	return r
}

func wayTo(r *Result, v Violation) string { return strings.Join(r.Trace(v), "\n\t") }

// nothingBroken fails the test for each violation except the known violations.
func nothingBroken(t *testing.T, r *Result, known ...Violation) {
	t.Helper()
	for _, v := range r.Broken() {
		if !slices.Contains(known, v) {
			t.Errorf("%s:\n\t%s", v, wayTo(r, v))
		}
	}
}

// withFaults allows faults of some kinds, and the lateness that a fault may cause.
func withFaults(sc Scenario, kinds Fault, budget int8) Scenario {
	sc.Faults, sc.Budget, sc.Bound = kinds, budget, sc.Hold
	if kinds&Cut != 0 {
		sc.Bound += leftFor // a pop may be left to the other node
	}
	return sc
}

// withOp has a client send a write at any moment.
func withOp(sc Scenario, op Op) Scenario {
	sc.Op = op
	return sc
}

// lastIn has the timer of the last write come due so soon.
func lastIn(sc Scenario, in int8) Scenario {
	sc.LastIn = in
	return sc
}

// twice has a second client write while the first client does.
func twice(sc Scenario, first, second Op) Scenario {
	sc.Op, sc.Second, sc.LinkHolds, sc.OpBy = first, second, true, 4
	return sc
}

// shortLived is a timer with a DELETE. Tombstones live for 3 ticks.
func shortLived() Scenario {
	sc := withOp(Recurring(), Delete)
	sc.Life, sc.Interval, sc.Pops, sc.End, sc.OpBy = 3, 6, 2, 30, 6
	return sc
}

// kinds are the faults of most lists.
var kinds = []struct {
	name string
	kind Fault
}{
	{"no fault", 0}, {"crash", Crash}, {"cut", Cut}, {"pause", Pause}, {"lost answer", Lost}, {"wipe", Wipe}, {"stall", Stall},
	{"dead", Dead}, {"gap", Gap},
}

// states has the number of states of some scenarios, so that no change of the model goes unnoticed.
var states = map[string]int{
	"recurring, no fault, PUT":                       2_096,
	"recurring, crash, PUT":                          19_004,
	"recurring, pause, PUT":                          42_409,
	"recurring, wipe, PUT":                           18_317,
	"recurring, gap, PUT":                            19_431,
	"recurring, a callback fails, DELETE":            2_205,
	"three pops":                                     219,
	"three copies, wipe":                             3_771,
	"create, due in 1 s, cut":                        9_957,
	"create, due in 1 s, lost answer":                1_477,
	"short tombstones, cut":                          31_531,
	"short tombstones, stall":                        11_454,
	"dead letter, DELETE":                            4_976,
	"two writes, PUT and DELETE, lost answer":        51_662,
	"two writes, PUT and DELETE, wipe":               85_180,
	"a shard comes for rank 0, no fault, DELETE":     214_163,
	"a shard is drained, no fault, no operation":     4_147,
	"a shard is given up, DELETE":                    126_240,
	"a shard is given up with the only copy, DELETE": 27_794,
}

// TestAllRules walks the protocol with every rule on: nothing may break.
func TestAllRules(t *testing.T) {
	for _, s := range slices.Concat(recurring(), threeCopies(), creates(), tombstones(), letters(), twoWrites(), conditions(), patches(), hastenings(), changes()) {
		t.Run(s.name, func(t *testing.T) {
			if s.full && !*full {
				return
			}
			r := explore(t, s.sc)
			nothingBroken(t, r, s.known...)
			if want, held := states[s.name]; held && r.States != want {
				t.Errorf("%d states, want %d: the protocol has changed", r.States, want)
			}
		})
	}
}

// recurring are two pops on two shards.
func recurring() []scenario {
	var all []scenario
	two := Recurring()
	two.Pops, two.Sweeping, two.LinkHolds, two.OpBy = 2, true, true, 5
	for _, op := range []Op{NoOp, Delete, Put} {
		for _, k := range kinds {
			s := scenario{name: fmt.Sprintf("recurring, %s, %s", k.name, op), sc: withOp(two, op)}
			if k.kind != 0 {
				s.sc = withFaults(s.sc, k.kind, 1)
			}
			if k.kind == Gap {
				s.sc.Bound = 6 // the shard fires nothing for 3 s
			}
			all = append(all, s)
		}
		failing := withOp(two, op)
		failing.Failures = 1
		all = append(all, scenario{name: fmt.Sprintf("recurring, a callback fails, %s", op), sc: failing})
	}
	return append(all, scenario{name: "three pops", sc: Recurring()})
}

// threeCopies are one-shot timers on three shards.
func threeCopies() []scenario {
	one := withFaults(OneShot(3), AnyFault, 1)
	two := withFaults(OneShot(3), AnyFault, 2)
	two.Heal, two.End, two.Bound = 8, 26, 12
	return []scenario{
		{name: "three copies, lost answer", sc: withFaults(OneShot(3), Lost, 1)},
		{name: "three copies, wipe", sc: withFaults(OneShot(3), Wipe, 1)},
		{name: "three copies, any fault", sc: one},
		{name: "three copies, any fault, DELETE", sc: withOp(one, Delete), full: true},
		{name: "three copies, any fault, PUT", sc: withOp(one, Put), full: true},
		{name: "three copies, two dead, DELETE", sc: withFaults(withOp(OneShot(3), Delete), Dead, 2), full: true},
		{name: "three copies, any two faults", sc: two, full: true, known: []Violation{OldAttempt}},
	}
}

// creates are one-shot timers before their create.
func creates() []scenario {
	var all []scenario
	for interval := range int8(3) {
		for _, k := range kinds {
			if k.kind == Dead {
				continue // both copies may not be there yet
			}
			sc := OneShot(2)
			sc.Start, sc.Resent, sc.LinkHolds, sc.Interval, sc.End = Creating, true, true, interval, 16
			if k.kind != 0 {
				sc = withFaults(sc, k.kind, 1)
			}
			sc.Bound = 7
			all = append(all, scenario{name: fmt.Sprintf("create, due in %d s, %s", interval, k.name), sc: sc})
		}
	}
	return all
}

// tombstones are runs in which tombstones are removed.
func tombstones() []scenario {
	var all []scenario
	for _, k := range kinds {
		if k.kind == 0 || k.kind == Dead {
			continue
		}
		s := scenario{name: "short tombstones, " + k.name, sc: withFaults(shortLived(), k.kind, 1)}
		if s.sc.Life = 5; k.kind == Gap {
			s.sc.Bound, s.known = 6, []Violation{Overtaken}
		}
		all = append(all, s)
	}
	return all
}

// letters are runs with dead letters.
func letters() []scenario {
	sc := OneShot(2)
	sc.Attempts, sc.Failures = 2, 4
	late := withFaults(sc, AnyFault, 1)
	late.Bound += 2 // for a retry
	return []scenario{
		{name: "dead letter", sc: sc},
		{name: "dead letter, DELETE", sc: withOp(sc, Delete)},
		{name: "dead letter, any fault", sc: late, full: true},
	}
}

// twoWrites are runs with two writes, each through its own node.
func twoWrites() []scenario {
	var all []scenario
	for _, ops := range [][2]Op{{Delete, Put}, {Put, Put}, {Put, Delete}} {
		for _, k := range kinds {
			sc := twice(OneShot(2), ops[0], ops[1])
			if k.kind != 0 {
				sc = withFaults(sc, k.kind, 1)
			}
			s := scenario{name: fmt.Sprintf("two writes, %s and %s, %s", ops[0], ops[1], k.name), sc: sc}
			if k.kind == Gap {
				s.sc.Bound = 6
			}
			s.full = ops[1] == Put && k.kind&(Cut|Pause|Stall) != 0
			all = append(all, s)
			if ops == [2]Op{Put, Put} && k.kind&^(Lost|Wipe|Gap) == 0 {
				s.name, s.sc = s.name+", soon due", lastIn(s.sc, 1)
				all = append(all, s)
			}
		}
	}
	return all
}

// patches are runs with a PATCH alone, and with a PATCH and another write.
func patches() []scenario {
	var all []scenario
	two := withOp(with(twoPops(), func(sc *Scenario) { sc.Sweeping, sc.LinkHolds, sc.OpBy = true, true, 5 }), Patch)
	for _, k := range kinds {
		for _, ops := range [][2]Op{{Patch, NoOp}, {Patch, Patch}, {Patch, Put}, {Put, Patch}, {Patch, Delete}, {Delete, Patch}} {
			s := scenario{name: fmt.Sprintf("%s and %s, %s", ops[0], ops[1], k.name), sc: two}
			if ops[1] != NoOp {
				s.sc = twice(OneShot(2), ops[0], ops[1])
				s.full = k.kind&(Cut|Pause|Stall) != 0
			}
			if k.kind != 0 {
				s.sc = withFaults(s.sc, k.kind, 1)
			}
			if k.kind == Gap {
				s.sc.Bound = 6
			}
			all = append(all, s)
		}
	}
	failing := with(two, func(sc *Scenario) { sc.Failures = 1 })
	letters := with(withOp(OneShot(2), Patch), func(sc *Scenario) { sc.Attempts, sc.Failures = 2, 2 })
	return append(all,
		scenario{name: "PATCH, a callback fails", sc: failing},
		scenario{name: "PATCH, dead letter", sc: letters},
		scenario{name: "PATCH, three copies, any fault", sc: withFaults(withOp(OneShot(3), Patch), AnyFault, 1), full: true},
		scenario{name: "PATCH, a shard is drained", sc: soon(withOp(Changing(Drains, 2), Patch), 4)},
		scenario{name: "PATCH, one of three shards is drained", sc: soon(withOp(Changing(Drains, 3), Patch), 3)},
		scenario{name: "PATCH, a shard comes for rank 0", sc: soon(withOp(Changing(Joins, 2), Patch), 4)})
}

// conditions are runs with two writes, of which one or both ask for the version that is there at the
// start.
func conditions() []scenario {
	var all []scenario
	for _, ops := range [][2]Op{{Delete, Put}, {Put, Put}, {Put, Delete}} {
		for _, asks := range []Condition{BothAsk, SecondAsks} {
			for _, k := range kinds {
				s := scenario{name: fmt.Sprintf("condition %d, %s and %s, %s", asks, ops[0], ops[1], k.name), sc: twice(OneShot(2), ops[0], ops[1])}
				if s.sc.If = asks; k.kind != 0 {
					s.sc = withFaults(s.sc, k.kind, 1)
				}
				if k.kind == Gap {
					s.sc.Bound = 6
				}
				s.full = k.kind&(Cut|Pause|Stall) != 0
				all = append(all, s)
			}
		}
	}
	return all
}
