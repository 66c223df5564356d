package sitemodel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scenarioOf reads a scenario from its words; see ask_test.go.
func scenarioOf(t *testing.T, text string) Scenario {
	t.Helper()
	sc, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func wayTo(r *Result, v Violation) string { return strings.Join(r.Way(v), "\n\t") }

// nothingBroken walks a scenario with every rule on.
func nothingBroken(t *testing.T, text string) *Result {
	t.Helper()
	r := Explore(scenarioOf(t, text))
	t.Log(r)
	for _, v := range r.Broken() {
		t.Errorf("%s:\n\t%s", v, wayTo(r, v))
	}
	return r
}

// kinds are the faults of most lists, with the lateness that promise 3 allows: the delay, and 3 s.
var kinds = []string{
	"Bound=1", "Faults=mark Bound=1", "Faults=cut Bound=4", "Faults=oneway Bound=4", "Faults=lose Bound=6", "Faults=wipe Bound=9", "Faults=some Bound=9",
	"Faults=pause Bound=6", "Faults=die Bound=6",
}

// writes are the writes of most lists: at either site, at any moment before the first pop is over.
var writes = []string{"", "put=0,1,4,4", "put=1,1,4,4", "delete=0,1,4,0", "delete=1,1,4,0"}

func combined(start string, lists ...[]string) []string {
	all := []string{start}
	for _, list := range lists {
		var longer []string
		for _, words := range all {
			for _, more := range list {
				longer = append(longer, strings.TrimSpace(words+" "+more))
			}
		}
		all = longer
	}
	return all
}

// scenarios are walked with every rule on.
func scenarios() []string {
	early := []string{"put=0,2,3,4", "put=1,2,3,4", "delete=0,2,4,0", "delete=1,2,4,0"}
	twice := []string{"put=0,2,2,4 put=1,2,3,4", "put=0,2,2,4 delete=1,2,3,0", "delete=0,2,2,0 put=1,2,3,4", "put=1,2,2,4 put=1,2,3,4"}
	first := []string{"put=0,1,1,4 put=1,1,3,4", "put=0,1,1,4 delete=1,1,3,0"}
	brief := []string{"", "Faults=cut", "Faults=oneway", "Faults=wipe", "Faults=pause", "Faults=lose,die"}
	doubled := []string{"Faults=cut,wipe", "Faults=cut,pause", "Faults=wipe,pause", "Faults=wipe"}
	return slices.Concat(
		combined("oneshot Hold=1", kinds, writes),
		combined("oneshot Hold=4 Bound=9", []string{"", "Faults=cut", "Faults=pause", "Faults=wipe"}),
		combined("oneshot Due=5", []string{"", "Slow=2"}, []string{"put=0,1,5,4", "put=1,1,5,4", "delete=1,1,5,0"}),
		combined("oneshot Slow=2", []string{"", "Faults=cut", "Faults=pause", "Faults=wipe"}, []string{"put=0,2,4,4", "put=1,2,4,4"}),
		combined("oneshot Budget=2 Heal=6", doubled, []string{"", "put=0,2,2,4", "delete=1,2,2,0"}),
		combined("oneshot From=1 Heal=4 End=16", brief, twice),
		combined("oneshot From=1 Heal=4 End=16 Pops=0", brief, first),
		[]string{"oneshot End=12 Pops=0 put=0,1,1,1 put=1,1,1,1"},
		combined("recurring Hold=1", kinds),
		combined("recurring Hold=1 Budget=2", doubled),
		combined("recurring Hold=1 Pops=2 PutPops=2 Heal=7 End=20", kinds, early),
	)
}

// states has the number of states of some scenarios, so that no change of the model goes unnoticed.
var states = map[string]int{
	"oneshot Hold=1 Faults=cut Bound=4 put=1,1,4,4":                                    64_280,
	"oneshot Hold=1 Faults=cut Bound=4 delete=0,1,4,0":                                 15_211,
	"oneshot Hold=1 Faults=wipe Bound=9 put=1,1,4,4":                                   104_866,
	"oneshot Hold=1 Faults=wipe Bound=9 delete=0,1,4,0":                                40_550,
	"oneshot Slow=2 Faults=cut put=1,2,4,4":                                            75_042,
	"recurring Hold=1 Pops=2 PutPops=2 Heal=7 End=20 Faults=pause Bound=6 put=1,2,3,4": 46_163,
}

// TestAllRules walks every scenario with every rule on: nothing may break.
func TestAllRules(t *testing.T) {
	all := scenarios()
	for text, want := range states {
		if !slices.Contains(all, text) {
			t.Errorf("no scenario %q, of which %d states are known", text, want)
		}
	}
	for _, text := range all {
		t.Run(text, func(t *testing.T) {
			r := nothingBroken(t, text)
			if want, held := states[text]; held && r.States != want {
				t.Errorf("%d states, want %d: the model has changed", r.States, want)
			}
		})
	}
}

// TestAWalkHasOneResult holds that the order of moves is fixed.
func TestAWalkHasOneResult(t *testing.T) {
	sc := scenarioOf(t, "oneshot put=1,1,1,4 put=0,2,2,4 Faults=cut Rules.UnsureEndMarked=false")
	first, second := Explore(sc), Explore(sc)
	if fmt.Sprint(first) != fmt.Sprint(second) || len(first.Broken()) == 0 {
		t.Fatalf("first %s, then %s", first, second)
	}
	for _, v := range first.Broken() {
		if !slices.Equal(first.Way(v), second.Way(v)) {
			t.Errorf("%s: two ways:\n\t%s\n\n\t%s", v, wayTo(first, v), wayTo(second, v))
		}
	}
}
