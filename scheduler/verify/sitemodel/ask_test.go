package sitemodel

import (
	"flag"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

var question = flag.String("sitemodel.ask", "", "a scenario to walk: oneshot or recurring, then Field=value …")

// TestAsk walks the scenario of -sitemodel.ask, and logs the result with the shortest way to each violation.
func TestAsk(t *testing.T) {
	if *question == "" {
		return
	}
	sc, err := parse(*question)
	if err != nil {
		t.Fatal(err)
	}
	r := Explore(sc)
	t.Log(r)
	for _, v := range r.Broken() {
		t.Logf("%s:\n\t%s", v, strings.Join(r.Way(v), "\n\t"))
	}
}

// parse reads a scenario. Each word but the first is a field of Scenario.
func parse(text string) (Scenario, error) {
	sc := OneShot()
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "oneshot":
		case "recurring":
			sc = Recurring()
		case "put", "delete": // with Site, From, By and In of the write
			if err := addWrite(&sc, name, value); err != nil {
				return sc, fmt.Errorf("parse %q: %w", word, err)
			}
		case "Faults":
			sc.Budget = max(sc.Budget, 1)
			for kind := range strings.SplitSeq(value, ",") {
				sc.Faults |= map[string]Fault{
					"cut": Cut, "oneway": CutOneWay, "lose": Lose, "wipe": Wipe, "some": WipeSome, "pause": Pause, "die": Die, "mark": MarkFails, "any": SiteFaults,
				}[kind]
			}
		default:
			if err := setField(reflect.ValueOf(&sc).Elem(), name, value); err != nil {
				return sc, fmt.Errorf("parse %q: %w", word, err)
			}
		}
	}
	return sc, nil
}

func addWrite(sc *Scenario, kind, numbers string) error {
	w := Write{Kind: Put}
	if kind == "delete" {
		w.Kind = Delete
	}
	if _, err := fmt.Sscanf(numbers, "%d,%d,%d,%d", &w.Site, &w.From, &w.By, &w.In); err != nil {
		return err
	}
	if sc.Writes[0].Kind == NoWrite {
		sc.Writes[0] = w
	} else {
		sc.Writes[1] = w
	}
	return nil
}

func setField(field reflect.Value, name, value string) error {
	for part := range strings.SplitSeq(name, ".") {
		field = field.FieldByName(part)
	}
	if !field.IsValid() {
		return fmt.Errorf("no field %s", name)
	}
	if field.Kind() == reflect.Bool {
		field.SetBool(value != "false")
		return nil
	}
	n, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return err
	case field.CanUint():
		field.SetUint(uint64(n))
	default:
		field.SetInt(int64(n))
	}
	return nil
}
