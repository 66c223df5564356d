package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	observed "chronos/scheduler/cluster"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/pulse"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
)

// facts is an inspector whose shards have facts.
type facts struct {
	store.Inspector

	of func(r *store.ShardReport)
}

func (f facts) Inspect(ctx context.Context) store.Inspection {
	found := f.Inspector.Inspect(ctx)
	for i := range found.Shards {
		f.of(&found.Shards[i])
	}
	return found
}

// observe has a node observe the cluster until the test ends.
func (c *cluster) observe(node int, of func(r *store.ShardReport)) *observed.Observer {
	inspector := facts{c.Open(nodeName(node)).(store.Inspector), of} //nolint:errcheck,forcetypeassert // the views of a model are inspectors
	o := c.nodes[node].Observe(inspector)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	c.Cleanup(func() { cancel(); <-done })
	return o
}

func noFacts(*store.ShardReport) {}

func (c *cluster) status(o *observed.Observer) observed.Status {
	c.Helper()
	s, err := o.Status(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return s
}

func codesOf(s *observed.Status) (codes []string) {
	for _, a := range s.Alarms {
		codes = append(codes, strings.TrimSuffix(string(a.Code)+" "+a.Shard, " "))
	}
	return codes
}

func identified(config *settings.Config) {
	config.Identity = pulse.Identity{Host: "host of " + config.Node, Version: "v1", Format: 2, Started: time.Now(), Admin: "127.0.0.1:1"}
}

// Any node shows all nodes and shards, what is called back, and how many timers there are.
func TestStatusShowsTheCluster(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.URI == "http://down/" {
				return time.Second, dispatch.Delivered{Reason: "status 503"}
			}
			return 10 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		for range 10 {
			c.create(oneShot(time.Hour))
			c.create(recurring(time.Second, 100))
		}
		down := recurring(time.Second, 100)
		down.Callback.URI = "http://down/"
		c.create(down)
		o := c.observe(1, noFacts)
		pass(30 * time.Second)
		s := c.status(o)
		if len(s.Nodes) != 2 || s.Nodes[0].ID != "node-0" || s.Nodes[0].Host != "host of node-0" || s.Nodes[0].Self || !s.Nodes[1].Self || s.Nodes[1].Seen > 2*time.Second {
			t.Errorf("nodes %+v", s.Nodes)
		}
		if s.PerSecond.Fired < 9 || s.PerSecond.Fired > 11 || s.PerSecond.Failed < .5 || s.PerSecond.Failed > 2 || s.Late.P50 <= 0 || s.Late.P50 > 100*time.Millisecond {
			t.Errorf("%+v a second, late %+v", s.PerSecond, s.Late)
		}
		if s.Timers.About != 21 || s.Timers.Copies < 42 || s.Timers.Sampled < 42 || s.Dead != 0 {
			t.Errorf("%+v, want 21 timers with two copies", s.Timers)
		}
		if len(s.Destinations) < 2 || s.Destinations[0].Name == "http://down/" {
			t.Errorf("destinations %+v", s.Destinations)
		}
		at := slices.IndexFunc(s.Destinations, func(d observed.Destination) bool { return d.Name == "http://down/" })
		if at < 0 || s.Destinations[at].Last != "status 503" || s.Destinations[at].P99 < time.Second {
			t.Errorf("destinations %+v", s.Destinations)
		}
		if len(s.Shards) != 3 || !s.Shards[2].Up || s.Shards[2].Name != "s2" || *s.Shards[2].Swept != 1 || s.Shards[0].Persists != "unknown" {
			t.Errorf("shards %+v", s.Shards)
		}
		if len(s.Alarms)+len(s.Unreached) > 0 {
			t.Errorf("alarms %+v, unreached %v", s.Alarms, s.Unreached)
		}
		if moments := o.History(); len(moments) != 7 || moments[6].Late.P50 == 0 || moments[6].PerSecond.Fired == 0 {
			t.Errorf("history %+v", moments)
		}
	}, identified)
}

func TestStatusRemembersAnHour(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		o := c.observe(0, noFacts)
		pass(62 * time.Minute)
		if moments := o.History(); len(moments) != 720 || moments[719].At.Sub(moments[0].At) != 3595*time.Second {
			t.Errorf("%d moments", len(moments))
		}
	}, identified)
}

