package history

import (
	"fmt"
	"slices"
	"time"
)

// Invariant is the number of an invariant.
type Invariant int

// The invariants. Comments at the checks explain the invariants: 1 in inv01_lost.go and so on, LabelFree in
// label_free.go.
const (
	NothingLost     Invariant = 1
	NeverEarly      Invariant = 2
	NoneAfterAnswer Invariant = 3
	OnlyWhatWasTold Invariant = 4
	SequenceRises   Invariant = 5
	NoDuplicates    Invariant = 6
	OnTime          Invariant = 7
	NoLeaks         Invariant = 8
	CopiesAtHome    Invariant = 9
	Linearizable    Invariant = 10
	Available       Invariant = 11
	BackToNormal    Invariant = 12
	MetricsAgree    Invariant = 13
	LabelFree       Invariant = 14 // the second check, without labels
)

// String is a short name, empty for an unknown invariant.
func (i Invariant) String() string {
	names := []string{
		"", "nothing lost", "never early", "none after the answer", "only what was asked", "sequence rises",
		"no duplicates", "on time", "no leaks", "copies at home", "linearizable", "available", "back to normal",
		"metrics agree", "arrivals without labels",
	}
	if i < 0 || int(i) >= len(names) {
		return ""
	}
	return names[i]
}

// Check judges a history by the default limits.
func Check(h History) Report { return DefaultLimits().Check(h) }

// Check judges a history. Check reads no file, reads the clock only for Limits.Linearize, and changes nothing in h.
func (l Limits) Check(h History) Report {
	report := Report{Seed: h.Header.Seed, Reproduce: h.Header.Reproduce, Verdict: VerdictUnknown}
	if err := h.Header.validate(); err != nil {
		report.Reasons = append(report.Reasons, "no valid header: "+err.Error())
		return report
	}
	if h.End == nil {
		report.Reasons = append(report.Reasons, "the history has no end")
		return report
	}
	r := newRun(&h, l)
	for i, judge := range []func(*run, *Finding){
		nothingLost, neverEarly, noneAfterAnswer, onlyWhatWasTold, sequenceRises, noDuplicates, onTime,
		noLeaks, copiesAtHome, linearizable, available, backToNormal, metricsAgree, labelFree,
	} {
		f := Finding{Invariant: Invariant(i + 1), detailed: l.ViolationsDetailed}
		f.Name = f.Invariant.String()
		judge(r, &f)
		report.Findings = append(report.Findings, f)
	}
	r.tellMissing(report.Findings)
	r.tellSmall()
	report.Reasons, report.Counts = r.problems, r.counts
	report.Verdict = VerdictPassed
	if len(report.Reasons) > 0 {
		report.Verdict = VerdictUnknown
	}
	if slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Total > 0 }) {
		report.Verdict = VerdictFailed
	}
	return report
}

// tellMissing notes every invariant that could not be judged, unless the run is exempt or excused.
func (r *run) tellMissing(findings []Finding) {
	for _, f := range findings {
		if f.NotJudged != "" && !slices.Contains(r.h.Header.Exempt, f.Invariant) && !f.excused {
			r.problem("invariant %d (%s) was not judged: %s", f.Invariant, f.Name, f.NotJudged)
		}
	}
}

// tellSmall notes why the run was too small to prove anything.
func (r *run) tellSmall() {
	l, c := r.l, &r.counts
	if n := len(r.h.Operations); n < l.MinOperations {
		r.problem("only %d operations; %d are needed", n, l.MinOperations)
	}
	if c.Requests < l.MinRequests {
		r.problem("only %d requests were made while enough shards and their node were up; %d are needed", c.Requests, l.MinRequests)
	}
	for _, kind := range sortedKeys(c.Operations) {
		n, done := c.Operations[kind], c.Done[kind]
		if n < l.MinPerKind && kind != Fire && kind != Delay {
			r.problem("only %d operations of kind %s; %d are needed", n, kind, l.MinPerKind)
		}
		if n >= l.MinDoneOf && float64(done) < l.MinDone*float64(n) {
			r.problem("only %d of %d operations of kind %s were done; %.0f %% are needed", done, n, kind, 100*l.MinDone)
		}
	}
	for _, kind := range sortedKeys(c.Faults) {
		if n := c.Faults[kind]; n < l.MinPerFault {
			r.problem("fault %s was used only %d times; %d are needed", kind, n, l.MinPerFault)
		}
	}
	made := slices.ContainsFunc(r.windows, func(w window) bool { return w.Class != HeldUp })
	if share := float64(c.InWindows) / float64(max(c.Obligatory, 1)); made && share < l.MinInWindows {
		r.problem("only %.1f %% of the pops fell into fault windows; %.1f %% are needed", 100*share, 100*l.MinInWindows)
	}
}

func (r *run) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// never is an instant that does not come.
const never = time.Duration(1<<63 - 1)

// later is the instant d after t; t and d may be never.
func later(t, d time.Duration) time.Duration {
	if t > never-d {
		return never
	}
	return t + d
}
