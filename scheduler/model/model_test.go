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

// scenario is one to be walked, with its name.
type scenario struct {
	name string
	sc   Scenario
	full bool // only with -model.full
	// states is how many states there are; 0 where that is not held. Where no pop is settled
	// overdue an earlier model met as many.
	states int
	// known violations, which README explains.
	known []Violation
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

// withSubstitute gives the scenario a shard behind the homes, and another start.
func withSubstitute(sc Scenario, start Start) Scenario {
	sc.Shards, sc.Start = sc.Homes+1, start
	return sc
}

// withFaults allows so many faults of these kinds, and the lateness that one may
// cause.
func withFaults(sc Scenario, kinds Fault, budget int8) Scenario {
	sc.Faults, sc.Budget, sc.Bound = kinds, budget, sc.Hold
	return sc
}

// withOp lets the client do this at any moment.
func withOp(sc Scenario, op Op) Scenario {
	sc.Op = op
	return sc
}

// TestAllRules walks the protocol as it is worded: nothing may break.
func TestAllRules(t *testing.T) {
	for _, s := range slices.Concat(atHome(), threeCopies(), substitutes(), tombstones(), several(), twoOperations(), owners(), changes()) {
		t.Run(s.name, func(t *testing.T) {
			if s.full && !*full {
				return
			}
			r := explore(t, s.sc)
			for _, v := range r.Broken() {
				if !slices.Contains(s.known, v) {
					t.Errorf("%s:\n\t%s", v, wayTo(r, v))
				}
			}
			if s.states > 0 && r.States != s.states {
				t.Errorf("%d states, want %d", r.States, s.states)
			}
		})
	}
}

// atHome are three pops on two shards.
func atHome() []scenario {
	kinds := []struct {
		name   string
		kind   Fault
		states [3]int // without operation, DELETE, PUT
	}{
		{"no fault", 0, [3]int{196, 1_270, 2_594}},
		{"crash", Crash, [3]int{1_470, 9_802, 23_620}},
		{"cut", Cut, [3]int{5_009, 48_245, 83_095}},
		{"pause", Pause, [3]int{4_764, 35_034, 69_260}},
		{"lost answer", Lost, [3]int{636, 5_108, 12_558}},
		{"wipe", Wipe, [3]int{2_287, 19_787, 33_625}},
		{"stall", Stall, [3]int{9_102, 28_642, 96_274}},
	}
	var all []scenario
	for _, k := range kinds {
		for i, op := range []Op{NoOp, Delete, Put} {
			sc := withOp(Recurring(), op)
			sc.Sweeping = true
			if k.kind != 0 {
				sc = withFaults(sc, k.kind, 1)
			}
			all = append(all, scenario{
				name: fmt.Sprintf("recurring, %s, %s", k.name, op), sc: sc, states: k.states[i], full: k.states[i] > 10_000,
			})
		}
	}
	for i, op := range []Op{NoOp, Delete, Put} {
		sc := withOp(Recurring(), op)
		sc.Sweeping, sc.Failures = true, 1
		all = append(all, scenario{
			name: fmt.Sprintf("recurring, a callback fails, %s", op), sc: sc, states: []int{1_244, 4_334, 12_072}[i], full: i == 2,
		})
	}
	return all
}

// threeCopies are one-shot timers on three shards.
func threeCopies() []scenario {
	one := withFaults(OneShot(3), AnyFault, 1)
	twoDead := withFaults(withOp(OneShot(3), Delete), Dead, 2)
	return []scenario{
		{name: "three copies, lost answer", sc: withFaults(OneShot(3), Lost, 1)},
		{name: "three copies, wipe", sc: withFaults(OneShot(3), Wipe, 1)},
		{name: "three copies, any fault, DELETE", sc: withOp(one, Delete), states: 1_527_846, full: true},
		{name: "three copies, any fault, PUT", sc: withOp(one, Put), states: 2_658_616, full: true},
		{name: "three copies, two dead, DELETE", sc: twoDead, states: 1_313_868, full: true},
	}
}

// substitutes are timers with a copy away from home. The earlier model took a
// shard without a substitute for one that lacked its copy, so its counts differ
// where there is an operation.
func substitutes() []scenario {
	create := withSubstitute(OneShot(2), Creating)
	all := []scenario{
		{name: "create, cut", sc: withFaults(create, Cut, 1), states: 7_654},
		{name: "create, pause", sc: withFaults(create, Pause, 1), states: 6_050},
		{name: "create, lost answer", sc: withFaults(create, Lost, 1), states: 616},
	}
	for _, start := range []Start{Substitute0, Substitute1} {
		for _, op := range []Op{NoOp, Delete, Put} {
			sc := withOp(withSubstitute(OneShot(2), start), op)
			name := fmt.Sprintf("substitute of rank %d, %s", start-Substitute0, op)
			all = append(all,
				scenario{name: name, sc: sc},
				scenario{name: name + ", any fault", sc: withFaults(sc, AnyFault, 1), full: true})
		}
	}
	return all
}

// tombstones are runs in which tombstones are buried.
func tombstones() []scenario {
	var all []scenario
	for _, k := range []struct {
		name   string
		kind   Fault
		states int
	}{
		{"cut", Cut, 22_350}, {"pause", Pause, 35_705}, {"wipe", Wipe, 13_683}, {"stall", Stall, 14_571},
	} {
		all = append(all, scenario{
			name: "short tombstones, " + k.name, sc: withFaults(buried(), k.kind, 1), states: k.states, full: k.states > 20_000,
		})
	}
	return all
}

// buried is a timer whose DELETE leaves tombstones of 3 ticks.
func buried() Scenario {
	sc := withOp(Recurring(), Delete)
	sc.Life, sc.Interval, sc.Pops, sc.End, sc.OpBy = 3, 6, 2, 30, 6
	return sc
}

// overdue is a timer whose receiver is slower than its interval, with a DELETE.
func overdue() Scenario {
	sc := withFaults(withOp(Recurring(), Delete), Wipe, 1)
	sc.Interval, sc.Skew, sc.OpBy, sc.End = 1, 1, 5, 14
	return sc
}

// several are runs with more than one fault, or dead letters.
func several() []scenario {
	two := withFaults(OneShot(3), AnyFault, 2)
	two.Heal, two.End, two.Bound = 8, 26, 9
	letters := OneShot(2)
	letters.Attempts, letters.Failures = 2, 4
	return []scenario{
		{name: "three copies, any two faults", sc: two, states: 5_698_285, full: true, known: []Violation{OldAttempt}},
		{name: "dead letter", sc: letters},
		{name: "dead letter, DELETE", sc: withOp(letters, Delete)},
		{name: "dead letter, any fault", sc: lettersLate(withFaults(letters, AnyFault, 1)), full: true},
	}
}

// lettersLate allows a retry's time on top.
func lettersLate(sc Scenario) Scenario {
	sc.Bound += 2
	return sc
}

// TestWithoutRule switches one rule off at a time: the violation named must be
// found, and must not be there with the rule on.
func TestWithoutRule(t *testing.T) {
	two := Recurring()
	two.Pops = 2
	swept := two
	swept.Sweeping = true
	wiped := withFaults(swept, Wipe, 1)
	wipedDelete := withOp(wiped, Delete)
	stalled := withFaults(two, Stall, 1)
	sub0 := withSubstitute(OneShot(2), Substitute0)
	sub1 := withSubstitute(OneShot(2), Substitute1)
	bare := sub1
	bare.BareKey = true

	for _, c := range []struct {
		rule string
		off  func(*Scenario)
		sc   Scenario
		want Violation
	}{
		{"NewerOnly", func(sc *Scenario) { sc.Rules.NewerOnly = false }, wipedDelete, AfterAnswer},
		{"MarkKept", func(sc *Scenario) { sc.Rules.MarkKept = false }, wipedDelete, AfterAnswer},
		{"DoneTombstone", func(sc *Scenario) { sc.Rules.DoneTombstone = false }, sub1, Needless},
		{"LeasedAdoption", func(sc *Scenario) { sc.Rules.LeasedAdoption = false }, two, Needless},
		{"Take", func(sc *Scenario) { sc.Rules.Take = false }, two, Needless},
		{"Ask", func(sc *Scenario) { sc.Rules.Ask = false }, wipedDelete, AfterAnswer},
		{"AskThenFence", func(sc *Scenario) { sc.Rules.AskThenFence = false }, withFaults(two, Pause, 1), Overtaken},
		{"Limit", func(sc *Scenario) { sc.Rules.Limit = false }, withOp(stalled, Delete), AfterAnswer},
		{"Tell", func(sc *Scenario) { sc.Rules.Tell = false }, wiped, OldPop},
		{"RestoreAfterSettle", func(sc *Scenario) { sc.Rules.RestoreAfterSettle = false }, withFaults(buried(), Stall, 1), LateAfterAnswer},
		{"AwayFirst", func(sc *Scenario) { sc.Rules.AwayFirst = false }, withFaults(sub1, Lost, 1), Duplicate},
		{"OverdueFromNow", func(sc *Scenario) { sc.Rules.OverdueFromNow = false }, overdue(), AfterAnswer},
		{"MissingUntold", func(sc *Scenario) { sc.Rules.MissingUntold = false }, wipedDelete, AfterAnswer},
		{"AnswerInTime", func(sc *Scenario) { sc.Rules.AnswerInTime = false }, withFaults(buried(), Stall, 1), AfterAnswer},
		{"TombstonesWait", func(sc *Scenario) { sc.Rules.TombstonesWait = false }, withFaults(buried(), Wipe, 1), AfterAnswer},
		{"TellOwed", func(sc *Scenario) { sc.Rules.TellOwed = false }, withFaults(buried(), Cut, 1), LateAfterAnswer},
		{"Look", func(sc *Scenario) { sc.Rules.Look = false }, withOp(sub0, Put), Needless},
		{"RenewThenBring", func(sc *Scenario) { sc.Rules.RenewThenBring = false }, withFaults(sub1, Stall, 1), OldAttempt},
		{"KnowAway", func(sc *Scenario) { sc.Rules.KnowAway = false }, withOp(bare, Put), LateAfterAnswer},
		{"NameFirst", func(sc *Scenario) { sc.Rules.NameFirst = false }, withOp(meeting(), Put), AfterAnswer},
		{"SweepWaits", func(sc *Scenario) { sc.Rules.SweepWaits = false }, withOp(wiped, Put), AfterAnswer},
		{"NotAfter", func(sc *Scenario) { sc.Rules.NotAfter = false }, withFaults(sub1, Stall, 1), OldAttempt},
	} {
		t.Run(c.rule, func(t *testing.T) { switchOff(t, c.sc, c.off, c.want) })
	}
}

// meeting is a PUT through node 0 whose link to a home may be cut, so that the PUT makes a
// substitute, and another operation that may come at any moment of that.
func meeting() Scenario {
	sc := withSubstitute(OneShot(2), Meeting)
	sc.Rules.Look = false
	sc.Variants = Variants{AwayAsBackup: true, AwayUpdated: true, AwayLater: 1}
	return withFaults(sc, Cut, 1)
}

// switchOff explores the scenario with the rule on and off.
func switchOff(t *testing.T, sc Scenario, off func(*Scenario), want Violation) {
	t.Helper()
	if on := explore(t, sc); on.Counts[want] > 0 {
		t.Errorf("with the rule on: %s:\n\t%s", want, wayTo(on, want))
	}
	off(&sc)
	without := explore(t, sc)
	if without.Counts[want] == 0 {
		t.Errorf("without the rule %q was not found", want)
	}
	if lines := without.Trace(want); len(lines) == 0 || !strings.HasSuffix(lines[len(lines)-1], string(want)) {
		t.Errorf("no trace of %q: %q", want, lines)
	}
}

// TestVariants asks the model the questions that docs/decisions/model.md answers: each
// departure from the design breaks what is named, or nothing.
func TestVariants(t *testing.T) {
	two := Recurring()
	two.Pops = 2
	sub0, sub1 := withSubstitute(two, Substitute0), withSubstitute(two, Substitute1)
	backup := Variants{AwayAsBackup: true}
	updated := Variants{AwayAsBackup: true, AwayUpdated: true, RestoreWaits: true}
	later := Variants{AwayAsBackup: true, AwayUpdated: true, AwayLater: 1}
	slow := withFaults(withOp(two, Delete), Wipe, 1)
	slow.Bound = slow.End // a node that takes its time is late by its own doing
	repairing := two
	repairing.Repairing = true
	repairingSub := withSubstitute(OneShot(2), Substitute0)
	repairingSub.Repairing = true
	strict := updated
	strict.RepairGuard, strict.RepairStrict = 2, true

	for _, c := range []struct {
		name     string
		variants Variants
		sc       Scenario
		want     Violation // "": nothing breaks
	}{
		{"today, the home's shard dies", Variants{}, withFaults(sub1, Dead, 1), Missed},
		{"updated away, the home's shard dies", Variants{AwayUpdated: true}, withFaults(sub1, Dead, 1), ""},
		{"a substitute as backup, as asked, no fault, PUT", backup, withOp(sub0, Put), Needless},
		{"a substitute as backup, as asked, the home's shard dies", backup, withFaults(sub1, Dead, 1), Missed},
		{"a substitute as backup, updated, no fault, PUT", updated, withOp(sub0, Put), ""},
		{"a substitute as backup, updated, rank 0", updated, withFaults(sub0, Wipe|Dead|Lost, 1), ""},
		{"a substitute as backup, updated, rank 1", updated, withFaults(sub1, AnyFault, 1), ""},
		{"a substitute as backup, updated, a tick later", later, withOp(withFaults(sub0, Wipe, 1), Delete), ""},
		{"the 2 s count from the fence", Variants{AskAhead: 1, SlowSend: true}, slow, AfterAnswer},
		{"silent shards are skipped", Variants{SkipSilent: true}, withFaults(two, Cut|Pause, 1), ""},
		{"repair on GET, as asked, no fault", Variants{RepairGuard: 2}, withOp(repairing, Delete), ""},
		{"repair on GET, as asked, wipe", Variants{RepairGuard: 2}, withFaults(repairing, Wipe, 1), ""},
		{"repair on GET, as asked, substitute", Variants{RepairGuard: 2, AwayAsBackup: true, AwayUpdated: true}, repairingSub, Needless},
		{"repair on GET, strict, substitute", strict, repairingSub, ""},
		{"a backup yields", Variants{Yield: true}, withFaults(two, AnyFault, 1), ""},
		{"a backup yields, DELETE", Variants{Yield: true}, withOp(withFaults(two, Wipe|Lost, 1), Delete), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sc.Variants = c.variants
			r := explore(t, c.sc)
			if c.want != "" && r.Counts[c.want] == 0 {
				t.Errorf("%q was not found", c.want)
			}
			for _, v := range r.Broken() {
				if c.want == "" {
					t.Errorf("%s:\n\t%s", v, wayTo(r, v))
				}
			}
		})
	}
}
