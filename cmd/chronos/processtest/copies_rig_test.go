package processtest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/webhook/webhooktest"
)

// rig is a run of a scenario.
type rig struct {
	t        *testing.T
	plan     plan
	scenario *scenario
	cluster  *cluster
	journal  *journal
	load     *load
	receiver *webhooktest.Receiver

	failing  atomic.Bool   // callbacks are answered 500
	loadedAt time.Time     // when the load ended
	heldUp   time.Duration // the longest hold-up of the test itself
	letters  int           // dead letters at the end
	holdUps  heldup.HoldUps
	standing sync.RWMutex // read-locked while a node stands still
	callers  *callers     // nil unless the scenario looks for the calling nodes
	crossed  []span       // while every node was cut off from a different shard

	// For a run that measures lateness: without a fault, amid faults, and afterwards.
	control, outage, afterwards span
	noticed                     time.Duration             // how soon the nodes noticed the outage
	slow                        string                    // the shard that answers late
	slowBy                      time.Duration             // how late
	rank                        func(key string) []string // of shards
	moved                       bool                      // the topology changed, and the owners of timers with it
	turns                       []time.Duration           // when a node had become a node of the other build
}

func newRig(t *testing.T, s *scenario, p plan) *rig {
	t.Helper()
	seed := rand.Uint64()
	j := newJournal(history.Header{
		Mode: history.Load, Seed: seed, Reproduce: p.command(s.name),
		Shards: s.shardNames(), RF: 2, SkewMinMs: 250, SkewMaxMs: 2000,
		HoldMs: hold.Milliseconds(), LimitMs: 2000, PollMs: 100, Attempts: 5, Exempt: p.exempt(),
	}, p.repairs())
	r := &rig{t: t, plan: p, scenario: s, journal: j, cluster: newCluster(t, j, s), receiver: webhooktest.New(t)}
	url := r.receiver.URL()
	r.receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		answer := webhooktest.Answer{Delay: s.callback}
		if r.failing.Load() {
			answer = webhooktest.Answer{Status: http.StatusInternalServerError}
		}
		j.call(url, c, answer)
		return answer
	})
	m := p.mix()
	if s.mix != nil {
		s.mix(&m)
	}
	r.load = &load{t: t, mix: m, cluster: r.cluster, journal: j, receiver: url, http: newAPI(t).client, seed: seed}
	if s.before != "" { // the description of the answers is for the build under test alone
		r.load.http = &http.Client{Transport: newTransport(), Timeout: r.load.http.Timeout}
	}
	return r
}

// runScenario runs the load and the scenario's faults, and waits for the end of all timers.
// Once all timers were due, runScenario calls another, which lets the next scenario begin. Once
// mayJudge returns, runScenario judges the recording.
func runScenario(t *testing.T, s *scenario, p plan, another, mayJudge func()) {
	var verdict string
	t.Cleanup(func() { // behind the processes' logs, which are long
		if t.Failed() {
			t.Logf("%s failed:\n%s", s.name, verdict)
		}
	})
	r := newRig(t, s, p)
	store := r.openStore()
	r.rank = store.Rank // works even if the store is closed
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	r.cluster.sample(history.Begin)
	if s.callers {
		r.callers = r.cluster.watchCallers(strings.TrimPrefix(r.receiver.URL(), "http://"))
	}
	watched := r.watch()
	stop := r.load.start()
	r.wait(warmUp)
	s.inject(r)
	stop()
	r.loadedAt = time.Now()
	r.awaitDue()
	another()
	watched()
	r.wait(s.idle)
	r.awaitEmpty("no timer is left", time.Minute, time.Second, func(c *contents) bool { return c.live == 0 && c.leases == 0 })
	if p.full {
		// A tombstone lives for 2 minutes, or longer if a shard was away since. The tombstone
		// waits 10 s more if a copy that must hear of the end was out of reach.
		r.awaitEmpty("no tombstone is left", 3*time.Minute, 5*time.Second, func(c *contents) bool { return len(c.copies) == 0 })
	}
	r.cluster.sample(history.Finish)
	h := r.finish()
	r.cluster.end()
	mayJudge()
	verdict = r.judge(&h)
}

// warmUp is the time of load before the first fault.
const warmUp = 2 * time.Second

// wait is a time in the schedule of the faults.
func (r *rig) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// watch measures how long a busy machine holds up the test itself, until stop. stop records
// every hold-up that was long enough for nodes to do without a late answer.
func (r *rig) watch() (stop func()) {
	r.t.Helper()
	const long = 250 * time.Millisecond
	watch, err := heldup.Start(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
		r.holdUps = watch.Stop()
		r.heldUp = r.holdUps.Longest()
		for _, one := range r.holdUps {
			took := one.To.Sub(one.From)
			if r.scenario.busy || took < long {
				continue
			}
			r.journal.add(func(h *history.History) {
				h.Faults = append(h.Faults, history.Fault{
					Kind: "held-up", Class: history.HeldUp, LateMs: heldup.Slack(took).Milliseconds(),
					StartNs: int64(one.From.Sub(r.journal.start)), EndNs: int64(one.To.Sub(r.journal.start)),
				})
			})
		}
	}
}

