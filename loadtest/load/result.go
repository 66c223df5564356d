package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"chronos/loadtest/check"
	"chronos/scheduler/verify/history"
)

// summary is the part of the export of k6 that is read. The figures of a metric are numbers by name.
type summary struct {
	Metrics map[string]metric `json:"metrics"`
}

type metric struct {
	figures map[string]float64
	crossed []string // thresholds
}

// UnmarshalJSON separates figures and thresholds, which k6 puts side by side. A threshold is true if crossed.
func (m *metric) UnmarshalJSON(body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("read metric: %w", err)
	}
	m.figures = make(map[string]float64)
	for name, field := range fields {
		var figure float64
		if name == "thresholds" {
			var crossed map[string]bool
			if err := json.Unmarshal(field, &crossed); err != nil {
				return fmt.Errorf("read thresholds: %w", err)
			}
			for _, threshold := range slices.Sorted(maps.Keys(crossed)) {
				if crossed[threshold] {
					m.crossed = append(m.crossed, threshold)
				}
			}
		} else if json.Unmarshal(field, &figure) == nil {
			m.figures[name] = figure
		}
	}
	return nil
}

// A run with fewer operations, in all or of a kind, proves nothing.
const (
	minOperations = 1000
	minOfAKind    = 50
)

// write prints the result as Markdown, and then the faults.
func (r *result) write(out io.Writer) error {
	var b strings.Builder
	total := r.operations()
	fmt.Fprintf(&b, "%.0f operations in %s (%.0f/s)", total, r.options.duration, total/r.options.duration.Seconds())
	if ends := float64(r.report.Operations) + r.untold() - total; ends > 0 {
		fmt.Fprintf(&b, ", then %.0f ends", ends)
	}
	fmt.Fprintf(&b, "; %s, node, Redis and receiver share %d cores.\n\n", r.options.scenario.generator(), runtime.NumCPU())
	b.WriteString("| ms | count | failed | p50 | p90 | p99 | p99.9 | max |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, row := range r.options.scenario.rows {
		took := "http_req_duration{op:" + row.op + "}"
		// In a rate that asks "did it fail?", passes counts the failures.
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", row.title,
			r.count(row), r.figure("http_req_failed{op:"+row.op+"}", "passes"),
			r.figure(took, "med"), r.figure(took, "p(90)"), r.figure(took, "p(99)"), r.figure(took, "p(99.9)"), r.figure(took, "max"))
	}
	q := r.report.LatenessMs
	fmt.Fprintf(&b, "| callback, after it was due | %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n\n",
		r.report.Callbacks, r.report.Retries, q.P50, q.P90, q.P99, q.P999, q.Max)
	b.WriteString("| callbacks that had to come | early | missing | late | double | altered | after an answered DELETE or PUT | unasked |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	fmt.Fprintf(&b, "| %d ", r.report.Obligatory)
	for _, kind := range check.Violations() {
		fmt.Fprintf(&b, "| %d ", r.report.Violations[kind])
	}
	b.WriteString("|\n")
	if !r.right() {
		r.explain(&b)
	} else if few := r.tooFew(); len(few) > 0 {
		fmt.Fprintf(&b, "\nUNKNOWN\nnothing was wrong, but too little was done to say that all is right: %s\n", strings.Join(few, ", "))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (r *result) explain(b *strings.Builder) {
	b.WriteString("\nFAILED\n")
	if r.loadErr != nil {
		fmt.Fprintf(b, "%v\n", r.loadErr)
	}
	for _, name := range slices.Sorted(maps.Keys(r.summary.Metrics)) {
		for _, threshold := range r.summary.Metrics[name].crossed {
			fmt.Fprintf(b, "k6: %s is not %s\n", name, threshold)
		}
	}
	for _, kind := range check.Violations() {
		for _, example := range r.report.Examples[kind] {
			fmt.Fprintf(b, "%s: %s\n", kind, example)
		}
	}
	if r.report.Skipped > 0 {
		fmt.Fprintf(b, "%d of the missing callbacks were followed by a later one: an outage, no lost timer\n", r.report.Skipped)
	}
	if r.judged != nil && r.judged.Verdict == history.VerdictFailed {
		b.WriteString("the judge of the history says:\n")
		_ = r.judged.WriteText(b) // a strings.Builder takes all
	}
	fmt.Fprintf(b, "the logs are in %s\n", r.options.out(""))
}

func (r *result) figure(name, field string) float64 { return r.summary.Metrics[name].figures[field] }

func (r *result) count(kind row) float64 { return r.figure("operations{op:"+kind.op+"}", "count") }

// operations is the number of operations in the load.
func (r *result) operations() (n float64) {
	for _, row := range r.options.scenario.rows {
		n += r.count(row)
	}
	return n
}

// untold is the number of operations that the receiver does not know.
func (r *result) untold() (n float64) {
	for _, row := range r.options.scenario.rows {
		if row.untold {
			n += r.count(row)
		}
	}
	return n
}

// tooFew lists the counts that are too small.
func (r *result) tooFew() (few []string) {
	if n := r.operations(); n < minOperations {
		few = append(few, fmt.Sprintf("%.0f operations, want %d", n, minOperations))
	}
	for _, row := range r.options.scenario.rows {
		if n := r.count(row); n < minOfAKind {
			few = append(few, fmt.Sprintf("%.0f of %s, want %d", n, row.title, minOfAKind))
		}
	}
	return few
}
