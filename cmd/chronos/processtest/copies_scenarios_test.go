package processtest

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"time"

	"chronos/scheduler/verify/history"
)

// scenario is a schedule of faults under load.
type scenario struct {
	name     string
	nodes    int           // 0 for two
	shards   int           // 0 for all of shardNames
	proxied  bool          // nodes speak to shards through links
	busy     bool          // by design: a busy machine is no fault
	callback time.Duration // how long the receiver takes to answer
	callers  bool          // which node makes each callback is looked for
	idle     time.Duration // after the load, so that its last pops can be judged
	mix      func(*mix)
	inject   func(*rig)
	limits   func(*history.Limits, *history.History)
	after    func(*rig, *history.History, *history.Report)
}

func (s *scenario) shardNames() []string { return shardNames[:cmp.Or(s.shards, len(shardNames))] }

// recover waits between two faults until the first doesn't show any more. Nor does
// anybody yet tell a shard that comes back what was deleted meanwhile but who fires
// there, so until then it must not be the only one.
func (r *rig) recover() { r.wait(r.plan.repairs() + time.Second/2) }

// scenarios are all; those that take longest first, but the two that work most, which
// sweep, not beside each other.
func (p plan) scenarios() []*scenario {
	// It leaves some of 2 s for the way and back, more in a short run, beside which others have load.
	slow := time.Duration(p.either(1600, 1900)) * time.Millisecond
	return []*scenario{
		{name: "shards-churned", mix: churning, inject: (*rig).churn, limits: placedLate},
		{name: "shards-killed", inject: (*rig).killShards},
		{name: "endpoints-fail", inject: (*rig).failEndpoints, after: (*rig).judgeFailing},
		{
			name: "links-crossed", nodes: 3, proxied: true, callers: true, idle: p.seconds(14, 0), mix: p.crossedMix,
			inject: (*rig).crossLinks, after: (*rig).judgeCrossed,
		},
		{name: "nodes-replaced", inject: (*rig).replaceNodes, limits: rarelyInWindows},
		{name: "shards-changed", inject: (*rig).changeShards},
		{name: "shard-stopped", inject: (*rig).stopShards},
		{
			name: "shard-rolled-back", shards: 2, mix: p.rolledBackMix,
			inject: (*rig).rollShardsBack, limits: noMoreThanLost, after: (*rig).judgeRolledBack,
		},
		{name: "shard-stalls", mix: p.lightMix, inject: (*rig).stallShards, limits: fewByChance},
		{name: "links-cut", proxied: true, mix: manyWrites, inject: (*rig).cutLinks},
		{name: "shard-wiped", inject: (*rig).wipeShards},
		{name: "callbacks-slow", callback: slow, inject: (*rig).noFault, limits: answersHeard, after: (*rig).judgeSlow},
	}
}

// killShards kills each shard in turn and starts it again with its data.
func (r *rig) killShards() {
	for i, s := range r.cluster.shards {
		if i > 0 {
			r.recover()
		}
		back := r.cluster.killShard(s, "kill", history.ShardAway)
		r.wait(r.plan.seconds(3, 6))
		back()
	}
	r.wait(2 * time.Second)
}

// stopShards has a shard stand still for 10 s; in a full run each in turn.
func (r *rig) stopShards() {
	for i, s := range r.shards() {
		if i > 0 {
			r.recover()
		}
		back := r.cluster.stopShard(s)
		r.wait(10 * time.Second)
		back()
	}
	r.wait(3 * time.Second)
}

// lightMix is for scenarios that say nothing on a machine that is overloaded: a Redis that
// keeps a node waiting for a processor is one more fault.
func (p plan) lightMix(m *mix) { m.rate = p.either(100, 150) }

// stallShards has a shard stand still for 0.3 to 1.5 s again and again; in a full run each
// in turn.
func (r *rig) stallShards() {
	for i, s := range r.shards() {
		if i > 0 {
			r.recover()
		}
		for end := r.now() + 10*time.Second; r.now() < end; {
			back := r.cluster.stopShard(s)
			r.wait(time.Duration(300+rand.IntN(1200)) * time.Millisecond)
			back()
			r.wait(time.Duration(300+rand.IntN(900)) * time.Millisecond)
		}
	}
	r.wait(3 * time.Second)
}

// fewByChance is for a short run of 1,800 callbacks, which a share of 1 in 1,000 gives 2
// duplicates on average, and more than 6 in one run of 400. The stalls take about as long as
// a node waits for a shard, so that nearly every run has a duplicate.
func fewByChance(l *history.Limits, _ *history.History) { l.FewDuplicates = 6 }

