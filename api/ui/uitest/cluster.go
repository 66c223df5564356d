package uitest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"chronos/api/wire"
	"chronos/scheduler/cluster"
	"chronos/scheduler/destinations"
	"chronos/scheduler/forecast"
	"chronos/scheduler/timer"
)

// Backend is a cluster in memory: what the dashboard shows and changes. A Backend is safe for concurrent
// use. The fields may be set before the first use.
type Backend struct {
	// Away are the names of shards that give no answer.
	Away []string
	// Fail is the error of all reads; nil for none.
	Fail error

	mu     sync.Mutex
	began  time.Time
	timers []*Timer // by due time
	Dead   *Letters
	shards []cluster.Shard
	paused map[string]time.Time
	Log    []string // the changes, in order
}

// New makes a cluster of three shards and two nodes, without timers.
func New() *Backend {
	b := &Backend{began: time.Now(), paused: make(map[string]time.Time)}
	for i, name := range []string{"a", "b", "c"} {
		b.shards = append(b.shards, cluster.Shard{
			Name: name, URL: "redis://r" + name + ":6379/0", State: "active", Up: true, Copies: new(41200 + 317*int64(i)), Swept: new(1.0),
			ClockOffset: time.Duration(i) * time.Millisecond, Persists: "aof", Version: "7.4.2", UsedMemory: 310 << 20, MaxMemory: 2 << 30, Letters: int64(i),
		})
	}
	b.Dead = &Letters{backend: b}
	return b
}

func (b *Backend) away(shard string) bool { return slices.Contains(b.Away, shard) }

func (b *Backend) note(format string, args ...any) {
	b.Log = append(b.Log, fmt.Sprintf(format, args...))
}

// Changes returns the changes that were made, in order.
func (b *Backend) Changes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Log)
}

// Status implements ui.Cluster.
func (b *Backend) Status(ctx context.Context) (cluster.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return cluster.Status{}, err
	}
	late := cluster.Lateness{P50: 1100 * time.Microsecond, P99: 4300 * time.Microsecond, P999: 18 * time.Millisecond, Max: 41 * time.Millisecond}
	s := cluster.Status{
		View: "9f31c2aa", Epoch: 7, Timers: cluster.Timers{About: 61840, Copies: 123680, Sampled: 1536}, PerSecond: cluster.Rates{Fired: 1284.4, Failed: 3.2},
		InFlight: 37, Late: late, Dead: int64(len(b.Dead.letters)), Unreached: slices.Clone(b.Away),
		Nodes: []cluster.Node{
			{ID: "0b4f6c1e-8f5d-4a7e-9a55-1d3b0a1c2e4f", Host: "node-1", Version: "v1.4.0", Format: 3, Public: "10.0.0.1:7253", Admin: "127.0.0.1:7254", Started: b.began.Add(-76 * time.Hour), Seen: 400 * time.Millisecond, PerSecond: cluster.Rates{Fired: 640.2, Failed: 1.1}, InFlight: 18, Late: late, Self: true},
			{ID: "6b1f0a77-33a9-4d0d-8f0e-5b7c9d2e1f00", Host: "node-2", Version: "v1.4.0", Format: 3, Public: "10.0.0.2:7253", Admin: "127.0.0.1:7254", Started: b.began.Add(-75 * time.Hour), Seen: 900 * time.Millisecond, PerSecond: cluster.Rates{Fired: 644.2, Failed: 2.1}, InFlight: 19, Late: late},
		},
		Destinations: []cluster.Destination{
			{Name: "https://orders.example.com:443", PerSecond: cluster.Rates{Fired: 902.1, Failed: 0}, InFlight: 21, P99: 84 * time.Millisecond, Last: "status 200"},
			{Name: "http://billing.internal:8080", PerSecond: cluster.Rates{Fired: 371.3, Failed: 3.2}, InFlight: 16, Waiting: 12, P99: 1900 * time.Millisecond, Last: "status 503"},
			{Name: "https://mail.example.net:8443", PerSecond: cluster.Rates{Fired: 11}, P99: 210 * time.Millisecond, Last: "status 204"},
		},
	}
	for _, shard := range b.shards {
		if b.away(shard.Name) {
			shard.Up, shard.Problem, shard.Due, shard.OldestDue = false, "connection refused", 21, 4*time.Second
			s.Alarms = append(s.Alarms, cluster.Alarm{Code: cluster.ShardDown, Shard: shard.Name, Text: "this node does not reach the shard; start its Redis, or look at the network"})
		}
		s.Shards = append(s.Shards, shard)
	}
	return s, nil
}

func (b *Backend) failed(ctx context.Context) error {
	if b.Fail != nil {
		return b.Fail
	}
	return ctx.Err()
}

