//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/loadtest/bench/figure"
)

func TestRequests(t *testing.T) {
	uri := callbackURI("http://127.0.0.1:43210", 1234)
	if len(uri) != uriSize || !strings.HasSuffix(uri, "/00001234") {
		t.Errorf("URI %q has %d bytes, want %d", uri, len(uri), uriSize)
	}
	request := string(constant("/timers", copied(interval(1500*time.Millisecond), uri, 1))(0, nil))
	header, body, _ := strings.Cut(request, "\r\n\r\n")
	var decoded struct {
		Timing struct {
			Interval float64 `json:"interval"`
		} `json:"timing"`
		Callback struct {
			HTTP struct{ URI, Opaque string } `json:"http"`
		} `json:"callback"`
	}
	if err := json.Unmarshal([]byte(body), &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Timing.Interval != 1.5 || decoded.Callback.HTTP.URI != uri || len(decoded.Callback.HTTP.Opaque) != 100 {
		t.Errorf("body is %s", body)
	}
	if !strings.Contains(header, "Content-Length: "+figure.Number(float64(len(body)))) {
		t.Errorf("header is %q, body has %d bytes", header, len(body))
	}
}

func TestCreatedWantsTheWholeBatch(t *testing.T) {
	check := created(10)
	for body, good := range map[string]bool{
		`{"created":10,"results":[`: true, `{"created":1,"results":[`: false, `{"created":100,"results":[`: false, ``: false,
	} {
		if err := check(200, []byte(body)); (err == nil) != good {
			t.Errorf("%s: %v", body, err)
		}
	}
	if check(503, []byte(`{"created":10,`)) == nil {
		t.Error("503 is taken for right")
	}
}

func TestSpreadStaysInItsSpan(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 3000 {
		d := spread(i)
		if d < lateShortest || d > lateLongest {
			t.Fatalf("timer %d waits %s", i, d)
		}
		seen[d] = true
	}
	if len(seen) != 2001 { // each millisecond
		t.Errorf("%d different waits", len(seen))
	}
}

func TestParseBenchmark(t *testing.T) {
	rate, err := parseBenchmark([]byte("\"test\",\"rps\",\"avg\"\n\"EVALSHA a, b\",\"118203.31\",\"1.2\"\n"))
	if err != nil || rate != 118203.31 {
		t.Errorf("got %v, %v", rate, err)
	}
	for _, bad := range []string{"", "\"test\",\"rps\"\n", "x\n"} {
		if rate, err := parseBenchmark([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, rate)
		}
	}
}

func TestGoals(t *testing.T) {
	for name, test := range map[string]struct {
		ours, fiber float64
		want        string
	}{
		"reached": {30_000, 100_000, "| create, two copies | 0.30 × | ≥ 0.26 of Fiber answering nothing | yes |"},
		"not":     {20_000, 100_000, "| create, two copies | 0.20 × | ≥ 0.26 of Fiber answering nothing | no |"},
	} {
		t.Run(name, func(t *testing.T) {
			var f figure.Figures
			f.Add("create", oursTwo, "rate", test.ours)
			f.Add("create", fiberApp, "rate", test.fiber)
			var out strings.Builder
			if err := writeGoals(&out, &f); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), test.want+"\n") || strings.Count(out.String(), "\n") != 4 {
				t.Errorf("got\n%s", out.String())
			}
		})
	}
}

// Each goal must name a section, a subject and a metric that the bench measures.
func TestGoalsNameSubjects(t *testing.T) {
	for _, g := range goals() {
		for _, w := range g.ways {
			wantMeasured(t, w.section, w.subject, w.metric)
			if w.over != "" {
				wantMeasured(t, w.section, w.over, w.metric)
			}
		}
	}
}

// wantMeasured checks that the bench measures the metric of the subject.
func wantMeasured(t *testing.T, name, subjectName, metric string) {
	t.Helper()
	i := slices.IndexFunc(sections(), func(s section) bool { return s.name == name })
	if i < 0 {
		t.Errorf("no section %q", name)
		return
	}
	s := sections()[i]
	if !slices.ContainsFunc(s.subjects, func(sub subject) bool { return sub.name == subjectName }) {
		t.Errorf("%s: no subject %q", name, subjectName)
	}
	if !slices.ContainsFunc(s.table.Columns, func(c figure.Column) bool { return c.Metric == metric }) {
		t.Errorf("%s: no metric %q", name, metric)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-runs", "0"}, {"more"}, {"-runs", "x"}} {
		var stderr bytes.Buffer
		if status := run(t.Context(), args, io.Discard, &stderr); status != 2 || stderr.Len() == 0 {
			t.Errorf("%q ends with %d and says %q", args, status, &stderr)
		}
	}
	if status := run(t.Context(), []string{"role", "nobody"}, io.Discard, io.Discard); status != 2 {
		t.Errorf("an unknown role ends with %d", status)
	}
}

func TestStatus(t *testing.T) {
	measured := figure.Figures{List: []figure.Figure{{}}}
	for _, test := range []struct {
		bench bench
		want  int
	}{
		{bench{figures: measured}, 0}, {bench{}, 2}, {bench{figures: measured, failed: 1}, 2}, {bench{figures: measured, failed: 1, wrong: 1}, 1},
	} {
		if got := test.bench.status(); got != test.want {
			t.Errorf("wrong %d, failed %d: status %d, want %d", test.bench.wrong, test.bench.failed, got, test.want)
		}
	}
}
