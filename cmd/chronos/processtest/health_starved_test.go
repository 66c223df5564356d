package processtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// TestStarved runs two nodes on a machine with busy processors, and stops and continues the nodes
// at random. A busy machine is no fault: no pop is lost, early, out of order or called twice,
// and the nodes notice the death of a Redis all the same.
func TestStarved(t *testing.T) {
	testkit.Program(t, "redis-server")
	runAlone(t, "TestStarved", func(p plan) *scenario {
		return &scenario{name: "starved", busy: true, mix: p.starvedMix, inject: (*rig).starve, after: (*rig).judgeStarved}
	})
}

// TestAMachineThatBecomesBusyCallsNothingTwice runs two nodes on an idle machine that loops make
// busy again and again. No fault is recorded, so no second callback is allowed.
func TestAMachineThatBecomesBusyCallsNothingTwice(t *testing.T) {
	testkit.Program(t, "redis-server")
	runAlone(t, "TestAMachineThatBecomesBusyCallsNothingTwice", func(p plan) *scenario {
		return &scenario{name: "busy", busy: true, mix: p.starvedMix, inject: (*rig).makeBusy}
	})
}

func (r *rig) makeBusy() {
	for range r.plan.either(2, 8) {
		r.wait(2 * time.Second)
		idle := r.keepBusy(4)
		r.wait(3 * time.Second)
		idle()
	}
	r.wait(time.Second)
}

// runAlone runs a single scenario. The scenario measures the cost of a single fault.
func runAlone(t *testing.T, test string, scenarioOf func(plan) *scenario) {
	t.Helper()
	p := plan{full: *faultsFull, keep: *faultsKeep, test: test}
	s := scenarioOf(p)
	limits := s.limits
	s.limits = func(l *history.Limits, h *history.History) {
		l.MinPerFault = 1
		if limits != nil {
			limits(l, h)
		}
	}
	runScenario(t, s, p, func() {}, func() {})
}

// starvedMix is so light in a short run that the test itself, with a race detector, answers
// callbacks in time beside the busy loops.
func (p plan) starvedMix(m *mix) {
	m.rate, m.deletes, m.replaces = p.either(60, 200), 0.15, 0.15
	m.longest, m.longestRecurring = 2*time.Second, 2500*time.Millisecond
}

// span is a part of a run.
type span struct{ from, to time.Duration }

func (r *rig) now() time.Duration { return time.Duration(r.journal.now()) }

// during waits, and returns the span of the wait.
func (r *rig) during(d time.Duration) span {
	from := r.now()
	r.wait(d)
	return span{from, r.now()}
}

// settling is how long both nodes run before and after a Redis is killed. A node that stands still between
// its fence and its callback at that very moment is a second fault: the mark of the fence is lost, and
// nobody could prevent a second callback.
const settling = 250 * time.Millisecond

// starve measures the load beside busy loops. Then starve stops and continues both nodes for a
// while, with a dead shard for a part of the time, and measures again.
func (r *rig) starve() {
	r.keepBusy(4)
	r.wait(time.Second)
	r.control = r.during(r.plan.seconds(5, 15))
	stopping := make(chan struct{})
	var stops sync.WaitGroup
	for _, m := range r.cluster.nodes {
		stops.Go(func() { r.stopAgainAndAgain(m, stopping) })
	}
	r.wait(r.plan.seconds(7, 25))
	killed := r.cluster.shards[rand.IntN(len(r.cluster.shards))]
	r.standing.Lock()
	r.wait(settling)
	back := r.cluster.killShard(killed, "kill", history.ShardAway)
	r.outage = span{from: r.now()}
	r.wait(settling)
	r.standing.Unlock()
	testkit.Eventually(r.t, 20*time.Second, "each node says that the shard is away", func() bool {
		return !slices.ContainsFunc(r.cluster.nodes, func(m *member) bool { return !m.saysAway(killed.name) })
	})
	r.noticed = r.now() - r.outage.from
	r.wait(5*time.Second - r.noticed)
	back()
	r.outage.to = r.now()
	r.wait(r.plan.seconds(3, 30))
	close(stopping)
	stops.Wait()
	r.wait(2 * time.Second)
	r.afterwards = r.during(r.plan.seconds(5, 15))
}

