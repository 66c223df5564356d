package figure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"chronos/loadtest/page"
)

// Column is a metric of a table.
type Column struct {
	Metric string
	Title  string
}

// Table shows a section: a row for each subject, a column for each metric.
type Table struct {
	Section string
	Title   string
	Notes   []string
	Columns []Column
	// Ours is the subject to compare with, by the metric of the first column; "" compares nothing.
	Ours string
}

// Write prints the table as Markdown. If a value differs between runs, the spread follows.
func (t *Table) Write(out io.Writer, f *Figures) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", t.Title)
	for _, note := range t.Notes {
		fmt.Fprintf(&b, "%s\n\n", note)
	}
	head, rule := "| |", "|---|"
	for _, c := range t.Columns {
		head, rule = head+" "+page.Cell(c.Title)+" |", rule+"---:|"
	}
	if t.Ours != "" {
		head, rule = head+" "+page.Cell("ratio to "+t.Ours)+" |", rule+"---:|"
	}
	b.WriteString(head + "\n" + rule + "\n")
	for _, subject := range f.Subjects(t.Section) {
		fmt.Fprintf(&b, "| %s |", page.Cell(subject))
		for _, c := range t.Columns {
			fmt.Fprintf(&b, " %s |", Spread(f.Values(t.Section, subject, c.Metric)))
		}
		if t.Ours != "" {
			fmt.Fprintf(&b, " %s |", t.ratio(f, subject))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (t *Table) ratio(f *Figures, subject string) string {
	ratio, ok := f.Ratio(t.Section, subject, t.Ours, t.Columns[0].Metric)
	if !ok {
		return ""
	}
	return Number(ratio) + " ×"
}

// Spread is the median, followed by the lowest and the highest value if the values differ.
func Spread(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	middle, low, high := Number(Median(values)), Number(slices.Min(values)), Number(slices.Max(values))
	if low == high {
		return middle
	}
	return fmt.Sprintf("%s (%s to %s)", middle, low, high)
}

// Number writes a value in a few digits: 0.012, 1.23, 12.3, 123, 12,345.
func Number(v float64) string {
	size := math.Abs(v)
	switch {
	case v == math.Trunc(v) && size < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case size < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case size < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(math.Round(size), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}
