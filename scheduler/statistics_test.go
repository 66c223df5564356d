package scheduler_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/statistics"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

func tagged(asked timer.Timer, tags ...timer.Tag) timer.Timer {
	asked.Tags = tags
	return asked
}

// fresh is longer than nodes answer with the same statistics.
const fresh = 1100 * time.Millisecond

// wantTags asks all nodes.
func (c *cluster) wantTags(after string, want map[string]int64) {
	c.Helper()
	pass(fresh)
	for i, n := range c.nodes {
		got, err := n.Statistics(c.Context())
		if err != nil {
			c.Errorf("node %d %s: %v", i, after, err)
		}
		if diff := cmp.Diff(statistics.Sums{Tags: want}, got); diff != "" {
			c.Errorf("node %d %s (-want +got):\n%s", i, after, diff)
		}
	}
}

// A timer counts once, despite its copies, from its creation to its end, however the timer ends.
func TestTagsCountOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.URI == "http://dead/" {
				return 0, dispatch.Delivered{Reason: "status 500"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		c.wantTags("at first", map[string]int64{})
		call, reg := timer.Tag{Type: "CALL", Count: 1}, timer.Tag{Type: "REG", Count: 2}
		var ids []timer.ID
		for range 30 {
			ids = append(ids, c.create(tagged(oneShot(12*time.Minute), call)).ID)
		}
		recurs := c.create(tagged(recurring(10*time.Second, 6), reg, reg)).ID
		dead := tagged(oneShot(time.Minute), timer.Tag{Type: "dead", Count: 7})
		dead.Callback.URI = "http://dead/"
		c.create(dead)
		c.wantTags("after creates", map[string]int64{"CALL": 30, "REG": 4, "dead": 7})
		for i, id := range ids[:20] {
			n := c.nodes[i%2]
			if i < 10 {
				if _, err := n.Replace(c.Context(), id, tagged(oneShot(5*time.Minute), reg)); err != nil {
					c.Fatal(err)
				}
				continue
			}
			if _, err := n.Delete(c.Context(), id); err != nil {
				c.Fatal(err)
			}
		}
		c.wantTags("after replaces and deletes", map[string]int64{"CALL": 10, "REG": 24, "dead": 7})
		pass(30 * time.Second)
		c.wantTags("while one recurs", map[string]int64{"CALL": 10, "REG": 24, "dead": 7})
		c.wantOnce(recurs.Key, 3, maxLate)
		pass(3 * time.Minute)
		c.wantTags("after one has recurred, and one died", map[string]int64{"CALL": 10, "REG": 20})
		if letters := len(slices.Concat(c.DeadLetters("s0"), c.DeadLetters("s1"), c.DeadLetters("s2"))); letters != 1 {
			c.Errorf("%d dead letters, want the one", letters)
		}
		pass(2 * time.Minute)
		c.wantTags("after the replaced ones have fired", map[string]int64{"CALL": 10})
		pass(8 * time.Minute)
		c.wantTags("after all", map[string]int64{})
		c.wantEmpty()
	})
}

// Statistics are right again once the sweep has passed: after a shard has lost all data, after a
// shard was removed, and while shards come.
func TestTagsAfterTheSweep(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		onFirst := 0
		for range 60 {
			id := c.create(tagged(oneShot(time.Hour), timer.Tag{Type: "CALL", Count: 1})).ID
			if c.homes(id.Key, 1)[0] == "s0" {
				onFirst++
			}
		}
		all := map[string]int64{"CALL": 60}
		c.wantTags("after creates", all)
		c.Wipe("s0")
		c.wantTags("after a shard was wiped", map[string]int64{"CALL": int64(60 - onFirst)})
		three, four := []string{"s0", "s1", "s2"}, []string{"s0", "s1", "s2", "s3"}
		less := []string{"s1", "s2", "s3"}
		for _, l := range []storetest.Layout{
			{Shards: three, Epoch: 2},
			{Shards: four, Others: [][]string{three}, Epoch: 3},
			{Shards: four, Active: less, Others: [][]string{four}, Epoch: 4},
			{Shards: less, Epoch: 4},
		} {
			c.Lay(l)
			pass(15 * time.Second)
			c.wantTags(fmt.Sprintf("in epoch %d, with %d shards", l.Epoch, len(l.Shards)), all)
		}
		c.Wipe("s1") // the shard is dead, and removed
		c.Lay(storetest.Layout{Shards: []string{"s2", "s3"}, Epoch: 5})
		pass(15 * time.Second)
		c.wantTags("after a dead shard was removed", all)
	})
}

