package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"chronos/loadtest/check"
	"chronos/loadtest/fakenode"
)

const exported = `{"root_group": {"name": ""}, "metrics": {
	"operations{op:create}": {"count": 900, "rate": 90, "thresholds": {"count>=0": false}},
	"operations{op:refresh}": {"count": 50, "rate": 5, "thresholds": {"count>=0": false}},
	"operations{op:end}": {"count": 50, "rate": 5, "thresholds": {"count>=0": false}},
	"http_req_failed{op:create}": {"passes": 2, "fails": 898, "value": 0.002, "thresholds": {"rate==0": true}},
	"http_req_duration{op:create}": {"avg": 1, "min": 0.1, "med": 0.5, "p(90)": 1.5, "p(99)": 2.5, "p(99.9)": 3.5, "max": 4.5, "thresholds": {"p(99)<100": false}}
}}`

func named(t *testing.T, name string) scenario {
	t.Helper()
	s, err := scenarioNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newResult(t *testing.T) *result {
	t.Helper()
	r := &result{options: &options{root: "root", scenario: named(t, "interim"), duration: 10 * time.Second}}
	if err := json.Unmarshal([]byte(exported), &r.summary); err != nil {
		t.Fatal(err)
	}
	r.report = check.Report{
		Passed: true, Operations: 1010, Callbacks: 200, Obligatory: 150,
		LatenessMs: check.Quantiles{Count: 200, P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
		Violations: map[check.Violation]int64{},
	}
	return r
}

func TestResultIsATable(t *testing.T) {
	r := newResult(t)
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1000 operations in 10s (100/s), then 10 ends; k6, node,",
		"| create (POST) | 900 | 2 | 0.5 | 1.5 | 2.5 | 3.5 | 4.5 |\n",
		"| callback, after it was due | 200 | 0 | 1.0 | 2.0 | 3.0 | 4.0 | 5.0 |\n",
		"| 150 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("result lacks %q:\n%s", want, b.String())
		}
	}
	if !r.right() || !r.enough() || strings.Contains(b.String(), "FAILED") || strings.Contains(b.String(), "UNKNOWN") {
		t.Errorf("right = %v, enough = %v:\n%s", r.right(), r.enough(), b.String())
	}
}

// An operation that the receiver does not know belongs to the load, not to the ends after the load.
func TestRepeatsAreCountedAsLoad(t *testing.T) {
	r := newResult(t)
	r.options.scenario = named(t, "registration")
	for _, row := range r.options.scenario.rows {
		r.summary.Metrics["operations{op:"+row.op+"}"] = metric{figures: map[string]float64{"count": 200}}
	}
	r.report.Operations = 1000 // and 200 repeats
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1200 operations in 10s (120/s); k6, node,", "| the same again (POST) | 200 |", "| use a nonce (DELETE) | 200 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("result lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTooLittleProvesNothing(t *testing.T) {
	for _, test := range []struct {
		name, op string
		count    float64
		want     string
	}{
		{"operations", "create", 899, "999 operations, want 1000"},
		{"of a kind", "end", 49, "49 of end (DELETE), want 50"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newResult(t)
			r.summary.Metrics["operations{op:"+test.op+"}"].figures["count"] = test.count
			var b strings.Builder
			if err := r.write(&b); err != nil {
				t.Fatal(err)
			}
			if !r.right() || r.enough() || !strings.Contains(b.String(), "UNKNOWN") || !strings.Contains(b.String(), test.want) {
				t.Errorf("right = %v, enough = %v, want %q in:\n%s", r.right(), r.enough(), test.want, b.String())
			}
		})
	}
}

func TestResultTellsWhatWasWrong(t *testing.T) {
	r := newResult(t)
	r.loadErr = errors.New("k6 ended: exit status 99")
	r.report.Passed = false
	r.report.Violations[check.Early] = 1
	r.report.Examples = map[check.Violation][]string{check.Early: {"an early one"}}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 150 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |\n", "FAILED\nk6 ended: exit status 99\n",
		"k6: http_req_failed{op:create} is not rate==0\n", "early: an early one\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("result lacks %q:\n%s", want, b.String())
		}
	}
}

func TestEitherJudgeFailsTheRun(t *testing.T) {
	answers, callbacks := newResult(t), newResult(t)
	answers.loadErr = errors.New("k6 ended: exit status 99")
	callbacks.report.Passed = false
	if answers.right() || callbacks.right() {
		t.Errorf("right with wrong answers = %v, with wrong callbacks = %v", answers.right(), callbacks.right())
	}
}

func TestParseOptions(t *testing.T) {
	for name, test := range map[string]struct {
		args     []string
		wrong    bool
		scenario string
		fake     bool
		bug      fakenode.Bug
	}{
		"none":         {},
		"fake":         {args: []string{"-fake", "none"}, fake: true},
		"bug":          {args: []string{"-fake", "early"}, fake: true, bug: fakenode.Early},
		"unknown bug":  {args: []string{"-fake", "other"}, wrong: true},
		"argument":     {args: []string{"now"}, wrong: true},
		"scenario":     {args: []string{"-scenario", "other"}, wrong: true},
		"registration": {args: []string{"-scenario", "registration"}, scenario: "registration"},
		"rate":         {args: []string{"-rate", "0"}, wrong: true},
		"duration":     {args: []string{"-duration", "11m"}, wrong: true},
		"unknown flag": {args: []string{"-other"}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(test.args, &bytes.Buffer{})
			if (err != nil) != test.wrong {
				t.Fatalf("parseOptions: %v", err)
			}
			if test.wrong {
				return
			}
			want := []any{cmp.Or(test.scenario, "interim"), test.fake, test.bug, 500, true}
			if diff := gocmp.Diff(want, []any{o.scenario.name, o.fake, o.bug, o.rate, filepath.IsAbs(o.root)}); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

// A script of k6 counts operations under the same names as the result.
func TestScriptsKnowTheirRows(t *testing.T) {
	list := regexp.MustCompile(`(?s)arrivals\(\s*'(\w+)',\s*\[([^]]*)\]`)
	for _, s := range scenarios() {
		if s.own {
			continue
		}
		script, err := os.ReadFile(filepath.Join("..", "k6", s.name+".js"))
		if err != nil {
			t.Fatal(err)
		}
		found := list.FindStringSubmatch(string(script))
		if found == nil {
			t.Errorf("%s.js has no arrivals('%s', ['…'], …)", s.name, s.name)
			continue
		}
		want := []string{s.name}
		for _, row := range s.rows {
			want = append(want, row.op)
		}
		got := slices.Concat(found[1:2], strings.Split(strings.NewReplacer("'", "", " ", "").Replace(found[2]), ","))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s.js (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestKillInDirectoryEndsOnlyWhatWorksThere(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	run := func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/bin/sleep", "60")
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	inside, outside := run(dir), run(other)
	if n := killInDirectory(dir); n != 1 {
		t.Errorf("killed %d, want 1", n)
	}
	if err := inside.Wait(); err == nil {
		t.Error("the process inside ended by itself")
	}
	if n := killInDirectory(other); n != 1 {
		t.Errorf("killed %d elsewhere, want 1: it should have been spared before", n)
	}
	if err := outside.Wait(); err == nil {
		t.Error("the process outside ended by itself")
	}
}
