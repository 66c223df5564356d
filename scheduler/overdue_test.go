package scheduler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
)

// TestPopsThatAReceiverMissesAreCounted: of the pops that came due while a callback lasted
// the latest is called; the log and the metrics tell of the others.
func TestPopsThatAReceiverMissesAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(1900 * time.Millisecond)
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		receipt := create(t, n, recurring(time.Second, 10))
		pass(15 * time.Second)
		var called []int
		for _, a := range r.seen() {
			called = append(called, a.Seq)
		}
		if want := []int{1, 2, 4, 6, 8, 10}; !slices.Equal(called, want) {
			t.Errorf("called pops %v, want %v", called, want)
		}
		if got := valueOf(t, registry, "chronos_pops_left_out_total"); got != 4 {
			t.Errorf("%v pops are counted as left out, want 4", got)
		}
		if line := "timer=" + receipt.ID.String() + " from=3 to=3"; !strings.Contains(n.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, n.log)
		}
	})
}

// TestFailedPopsAreNotLeftOut: a pop that was called, though in vain, is not counted.
func TestFailedPopsAreNotLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 503"}
		}
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		create(t, n, recurring(time.Second, 20))
		pass(30 * time.Second)
		called := map[int]bool{}
		for _, a := range r.seen() {
			called[a.Seq] = true
		}
		if len(called) != 20 {
			t.Errorf("%d pops were called, want 20", len(called))
		}
		if got := valueOf(t, registry, "chronos_pops_left_out_total"); got != 0 {
			t.Errorf("%v pops are counted as left out, want none", got)
		}
	})
}

// TestLogOfPopsLeftOutIsBounded: many timers at once make few lines, and one that counts
// the others.
func TestLogOfPopsLeftOutIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(1900 * time.Millisecond)
		n := startNode(t, m.Open("a"), "a", r)
		for range 200 {
			create(t, n, recurring(time.Second, 4))
		}
		pass(20 * time.Second)
		if lines := strings.Count(n.log.String(), "from=3"); lines < 50 || lines > 60 {
			t.Errorf("%d lines about single timers, want 50 and 10 a second", lines)
		}
		if !strings.Contains(n.log.String(), "lines were left out of the log") {
			t.Errorf("the log does not say how many lines it left out:\n%s", n.log)
		}
	})
}

// valueOf is the value of a counter or gauge, the only one of its name.
func valueOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			only := f.GetMetric()[0]
			return only.GetCounter().GetValue() + only.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