// keepBusy starts loops that use up the processors, until idle or the end of the test.
func (r *rig) keepBusy(loops int) (idle func()) {
	var all []*testkit.Process
	for range loops {
		// The processor time is limited, so that the loop ends even if the test can't end the loop.
		all = append(all, testkit.Start(r.t, nil, "/bin/sh", "-c", "ulimit -t 150; while :; do :; done"))
	}
	return func() {
		for _, p := range all {
			p.Kill()
		}
	}
}

// stopAgainAndAgain makes a node stand still for 300 to 900 ms, again and again.
func (r *rig) stopAgainAndAgain(m *member, stopping <-chan struct{}) {
	for {
		select {
		case <-time.After(time.Duration(300+rand.IntN(1200)) * time.Millisecond):
		case <-stopping:
			return
		}
		// The class Slow excuses late callbacks only.
		r.standing.RLock()
		end := r.journal.begin(history.Fault{Kind: "stop", Class: history.Slow, Node: m.name})
		m.Signal(syscall.SIGSTOP)
		r.wait(time.Duration(300+rand.IntN(600)) * time.Millisecond)
		m.Signal(syscall.SIGCONT)
		end()
		r.standing.RUnlock()
	}
}

// saysAway reports whether a node's metrics say that a shard can't be used.
func (m *member) saysAway(shard string) bool {
	got, err := testkit.Ask(&http.Client{Timeout: 2 * time.Second}, http.MethodGet, m.admin+"/metrics", "")
	return err == nil && strings.Contains(got.Body, fmt.Sprintf("chronos_shard_up{shard=%q} 0", shard))
}

// lateness is how late the first callbacks came for pops that were due within the span, minus the
// allowed lateness. The shards use the clock of this machine.
func (r *rig) lateness(h *history.History, within span, of func(c *history.Callback) (is bool, less time.Duration)) (late []time.Duration) {
	first := make(map[string]*history.Callback)
	for i := range h.Callbacks {
		c := &h.Callbacks[i]
		if before := first[c.WebhookID]; before == nil || c.ArriveNs < before.ArriveNs {
			first[c.WebhookID] = c
		}
	}
	for _, c := range first {
		due := time.UnixMilli(c.DueMs).Sub(r.journal.start.Round(0))
		if is, less := of(c); is && due >= within.from && due < within.to {
			late = append(late, time.Duration(c.ArriveNs)-due-less)
		}
	}
	slices.Sort(late)
	return late
}

func anyCallback(*history.Callback) (is bool, less time.Duration) { return true, 0 }

// percentile is a percentile of sorted durations, or 0 without any.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p/100*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

// judgeStarved widens the bounds of every part of the run by twice the longest hold-up of the
// test in the part. Node and Redis wait for a processor just as the test does.
func (r *rig) judgeStarved(h *history.History, _ *history.Report) {
	// The two nodes may stand still one after the other, 0.9 s for every node. The kill may
	// thus delay pops that were due up to 2 s before the kill.
	before := r.outage.from - 2*time.Second
	stopped, killed := span{r.control.to, before}, span{before, r.outage.to}
	const notice = 3 * time.Second
	usual := percentile(r.lateness(h, r.control, anyCallback), 99)
	for _, part := range []struct {
		name            string
		span            span
		most99, longest time.Duration
	}{
		{"control", r.control, time.Second, 2 * time.Second},
		{"nodes stopped", stopped, 1200 * time.Millisecond, 3 * time.Second},
		{"and a Redis killed", killed, 2*time.Second + notice, 2*time.Second + notice}, // a skew, and until the death is noticed
		{"2 s after the last stop", r.afterwards, usual + max(usual/2, 25*time.Millisecond), 2 * time.Second},
	} {
		late, more := r.lateness(h, part.span, anyCallback), 2*r.longestHoldUp(part.span)
		line := fmt.Sprintf("lateness, %s: %d callbacks, p50 %v, p99 %v, worst %v; want p99 %v, worst %v at most, and %v more for hold-ups of the test",
			part.name, len(late), percentile(late, 50), percentile(late, 99), percentile(late, 100), part.most99, part.longest, more.Round(time.Millisecond))
		r.t.Log(line)
		if percentile(late, 99) > part.most99+more || percentile(late, 100) > part.longest+more || len(late) < r.plan.either(150, 1000) {
			r.t.Error(line)
		}
	}
	most := notice + 2*r.longestHoldUp(r.outage)
	if r.noticed > most {
		r.t.Errorf("the killed Redis was noticed after %v, want %v at most", r.noticed, most)
	}
	r.t.Logf("the nodes said that the killed Redis was away after %v", r.noticed.Round(time.Millisecond))
}
