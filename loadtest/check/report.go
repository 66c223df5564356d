package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Violation is a way in which a callback, or a missing callback, breaks a request.
type Violation string

// The violations, explained in the package comment.
const (
	Early       Violation = "early"
	Missing     Violation = "missing"
	Late        Violation = "late"
	Double      Violation = "double"
	Altered     Violation = "altered"
	AfterAnswer Violation = "after_answer"
	Unasked     Violation = "unasked"
)

// Violations returns all violations in the order of a report.
func Violations() []Violation {
	return []Violation{Early, Missing, Late, Double, Altered, AfterAnswer, Unasked}
}

const maxExamples = 5

// Report is the judgment on all operations and callbacks.
type Report struct {
	Passed bool `json:"passed"`
	// Operations is the number of known operations, and Failed the number of failed operations. Timers is the number of
	// timers, and Live the number of timers that were not ended.
	Operations int64 `json:"operations"`
	Failed     int64 `json:"failed"`
	Timers     int64 `json:"timers"`
	Live       int64 `json:"live"`
	// Callbacks is the number of callbacks that arrived, and Pops the number of different pops. Retries is the number
	// of callbacks that were no first attempt. Obligatory is the number of pops that had to arrive. Unfollowed is the
	// number of callbacks that could not be judged, because the timers were too many.
	Callbacks  int64 `json:"callbacks"`
	Pops       int64 `json:"pops"`
	Retries    int64 `json:"retries"`
	Obligatory int64 `json:"obligatory"`
	Unfollowed int64 `json:"unfollowed"`
	// Skipped is the number of missing pops that were followed by a later pop of the same request. A skipped pop means
	// an outage, not a lost timer.
	Skipped int64 `json:"skipped"`
	// LatenessMs covers the first arrival of each pop.
	LatenessMs Quantiles `json:"lateness_ms"`
	// Violations counts each kind. Examples describes the first few violations of a kind.
	Violations map[Violation]int64    `json:"violations"`
	Examples   map[Violation][]string `json:"examples,omitempty"`
}

// Quantiles are in milliseconds.
type Quantiles struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
}

// tally holds the counts of a shard.
type tally struct {
	operations, failed             int64
	callbacks, pops, retries       int64
	obligatory, unfollowed, timers int64
	live, skipped                  int64
	counts                         map[Violation]int64
	examples                       map[Violation][]string
	lateness                       histogram
}

// violation counts a violation, and keeps the descriptions of the first few.
func (t *tally) violation(kind Violation, describe func() string) {
	t.fail(kind, 1)
	if len(t.examples[kind]) < maxExamples {
		t.examples[kind] = append(t.examples[kind], describe())
	}
}

func (t *tally) fail(kind Violation, n int64) {
	if t.counts == nil {
		t.counts, t.examples = make(map[Violation]int64), make(map[Violation][]string)
	}
	t.counts[kind] += n
}

func (t *tally) merge(other *tally) {
	t.operations += other.operations
	t.failed += other.failed
	t.callbacks += other.callbacks
	t.pops += other.pops
	t.retries += other.retries
	t.unfollowed += other.unfollowed
	for kind, n := range other.counts {
		t.fail(kind, n)
		free := maxExamples - len(t.examples[kind])
		t.examples[kind] = append(t.examples[kind], other.examples[kind][:min(free, len(other.examples[kind]))]...)
	}
	t.lateness.merge(&other.lateness)
}

// Report judges everything up to end: a pop is missing if its time and the bound have passed by then. The run passes if
// no violation was found, no callback went unjudged, and at least minCallbacks arrived. A run without callbacks proves
// nothing. Report changes nothing, and may be called again.
func (c *Checker) Report(end time.Time, minCallbacks int64) Report {
	var total tally
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		total.merge(&sh.tally)
		for name, s := range sh.sessions {
			total.close(name, s, c.cfg.Bound, end.UnixNano())
		}
		sh.mu.Unlock()
	}
	r := Report{
		Operations: total.operations, Failed: total.failed, Timers: total.timers, Live: total.live,
		Callbacks: total.callbacks, Pops: total.pops, Retries: total.retries,
		Obligatory: total.obligatory, Unfollowed: total.unfollowed, Skipped: total.skipped,
		LatenessMs: total.lateness.quantiles(),
		Violations: make(map[Violation]int64),
		Examples:   total.examples,
	}
	r.Passed = r.Callbacks >= minCallbacks && r.Unfollowed == 0
	for _, kind := range Violations() {
		r.Violations[kind] = total.counts[kind]
		r.Passed = r.Passed && total.counts[kind] == 0
	}
	return r
}

// close adds the judgment about a timer that is possible only at the end.
func (t *tally) close(name string, s *session, bound time.Duration, end int64) {
	t.timers++
	if !s.ended && s.revision > 0 {
		t.live++
	}
	for i := range s.waiting {
		t.violation(Unasked, func() string { return s.waiting[i].describe() + ": its request is not told of" })
	}
	for _, w := range s.writes {
		last := w.seen.last()
		t.obligatory += w.obligations(bound, end, func(sequence int) {
			came := "did not come"
			switch {
			case w.seen.has(sequence):
				came = "came, but was never answered 2xx"
			case sequence < last:
				came = "did not come, but a later one did"
				t.skipped++
			}
			t.violation(Missing, func() string {
				return fmt.Sprintf("timer %s (%s) revision %d sequence %d: %s", s.id, name, w.revision, sequence, came)
			})
		})
	}
}

func (h *histogram) quantiles() Quantiles {
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return Quantiles{
		Count: h.count, Min: ms(h.min), P50: ms(h.quantile(0.5)), P90: ms(h.quantile(0.9)),
		P99: ms(h.quantile(0.99)), P999: ms(h.quantile(0.999)), Max: ms(h.max),
	}
}

// WriteText writes the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	q := r.LatenessMs
	fmt.Fprintf(&b, "callbacks %d for %d pops (%d had to come, %d retries) of %d timers\n",
		r.Callbacks, r.Pops, r.Obligatory, r.Retries, r.Timers)
	fmt.Fprintf(&b, "lateness ms: p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n", q.P50, q.P90, q.P99, q.P999, q.Max)
	for _, kind := range Violations() {
		fmt.Fprintf(&b, "%s %d\n", strings.ReplaceAll(string(kind), "_", " "), r.Violations[kind])
		for _, example := range slices.Sorted(slices.Values(r.Examples[kind])) {
			fmt.Fprintf(&b, "    %s\n", example)
		}
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "%d of the missing were followed by a later one: an outage, no lost timer\n", r.Skipped)
	}
	if r.Unfollowed > 0 {
		fmt.Fprintf(&b, "%d callbacks could not be judged: too many timers\n", r.Unfollowed)
	}
	verdict := "FAILED"
	if r.Passed {
		verdict = "passed"
	}
	fmt.Fprintf(&b, "%s\n", verdict)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
