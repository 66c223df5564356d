//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chronos/loadtest/bench/chart"
	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
)

// raw is the content of bench.json.
type raw struct {
	Machine machine.Description `json:"machine"`
	Runs    int                 `json:"runs"`
	Quick   bool                `json:"quick"`
	Notes   []string            `json:"notes"`
	Figures []figure.Figure     `json:"figures"`
}

// write prints the tables, and writes the tables, the raw figures and the charts to the results.
func (b *bench) write() error {
	if len(b.figures.List) == 0 {
		return nil
	}
	if err := b.keepOthers(); err != nil {
		return err
	}
	text, err := b.markdown()
	if err != nil {
		return err
	}
	if _, err := b.stdout.Write(text); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if b.results == "" {
		return nil
	}
	values, err := json.MarshalIndent(raw{b.machine, b.runs, b.quick, b.notes, b.figures.List}, "", "  ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	files := map[string][]byte{"bench.md": text, "bench.json": append(values, '\n')}
	for name, c := range b.charts() {
		files[name+".svg"] = c.SVG()
	}
	if err := os.MkdirAll(b.results, 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(b.results, name), content, 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	if b.quick || b.results != resultsOf(b.root) {
		return nil
	}
	return b.writePages()
}

// keepOthers keeps the earlier results of sections that this run did not measure, so that a single
// section can be measured again.
func (b *bench) keepOthers() error {
	if b.results == "" || b.quick {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(b.results, "bench.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var before raw
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return fmt.Errorf("read earlier results: %w", err)
	}
	for _, f := range before.Figures {
		if !slices.Contains(b.only, f.Section) {
			b.figures.List = append(b.figures.List, f)
		}
	}
	if len(b.only) < len(sectionNames()) {
		b.notes = append(b.notes, before.Notes...)
	}
	return nil
}

func (b *bench) markdown() ([]byte, error) {
	var out bytes.Buffer
	m := b.machine
	fmt.Fprintf(&out, "# Figures\n\nMedians of %d runs, in which all subjects took turns; in parentheses the lowest and the highest. "+
		"Load generator, node, Redis and receiver shared one machine: %d cores, %s, %s, Redis %s, %s.\n\n",
		b.runs, m.Cores, m.CPU, m.Go, m.Redis, m.Kernel)
	if b.quick {
		out.WriteString("Made with -quick: too short and too small to say much.\n\n")
	}
	if err := writeGoals(&out, &b.figures); err != nil {
		return nil, err
	}
	for _, s := range sections() {
		if len(b.figures.Subjects(s.name)) == 0 {
			continue
		}
		if err := s.table.Write(&out, &b.figures); err != nil {
			return nil, err
		}
	}
	if len(b.notes) > 0 {
		out.WriteString("## Notes\n\n")
		for _, note := range b.notes {
			fmt.Fprintf(&out, "- %s\n", strings.ReplaceAll(note, "\n", " "))
		}
	}
	return out.Bytes(), nil
}

// charts returns the charts with measured figures.
func (b *bench) charts() map[string]*chart.Chart {
	all := map[string]*chart.Chart{
		"create": b.chart("create", "Create over HTTP: requests/s", map[string]string{"rate": ""}),
		"batch":  b.chart("batch", "Create in batches: timers/s", map[string]string{"rate": ""}),
		"burst":  b.chart("burst", "100,000 callbacks due at once: callbacks/s", map[string]string{"rate": ""}),
		"lateness": b.chart("lateness", "Lateness of callbacks, ms (logarithmic)",
			map[string]string{"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}),
		"claim": b.chart("claim", "Claim: Redis' time for a timer, µs", map[string]string{claimColumn: ""}),
		"scale": b.chart("scale", "Nodes and shards: processor time for a timer, µs", map[string]string{nodeCost: "node", redisCost: "Redis", receiverCost: "receiver"}),
	}
	if c := all["lateness"]; c != nil {
		c.Logarithmic = true
	}
	for name, c := range all {
		if c == nil {
			delete(all, name)
		}
	}
	return all
}

// chart has a group for each subject, and in the group a bar for each metric. metrics maps each
// metric to the label of its bar.
func (b *bench) chart(section, title string, metrics map[string]string) *chart.Chart {
	c := &chart.Chart{Title: title}
	order := []string{"rate", claimColumn, "p50_ms", "p99_ms", "p999_ms", nodeCost, redisCost, receiverCost}
	for _, subject := range b.figures.Subjects(section) {
		g := chart.Group{Label: subject, Ours: !slices.ContainsFunc([]string{"limit", peerAsynq, peerBullMQ}, func(other string) bool {
			return strings.HasPrefix(subject, other)
		})}
		for _, metric := range order {
			label, wanted := metrics[metric]
			if value, ok := b.figures.Median(section, subject, metric); ok && wanted {
				g.Bars = append(g.Bars, chart.Bar{Label: label, Value: value, Text: figure.Number(value)})
			}
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	if len(c.Groups) == 0 {
		return nil
	}
	return c
}