// A shard that falls silent is an alarm within 5 s, and so is a node; a silent node is gone after 10 s.
func TestStatusShowsWhoIsMissing(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for range 20 {
			c.create(oneShot(time.Hour))
		}
		o := c.observe(0, noFacts)
		pass(11 * time.Second)
		c.connect("s1", storetest.LinkCut)
		pass(5 * time.Second)
		s := c.status(o)
		if got := codesOf(&s); !slices.Equal(got, []string{"shard-down s1"}) || !slices.Equal(s.Unreached, []string{"s1"}) || s.Shards[1].Up {
			t.Errorf("%v, unreached %v, %+v", got, s.Unreached, s.Shards[1])
		}
		if s.Shards[1].Copies == nil || *s.Shards[1].Copies == 0 {
			t.Error("the last known number of copies is gone")
		}
		c.connect("s1", storetest.LinkUp)
		pass(10 * time.Second)
		if s := c.status(o); len(s.Alarms)+len(s.Unreached) > 0 {
			t.Errorf("afterwards: %+v, %v", s.Alarms, s.Unreached)
		}
		for _, shard := range []string{"s0", "s1", "s2"} {
			c.Connect(nodeName(1), shard, storetest.LinkCut) // as if the node had died
		}
		pass(5 * time.Second)
		if s := c.status(o); !slices.Equal(codesOf(&s), []string{"node-silent"}) || len(s.Nodes) != 2 {
			t.Errorf("%v, nodes %+v", codesOf(&s), s.Nodes)
		}
		pass(5 * time.Second)
		if s := c.status(o); len(s.Alarms) > 0 || len(s.Nodes) != 1 {
			t.Errorf("%v, nodes %+v", codesOf(&s), s.Nodes)
		}
	}, identified)
}

func TestAlarmsOfConditions(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		var change atomic.Pointer[func(*store.ShardReport)] // the observer inspects meanwhile
		o := c.observe(0, func(r *store.ShardReport) {
			r.Facts = store.ShardFacts{Persists: "aof", MaxMemory: 100, UsedMemory: 89, ClockAhead: -400 * time.Millisecond}
			if now := change.Load(); now != nil && r.Name == "s1" {
				(*now)(r)
			}
		})
		for name, tc := range map[string]struct {
			change func(r *store.ShardReport)
			want   []string
		}{
			"nothing":          {func(*store.ShardReport) {}, nil},
			"evicts":           {func(r *store.ShardReport) { r.Facts.Evicts = true }, []string{"evicts s1"}},
			"no file":          {func(r *store.ShardReport) { r.Facts.Persists = "none" }, []string{"persists-not s1"}},
			"full":             {func(r *store.ShardReport) { r.Facts.UsedMemory = 90 }, []string{"memory-full s1"}},
			"a clock ahead":    {func(r *store.ShardReport) { r.Facts.ClockAhead = time.Second }, []string{"clock-off s1"}},
			"a clock behind":   {func(r *store.ShardReport) { r.Facts.ClockAhead = -time.Hour }, []string{"clock-off s1"}},
			"another epoch":    {func(r *store.ShardReport) { r.Problem = "it does not hold this epoch" }, []string{"shard-problem s1"}},
			"given up":         {func(r *store.ShardReport) { r.Lost, r.Problem = true, "given up" }, []string{"shard-lost s1"}},
			"timers are due":   {func(r *store.ShardReport) { r.Overdue = 10 * time.Second }, []string{"overdue s1"}},
			"due for a moment": {func(r *store.ShardReport) { r.Overdue = 9 * time.Second }, nil},
		} {
			change.Store(&tc.change)
			pass(6 * time.Second)
			s := c.status(o)
			if got := codesOf(&s); !slices.Equal(got, tc.want) {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
			for _, a := range s.Alarms {
				if a.Text == "" || !strings.Contains(a.Text, "s1") {
					t.Errorf("%s: the alarm says %q", name, a.Text)
				}
			}
		}
	}, identified)
}

// A shard has the texts that anybody has written.
func TestStatusOfHostileTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1, identified)
		for i, text := range []string{`"host":"\u202e\u0000","timers":{"fired":1e308},"late_ms":{"p50":1e308}}`, `{}`, `"destinations":[{"fired":-1}]}`} {
			if _, err := c.Open(nodeName(10+i)).Beat(t.Context(), "s0", store.Announcement{Clock: time.Now(), Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		s := c.status(c.observe(0, noFacts))
		if len(s.Nodes) != 3 || s.Nodes[1].Host != "??" || s.PerSecond.Fired > 1e12 || s.Late.P50 < 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestStatusNeedsNoShard(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		c.connect("s0", storetest.LinkCut)
		pass(3 * time.Second)
		s := c.status(c.observe(0, noFacts))
		if !slices.Equal(s.Unreached, []string{"s0"}) || !slices.Equal(codesOf(&s), []string{"shard-down s0"}) || s.Shards[0].Copies != nil {
			t.Errorf("%+v", s)
		}
	})
}
