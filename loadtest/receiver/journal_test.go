package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"chronos/loadtest/fakenode"
	"chronos/scheduler/verify/history"
)

// judged plays with a node, and judges the history that the receiver writes.
func judged(t *testing.T, bug fakenode.Bug, late time.Duration) history.Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	r := start(t, bug, "-check", "-bound", "5s", "-history", path)
	r.play()
	r.finish()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	h, err := history.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	limits := history.DefaultLimits()
	limits.MinOperations, limits.MinPerKind, limits.MinRequests, limits.Late = 0, 0, 0, late
	return limits.Check(h)
}

func TestHistoryOfACleanNodePasses(t *testing.T) {
	t.Parallel()
	if report := judged(t, fakenode.None, 5*time.Second); report.Verdict != history.VerdictPassed || report.Counts.Callbacks < 12 {
		t.Errorf("%+v", report)
	}
}

// The judge finds in the history the faults that the checker of the receiver finds.
func TestHistoryTellsEachBug(t *testing.T) {
	for _, bug := range fakenode.Bugs() {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			late := 5 * time.Second
			if bug == fakenode.Lost {
				late = time.Millisecond // lateness doesn't matter here, and the test needn't wait
			}
			if report := judged(t, bug, late); report.Verdict != history.VerdictFailed {
				t.Errorf("%+v", report)
			}
		})
	}
}
