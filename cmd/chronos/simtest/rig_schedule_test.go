package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/history"
)

func allFaults() options { return options{losses: true, every: 3 * time.Second, poll: time.Second} }

func TestSameSeedSameSchedule(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		first, second := draw(seed, 10*time.Minute, allFaults()), draw(seed, 10*time.Minute, allFaults())
		if fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", second) {
			t.Errorf("seed %d draws\n%+v and\n%+v", seed, first, second)
		}
		seen[fmt.Sprint(first.faults)] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 seeds have %d schedules", len(seen))
	}
}

func TestSchedules(t *testing.T) {
	drawn := map[kind]int{}
	modes := map[history.Mode]int{}
	for seed := range uint64(60) {
		s := draw(seed, 10*time.Minute, allFaults())
		modes[s.mode]++
		if s.mode == history.Liveness && s.load != 10*time.Minute-healing {
			t.Errorf("seed %d: faults go on until %v", seed, s.load)
		}
		for i, f := range s.faults {
			drawn[f.kind]++
			if f.at < calm || f.at+f.last > s.load || i > 0 && f.at < s.faults[i-1].at {
				t.Errorf("seed %d: %v is out of place", seed, f)
			}
			away := map[int]bool{}
			for _, other := range s.faults {
				if other.node >= 0 && other.at <= f.at && f.at <= other.at+other.last {
					away[other.node] = true
				}
			}
			if len(away) >= s.nodes {
				t.Errorf("seed %d: no node is left alone by %v", seed, f)
			}
		}
		order := steps(s.faults)
		if len(order) != 2*len(s.faults) || !slices.IsSortedFunc(order, func(a, b step) int { return int(a.at - b.at) }) {
			t.Errorf("seed %d: %d steps for %d faults, or out of order", seed, len(order), len(s.faults))
		}
	}
	for _, r := range rules() {
		if drawn[r.kind] < 10 {
			t.Errorf("fault %s was drawn %d times", r.kind, drawn[r.kind])
		}
	}
	if modes[history.Safety] < 10 || modes[history.Liveness] < 10 {
		t.Errorf("modes %v", modes)
	}
}

func TestLossesAreAskedFor(t *testing.T) {
	for seed := range uint64(20) {
		for _, f := range draw(seed, 10*time.Minute, options{every: time.Second}).faults {
			if classOf(f.kind) == history.ShardLost {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
	}
}

// TestJudge: each kind of wrong is found, and what is right is not.
func TestJudge(t *testing.T) {
	const s = int64(time.Second)
	url := urlOf(promptly, "1")
	wrote := history.Operation{
		Kind: history.Create, ReturnNs: 1000, Outcome: history.OK, Answer: &history.Answer{Key: "k", Copies: 1},
		Timer: &history.Asked{IntervalMs: 2000, Pops: 1, URL: url, BodyHash: "b"},
	}
	deleted := history.Operation{
		Kind: history.Delete, Key: "k", InvokeNs: s, ReturnNs: s + 1000, Outcome: history.OK, Answer: &history.Answer{Key: "k"},
	}
	came := history.Callback{ArriveNs: 2 * s, URL: url, BodyHash: "b", Seq: 1, Status: 200, WebhookID: "k.1.1"}
	early, other, twin := came, came, came
	early.ArriveNs, other.URL, twin.ArriveNs = 2*s-2e6, urlOf(promptly, "2"), 3*s
	for _, c := range []struct {
		name       string
		operations []history.Operation
		callbacks  []history.Callback
		want       string
	}{
		{"right", []history.Operation{wrote}, []history.Callback{came}, ""},
		{"deleted", []history.Operation{wrote, deleted}, nil, ""},
		{"lost", []history.Operation{wrote}, nil, "lost"},
		{"early", []history.Operation{wrote}, []history.Callback{early}, "early"},
		{"unknown", []history.Operation{wrote}, []history.Callback{came, other}, "never asked for"},
		{"twice", []history.Operation{wrote}, []history.Callback{came, twin}, "twice"},
		{"after a delete", []history.Operation{wrote, deleted}, []history.Callback{came}, "after the answer to a delete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history.History{
				Header: history.Header{LimitMs: 2000}, Operations: c.operations, Callbacks: c.callbacks, End: &history.End{Drained: true},
			}
			found := judge(h, false)
			if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}
