package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/kept"
	"chronos/scheduler/pulse"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
)

const (
	// inspectInterval is how often the shards are asked for their condition, whether or not somebody looks.
	inspectInterval = 5 * time.Second
	inspectPatience = 2 * time.Second
	// toldLife is how long the texts of the nodes are shown again, so that frequent readers cost the shards
	// nothing. sampleLife is how long the number of timers is.
	toldLife   = time.Second
	sampleLife = 10 * time.Second
	// askPatience is how long a reader waits for the shards.
	askPatience = 450 * time.Millisecond

	maxMoments = 720 // an hour
)

// Observer keeps what this node knows of the cluster. All methods are safe for concurrent use.
type Observer struct {
	config    *settings.Config
	shards    *shard.Registry
	inspector store.Inspector
	own       func() pulse.Figures

	told    *kept.Answer[telling]
	samples *kept.Answer[sampling]

	mu         sync.Mutex
	inspection store.Inspection
	conditions []condition // in the order of the inspection
	inspected  time.Time   // zero before the first inspection
	moments    []Moment    // the oldest first
}

// New makes an observer. own are the figures of this node.
func New(config *settings.Config, shards *shard.Registry, inspector store.Inspector, own func() pulse.Figures) *Observer {
	return &Observer{
		config: config, shards: shards, inspector: inspector, own: own,
		told: kept.New[telling](toldLife), samples: kept.New[sampling](sampleLife),
	}
}

// Run keeps the condition of the shards and the history up to date until ctx ends. Call Run at most once.
func (o *Observer) Run(ctx context.Context) {
	for {
		o.inspect(ctx)
		o.remember(time.Now())
		if !awake.Sleep(ctx, inspectInterval) {
			return
		}
	}
}

// inspect asks the shards for their condition. The last known numbers of a shard without an answer stay.
func (o *Observer) inspect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectPatience)
	defer cancel()
	found := o.inspector.Inspect(ctx)
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	before, all := o.conditions, make([]condition, len(found.Shards))
	for i, r := range found.Shards {
		c := condition{ShardReport: r, answered: r.Err == nil}
		if at := slices.IndexFunc(before, func(b condition) bool { return b.Name == r.Name }); at >= 0 {
			old := &before[at]
			c.progress = old.progress
			if r.Err != nil {
				c.Copies, c.Letters, c.Due, c.Overdue = old.Copies, old.Letters, old.Due, old.Overdue
				c.Swept, c.Facts, c.answered = old.Swept, old.Facts, old.answered
			}
		}
		c.progress = c.progress.after(c.Swept, now)
		all[i] = c
	}
	o.inspection, o.conditions, o.inspected = found, all, now
}

// condition is what is known of a shard.
type condition struct {
	store.ShardReport

	answered bool // now, or at an earlier inspection
	progress progress
}

// latest is the last inspection. The first caller makes one. Nobody changes the conditions.
func (o *Observer) latest(ctx context.Context) (store.Inspection, []condition) {
	for range 2 {
		o.mu.Lock()
		found, conditions, at := o.inspection, o.conditions, o.inspected
		o.mu.Unlock()
		if !at.IsZero() {
			return found, conditions
		}
		o.inspect(context.WithoutCancel(ctx)) // others are told what is found, too
	}
	return store.Inspection{}, nil
}

// remember adds a moment to the history.
func (o *Observer) remember(now time.Time) {
	f := o.own()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.moments) == maxMoments {
		o.moments = append(o.moments[:0:0], o.moments[1:]...)
	}
	o.moments = append(o.moments, Moment{At: now, Late: Lateness(f.Late), PerSecond: Rates{f.Fired, f.Failed}})
}

// History is what this node has called back in the last hour, the oldest moment first. The caller owns the
// slice.
func (o *Observer) History() []Moment {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Moment(nil), o.moments...)
}

// progress is how far the sweep of a shard has come, and since when.
type progress struct {
	from, swept int // partitions
	begun       time.Time
}

// after is the progress with so many partitions swept now. A smaller number means another sweep.
func (p progress) after(swept int, now time.Time) progress {
	if p.begun.IsZero() || swept < p.swept || p.swept == store.Partitions {
		return progress{from: swept, swept: swept, begun: now}
	}
	p.swept = swept
	return p
}

// left is about how long the sweep still takes; 0 if nothing is known.
func (p progress) left(now time.Time) time.Duration {
	if p.swept <= p.from || p.swept >= store.Partitions {
		return 0
	}
	return now.Sub(p.begun) / time.Duration(p.swept-p.from) * time.Duration(store.Partitions-p.swept)
}