// wipeShards has a shard lose all its data; in a full run each in turn.
func (r *rig) wipeShards() {
	for i, s := range r.shards() {
		if i > 0 {
			r.recover()
		}
		back := r.cluster.killShard(s, "wipe", history.ShardLost)
		s.wipe(r.t)
		r.wait(5 * time.Second)
		back()
	}
	r.wait(4 * time.Second)
}

// shards are those that fail: one, drawn, or, in a full run, all.
func (r *rig) shards() []*shardProcess {
	if r.plan.full {
		return r.cluster.shards
	}
	return r.cluster.shards[rand.IntN(len(r.cluster.shards)):][:1]
}

// replaceNodes replaces both nodes in good order, then kills one.
func (r *rig) replaceNodes() {
	for range r.plan.either(1, 3) {
		for _, m := range r.cluster.nodes {
			r.cluster.replace(m)
			r.wait(time.Second)
		}
	}
	r.wait(2 * time.Second)
	for i := range r.plan.either(1, 3) {
		if i > 0 {
			r.recover()
		}
		back := r.cluster.killNode(r.cluster.nodes[i%2])
		r.wait(r.plan.seconds(3, 6))
		back()
	}
	r.wait(2 * time.Second)
}

// rarelyInWindows is for a run whose greater part must be without duplicates.
func rarelyInWindows(l *history.Limits, _ *history.History) { l.MinInWindows = 0.1 }

// cutLinks has one node lose one shard, which the other still reaches: connections
// are cut, or stay and carry nothing.
func (r *rig) cutLinks() {
	first := rand.IntN(6)
	for i := range r.plan.either(1, 6) {
		if i > 0 {
			r.recover()
		}
		kind, state := "cut", linkCut
		if (first+i)%2 == 1 {
			kind, state = "hole", linkHole
		}
		n := first + i
		back := r.cluster.cut(r.cluster.nodes[n/3%2], n%3, kind, state)
		r.wait(5 * time.Second)
		back()
	}
	r.wait(2 * time.Second)
}

func manyWrites(m *mix) { m.deletes, m.replaces = 0.3, 0.3 }

// failEndpoints answers every callback 500 for a while.
func (r *rig) failEndpoints() {
	r.failing.Store(true)
	r.wait(r.plan.seconds(5, 10))
	r.failing.Store(false)
	r.wait(3 * time.Second)
}

// judgeFailing makes sure that callbacks were refused and tried again.
func (r *rig) judgeFailing(h *history.History, report *history.Report) {
	refused := 0
	for i := range h.Callbacks {
		if h.Callbacks[i].Status == http.StatusInternalServerError {
			refused++
		}
	}
	r.t.Logf("%d callbacks were refused, %d were retries, %d pops were given up", refused, report.Counts.Retries, report.Counts.GivenUp)
	if refused < 100 || report.Counts.Retries < 100 {
		r.t.Errorf("%d callbacks were refused and %d were retries: too few", refused, report.Counts.Retries)
	}
}

func (r *rig) noFault() { r.wait(r.plan.seconds(6, 30)) }

// answersHeard narrows the margin within which an answer may have been too late,
// for callbacks that take nearly all of their time: unless a node says that one
// was not heard in time, all were.
func answersHeard(l *history.Limits, h *history.History) {
	if unheard(h) == 0 && l.AnswerMargin < 300*time.Millisecond {
		l.AnswerMargin = 80 * time.Millisecond
	}
}

func unheard(h *history.History) (n int64) {
	for i := range h.Samples {
		if s := &h.Samples[i]; s.Phase == history.Finish {
			n += s.Counters[history.CountFailed]
		}
	}
	return n
}

// judgeSlow holds the callbacks that came twice to those whose answer, the nodes
// say, was not heard within 2 s.
func (r *rig) judgeSlow(h *history.History, _ *history.Report) {
	calls, twice := make(map[string]int), int64(0)
	for i := range h.Callbacks {
		id := h.Callbacks[i].WebhookID
		if calls[id]++; calls[id] > 1 {
			twice++
		}
	}
	r.t.Logf("%d callbacks, %d came again, of %d the answer was not heard in time", len(h.Callbacks), twice, unheard(h))
	if twice > unheard(h) {
		r.t.Errorf("%d callbacks came again, and of %d the answer was not heard in time", twice, unheard(h))
	}
}
