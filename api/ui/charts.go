package ui

import (
	"encoding/json"
	"time"

	"chronos/scheduler/cluster"
	"chronos/scheduler/forecast"
)

// chart is a chart, and the table of the same figures. The script draws the chart.
type chart struct {
	Title  string
	Kind   string // bars or lines
	Unit   string // of the values: timers or ms
	Points string // JSON: the times in seconds, and then the values of each series
	Series []string
	Head   []string
	Rows   []chartRow
	Peak   string // the chart in a sentence
}

type chartRow struct {
	At    *instant
	Label string
	Cells []string
}

// loadChart shows the timers that come due.
func loadChart(title string, load *forecast.Load, label string, now time.Time) chart {
	c := chart{Title: title, Kind: "bars", Unit: "timers", Series: []string{"timers"}, Head: []string{"From (UTC)", "Timers, about", "Copies"}}
	var times, values []any
	var most int64
	var when time.Time
	for i, copies := range load.Copies {
		var timers int64
		if i < len(load.Timers) {
			timers = load.Timers[i]
		}
		from := load.From.Add(time.Duration(i) * load.Step)
		if timers > most {
			most, when = timers, from
		}
		times, values = append(times, from.Unix()), append(values, timers)
		c.Rows = append(c.Rows, chartRow{at(from, now), from.UTC().Format(label), []string{number(timers), number(copies)}})
	}
	c.Points = pointsOf(times, values)
	c.Peak = "Nothing comes due in this time."
	if most > 0 {
		c.Peak = "Most at " + when.UTC().Format(label) + " UTC: about " + plural(most, "timer", "timers") + "."
	}
	return c
}

// lateChart shows how late the pops of the last hour were called back. The table has the latest moment of
// each minute.
func lateChart(history []cluster.Moment, now time.Time) chart {
	c := chart{
		Title: "Lateness in the last hour", Kind: "lines", Unit: "ms", Series: []string{"p50", "p99", "p99.9"},
		Head: []string{"Minute (UTC)", "p50", "p99", "p99.9", "most", "fired/s", "failed/s"},
	}
	columns := make([][]any, 4)
	var minute cluster.Moment
	flush := func() {
		if !minute.At.IsZero() {
			c.Rows = append(c.Rows, chartRow{at(minute.At, now), minute.At.UTC().Format("15:04"), []string{
				brief(minute.Late.P50), brief(minute.Late.P99), brief(minute.Late.P999), brief(minute.Late.Max), perSecond(minute.PerSecond.Fired), perSecond(minute.PerSecond.Failed),
			}})
		}
	}
	var worst time.Duration
	for _, m := range history {
		ms := func(d time.Duration) any { return float64(d.Microseconds()) / 1000 }
		columns[0] = append(columns[0], m.At.Unix())
		columns[1], columns[2], columns[3] = append(columns[1], ms(m.Late.P50)), append(columns[2], ms(m.Late.P99)), append(columns[3], ms(m.Late.P999))
		worst = max(worst, m.Late.Max)
		if start := m.At.Truncate(time.Minute); !start.Equal(minute.At) {
			flush()
			minute = cluster.Moment{At: start}
		}
		minute = later(minute, m)
	}
	flush()
	c.Points = pointsOf(columns...)
	c.Peak = "This node has not measured yet: wait 10 seconds."
	if len(history) > 0 {
		c.Peak = "The latest callback was " + brief(worst) + " late, on this node."
	}
	return c
}

// later has the greater of all figures.
func later(a, b cluster.Moment) cluster.Moment {
	a.Late.P50, a.Late.P99 = max(a.Late.P50, b.Late.P50), max(a.Late.P99, b.Late.P99)
	a.Late.P999, a.Late.Max = max(a.Late.P999, b.Late.P999), max(a.Late.Max, b.Late.Max)
	a.PerSecond.Fired, a.PerSecond.Failed = max(a.PerSecond.Fired, b.PerSecond.Fired), max(a.PerSecond.Failed, b.PerSecond.Failed)
	return a
}

func pointsOf(columns ...[]any) string {
	for i, c := range columns {
		if c == nil {
			columns[i] = []any{}
		}
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return "[]" // numbers can be marshalled
	}
	return string(text)
}
