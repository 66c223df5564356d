//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each cell must name a section, a subject and a metric that the bench measures.
func TestRowsNameSubjects(t *testing.T) {
	for _, r := range append(mainRows(), moreRows()...) {
		if len(r.cells) == 0 {
			t.Errorf("%s has no cell", r.what)
		}
		for _, v := range r.cells {
			for _, metric := range v.metrics {
				wantMeasured(t, v.section, v.subject, metric)
			}
		}
	}
}

func TestTheTableOfAPageHasWhatWasMeasured(t *testing.T) {
	b := &bench{options: options{runs: 3, root: t.TempDir()}}
	b.machine.CPU, b.machine.Cores = "Quick 3000", 2
	for _, run := range []float64{1, 2, 3} {
		b.figures.Add("create", oursTwo, "rate", 21_400+run*30)
		b.figures.Add("create", fiberApp, "rate", 104_000)
		b.figures.Add("lateness", lateTwo1k, "p50_ms", .812)
		b.figures.Add("lateness", lateTwo1k, "p999_ms", 2.46)
		b.figures.Add("lateness", lateAsynq, "p50_ms", 3400)
		b.figures.Add("lateness", lateAsynq, "p999_ms", 6312)
		b.figures.Add("lateness", late1k, "p50_ms", 1) // without p99.9: no cell
	}
	want := `Quick 3000, 2 cores; medians of 3 runs.

| | chronos, two copies | asynq | limit of the machine |
|---|---:|---:|---:|
| create over HTTP, 128 connections | 21,500/s |  | Fiber answering nothing: 104,000/s |
| lateness at 1,000/s, p50 / p99.9 | 0.81 / 2.46 ms | 3.40 / 6.31 s |  |
`
	if got := b.pageTable(mainRows()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}

	page := "before\n<!-- The table is written by make bench. -->\n<!-- End of the table. -->\nafter\n"
	for _, file := range []string{"README.md", "docs/benchmarks.md", "docs/capacity.md"} {
		path := filepath.Join(b.root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.writePages(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), want) || !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text), "after\n") {
		t.Errorf("README is %s", text)
	}
}
