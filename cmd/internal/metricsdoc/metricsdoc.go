// Package metricsdoc writes docs/metrics.md from the metrics that the binaries register, in tests.
package metricsdoc

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Recorder is a registry that remembers what was registered. The zero value is ready. A Recorder is for one
// goroutine at a time.
type Recorder struct {
	prometheus.Registry

	collectors []prometheus.Collector
}

var _ prometheus.Registerer = (*Recorder)(nil)

// NewRecorder makes a Recorder.
func NewRecorder() *Recorder { return &Recorder{Registry: *prometheus.NewRegistry()} }

// Register is prometheus.Registerer's.
func (r *Recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return r.Registry.Register(c) //nolint:wrapcheck // as a Registry
}

// MustRegister is prometheus.Registerer's.
func (r *Recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// described is the text of a prometheus.Desc, which has no methods that say what is in it.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", (?:unit: "[^"]*", )?constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// Table is a row of Markdown for every metric of chronos, by name.
func (r *Recorder) Table(t *testing.T) string {
	t.Helper()
	rows := map[string]string{}
	for _, c := range r.collectors {
		found := make(chan *prometheus.Desc)
		go func() { defer close(found); c.Describe(found) }()
		for desc := range found {
			parts := described.FindStringSubmatch(desc.String())
			if parts == nil {
				t.Fatalf("not understood: %s", desc)
			}
			if !strings.HasPrefix(parts[1], "chronos_") {
				continue
			}
			var labels []string
			for _, label := range append(strings.Split(parts[3], ","), strings.Split(parts[4], ",")...) {
				if name, _, _ := strings.Cut(label, "="); name != "" {
					labels = append(labels, "`"+name+"`")
				}
			}
			help := strings.NewReplacer(`\"`, `"`, "|", `\|`).Replace(parts[2])
			rows[parts[1]] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", parts[1], kindOf(c, parts[1]), strings.Join(labels, ", "), help)
		}
	}
	var text strings.Builder
	text.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range rows {
			if !yield(name) {
				return
			}
		}
	}) {
		text.WriteString(rows[name])
	}
	return text.String()
}

func kindOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// Check compares the part of the document at path between the marks of a section with the table, or writes the
// part.
func (r *Recorder) Check(t *testing.T, path, section string, update bool) {
	t.Helper()
	raw, err := os.ReadFile(path) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end of "+section+" -->\n"
	before, rest, is := strings.Cut(string(raw), begin)
	have, after, ends := strings.Cut(rest, end)
	if !is || !ends {
		t.Fatalf("%s has no section between %q and %q", path, begin, end)
	}
	want := r.Table(t)
	if update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not what the registry says: run go test %s -update, and look at the difference", path, "./cmd/chronos ./cmd/chronos-bridge -run Metrics")
	}
}

// Series counts the lines of a scrape: a histogram has one for each bucket, the sum and the count.
func Series(t *testing.T, from prometheus.Gatherer) (lines int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {

		for _, m := range family.GetMetric() {
			lines++
			if h := m.GetHistogram(); h != nil {
				lines += len(h.GetBucket()) + 2 // +Inf and sum; the count was counted
			}
			if s := m.GetSummary(); s != nil {
				lines += len(s.GetQuantile()) + 1
			}
		}
	}
	return lines
}
