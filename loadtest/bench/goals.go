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

// rate is a bound on a rate from below.
func rate(section, subject, unit string, bound float64) way {
	return way{section: section, subject: subject, metric: "rate", unit: unit, bound: bound}
}

// most is a bound on a metric from above.
func most(section, subject, metric, unit string, bound float64) way {
	return way{section: section, subject: subject, metric: metric, unit: unit, bound: bound, atMost: true}
}

// over makes a bound on the ratio to the figure of another subject.
func over(w way, other string) way {
	w.over, w.unit = other, " ×"
	return w
}

func cost(section, subject, metric string, bound float64) way {
	return most(section, subject, metric, " µs", bound)
}

func kafkaGoals() []goal {
	return []goal{
		{"Kafka: lateness p99.9 at 1,000/s", "≤ 25 ms", []way{most("kafka", kafkaSteady, "p999_ms", " ms", 25)}},
		{"Kafka: within 5 ms of the deadline at 1,000/s, advance auto", "≥ 50 %", []way{{section: "kafka", subject: kafkaAuto, metric: "within", unit: " %", bound: 50}}},
		{"Kafka: enqueue", "≥ 20,000 messages/s", []way{{section: "kafka", subject: kafkaOne, metric: "enqueue", unit: "/s", bound: 20_000}}},
		{"Kafka: fire, two copies", "≥ 25,000 messages/s", []way{{section: "kafka", subject: kafkaOne, metric: "fire", unit: "/s", bound: 25_000}}},
		{"Kafka: fire, one copy", "≥ 40,000 messages/s", []way{{section: "kafka", subject: kafkaOneCopy, metric: "fire", unit: "/s", bound: 40_000}}},
		{"Kafka: memory of a bridge", "≤ 200 MB", []way{most("kafka", kafkaOne, bridgeMB, " MB", 200)}},
		{"Kafka: Redis' memory for a remembered message and copy", "≤ 150 B", []way{most("kafka", kafkaOne, rememberedBytes, " B", 150)}},
	}
}

func goals() []goal {
	list := []goal{
		{"create, two copies", "≥ 0.26 of Fiber answering nothing", []way{over(rate("create", oursTwo, "", .26), fiberApp)}},
		{"create, two copies beside one", "≥ 0.85 × one copy on as many Redis", []way{over(rate("create", oursTwo, "", .85), oursSpread)}},
		{"create, one copy", "≥ 0.33 of Fiber answering nothing", []way{over(rate("create", oursOne, "", .33), fiberApp)}},
		{"create, two copies: Redis", "≤ 18 µs", []way{cost("create", oursTwo, redisCost, 18)}},
		{"create, two copies: node", "≤ 34 µs", []way{cost("create", oursTwo, nodeCost, 34)}},
		{"batches of 1,000, two copies", "≥ 0.9 × EVALSHA", []way{over(rate("batch", batchTwo, "", .9), evalsha)}},
		{"batches of 1,000, one copy", "≥ 1.1 × EVALSHA", []way{over(rate("batch", batchThousand, "", 1.1), evalsha)}},
		{"burst, two copies", "≥ 0.34 of fasthttp in a loop", []way{over(rate("burst", oursTwo, "", .34), bareFast)}},
		{"burst, two copies, beside BullMQ", "≥ 3 × BullMQ", []way{over(rate("burst", oursTwo, "", 3), peerBullMQ)}},
		{"burst, two copies beside one", "≥ 0.8 × one copy on as many Redis", []way{over(rate("burst", oursTwo, "", .8), oursSpread)}},
		{"burst, one copy", "≥ 0.45 of fasthttp in a loop", []way{over(rate("burst", oursOne, "", .45), bareFast)}},
		{"burst, one copy, beside BullMQ", "≥ 4 × BullMQ", []way{over(rate("burst", oursOne, "", 4), peerBullMQ)}},
		{"burst, two copies: Redis", "≤ 26 µs", []way{cost("burst", oursTwo, redisCost, 26)}},
		{"burst, two copies: node", "≤ 32 µs", []way{cost("burst", oursTwo, nodeCost, 32)}},
		{"burst, one copy: Redis", "≤ 16 µs", []way{cost("burst", oursOne, redisCost, 16)}},
		{"burst, one copy: node", "≤ 24 µs", []way{cost("burst", oursOne, nodeCost, 24)}},
		{"API beside a burst, two copies, p99", "≤ 40 ms", []way{most("burst", oursTwo, "api_p99_ms", " ms", 40)}},
		{"lateness p99.9 at 1,000/s, two copies", "≤ 3 ms", []way{most("lateness", lateTwo1k, "p999_ms", " ms", 3)}},
		{"lateness p99.9 at 5,000/s, two copies", "≤ 10 ms", []way{most("lateness", lateTwo5k, "p999_ms", " ms", 10)}},
		{"lateness p99.9 at 10,000/s, one copy", "≤ 10 ms", []way{most("lateness", late10k, "p999_ms", " ms", 10)}},
		{"sweep, alone", "≥ 20,000 copies/s", []way{rate("sweep", sweepAlone, "/s", 20_000)}},
		{"lateness p99.9 at 1,000/s beside a sweep", "≤ 20 ms", []way{most("sweep", sweepBeside, "p999_ms", " ms", 20)}},
		{"Redis' memory for a pending timer", "≤ 500 B", []way{most("memory", "chronos", "bytes", " B", 500)}},
		{"claim with 10,000,000 pending", "≤ 1.3 × with 10,000", []way{
			over(most("claim", pendingName(mostPending), claimColumn, "", 1.3), pendingName(fewPending)),
		}},
		{"node's memory with 10,000,000 pending", "≤ 100 MB", []way{most("claim", pendingName(mostPending), "node_mb", " MB", 100)}},
	}
	list = append(list, kafkaGoals()...)
	for _, subject := range []string{lateTwo1k, lateTwo5k, late1k, late10k} {
		list = append(list, goal{"early callbacks: " + subject, "0", []way{most("lateness", subject, "early", "", 0)}})
	}
	for _, shards := range []int{8, 16} {
		for _, metric := range []string{nodeCost, redisCost} {
			what := map[string]string{nodeCost: "node", redisCost: "Redis"}[metric]
			list = append(list, goal{
				fmt.Sprintf("%d Redis, each with the same load: %s", shards, what), "≤ 1.25 × two Redis",
				[]way{over(most("scale", scaleShards(shards), metric, "", 1.25), scaleShards(2))},
			})
		}
	}
	return list
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
