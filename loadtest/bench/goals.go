//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"

	"chronos/loadtest/bench/figure"
)

// goal is a target for figures. A goal is reached if any of the ways is reached.
type goal struct {
	what, want string
	ways       []way
}

// way is a bound on a median, or on the ratio to the figure of another subject.
type way struct {
	section, subject, metric string
	over                     string // the subject to divide by; "" for the value itself
	bound                    float64
	atMost                   bool
	unit                     string
}

func goals() []goal {
	rate := func(section, subject, unit string, bound float64) way {
		return way{section: section, subject: subject, metric: "rate", unit: unit, bound: bound}
	}
	most := func(section, subject, metric, unit string, bound float64) way {
		return way{section: section, subject: subject, metric: metric, unit: unit, bound: bound, atMost: true}
	}
	over := func(w way, other string) way {
		w.over, w.unit = other, " ×"
		return w
	}
	return []goal{
		{"create", "≥ 40,000/s or ≥ 0.33 of Fiber answering nothing", []way{
			rate("create", oursAOF, "/s", 40_000), over(rate("create", oursAOF, "", .33), fiberApp),
		}},
		{"create in batches", "≥ 120,000 timers/s", []way{rate("batch", batchThousand, "/s", 120_000)}},
		{"burst", "≥ 45,000 callbacks/s", []way{rate("burst", oursAOF, "/s", 45_000)}},
		{"create, two copies", "≥ 35,000/s", []way{rate("copies", twoCopiesTwoShard, "/s", 35_000)}},
		{"create, two copies beside one", "≥ 0.8 × one copy on as many shards", []way{over(rate("copies", twoCopiesTwoShard, "", .8), oneCopyTwoShards)}},
		{"burst, two copies", "≥ 40,000 callbacks/s", []way{{section: "copies", subject: twoCopiesTwoShard, metric: "burst", unit: "/s", bound: 40_000}}},
		{"burst, two copies beside one", "≥ 0.8 × one copy on as many shards", []way{
			{section: "copies", subject: twoCopiesTwoShard, over: oneCopyTwoShards, metric: "burst", unit: " ×", bound: .8},
		}},
		{"sweep, alone", "≥ 20,000 copies/s", []way{rate("sweep", sweepAlone, "/s", 20_000)}},
		{"lateness p99.9 at 1,000/s beside a sweep", "≤ 20 ms", []way{most("sweep", sweepBeside, "p999_ms", " ms", 20)}},
		{"Kafka: lateness p99.9 at 1,000/s", "≤ 25 ms", []way{most("kafka", kafkaSteady, "p999_ms", " ms", 25)}},
		{"Kafka: within 5 ms of the deadline at 1,000/s, advance auto", "≥ 50 %", []way{{section: "kafka", subject: kafkaAuto, metric: "within", unit: " %", bound: 50}}},
		{"Kafka: enqueue", "≥ 20,000 messages/s", []way{{section: "kafka", subject: kafkaOne, metric: "enqueue", unit: "/s", bound: 20_000}}},
		{"Kafka: fire", "≥ 20,000 messages/s", []way{{section: "kafka", subject: kafkaOne, metric: "fire", unit: "/s", bound: 20_000}}},
		{"burst, beside BullMQ", "≥ 2.5 × BullMQ", []way{over(rate("burst", oursAOF, "", 2.5), peerBullMQ)}},
		{"API beside a burst, p99", "≤ 100 ms", []way{most("burst", oursAOF, "api_p99_ms", " ms", 100)}},
		{"lateness p99.9 at 1,000/s", "≤ 3 ms", []way{most("lateness", late1k, "p999_ms", " ms", 3)}},
		{"lateness p99.9 at 10,000/s", "≤ 10 ms", []way{most("lateness", late10k, "p999_ms", " ms", 10)}},
		{"early callbacks at 1,000/s", "0", []way{most("lateness", late1k, "early", "", 0)}},
		{"early callbacks at 10,000/s", "0", []way{most("lateness", late10k, "early", "", 0)}},
		{"Redis' memory for a pending timer", "≤ 500 B", []way{most("memory", "chronos", "bytes", " B", 500)}},
		{"claim with 10,000,000 pending", "≤ 1.3 × with 10,000", []way{
			over(most("claim", pendingName(mostPending), claimColumn, "", 1.3), pendingName(fewPending)),
		}},
		{"node's memory with 10,000,000 pending", "≤ 100 MB", []way{most("claim", pendingName(mostPending), "node_mb", " MB", 100)}},
	}
}

// value is the measured value; the result is false if nothing was measured.
func (w *way) value(f *figure.Figures) (float64, bool) {
	if w.over != "" {
		return f.Ratio(w.section, w.subject, w.over, w.metric)
	}
	return f.Median(w.section, w.subject, w.metric)
}

func (w *way) reached(value float64) bool {
	if w.atMost {
		return value <= w.bound
	}
	return value >= w.bound
}

// writeGoals prints the measured goals, and whether each goal was reached.
func writeGoals(out io.Writer, f *figure.Figures) error {
	var b strings.Builder
	for _, g := range goals() {
		var values []string
		reached := "no"
		for _, w := range g.ways {
			value, ok := w.value(f)
			if !ok {
				continue
			}
			values = append(values, figure.Number(value)+w.unit)
			if w.reached(value) {
				reached = "yes"
			}
		}
		if len(values) > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.what, strings.Join(values, ", "), g.want, reached)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "| | measured | goal | reached |\n|---|---:|---:|---|\n%s\n", b.String()); err != nil {
		return fmt.Errorf("write goals: %w", err)
	}
	return nil
}
