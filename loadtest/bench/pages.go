//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/page"
)

// row is a line of a table in README or docs/benchmarks.md: a cell for each column.
type row struct {
	what  string
	cells map[string]value // by column
}

// value is a cell: the medians of the metrics, with their unit.
type value struct {
	section, subject string
	metrics          []string
	unit             string // "ms" becomes s from a second on
	label            string // before the medians
}

// The columns of the tables, in this order. A column without figures is left out.
const (
	columnTwo   = "chronos, two copies"
	columnOne   = "chronos, one copy"
	columnLimit = "limit of the machine"
)

func columns() []string { return []string{columnTwo, columnOne, peerAsynq, peerBullMQ, columnLimit} }

// mainRows are the rows of the table in README.
func mainRows() []row {
	rate := func(section, subject string) value {
		return value{section: section, subject: subject, metrics: []string{"rate"}, unit: "/s"}
	}
	limit := func(section, subject string) value {
		v := rate(section, subject)
		v.label = strings.TrimPrefix(subject, "limit: ") + ": "
		return v
	}
	late := func(section, subject string) value {
		return value{section: section, subject: subject, metrics: []string{"p50_ms", "p999_ms"}, unit: " ms"}
	}
	bytes := func(subject string) value {
		return value{section: "memory", subject: subject, metrics: []string{"bytes"}, unit: " B"}
	}
	cost := func(section, subject string) value {
		return value{section: section, subject: subject, metrics: []string{nodeCost, redisCost}, unit: " µs"}
	}
	return []row{
		{"create over HTTP, 128 connections", map[string]value{
			columnTwo: rate("create", oursTwo), columnOne: rate("create", oursOne), columnLimit: limit("create", fiberApp),
		}},
		{"create in batches of 1,000", map[string]value{
			columnTwo: rate("batch", batchTwo), columnOne: rate("batch", batchThousand),
			peerAsynq: rate("batch", peerAsynq), peerBullMQ: rate("batch", peerBullMQ), columnLimit: limit("batch", evalsha),
		}},
		{"100,000 callbacks due at once", map[string]value{
			columnTwo: rate("burst", oursTwo), columnOne: rate("burst", oursOne),
			peerAsynq: rate("burst", peerAsynq), peerBullMQ: rate("burst", peerBullMQ), columnLimit: limit("burst", bareFast),
		}},
		{"lateness at 1,000/s, p50 / p99.9", map[string]value{
			columnTwo: late("lateness", lateTwo1k), columnOne: late("lateness", late1k),
			peerAsynq: late("lateness", lateAsynq), peerBullMQ: late("lateness", lateBullMQ),
		}},
		{"lateness at 5,000/s, p50 / p99.9", map[string]value{columnTwo: late("lateness", lateTwo5k)}},
		{"lateness at 10,000/s, p50 / p99.9", map[string]value{columnOne: late("lateness", late10k)}},
		{"processor time for a create, node / Redis", map[string]value{columnTwo: cost("create", oursTwo), columnOne: cost("create", oursOne)}},
		{"processor time for a callback, node / Redis", map[string]value{columnTwo: cost("burst", oursTwo), columnOne: cost("burst", oursOne)}},
		{"Kafka bridge: lateness at 1,000 messages/s, p50 / p99.9", map[string]value{columnTwo: late("kafka", kafkaSteady)}},
		{"Redis' memory for a copy of a pending timer", map[string]value{
			columnOne: bytes("chronos"), peerAsynq: bytes(peerAsynq), peerBullMQ: bytes(peerBullMQ),
		}},
	}
}

