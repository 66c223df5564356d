package processtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"chronos/scheduler/verify/history"
)

// crossLinks cuts every node off from a different shard for 10 s, and from no further shard.
// Every node still reaches a copy of every timer, and any two nodes reach a common shard.
// Connections are cut, or stay and carry nothing.
func (r *rig) crossLinks() {
	first := rand.IntN(6)
	r.wait(3 * time.Second) // enough requests without a fault
	for i := range r.plan.either(1, 6) {
		if i > 0 {
			r.recover()
		}
		n := first + i
		kind, state := "cross-cut", linkCut
		if n%2 == 1 {
			kind, state = "cross-hole", linkHole
		}
		var backs []func()
		begun := r.now()
		for node, m := range r.cluster.nodes {
			backs = append(backs, r.cluster.cut(m, (node+n)%len(r.cluster.shards), kind, state))
		}
		r.wait(10 * time.Second)
		for _, back := range backs {
			back()
		}
		r.crossed = append(r.crossed, span{begun, r.now()})
	}
	r.wait(2 * time.Second)
}

// crossedMix has the writes of manyWrites, at the rate of lightMix.
func (p plan) crossedMix(m *mix) {
	p.lightMix(m)
	manyWrites(m)
}

// judgeCrossed prints the cost of the crossings, and the nodes that called a pop twice.
func (r *rig) judgeCrossed(h *history.History, report *history.Report) {
	within := func(ns int64) bool {
		return slices.ContainsFunc(r.crossed, func(s span) bool { return time.Duration(ns) >= s.from && time.Duration(ns) < s.to })
	}
	calls, twice, ways := 0, 0, make(map[string]int)
	before := make(map[string]*history.Callback)
	for i := range h.Callbacks {
		c := &h.Callbacks[i]
		if within(c.ArriveNs) {
			calls++
		}
		first := before[c.WebhookID]
		if first == nil {
			before[c.WebhookID] = c
			continue
		}
		way := r.side(h, first) + ", then " + r.side(h, c)
		if ways[way]++; ways[way] <= 2 {
			r.t.Logf("twice: %s of %s, owners %v, by %s at %v and by %s at %v", c.WebhookID, c.URL, r.rank(c.Key)[:2],
				first.Node, time.Duration(first.ArriveNs), c.Node, time.Duration(c.ArriveNs))
		}
		if within(first.ArriveNs) || within(c.ArriveNs) {
			twice++
		}
	}
	c := &report.Counts
	r.t.Logf("crossed: %d callbacks, %d of them twice (%.4f); during the crossings %d callbacks, %d of them twice (%.4f); by class %v; pops left out %d, the nodes say %d",
		c.Callbacks, c.ExplainedDuplicates, share(c.ExplainedDuplicates, c.Callbacks), calls, twice, share(twice, calls), c.Duplicates, c.Skipped, leftOut(h))
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		r.t.Logf("twice by a node that %s: %d", way, ways[way])
	}
	r.t.Logf("callbacks of old versions, by what the answer to the later write said: %v", oldVersions(h))
	r.judgeAnswers(h, within)
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// leftOut is how many pops the nodes have left out, by their own metrics.
func leftOut(h *history.History) (n int64) {
	for i := range h.Samples {
		if s := &h.Samples[i]; s.Phase == history.Finish {
			n += s.Counters["pops_left_out_total"]
		}
	}
	return n
}

// side names the copy of a timer that the calling node could not reach.
func (r *rig) side(h *history.History, c *history.Callback) string {
	for i := range h.Faults {
		f := &h.Faults[i]
		rank := slices.Index(r.rank(c.Key)[:2], f.Shard)
		if f.Class == history.LinkCut && f.Node == c.Node && c.ArriveNs >= f.StartNs && c.ArriveNs < f.EndNs && rank >= 0 {
			return fmt.Sprintf("was cut off from copy %d", rank)
		}
	}
	return "reached both copies"
}

// judgeAnswers judges writes during the crossings by the promises for a shard that is away,
// since every node reaches an owner of every timer. A GET that finds no copy on the owner in
// reach is answered 503: the second owner may have the timer.
func (r *rig) judgeAnswers(h *history.History, within func(ns int64) bool) {
	all, poor, slowest := make(map[history.Kind]int), make(map[history.Kind]int), time.Duration(0)
	writes, refused := 0, 0
	for i := range h.Operations {
		o := &h.Operations[i]
		if !within(o.InvokeNs) {
			continue
		}
		took := time.Duration(max(o.ReturnNs-o.InvokeNs, 0))
		slowest = max(slowest, took)
		well := o.Status >= http.StatusOK && o.Status < http.StatusInternalServerError && o.Status != http.StatusRequestTimeout && o.Status != http.StatusTooManyRequests
		well = well && took <= time.Second+r.heldUp
		all[o.Kind]++
		if !well {
			poor[o.Kind]++
		}
		if o.Kind != history.Get {
			writes++
			if !well {
				refused++
			}
		}
	}
	line := fmt.Sprintf("requests during the crossings: %v; without a good answer within 1 s: %v; the slowest took %v", all, poor, slowest.Round(time.Millisecond))
	r.t.Log(line)
	if refused*1000 > writes || writes < 500 {
		r.t.Error(line)
	}
}

// oldVersions counts the callbacks that came after the answer to a later DELETE or PUT of the
// same timer, by the kind of the answer. After a clean answer the judge allows no callback.
func oldVersions(h *history.History) map[string]int {
	made, later, counts := make(map[string]*history.Operation), make(map[string][]*history.Operation), make(map[string]int)
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Outcome != history.OK {
			continue
		}
		if o.Timer != nil {
			made[o.Timer.URL] = o
		}
		if o.Kind == history.Delete || o.Kind == history.Replace {
			later[o.Key] = append(later[o.Key], o)
		}
	}
	for i := range h.Callbacks {
		c := &h.Callbacks[i]
		old := made[c.URL]
		if old == nil {
			continue
		}
		for _, o := range later[c.Key] {
			if o.InvokeNs < old.ReturnNs || o.ReturnNs > c.ArriveNs {
				continue
			}
			said := "clean"
			if o.Answer.InFlight {
				said = "in flight"
			}
			if o.Answer.Unreached > 0 {
				said += ", unreached"
			}
			if c.ArriveNs-o.ReturnNs > int64(2*time.Second) {
				said += ", 2 s ago or more"
			}
			counts[said]++
		}
	}
	return counts
}