// longestHoldUp is the longest hold-up of the test itself within a part of the run.
func (r *rig) longestHoldUp(within span) time.Duration {
	return r.holdUps.Within(r.journal.start.Add(within.from), r.journal.start.Add(within.to)).Longest()
}

// awaitDue waits until all pops must have come, apart from retries. From then on, a timer
// without a copy and without a callback is lost.
func (r *rig) awaitDue() {
	r.wait(time.Duration(r.load.lastDue.Load()-r.journal.now()) + 4*time.Second)
}

// awaitEmpty waits until the contents of the shards are as wanted. awaitEmpty looks only now and
// then, since every look is work for the shards. After a wait in vain the test fails, and the
// run is judged all the same.
func (r *rig) awaitEmpty(what string, within, each time.Duration, enough func(*contents) bool) {
	r.t.Helper()
	deadline := time.Now().Add(within)
	for {
		c, err := r.cluster.readContents(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if enough(&c) {
			r.t.Logf("%s %v after the load", what, time.Since(r.loadedAt).Round(100*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("waited %v in vain: %s: %d live copies, %d leases, %d tombstones are there", within, what, c.live, c.leases, c.tombstones)
			return
		}
		r.wait(each)
	}
}

// finish dumps the shards and ends the recording.
func (r *rig) finish() history.History {
	r.t.Helper()
	dumped := r.journal.now()
	c, err := r.cluster.readContents(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.letters = c.letters
	r.t.Logf("the shards hold %d live copies, %d tombstones, %d dead letters", c.live, c.tombstones, c.letters)
	r.journal.add(func(h *history.History) { h.Copies, h.Strays = c.copies, c.strays })
	h := r.journal.finish(history.End{DumpNs: dumped, Drained: true})
	if !r.moved {
		h.Homes = r.homes(&h)
	}
	if r.callers != nil {
		r.journal.name(&h, <-r.callers.nodes)
	}
	return h
}

// homes are the owners of all called timers, for a run without a change of the topology.
func (r *rig) homes(h *history.History) (homes []history.Home) {
	seen := make(map[string]bool)
	for i := range h.Callbacks {
		if key := h.Callbacks[i].Key; key != "" && !seen[key] {
			seen[key] = true
			homes = append(homes, history.Home{Key: key, Shards: r.rank(key)[:h.Header.RF], UntilNs: h.End.AtNs})
		}
	}
	return homes
}

// relax widens the bounds on time by the longest hold-up of the test itself. A node that is killed during a hold-up has
// had all answers that came meanwhile, and has settled none, so all of their callbacks come again.
func relax(l *history.Limits, heldUp time.Duration, h *history.History) {
	slack := heldup.Slack(heldUp)
	if slack == 0 {
		return
	}
	for _, bound := range []*time.Duration{&l.Late, &l.NodeWaiting, &l.NodeUnderWay, &l.ShardMargin, &l.OtherNode, &l.Answer} {
		*bound += slack
	}
	l.Network += heldUp
	l.AnswerMargin += heldUp
	l.FewDuplicates += int(int64(len(h.Callbacks)) * int64(heldUp) / max(h.End.AtNs, 1))
}

// judge checks the history, and prints and returns the figures.
func (r *rig) judge(h *history.History) string {
	r.t.Helper()
	if r.plan.keep != "" {
		if err := os.MkdirAll(r.plan.keep, 0o755); err != nil {
			r.t.Error(err)
		}
		if err := h.Keep(filepath.Join(r.plan.keep, r.scenario.name+".jsonl")); err != nil {
			r.t.Error(err)
		}
		r.keepLogs()
	}
	limits := r.plan.limits()
	relax(&limits, r.heldUp, h)
	if r.scenario.limits != nil {
		r.scenario.limits(&limits, h)
	}
	report := limits.Check(*h)
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		r.t.Error(err)
	}
	r.t.Logf("\n%s", text.String())
	c := &report.Counts
	refused, unanswered := 0, 0
	for i := range h.Operations {
		switch status := h.Operations[i].Status; {
		case status == 0:
			unanswered++
		case status >= http.StatusInternalServerError:
			refused++
		}
	}
	r.t.Logf("%s: %d pops had to come, worst lateness %v (%v without a fault), %d duplicates explained, of %d requests %d refused and %d without an answer, %d dead letters; the test itself was held up for %v at most",
		r.scenario.name, c.Obligatory, c.WorstLateNs.Round(time.Millisecond), c.WorstLateQuietNs.Round(time.Millisecond),
		c.ExplainedDuplicates, len(h.Operations), refused, unanswered, r.letters, r.heldUp)
	if report.Verdict != history.VerdictPassed {
		r.t.Errorf("the run is %s; the test itself was held up for %v at most by a busy machine", report.Verdict, r.heldUp)
	}
	if r.letters > c.GivenUp {
		r.t.Errorf("%d dead letters, and %d pops that the receiver refused to the end", r.letters, c.GivenUp)
	}
	if r.scenario.after != nil {
		r.scenario.after(r, h, &report)
	}
	return text.String()
}
