package simtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
)

func allFaults() options {
	return options{losses: allSeeds, every: 3 * time.Second, poll: time.Second}
}

func allChanges() options { return options{every: 3 * time.Second, poll: time.Second} }

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

// wantAlone complains about a fault of all nodes that overlaps with a fault of a single node.
func wantAlone(t *testing.T, all []fault) {
	t.Helper()
	for _, f := range all {
		for _, other := range all {
			if f.isWhole() && other.node >= 0 && f.at <= other.at+other.last && other.at <= f.at+f.last {
				t.Errorf("%v beside %v", f, other)
			}
		}
	}
}

func TestSchedules(t *testing.T) {
	drawn := map[kind]int{}
	modes := map[history.Mode]int{}
	for seed := range uint64(60) {
		s := draw(seed, 10*time.Minute, allFaults())
		modes[s.mode]++
		wantAlone(t, s.faults)
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

// TestChangesAreDrawn: each schedule has changes, and leaves a node alone.
func TestChangesAreDrawn(t *testing.T) {
	drawn := map[kind]int{}
	calls := map[int]bool{}
	for seed := range uint64(60) {
		s := draw(seed, 10*time.Minute, allChanges())
		if again := draw(seed, 10*time.Minute, allChanges()); fmt.Sprint(s) != fmt.Sprint(again) {
			t.Errorf("seed %d draws two schedules", seed)
		}
		if s.spares < 1 || len(s.apart) != s.shards+s.spares {
			t.Errorf("seed %d: %d shards to spare, %d clocks", seed, s.spares, len(s.apart))
		}
		for i, f := range s.faults {
			drawn[f.kind]++
			if f.kind == topoKill {
				calls[f.call()] = true
			}
			if f.at+f.last > s.load || i > 0 && f.at < s.faults[i-1].at || f.shard >= s.shards+s.spares {
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
		for _, f := range draw(seed, 10*time.Minute, options{every: 3 * time.Second, still: true}).faults {
			if f.isChange() {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
	}
	for _, r := range changeRules() {
		if drawn[r.kind] < 60 {
			t.Errorf("%s was drawn %d times", r.kind, drawn[r.kind])
		}
	}
	if len(calls) < mostCalls/2 {
		t.Errorf("nodes are killed at %d calls only", len(calls))
	}
}

// TestLossesAreDrawn: shards lose data in a share of the seeds only.
func TestLossesAreDrawn(t *testing.T) {
	losing := map[bool]int{}
	for seed := range uint64(60) {
		o := options{every: time.Second}
		s := draw(seed, 10*time.Minute, o)
		losing[s.losses]++
		o.losses = noSeed
		for _, all := range [][]fault{s.faults, draw(seed, 10*time.Minute, o).faults} {
			if lost := slices.ContainsFunc(all, func(f fault) bool { return classOf(f.kind) == history.ShardLost }); lost && !s.losses {
				t.Errorf("seed %d loses data", seed)
			}
			s.losses = false
		}
	}
	if losing[true] < 8 || losing[false] < 30 {
		t.Errorf("seeds that lose data, and others: %v", losing)
	}
}

// TestNodesPollAsInProduction: one seed in ten polls so often, unless an option sets the interval.
func TestNodesPollAsInProduction(t *testing.T) {
	often := 0
	for seed := range uint64(100) {
		if s := draw(seed, time.Minute, options{every: time.Second}); s.timing.poll == quickPoll {
			often++
		}
		if s := draw(seed, time.Minute, options{every: time.Second, poll: time.Second}); s.timing != pollingEvery(time.Second) {
			t.Errorf("seed %d: %v", seed, s.timing)
		}
	}
	if often < 4 || often > 20 {
		t.Errorf("%d of 100 seeds poll every %v", often, quickPoll)
	}
}
