package docs_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// known are the metrics of docs/metrics.md with their labels. A test of the binaries holds the table.
func known(t *testing.T) map[string][]string {
	t.Helper()
	metrics := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(chronos_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(read(t, "metrics.md"), -1) {
		var labels []string
		for _, label := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		if row[2] != "histogram" {
			metrics[row[1]] = labels
			continue
		}
		metrics[row[1]+"_bucket"], metrics[row[1]+"_count"], metrics[row[1]+"_sum"] = append(slices.Clip(labels), "le"), labels, labels
	}
	if len(metrics) < 30 {
		t.Fatalf("docs/metrics.md has %d metrics", len(metrics))
	}
	return metrics
}

var (
	selector = regexp.MustCompile(`\b(chronos_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z]+)\s*(?:=~|!~|!=|=)`)
	by       = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// checkExpression checks that the metrics and labels of an expression exist. A scrape adds job and instance.
func checkExpression(t *testing.T, metrics map[string][]string, where, expr string) {
	t.Helper()
	labels := []string{"job", "instance"}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		own, is := metrics[m[1]]
		if !is {
			t.Errorf("%s: there is no metric %s", where, m[1])
		}
		labels = append(labels, own...)
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(own, label[1]) && label[1] != "job" {
				t.Errorf("%s: %s has no label %s", where, m[1], label[1])
			}
		}
	}
	if len(labels) == 2 && !selector.MatchString(expr) {
		t.Errorf("%s: %s is about no metric of chronos", where, expr)
	}
	for _, list := range by.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(list[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				t.Errorf("%s: no metric of the expression has the label %s", where, label)
			}
		}
	}
}

// Every alert has metrics that exist, a section of the runbook, and tests in which the alert fires and does not fire.
func TestAlerts(t *testing.T) {
	t.Parallel()
	metrics, rules, tests, runbook := known(t), read(t, "../deploy/prometheus/chronos.rules.yaml"), read(t, "../deploy/prometheus/chronos.test.yaml"), read(t, "runbook.md")
	alerts := strings.Split(rules, "- alert: ")[1:]
	if len(alerts) != strings.Count(rules, "expr:") || len(alerts) < 13 {
		t.Fatalf("%d alerts, %d expressions", len(alerts), strings.Count(rules, "expr:"))
	}
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		_, expr, _ := strings.Cut(rest, "expr:")
		expr, _, _ = strings.Cut(expr, "labels:")
		checkExpression(t, metrics, name, expr)
		if !strings.Contains(rest, "runbook_url: docs/runbook.md#"+strings.ToLower(name)+"\n") || !strings.Contains(runbook, "\n## "+name+"\n") {
			t.Errorf("%s has no section of docs/runbook.md", name)
		}
		fires, quiet := false, false
		for _, one := range strings.Split(tests, "eval_time:")[1:] {
			if !strings.Contains(one, "alertname: "+name+",") && !strings.Contains(one, "alertname: "+name+"\n") {
				continue
			}
			none := strings.Contains(one, "alertname: "+name+", exp_alerts: []")
			fires, quiet = fires || !none, quiet || none
		}
		// A shard without the problem stands beside a shard with the problem.
		quiet = quiet || strings.Contains(rest, "chronos_shard_problem")
		if !fires || !quiet {
			t.Errorf("chronos.test.yaml has no case in which %s fires, or no case in which it does not", name)
		}
	}
}

// Every panel of the Grafana dashboard asks for metrics and labels that exist.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	metrics := known(t)
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../deploy/grafana/chronos.json")), &board); err != nil {
		t.Fatal(err)
	}
	rows, ids := map[string]int{}, map[int]bool{}
	row := ""
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: the id %d is there twice, or the panel is too wide", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			row = p.Title
			continue
		}
		rows[row]++
		if len(p.Targets) == 0 {
			t.Errorf("%s has no expression", p.Title)
		}
		for _, target := range p.Targets {
			checkExpression(t, metrics, p.Title, strings.ReplaceAll(target.Expr, "$job", "job"))
		}
	}
	if want := []string{"Bridge", "Destinations", "Overview", "Shards", "Sites"}; !slices.Equal(slices.Sorted(maps.Keys(rows)), want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
}