// A shard that can't be asked is named, and the metric stays unchanged.
func TestStatisticsNameWhatIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *storetest.Model, r *recorder) {
		m, registry := storetest.NewModel("s0", "s1", "s2"), prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		onFirst := 0
		for range 60 {
			id := create(t, n, tagged(oneShot(time.Hour), timer.Tag{Type: "CALL", Count: 1})).ID
			if m.Open("probe").Rank(id.Key)[0] == "s0" {
				onFirst++
			}
		}
		pass(10 * time.Second)
		want := map[string]float64{"CALL": 60}
		if diff := cmp.Diff(want, metricOf(t, registry)); diff != "" {
			t.Errorf("metric (-want +got):\n%s", diff)
		}
		for name, link := range map[string]storetest.Link{"cut": storetest.LinkCut, "mute": storetest.LinkMute} {
			m.Connect("a", "s0", link)
			for range 2 { // the second time the shard is known to be silent
				began := time.Now()
				got, err := n.Statistics(t.Context())
				left := statistics.Sums{Tags: map[string]int64{"CALL": int64(60 - onFirst)}, Incomplete: []string{"s0"}}
				if diff := cmp.Diff(left, got); diff != "" || err != nil || time.Since(began) > time.Second/2 {
					t.Errorf("%s: after %v: %v (-want +got):\n%s", name, time.Since(began), err, diff)
				}
				pass(10 * time.Second)
			}
			if diff := cmp.Diff(want, metricOf(t, registry)); diff != "" {
				t.Errorf("%s: metric (-want +got):\n%s", name, diff)
			}
			m.Connect("a", "s0", storetest.LinkUp)
			pass(10 * time.Second)
		}
		for _, shard := range []string{"s0", "s1", "s2"} {
			m.Connect("a", shard, storetest.LinkCut)
		}
		if got, err := n.Statistics(t.Context()); !errors.Is(err, timer.ErrUnavailable) || got.Tags != nil {
			t.Errorf("with no shard: %+v, %v", got, err)
		}
		m.Lay(storetest.Layout{Shards: []string{"s1", "s2"}})
		pass(10 * time.Second)
		if diff := cmp.Diff(map[string]float64{"CALL": float64(60 - onFirst)}, metricOf(t, registry)); diff != "" {
			t.Errorf("metric after a shard has gone (-want +got):\n%s", diff)
		}
	})
}

// TestPendingLeavesOutTombstones: one gauge counts waiting timers, another gauge counts timers that
// are over and remembered.
func TestPendingLeavesOutTombstones(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		for range 3 {
			create(t, n, oneShot(time.Hour))
		}
		ended := create(t, n, oneShot(time.Hour))
		if _, err := n.Delete(t.Context(), ended.ID); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		for gauge, want := range map[string]float64{"chronos_pending": 3, "chronos_tombstones": 1} {
			if got := valueOf(t, registry, gauge); got != want {
				t.Errorf("%s is %v, want %v", gauge, got, want)
			}
		}
	})
}

// metricOf is the metric chronos_timers_tagged.
func metricOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "chronos_timers_tagged" {
			continue
		}
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return values
}

// Clients may choose a type for every timer: answers and metric stay small, and say so.
func TestStatisticsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		const types = statistics.MaxTagTypes
		for i := range types {
			create(t, n, tagged(oneShot(time.Hour), timer.Tag{Type: fmt.Sprintf("type-%04d", i), Count: 2}))
		}
		pass(10 * time.Second)
		got, err := n.Statistics(t.Context())
		if err != nil || got.Truncated || len(got.Tags) != types || len(metricOf(t, registry)) != types {
			t.Errorf("%d types, truncated %t, %v, want all %d", len(got.Tags), got.Truncated, err, types)
		}
		create(t, n, tagged(oneShot(time.Hour), timer.Tag{Type: "many", Count: 100}, timer.Tag{Type: "x", Count: 1}))
		pass(10 * time.Second)
		if got, err = n.Statistics(t.Context()); err != nil || !got.Truncated || len(got.Tags) > types {
			t.Errorf("%d types, truncated %t, %v, want %d at most", len(got.Tags), got.Truncated, err, types)
		}
		metric := metricOf(t, registry)
		if sum := sumOfValues(metric); len(metric) > types+1 || sum > 2*types+101 {
			t.Errorf("the metric has %d types with a sum of %v", len(metric), sum)
		}
	})
}

// All shards together have more types than any shard alone: the sum of the types beyond the
// greatest is one number.
func TestTagsBeyondTheBoundAreOneSum(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *storetest.Model, r *recorder) {
		m, registry := storetest.NewModel("s0", "s1", "s2"), prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		const types, least = statistics.MaxTagTypes + 400, 3
		for i := range types {
			count := least
			if i%2 == 1 {
				count += i
			}
			create(t, n, tagged(oneShot(time.Hour), timer.Tag{Type: fmt.Sprintf("type-%04d", i), Count: count}))
		}
		pass(10 * time.Second)
		metric := metricOf(t, registry)
		if len(metric) != statistics.MaxTagTypes+1 || metric[""] != 400*least || metric["type-1399"] != 1399+least {
			t.Errorf("%d types, %v beyond, %v of the greatest", len(metric), metric[""], metric["type-1399"])
		}
		got, err := n.Statistics(t.Context())
		if err != nil || !got.Truncated || len(got.Tags) != statistics.MaxTagTypes || got.Tags["type-1399"] != 1399+least {
			t.Errorf("%d types, truncated %t, %v", len(got.Tags), got.Truncated, err)
		}
	})
}

func sumOfValues(values map[string]float64) (sum float64) {
	for v := range maps.Values(values) {
		sum += v
	}
	return sum
}

// Many requests at once need one reading.
func TestStatisticsAreReadOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		pass(time.Second / 2) // behind a beat
		reads := make(chan struct{}, 1000)
		m.Inject(func(op, _ string) error {
			if op == "tags" {
				reads <- struct{}{}
			}
			return nil
		}, nil)
		answers := make(chan error)
		for range 50 {
			go func() {
				_, err := n.Statistics(t.Context())
				answers <- err
			}()
		}
		for range 50 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if len(reads) != 1 {
			t.Errorf("50 requests made %d reads, want one", len(reads))
		}
	})
}
