package sitemodel

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("sitemodel.update", false, "write testdata/ways.txt")

// without is a scenario in which a rule matters.
type without struct{ rule, scenario string }

// rows has a scenario for each rule. A scenario that switches another rule off shows that one of both is enough.
var rows = []without{
	{"HomeAlike", "oneshot put=1,1,3,4"},
	{"Delay", "oneshot Faults=cut"},
	{"MarkFirst", "oneshot Due=5 put=1,1,1,4"},
	{"MarkAges", "oneshot Due=5 put=1,1,1,4 put=1,4,4,4"},
	{"MarkStays", "oneshot Due=5 put=1,1,1,4 put=1,4,4,4"},
	{"MarkOrRefuse", "oneshot Due=5 put=1,1,1,4 Faults=mark"},
	{"AnyMark", "oneshot Pops=0 put=0,1,1,4 put=1,1,1,9"},
	{"InTouch", "oneshot Due=5 put=1,1,1,4"},
	{"LimitFromRead", "oneshot Due=5 put=1,4,4,4 Slow=2"},
	{"OverdueCompares", "oneshot Faults=pause"},
	{"LeaseWaits", "oneshot Faults=pause"},
	{"Compare", "oneshot"},
	{"Yield", "oneshot Hold=4"},
	{"Heartbeat", "oneshot Faults=die Bound=6"},
	{"Adopt", "oneshot put=0,1,3,4"},
	{"Adopt", "recurring Hold=1 Faults=pause"},
	{"RemoveOver", "oneshot"},
	{"RemoveReached", "oneshot Faults=lose Bound=6"},
	{"RemoveUnmarked", "oneshot put=1,1,3,4 Rules.HomeMoves=false"},
	{"FillQuiet", "oneshot Hold=1 put=0,1,3,4 Faults=wipe"},
	{"FillWaits", "oneshot delete=0,2,3,0 Faults=wipe"},
	{"FillShards", "oneshot Faults=some"},
	{"NewAnswered", "oneshot Faults=cut,wipe Budget=2"},
	{"NewUnfilled", "oneshot Faults=wipe Budget=2"},
	{"ClearExact", "recurring Hold=1 Pops=2 Interval=6 Faults=pause delete=1,6,6,0"},
	{"CompareClears", "oneshot Pops=0 put=0,1,1,4 put=1,2,2,4 Faults=cut From=1 Heal=4"},
	{"ToldClears", "oneshot Pops=0 put=0,1,1,4 put=1,2,2,9 Faults=cut From=1 Heal=4"},
	{"TombstonesWait", "oneshot Due=9 delete=1,1,1,0 Life=3"},
	{"EndKept", "oneshot Due=9 put=1,1,1,4"},
	{"EndKept", "oneshot Faults=pause"},
	{"UnsureEndMarked", "oneshot put=1,1,1,4 put=0,2,2,4 Faults=cut"},
	{"OutcomeMarked", "oneshot Faults=pause"},
	{"OutcomeOntoLive", "recurring Pops=2 Hold=1 Faults=wipe End=20"},
	{"Newest", "oneshot put=0,1,3,4 Faults=cut Hold=1"},
}

// harmless are rules whose absence breaks nothing in the model.
var harmless = []string{
	"HomeMoves",      // a PUT needs no read before; the PUT could as well keep the home
	"OwnFirst",       // a write that fails may count or not; without the rule the other site may have the write alone
	"RemoveUnmarked", // with HomeMoves; the home of a version has taken the write first
	"RemoveFilled",   // with FillQuiet; two sites can't fill a site from a site that lacks a write
}

// TestWithoutRule switches one rule off at a time. A violation must appear that does not appear with the rule on. The
// shortest ways are in testdata/ways.txt.
func TestWithoutRule(t *testing.T) {
	for field := range reflect.TypeFor[Rules]().Fields() {
		name := field.Name
		if !slices.ContainsFunc(rows, func(c without) bool { return c.rule == name }) && !slices.Contains(harmless, name) {
			t.Errorf("nothing shows what breaks without %s", name)
		}
	}
	var ways strings.Builder
	unseen := []Violation{Late, Lost, AfterAnswer, LateAfterAnswer, Needless, Again, Short, OldPop, LeftOver}
	for _, c := range rows {
		t.Run(c.rule, func(t *testing.T) {
			sc := nothingBrokenIn(t, c.scenario)
			reflect.ValueOf(&sc.Rules).Elem().FieldByName(c.rule).SetBool(false)
			off := Explore(sc)
			if len(off.Broken()) == 0 {
				t.Fatalf("nothing breaks without the rule: %s", off)
			}
			unseen = slices.DeleteFunc(unseen, func(v Violation) bool { return off.Counts[v] > 0 })
			v := off.first()
			fmt.Fprintf(&ways, "without %s (%s): %s\n\t%s\n\n", c.rule, c.scenario, v, wayTo(off, v))
		})
	}
	if len(unseen) > 0 {
		t.Errorf("no row shows %q", unseen)
	}
	golden := filepath.Join("testdata", "ways.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(ways.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := ways.String(); got != string(want) {
		t.Errorf("the ways are not those of %s; write the file with -sitemodel.update, and read the difference:\n%s", golden, got)
	}
}

// TestWithoutHarmlessRule switches off the rules of which the list says that nothing breaks.
func TestWithoutHarmlessRule(t *testing.T) {
	all := slices.Concat(
		combined("oneshot Hold=1", kinds, []string{"put=0,1,4,4", "put=1,1,4,4"}),
		combined("oneshot", []string{"put=1,1,1,4 put=0,2,2,4", "delete=0,1,1,0 put=1,2,2,4"}, []string{"", "Faults=cut Heal=4"}),
	)
	for _, rule := range harmless {
		for _, text := range all {
			text += " Rules." + rule + "=false"
			t.Run(text, func(t *testing.T) { nothingBroken(t, text) })
		}
	}
}

// TestAnEarlyCallbackIsSeen has a copy that a node looks at before the pop is due. No rule is about this instant.
func TestAnEarlyCallbackIsSeen(t *testing.T) {
	sc := scenarioOf(t, "oneshot")
	s := initial(&sc)
	s.Sites[london].Copy.Look = 0
	x := stepper{sc: &sc}
	for range 2 { // the look, and the callback
		moves := x.successors(&s)
		at := slices.IndexFunc(moves, func(m move) bool { return m.urgent })
		if at < 0 {
			t.Fatal("nothing is urgent")
		}
		if moves[at].violation == Early {
			return
		}
		s = moves[at].next
	}
	t.Error("the callback was not early")
}

func nothingBrokenIn(t *testing.T, text string) Scenario {
	t.Helper()
	nothingBroken(t, text)
	return scenarioOf(t, text)
}

// first is the violation with the shortest way.
func (r *Result) first() Violation {
	return slices.MinFunc(r.Broken(), func(a, b Violation) int { return len(r.Way(a)) - len(r.Way(b)) })
}
