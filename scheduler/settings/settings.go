package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/awake"
	"chronos/scheduler/destinations"
	"chronos/scheduler/pulse"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Config says how an engine runs. Default fills in everything but Node
// and Log.
type Config struct {
	Node string // this process's id, fresh per start

	PollInterval time.Duration // between two looks at the same timers
	Grace        time.Duration // a lease ends so long after the due time, if no fence came
	Limit        time.Duration // a callback may start and last so long from the fence on
	Hold         time.Duration // so long after the fence another node may take over
	Renew        bool          // the fence while a callback lasts; the callback may then last as long as needed
	Settling     time.Duration // at stop: outcomes may take so long to be settled
	TombLife     time.Duration // of the tombstones that deletes leave
	// IdempotencyLife is how long a create with an idempotency key is answered
	// after the timer is over.
	IdempotencyLife time.Duration

	// AwayLimit is how long a shard may be away before the shard is given up: the shard is
	// drained, and no end is remembered for the shard. A shard that returns fires nothing until
	// the sweep has passed, and then joins again.
	AwayLimit time.Duration

	// MinCopies is how many copies must be stored before a write is acknowledged. If the
	// client asked for fewer copies, all must be stored.
	MinCopies int

	// SitePatience is how long a write waits for other sites.
	SitePatience time.Duration

	// SweepRate is how many copies a second a node looks at in a sweep, which brings copies to
	// the owners.
	SweepRate int

	Attempts int        // callbacks for a pop before the pop is given up
	CatchUp  int        // overdue pops that are called one after another; of more pops only the latest is called
	Slots    int        // callbacks under way in all
	Skew     store.Skew // between the copies of a timer

	// Deliveries has attempts at callbacks go into the log of deliveries, with the settlements.
	Deliveries bool
	// Destinations has the limits and pauses of destinations; nil for a book of the engine's own,
	// without limits.
	Destinations *destinations.Book

	// Identity is what the node tells all nodes of itself.
	Identity pulse.Identity

	// PreciseSleep has the wheel sleep by a kernel timer, if the system has kernel timers:
	// callbacks are half a millisecond sooner. Not for bubbles.
	PreciseSleep bool

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil for none

	// SinceBoot is time since boot, going on while the machine is suspended; Wall
	// is the wall clock. Tests in bubbles replace the clocks.
	SinceBoot func() time.Duration
	Wall      func() time.Time
	// Awake is the clock for waiting for answers. Awake stands still while the process does; nil
	// for a clock that never stands still.
	Awake *awake.Clock
}

// Default is the configuration for callbacks over HTTP.
func Default(node string, log *slog.Logger) Config {
	return Config{
		Node: node, Log: log,
		PollInterval: 100 * time.Millisecond, Grace: time.Second, Limit: 2 * time.Second, Hold: 3500 * time.Millisecond,
		Settling: time.Second, TombLife: 2 * time.Minute, IdempotencyLife: time.Hour, MinCopies: 1, SweepRate: 5000, SitePatience: 300 * time.Millisecond, AwayLimit: 15 * time.Minute, Attempts: 5, CatchUp: 10, Slots: 4096, Skew: store.DefaultSkew(),
		SinceBoot: sinceBoot, Wall: time.Now,
	}
}

// Validate reports every setting that contradicts another, or a time of the protocol.
func (c Config) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	require(c.Node != "" && c.Log != nil && c.SinceBoot != nil && c.Wall != nil, "a node id, a logger and clocks are needed")
	require(c.MinCopies >= 1 && c.MinCopies <= timer.MaxReplicationFactor, "min copies %d: want 1 to %d", c.MinCopies, timer.MaxReplicationFactor)
	require(c.SweepRate >= 1, "sweep rate %d: want at least 1", c.SweepRate)
	require(c.Attempts >= 1, "attempts %d: want at least 1", c.Attempts)
	require(c.CatchUp >= 1, "catch up %d: want at least 1", c.CatchUp)
	require(c.Slots >= 8, "slots %d: want at least 8", c.Slots)
	for _, needed := range c.inequalities() {
		require(needed.holds, "%s", needed.sentence)
	}
	return errors.Join(faults...)
}

// Horizon is how long before the due time a poll claims: a poll interval with jitter, plus the
// time for the poll itself.
func (c Config) Horizon() time.Duration { return c.PollInterval*5/4 + 25*time.Millisecond }

// Terms are the terms of a fence.
func (c Config) Terms() store.FenceTerms {
	return store.FenceTerms{Limit: c.Limit, Hold: c.Hold, CatchUp: c.CatchUp}
}

// Sending is how long after the comparison a callback may begin. If the fence is renewed, the
// callback may last longer than the next copy waits. But the callback must begin before the next
// copy may have called back, while a shard that lost the firing mark is still quiet, and early enough
// for the first renewal to come within the limit.
func (c Config) Sending(renewed bool) time.Duration {
	if renewed {
		return min(c.Limit/2, c.Skew.Max, timing.QuietTime)
	}
	return c.Limit
}
