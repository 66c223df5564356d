package history

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Verdict is the judgment on a whole run.
type Verdict string

// The verdicts.
const (
	VerdictPassed  Verdict = "passed"
	VerdictFailed  Verdict = "failed"
	VerdictUnknown Verdict = "unknown" // no violation, but the run proves too little
)

// Report is the judgment on a history.
type Report struct {
	Verdict   Verdict `json:"verdict"`
	Seed      uint64  `json:"seed"`
	Reproduce string  `json:"reproduce,omitempty"`
	// Reasons say why the run would be unknown even without violations.
	Reasons []string `json:"reasons,omitempty"`
	// Findings has an entry for every invariant, in order. Findings is empty if the header or the end is missing.
	Findings []Finding `json:"findings"`
	Counts   Counts    `json:"counts"`
}

// Finding is the judgment on one invariant.
type Finding struct {
	Invariant Invariant `json:"invariant"`
	Name      string    `json:"name"`
	// NotJudged is the reason why the invariant was not judged, empty for a judged invariant.
	NotJudged string `json:"not_judged,omitempty"`
	// Total is the number of violations; Violations describes the first few.
	Total      int      `json:"total"`
	Violations []string `json:"violations,omitempty"`

	detailed int
	excused  bool // the invariant doesn't apply to the run's mode
}

// Counts say how much the check looked at.
type Counts struct {
	Operations map[Kind]int    `json:"operations"`
	Done       map[Kind]int    `json:"done"` // the operations with a 2xx
	Outcomes   map[Outcome]int `json:"outcomes"`
	Faults     map[string]int  `json:"faults"`
	Callbacks  int             `json:"callbacks"`
	Retries    int             `json:"retries"`
	// Obligatory is how many pops had to come, InWindows how many obligatory pops fell into fault windows.
	Obligatory int `json:"obligatory"`
	InWindows  int `json:"in_windows"`
	// Skipped counts pops of recurring timers that were left out with good reason. GivenUp counts pops that our
	// receiver never answered 2xx.
	Skipped int `json:"skipped"`
	GivenUp int `json:"given_up"`
	// ExplainedDuplicates is the number of duplicates that a fault explains. Duplicates has the number for every
	// class of fault.
	ExplainedDuplicates int           `json:"explained_duplicates"`
	Duplicates          map[Class]int `json:"duplicates"`
	// WorstLateNs is how late a pop's first callback was at most, WorstLateQuietNs outside fault windows.
	WorstLateNs      time.Duration `json:"worst_late_ns"`
	WorstLateQuietNs time.Duration `json:"worst_late_quiet_ns"`
	// Requests counts the requests that were made with fewer shards faulty than the timer has copies. Unanswered
	// counts the Requests without a good answer in time.
	Requests   int `json:"requests"`
	Unanswered int `json:"unanswered"`
	// LinearKeys is the number of timers whose operations were put in order.
	LinearKeys int `json:"linear_keys"`
}

func (f *Finding) violation(format string, args ...any) {
	f.Total++
	if len(f.Violations) < f.detailed {
		f.Violations = append(f.Violations, fmt.Sprintf(format, args...))
	}
}

// notJudged notes that the history has nothing to judge the invariant by.
func (f *Finding) notJudged(reason string) { f.NotJudged = reason }

// excuse notes that the invariant doesn't apply to the run.
func (f *Finding) excuse(reason string) { f.NotJudged, f.excused = reason, true }

// Of returns the finding about an invariant, empty without a judgment.
func (r *Report) Of(i Invariant) Finding {
	for _, f := range r.Findings {
		if f.Invariant == i {
			return f
		}
	}
	return Finding{Invariant: i}
}

// WriteText writes the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	c := &r.Counts
	fmt.Fprintf(&b, "seed %d  %s\n", r.Seed, r.Reproduce)
	for _, kind := range sortedKeys(c.Operations) {
		fmt.Fprintf(&b, "%s %d of %d  ", kind, c.Done[kind], c.Operations[kind])
	}
	fmt.Fprintf(&b, "\ncallbacks %d, retries %d, explained duplicates %d %v\n", c.Callbacks, c.Retries, c.ExplainedDuplicates, c.Duplicates)
	fmt.Fprintf(&b, "pops that had to come %d, in fault windows %d, skipped %d, given up %d\n",
		c.Obligatory, c.InWindows, c.Skipped, c.GivenUp)
	fmt.Fprintf(&b, "worst lateness %s, outside fault windows %s\n", c.WorstLateNs, c.WorstLateQuietNs)
	fmt.Fprintf(&b, "requests %d, unanswered %d; timers put in order %d\n", c.Requests, c.Unanswered, c.LinearKeys)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%2d %-24s %d", f.Invariant, f.Name, f.Total)
		if f.NotJudged != "" {
			fmt.Fprintf(&b, "  (not judged: %s)", f.NotJudged)
		}
		b.WriteByte('\n')
		for _, v := range f.Violations {
			fmt.Fprintf(&b, "     %s\n", v)
		}
	}
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "unknown: %s\n", reason)
	}
	fmt.Fprintf(&b, "%s\n", r.Verdict)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