// Load implements ui.Cluster: a wave, the same at each call.
func (b *Backend) Load(ctx context.Context, q forecast.Query) (forecast.Load, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.From.IsZero() {
		q.From = time.Now()
	}
	l := forecast.Load{From: q.From.Truncate(time.Millisecond), Step: q.Step, Unreached: slices.Clone(b.Away)}
	for i := range q.Buckets {
		wave := 1 + math.Sin(float64(i)/float64(q.Buckets)*6*math.Pi)/2 + math.Cos(float64(i)*1.7)/6
		n := int64(wave * 8 * q.Step.Seconds())
		l.Timers, l.Copies = append(l.Timers, n), append(l.Copies, 2*n)
	}
	return l, b.failed(ctx)
}

// History implements ui.History: an hour with a short disturbance.
func (b *Backend) History() (moments []cluster.Moment) {
	const step = 10 * time.Second
	now := time.Now().Truncate(step)
	for i := range 360 {
		base := time.Duration(1000+180*math.Sin(float64(i)/23)) * time.Microsecond
		late := cluster.Lateness{P50: base, P99: 4 * base, P999: 14 * base, Max: 30 * base}
		if i > 200 && i < 212 {
			late.P999 *= 5
			late.Max *= 5
		}
		moments = append(moments, cluster.Moment{At: now.Add(time.Duration(i-360) * step), Late: late, PerSecond: cluster.Rates{Fired: 1200 + 100*math.Sin(float64(i)/40), Failed: 3}})
	}
	return moments
}

// Destinations implements ui.Destinations.
func (b *Backend) Destinations() []destinations.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	views := []destinations.View{{Destination: "https://mail.example.net:8443", Limit: destinations.Limit{Rate: 50, Burst: 100, Concurrency: 20}, InFlight: 1}}
	for name, until := range b.paused {
		views = append(views, destinations.View{Destination: name, Until: until})
	}
	slices.SortFunc(views, func(x, y destinations.View) int { return cmpText(x.Destination, y.Destination) })
	return views
}

// Pause implements ui.Destinations.
func (b *Backend) Pause(_ context.Context, destination string, until time.Time) (destinations.Pausing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if destination == "nonsense" {
		return destinations.Pausing{}, timer.Invalid("/destination", "destination-malformed", "the destination is not scheme, host and port; give https://host:443")
	}
	b.paused[destination] = until
	b.note("pause %s", destination)
	return destinations.Pausing{Destination: destination, Until: until, Untold: slices.Clone(b.Away)}, nil
}

// Resume implements ui.Destinations.
func (b *Backend) Resume(_ context.Context, destination string) (destinations.Pausing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.paused, destination)
	b.note("resume %s", destination)
	return destinations.Pausing{Destination: destination, Untold: slices.Clone(b.Away)}, nil
}

// Add implements ui.Topology.
func (b *Backend) Add(_ context.Context, name, url string, force bool) (wire.TopologyView, error) {
	return b.reshape(name, force, func(s *cluster.Shard) error {
		if s != nil {
			return &wire.RefusedError{Reason: "there is a shard of this name already; choose another name"}
		}
		b.shards = append(b.shards, cluster.Shard{Name: name, URL: url, State: "joining", Up: true, Copies: new(int64(0)), Swept: new(0.1), SweepLeft: 90 * time.Second, Persists: "aof", Version: "7.4.2", UsedMemory: 2 << 20})
		b.note("add %s %s", name, url)
		return nil
	})
}

// Drain implements ui.Topology. A drained shard is empty at the next Advance.
func (b *Backend) Drain(_ context.Context, name string, force bool) (wire.TopologyView, error) {
	return b.reshape(name, force, func(s *cluster.Shard) error {
		if s == nil {
			return &wire.RefusedError{Reason: "there is no shard of this name"}
		}
		s.State, s.Swept, s.SweepLeft = "draining", new(0.25), 2*time.Minute
		b.note("drain %s", name)
		return nil
	})
}

// Remove implements ui.Topology.
func (b *Backend) Remove(_ context.Context, name string, force bool) (wire.TopologyView, error) {
	return b.reshape(name, force, func(s *cluster.Shard) error {
		if s == nil || !force && (s.State != "draining" || *s.Copies > 0) {
			return &wire.RefusedError{Reason: "the shard still has timers; drain it first"}
		}
		b.shards = slices.DeleteFunc(b.shards, func(one cluster.Shard) bool { return one.Name == name })
		b.note("remove %s", name)
		return nil
	})
}

func (b *Backend) reshape(name string, _ bool, do func(*cluster.Shard) error) (wire.TopologyView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		if b.shards[i].Name == name {
			return wire.TopologyView{}, do(&b.shards[i])
		}
	}
	return wire.TopologyView{}, do(nil)
}

// Drained has a shard that is being drained be empty.
func (b *Backend) Drained(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		if b.shards[i].Name == name {
			b.shards[i].Copies, b.shards[i].Swept, b.shards[i].SweepLeft, b.shards[i].Removable = new(int64(0)), new(1.0), 0, true
		}
	}
}

// SetAway has shards give no answer from now on.
func (b *Backend) SetAway(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Away = names
}

// SetFail has all reads fail from now on.
func (b *Backend) SetFail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Fail = err
}
