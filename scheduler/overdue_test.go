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

// TestOverduePopsAreCalledOneAfterAnother: a receiver that is slower than the interval gets every
// pop, later and later.
func TestOverduePopsAreCalledOneAfterAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(1900 * time.Millisecond)
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		create(t, n, recurring(time.Second, 10))
		pass(25 * time.Second)
		if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(r.pops(), want) {
			t.Errorf("called pops %v, want %v", r.pops(), want)
		}
		if got := valueOf(t, registry, "chronos_pops_left_out_total"); got != 0 {
			t.Errorf("%v pops are counted as left out, want none", got)
		}
	})
}

// pops are the sequence numbers of the attempts.
func (r *recorder) pops() (all []int) {
	for _, a := range r.seen() {
		all = append(all, a.Seq)
	}
	return all
}

// TestPopsThatAReceiverMissesAreCounted: several pops come due while a callback lasts. Without
// making up, only the latest pop is called; the callback, the log and the metrics tell of the rest.
func TestPopsThatAReceiverMissesAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(1900 * time.Millisecond)
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer, c.CatchUp = registry, 1 })
		receipt := create(t, n, recurring(time.Second, 10))
		pass(15 * time.Second)
		var left []int
		for _, a := range r.seen() {
			left = append(left, a.LeftOut)
		}
		if want := []int{1, 2, 4, 6, 8, 10}; !slices.Equal(r.pops(), want) {
			t.Errorf("called pops %v, want %v", r.pops(), want)
		}
		if want := []int{0, 0, 1, 1, 1, 1}; !slices.Equal(left, want) {
			t.Errorf("the callbacks told of %v pops left out, want %v", left, want)
		}
		if got := valueOf(t, registry, "chronos_pops_left_out_total"); got != 4 {
			t.Errorf("%v pops are counted as left out, want 4", got)
		}
		if line := "timer=" + receipt.ID.String() + " from=3 to=3"; !strings.Contains(n.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, n.log)
		}
	})
}

// TestPopsLeftOutAreToldUntilACallbackSucceeds: an outage has more overdue pops than are made up for. The
// latest pop says how many pops were left out, and so does every later callback until a callback succeeds.
func TestPopsLeftOutAreToldUntilACallbackSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		first := startNode(t, m.Open("a"), "a", r)
		create(t, first, recurring(10*time.Second, 20))
		first.stop()
		pass(155 * time.Second)
		failures := 0
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			if failures++; failures <= 6 {
				return 0, dispatch.Delivered{Reason: "status 503"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		startNode(t, m.Open("b"), "b", r)
		pass(60 * time.Second)
		told := map[int][]int{}
		for _, a := range r.seen() {
			told[a.Seq] = append(told[a.Seq], a.LeftOut)
		}
		for seq, left := range told {
			want := 14 // pops 1 to 14, until the first callback that succeeds
			if seq > 17 {
				want = 0
			}
			if seq != 16 && seq != 17 && slices.ContainsFunc(left, func(n int) bool { return n != want }) {
				t.Errorf("pop %d told of %v pops left out, want %d", seq, left, want)
			}
		}
		if len(told[15]) < 2 || len(told[14]) > 0 || len(told[18]) != 1 {
			t.Errorf("attempts by pops: %v, want some at 15, none at 14, one at 18", told)
		}
		if all := r.seen(); all[6].LeftOut != 14 || all[7].LeftOut != 0 {
			t.Errorf("the callback that succeeds told of %d pops, the next one of %d, want 14, 0", all[6].LeftOut, all[7].LeftOut)
		}
	})
}

// TestFailedPopsAreNotLeftOut: a pop that was called without success is not counted.
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

// TestLogOfPopsLeftOutIsBounded: many timers at once make few lines, and a line that counts the
// rest.
func TestLogOfPopsLeftOutIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(1900 * time.Millisecond)
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.CatchUp = 1 })
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

// valueOf is the value of the only counter or gauge with a name.
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
