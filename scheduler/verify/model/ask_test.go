package model

import (
	"flag"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

var (
	question = flag.String("model.ask", "", "a scenario to walk: Field=value …, see README")
	show     = flag.String("model.show", "", "a violation: show the shortest way there")
)

// never is a lateness beyond every run.
const never int8 = 90

// TestAsk walks the scenario of -model.ask and logs the result.
func TestAsk(t *testing.T) {
	if *question == "" {
		return
	}
	sc, states, err := parse(*question)
	if err != nil {
		t.Fatal(err)
	}
	r := Explore(sc, states)
	t.Log(r)
	for _, line := range r.Trace(Violation(*show)) {
		t.Log(line)
	}
}

// parse reads a scenario: oneshot=N comes first, change=N next. max=N bounds the states. All
// further words are fields of Scenario.
func parse(text string) (sc Scenario, states int, err error) {
	sc, states = Recurring(), 20_000_000
	sc.Bound = never
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		n, notNumber := strconv.Atoi(value)
		switch name {
		case "oneshot":
			sc = OneShot(int8(n))
			sc.Bound = never
		case "change":
			sc = Changing(Change(n), sc.Factor)
			sc.Bound = never
		case "max":
			states = n
		case "Faults":
			sc.Budget = max(sc.Budget, 1)
			for kind := range strings.SplitSeq(value, ",") {
				sc.Faults |= faultNamed(kind)
			}
		default:
			field := reflect.ValueOf(&sc).Elem()
			for part := range strings.SplitSeq(name, ".") {
				field = field.FieldByName(part)
			}
			switch {
			case !field.IsValid():
				return sc, 0, fmt.Errorf("parse %q: no such field", word)
			case field.Kind() == reflect.Bool:
				field.SetBool(value != "false")
			case notNumber != nil:
				return sc, 0, fmt.Errorf("parse %q: %w", word, notNumber)
			default:
				field.SetInt(int64(n))
			}
		}
	}
	return sc, states, nil
}

func faultNamed(name string) Fault {
	return map[string]Fault{
		"crash": Crash, "cut": Cut, "pause": Pause, "lost": Lost, "wipe": Wipe, "stall": Stall, "dead": Dead, "gap": Gap, "any": AnyFault,
	}[name]
}
