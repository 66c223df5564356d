package processtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// TestSlowRedis makes one of three Redis answer late. After 3 s the nodes treat the slow Redis
// as away, and timers without a copy on the slow Redis don't notice. A busy machine
// that holds up the test holds up the nodes, too, so hold-ups widen the bounds.
func TestSlowRedis(t *testing.T) {
	testkit.Program(t, "redis-server")
	for _, delay := range []time.Duration{250 * time.Millisecond, 430 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			if !*faultsFull { // a full run measures, and should have the machine for itself
				t.Parallel()
			}
			runAlone(t, "TestSlowRedis/"+delay.String(), func(plan) *scenario {
				return &scenario{
					name: "redis-slow-" + delay.String(), proxied: true, mix: slowMix,
					inject: func(r *rig) { r.slowDown(delay) }, after: (*rig).judgeSlowRedis,
				}
			})
		})
	}
}

func slowMix(m *mix) {
	m.rate, m.deletes, m.replaces = 150, 0.1, 0.1
	m.longest, m.longestRecurring = 3*time.Second, 2500*time.Millisecond
}

// slowDown measures the load without a fault, and then while a shard answers late.
func (r *rig) slowDown(delay time.Duration) {
	r.control = r.during(r.plan.seconds(6, 20))
	slow := rand.IntN(len(shardNames))
	r.slow, r.slowBy = shardNames[slow], delay
	end := r.journal.begin(history.Fault{Kind: "slow", Class: history.ShardAway, Shard: r.slow, LateMs: 1000})
	for _, m := range r.cluster.nodes {
		m.links[slow].slow(0, delay)
	}
	r.outage = span{from: r.now()}
	r.wait(r.plan.seconds(12, 40))
	for _, m := range r.cluster.nodes {
		m.links[slow].slow(0, 0)
	}
	r.outage.to = r.now()
	end()
	r.wait(r.plan.seconds(4, 10))
}

func (r *rig) judgeSlowRedis(h *history.History, _ *history.Report) {
	skews := make(map[string]time.Duration) // by URL
	for i := range h.Operations {
		if asked := h.Operations[i].Timer; asked != nil {
			skews[asked.URL] = store.DefaultSkew().Of(time.Duration(asked.IntervalMs)*time.Millisecond, 2)
		}
	}
	beyondSkew := func(c *history.Callback) (is bool, less time.Duration) {
		return r.rank(c.Key)[0] == r.slow, skews[c.URL]
	}
	without := func(c *history.Callback) (is bool, less time.Duration) {
		return !slices.Contains(r.rank(c.Key)[:2], r.slow), 0
	}
	begin, later := r.outage, r.outage
	begin.to = begin.from + 5*time.Second
	later.from = begin.to
	slack := heldup.Slack(r.heldUp)
	// A pop that came due behind a poll waits for three answers: to the poll, to the next poll with the claim, and
	// to the fence.
	inAll := max(time.Second, 3*r.slowBy+200*time.Millisecond)
	for _, part := range []struct {
		name string
		late []time.Duration
		most time.Duration
	}{
		{"first copy there, first 5 s, beyond the skew", r.lateness(h, begin, beyondSkew), inAll + slack},
		{"first copy there, later, beyond the skew", r.lateness(h, later, beyondSkew), 300*time.Millisecond + slack},
		{"no copy there", r.lateness(h, r.outage, without), percentile(r.lateness(h, r.control, without), 99) + 50*time.Millisecond + slack},
	} {
		got := percentile(part.late, 99)
		line := fmt.Sprintf("lateness, %s: %d callbacks, p50 %v, p99 %v, worst %v; want p99 %v at most", part.name, len(part.late),
			percentile(part.late, 50), got, percentile(part.late, 100), part.most)
		r.t.Log(line)
		if got > part.most || len(part.late) < 100 {
			r.t.Error(line)
		}
	}
	control := r.lateness(h, r.control, anyCallback)
	r.t.Logf("lateness, control: %d callbacks, p50 %v, p99 %v", len(control), percentile(control, 50), percentile(control, 99))
}
