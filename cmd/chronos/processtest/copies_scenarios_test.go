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
	nodes    int           // 0 for two nodes
	shards   int           // 0 for all shardNames
	proxied  bool          // nodes speak to shards through links
	sites    []string      // each has so many nodes and shards; nodes speak to other sites through links
	busy     bool          // by design: a busy machine is no fault
	env      []string      // of the nodes, with sites
	before   string        // the build of the nodes at first; "" for the build under test
	callback time.Duration // how long the receiver takes to answer
	callers  bool          // look for the node that makes a callback
	idle     time.Duration // after the load, so that its last pops can be judged
	mix      func(*mix)
	inject   func(*rig)
	limits   func(*history.Limits, *history.History)
	after    func(*rig, *history.History, *history.Report)
}

func (s *scenario) shardNames() (names []string) {
	names = shardNames[:cmp.Or(s.shards, len(shardNames))]
	if len(s.sites) == 0 {
		return names
	}
	var all []string
	for _, site := range s.sites {
		for _, name := range names {
			all = append(all, site+"-"+name)
		}
	}
	return all
}

// recover waits between two faults until the first fault no longer shows. Until then, a shard
// that is back hears of missed deletes only from the nodes that fire on the shard. The shard
// must not be the only shard in reach so early.
func (r *rig) recover() { r.wait(r.plan.repairs() + time.Second/2) }

// scenarios are all scenarios, the longest first. The two scenarios with most work, the sweeps,
// don't stand next to each other.
func (p plan) scenarios() []*scenario {
	// The rest of the limit of 2 s is for the way and back. A short run leaves a larger rest, since
	// another scenario runs at the same time.
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

// killShards kills every shard in turn, and starts the shard again with its data.
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

// stopShards makes a shard stand still for 10 s; in a full run, every shard in turn.
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

// lightMix is for scenarios that prove nothing on an overloaded machine: a Redis that waits for
// a processor and keeps a node waiting is a further fault.
func (p plan) lightMix(m *mix) { m.rate = p.either(100, 150) }

// stallShards makes a shard stand still for 0.3 to 1.5 s again and again; in a full run, every
// shard in turn.
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

// fewByChance is for a short run of 1,800 callbacks. A share of 1 in 1,000 makes 2 duplicates on
// average, and more than 6 in a single run of 400. The stalls take about as long as a node waits
// for a shard, so nearly every run has a duplicate.
func fewByChance(l *history.Limits, _ *history.History) { l.FewDuplicates = 6 }

// wipeShards makes a shard lose all its data; in a full run, every shard in turn.
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

// shards are the shards that fail: a random shard, or all shards in a full run.
func (r *rig) shards() []*shardProcess {
	if r.plan.full {
		return r.cluster.shards
	}
	return r.cluster.shards[rand.IntN(len(r.cluster.shards)):][:1]
}

// replaceNodes replaces both nodes in good order, then kills a node.
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

// rarelyInWindows is for a run that must be without duplicates for the most part.
func rarelyInWindows(l *history.Limits, _ *history.History) { l.MinInWindows = 0.1 }

// cutLinks makes a node lose a shard that the second node still reaches. Connections are cut,
// or stay and carry nothing.
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

// answersHeard narrows the margin within which an answer may have been too late, for callbacks
// that take nearly all of their time. The nodes count the answers that came too late; if the
// count is 0, all answers came in time.
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

// judgeSlow compares the callbacks that came twice with the answers that, by the nodes' count,
// did not come within 2 s.
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
