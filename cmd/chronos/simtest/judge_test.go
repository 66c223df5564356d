package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
)

// verdict judges a run by the invariants of package history. Call verdict outside of the bubble, since time
// bounds the checker's search.
func verdict(t *testing.T, s setting, h *history.History, o options, all *campaign) {
	t.Helper()
	if o.keep != "" {
		keep(t, o.keep, h)
	}
	l := limits(s)
	if o.quiet {
		l.Availability = history.DefaultLimits().Availability
	}
	l.FewDuplicates = max(l.FewDuplicates, byChance(l.DuplicatesCut, len(h.Callbacks))) + undone(h)
	report := l.Check(*h)
	all.add(o.repeat(s.seed), &report.Counts)
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Error(err)
	}
	if report.Verdict == history.VerdictPassed {
		t.Log(text.String())
		return
	}
	t.Error(text.String())
	if o.keep == "" { // the next run of the seed may differ
		folder, err := os.MkdirTemp("", "chronos-sim-") //nolint:usetesting // outlives the test
		if err != nil {
			t.Error(err)
			return
		}
		keep(t, folder, h)
		t.Logf("the history is in %s", folder)
	}
}

// limits returns the limits of the project's checker, for a small run whose nodes poll seldom.
func limits(s setting) history.Limits {
	l := history.DefaultLimits()
	l.MinOperations, l.MinPerKind, l.MinPerFault, l.MinInWindows, l.MinRequests = 0, 0, 0, 0, 0
	l.Late += s.timing.slack()
	l.Gap = l.Late
	l.TombstoneLife = tombLife
	l.Availability = 0 // among some hundred requests, a single request is more than 0.1 %: see campaign
	l.FewDuplicates = fewDuplicates
	for _, f := range s.faults {
		l.AnswerMargin = max(l.AnswerMargin, history.DefaultLimits().AnswerMargin+f.answersLater())
	}
	// If the answer to a claim is lost, the lease of the claim lasts longer than in production, and a poll
	// must find the timer afterwards.
	longer := s.timing.grace - time.Second + s.timing.slack()
	l.NodeWaiting += longer
	l.NodeUnderWay += longer
	l.ShardMargin += longer
	l.Shift = max(shift-s.timing.slack(), 0)
	return l
}

// undone counts the callbacks whose outcome a shard lost with its last writes while the shard was the timer's
// only owner. Each such callback may come once more. Only the limit for small runs adds undone callbacks. In
// the sum of all runs, undone callbacks count toward the allowed share.
func undone(h *history.History) (n int) {
	only := map[string][]history.Home{} // by key, the homes of one shard
	for _, home := range h.Homes {
		if len(home.Shards) == 1 {
			only[home.Key] = append(only[home.Key], home)
		}
	}
	for _, f := range h.Faults {
		from := f.StartNs - f.BackMs*int64(time.Millisecond)
		for _, c := range h.Callbacks {
			if f.Class != history.ShardLost || c.ArriveNs < from || c.ArriveNs > f.StartNs {
				continue
			}
			if slices.ContainsFunc(only[c.Key], func(home history.Home) bool {
				return home.Shards[0] == f.Shard && home.FromNs <= c.ArriveNs && (home.UntilNs == 0 || home.UntilNs >= c.ArriveNs)
			}) {
				n++
			}
		}
	}
	return n
}

// TestUndone: a callback counts if the only owner of its timer lost the outcome.
func TestUndone(t *testing.T) {
	at := func(ms int64) int64 { return ms * int64(time.Millisecond) }
	h := &history.History{
		Faults: []history.Fault{
			{Class: history.ShardLost, Shard: "a", StartNs: at(2000), EndNs: at(2000), BackMs: 500},
			{Class: history.ShardAway, Shard: "a", StartNs: at(5000), EndNs: at(6000)},
		},
		Homes: []history.Home{
			{Key: "one", Shards: []string{"a"}, UntilNs: at(9000)}, {Key: "two", Shards: []string{"a", "b"}},
			{Key: "elsewhere", Shards: []string{"b"}}, {Key: "later", Shards: []string{"a"}, FromNs: at(2001)},
		},
	}
	for _, key := range []string{"one", "two", "elsewhere", "later"} {
		for _, ms := range []int64{1499, 1500, 2000, 2001, 5500} {
			h.Callbacks = append(h.Callbacks, history.Callback{Key: key, ArriveNs: at(ms)})
		}
	}
	if n := undone(h); n != 2 {
		t.Errorf("%d callbacks were undone, want 2", n)
	}
}

// shift is how much later a copy's times may be than the timer's times. The product sends the start of a new
// copy as a time from now. The copy starts late by the travel time of the message, and fires as late for the
// timer's whole life. A write is carried out within a second or not at all. The judge allows the shift until
// the product sends an instant.
const shift = time.Second

// exempt returns the invariants that a run holds no data for.
func exempt() []history.Invariant {
	return []history.Invariant{history.BackToNormal, history.MetricsAgree}
}

// keep writes a history into a folder, as JSON lines.
func keep(t *testing.T, folder string, h *history.History) {
	t.Helper()
	path := filepath.Join(folder, fmt.Sprintf("%d.jsonl", h.Header.Seed))
	if err := h.Keep(path); err != nil {
		t.Error(err)
	}
}
