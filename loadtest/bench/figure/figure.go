// Package figure keeps the measured values of the bench, and sums the values up: medians over runs,
// spreads, and ratios between subjects of the same run.
package figure

import (
	"slices"
	"time"
)

// Figures holds the values of all runs. The zero value is empty. Not safe for
// concurrent use.
type Figures struct {
	List []Figure `json:"figures"`
}

// Figure is a measured quantity with a value for each run.
type Figure struct {
	Section string    `json:"section"`
	Subject string    `json:"subject"`
	Metric  string    `json:"metric"`
	Values  []float64 `json:"values"`
}

// Add appends a run's value.
func (f *Figures) Add(section, subject, metric string, value float64) {
	if known := f.find(section, subject, metric); known != nil {
		known.Values = append(known.Values, value)
		return
	}
	f.List = append(f.List, Figure{Section: section, Subject: subject, Metric: metric, Values: []float64{value}})
}

func (f *Figures) find(section, subject, metric string) *Figure {
	for i := range f.List {
		if x := &f.List[i]; x.Section == section && x.Subject == subject && x.Metric == metric {
			return x
		}
	}
	return nil
}

// Values returns the values of all runs; nil if nothing was measured.
func (f *Figures) Values(section, subject, metric string) []float64 {
	if x := f.find(section, subject, metric); x != nil {
		return x.Values
	}
	return nil
}

// Median returns the median of all runs, and whether the figure has a value.
func (f *Figures) Median(section, subject, metric string) (float64, bool) {
	values := f.Values(section, subject, metric)
	return Median(values), len(values) > 0
}

// Ratio is the median over runs of a subject's value, divided by the value of other in the same
// run. Runs in which other is 0 don't count. The result is false if no run is left.
func (f *Figures) Ratio(section, subject, other, metric string) (float64, bool) {
	a, b := f.Values(section, subject, metric), f.Values(section, other, metric)
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return Median(ratios), len(ratios) > 0
}

// Subjects lists the subjects of a section that have figures, in order of appearance.
func (f *Figures) Subjects(section string) []string {
	var names []string
	for i := range f.List {
		if x := &f.List[i]; x.Section == section && !slices.Contains(names, x.Subject) {
			names = append(names, x.Subject)
		}
	}
	return names
}

// Median is the middle value, or the mean of the two middle values if their number is even. Median
// is 0 without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile returns the smallest of the sorted durations that at least the share q of all durations
// does not exceed. Quantile is 0 without durations.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Ms is a duration in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
