package simtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/history"
)

// verdict judges a run by the invariants of package history. It is called outside
// of the bubble, since a search there is bounded by time.
func verdict(t *testing.T, s setting, h *history.History, o options, all *campaign) {
	t.Helper()
	if o.keep != "" {
		keep(t, o.keep, h)
	}
	l := limits(s)
	if o.quiet {
		l.Availability = history.DefaultLimits().Availability
	}
	report := l.Check(*h)
	all.add(&report.Counts)
	if report.Verdict == history.VerdictPassed {
		return
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Error(err)
	}
	t.Error(text.String())
}

// limits are those of the project's checker for a small run whose nodes poll
// seldom.
func limits(s setting) history.Limits {
	l := history.DefaultLimits()
	l.MinOperations, l.MinPerKind, l.MinPerFault, l.MinInWindows, l.MinRequests = 0, 0, 0, 0, 0
	l.Late += s.timing.slack()
	l.Gap = l.Late
	l.TombstoneLife = tombLife
	l.Availability = 0 // of some hundred requests, one is more than 0.1 %: see campaign
	l.FewDuplicates = fewDuplicates
	for _, f := range s.faults {
		l.AnswerMargin = max(l.AnswerMargin, history.DefaultLimits().AnswerMargin+f.answersLater())
	}
	// The lease of a claim that nobody had the answer of lasts that much longer than
	// elsewhere, and is found by a poll.
	longer := s.timing.grace - time.Second + s.timing.slack()
	l.NodeWaiting += longer
	l.NodeUnderWay += longer
	l.ShardMargin += longer
	l.Shift = max(shift-s.timing.slack(), 0)
	return l
}

// shift is by how much a copy's times may be later than the timer's. The product sends the
// start of a copy that it makes as a time from now, so the copy starts later by as much as
// that takes to arrive, and fires that late for as long as the timer lives. Writes are
// carried out within a second or not at all. The judge may be told so until the product
// sends an instant.
const shift = time.Second

// exempt are the invariants for which a run has nothing to judge by.
func exempt() []history.Invariant {
	return []history.Invariant{history.BackToNormal, history.MetricsAgree}
}

// keep writes a history into a folder, as JSON lines.
func keep(t *testing.T, folder string, h *history.History) {
	t.Helper()
	path := filepath.Join(folder, fmt.Sprintf("%d.jsonl", h.Header.Seed))
	file, err := os.Create(path)
	if err != nil {
		t.Errorf("keep the history: %v", err)
		return
	}
	defer func() { _ = file.Close() }()
	w := json.NewEncoder(file)
	events := []history.Event{{Header: &h.Header}}
	for i := range h.Operations {
		events = append(events, history.Event{Operation: &h.Operations[i]})
	}
	for i := range h.Callbacks {
		events = append(events, history.Event{Callback: &h.Callbacks[i]})
	}
	for i := range h.Faults {
		events = append(events, history.Event{Fault: &h.Faults[i]})
	}
	for i := range h.Copies {
		events = append(events, history.Event{Copy: &h.Copies[i]})
	}
	for i := range h.Strays {
		events = append(events, history.Event{Stray: &h.Strays[i]})
	}
	for i := range h.Homes {
		events = append(events, history.Event{Home: &h.Homes[i]})
	}
	for _, e := range append(events, history.Event{End: h.End}) {
		if err := w.Encode(e); err != nil {
			t.Errorf("keep the history: %v", err)
			return
		}
	}
}