// moreRows are the rows of the table in docs/benchmarks.md.
func moreRows() []row {
	one := func(section, subject, metric, unit string) value {
		return value{section: section, subject: subject, metrics: []string{metric}, unit: unit}
	}
	return []row{
		{"create over HTTP on two Redis", map[string]value{columnTwo: one("create", oursTwo, "rate", "/s"), columnOne: one("create", oursSpread, "rate", "/s")}},
		{"100,000 callbacks due at once, two Redis", map[string]value{columnTwo: one("burst", oursTwo, "rate", "/s"), columnOne: one("burst", oursSpread, "rate", "/s")}},
		{"p99 of creates beside 100,000 callbacks due at once", map[string]value{columnTwo: one("burst", oursTwo, "api_p99_ms", " ms"), columnOne: one("burst", oursOne, "api_p99_ms", " ms")}},
		{"copies swept after a Redis has joined, as fast as possible", map[string]value{columnOne: one("sweep", sweepAlone, "rate", "/s")}},
		{"lateness at 1,000/s beside a sweep at the default rate, p50 / p99.9", map[string]value{
			columnOne: {section: "sweep", subject: sweepBeside, metrics: []string{"p50_ms", "p999_ms"}, unit: " ms"},
		}},
		{"Kafka: messages stored, one bridge", map[string]value{columnTwo: one("kafka", kafkaOne, "enqueue", "/s"), columnOne: one("kafka", kafkaOneCopy, "enqueue", "/s")}},
		{"Kafka: … two bridges", map[string]value{columnTwo: one("kafka", kafkaTwo, "enqueue", "/s")}},
		{"Kafka: … four bridges", map[string]value{columnTwo: one("kafka", kafkaFour, "enqueue", "/s")}},
		{"Kafka: published of 200,000 messages due at once, one bridge", map[string]value{columnTwo: one("kafka", kafkaOne, "fire", "/s"), columnOne: one("kafka", kafkaOneCopy, "fire", "/s")}},
		{"Kafka: … two bridges", map[string]value{columnTwo: one("kafka", kafkaTwo, "fire", "/s")}},
		{"Kafka: … four bridges", map[string]value{columnTwo: one("kafka", kafkaFour, "fire", "/s")}},
		{"Kafka: p99.9 at 10 % of the highest rate held", map[string]value{columnTwo: one("kafka", kafkaTenth, "p999_ms", " ms")}},
		{"Kafka: … at 50 %", map[string]value{columnTwo: one("kafka", kafkaHalf, "p999_ms", " ms")}},
		{"Kafka: … at 90 %", map[string]value{columnTwo: one("kafka", kafkaAlmost, "p999_ms", " ms")}},
		{"Redis' time to claim a timer with 10,000 pending", map[string]value{columnOne: one("claim", pendingName(fewPending), claimColumn, " µs")}},
		{"Redis' time to claim a timer with 10 million pending", map[string]value{columnOne: one("claim", pendingName(mostPending), claimColumn, " µs")}},
		{"p99.9 at 1,000/s with 10 million pending timers, alone / beside lists, load and search", map[string]value{
			columnOne: {section: "look", subject: pendingName(mostPending), metrics: []string{"p999_ms", "look_p999_ms"}, unit: " ms"},
		}},
		{"memory of a node with 10 million pending timers", map[string]value{columnOne: one("claim", pendingName(mostPending), "node_mb", " MB")}},
	}
}

// text is the cell as it is printed; "" if a metric was not measured.
func (v *value) text(f *figure.Figures) string {
	var medians []float64
	for _, metric := range v.metrics {
		median, ok := f.Median(v.section, v.subject, metric)
		if !ok {
			return ""
		}
		medians = append(medians, median)
	}
	if len(medians) == 0 {
		return ""
	}
	unit, scale := v.unit, 1.0
	if unit == " ms" && slices.Min(medians) >= 1000 {
		unit, scale = " s", 1000
	}
	var texts []string
	for _, median := range medians {
		texts = append(texts, figure.Number(threeDigits(median/scale)))
	}
	return v.label + strings.Join(texts, " / ") + unit
}

// threeDigits rounds a figure: further digits differ from run to run.
func threeDigits(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	return math.Round(v/unit) * unit
}

// pageTable is the table of the rows with figures, under a line that names the machine.
func (b *bench) pageTable(rows []row) string {
	cells := make([]map[string]string, len(rows))
	used := map[string]bool{}
	for i, r := range rows {
		cells[i] = map[string]string{}
		for column, v := range r.cells {
			cells[i][column] = v.text(&b.figures)
			used[column] = used[column] || cells[i][column] != ""
		}
	}
	shown := slices.DeleteFunc(columns(), func(column string) bool { return !used[column] })
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d cores; medians of %d runs.\n\n", cmp.Or(b.machine.CPU, "unknown processor"), b.machine.Cores, b.runs)
	fmt.Fprintf(&out, "| | %s |\n|---|%s\n", strings.Join(shown, " | "), strings.Repeat("---:|", len(shown)))
	for i, r := range rows {
		line, measured := "| "+page.Cell(r.what)+" |", false
		for _, column := range shown {
			line += " " + page.Cell(cells[i][column]) + " |"
			measured = measured || cells[i][column] != ""
		}
		if measured {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// writePages writes the tables in README and in docs.
func (b *bench) writePages() error {
	for file, table := range map[string]string{
		"README.md": b.pageTable(mainRows()), "docs/benchmarks.md": b.pageTable(moreRows()), "docs/capacity.md": capacityTable(&b.figures),
	} {
		if table == "" {
			continue
		}
		if err := page.WriteTable(filepath.Join(b.root, filepath.FromSlash(file)), "make bench", table); err != nil {
			return err
		}
	}
	return nil
}
