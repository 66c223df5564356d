package simtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/redisstore/topology"
)

// topologyKey is the key of the topology on a shard; see lua/README.md.
const topologyKey = "chronos:topology"

// ledger records the topologies that shards took, the topologies by which nodes worked, and the requests of
// operators. A ledger is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	steps    map[epochStep]*candidate
	worked   map[epochStep]string // the name of one node that worked by the step
	acts     []*act
	members  map[string]time.Duration // when a shard was last seen in a node's topology
	places   []placing
	next     []string // of a change that some node announced since the last look; nil without a change
	problems []string
}

// epochStep identifies one step of the topology.
type epochStep struct {
	epoch  int64
	change string
}

// candidate is a topology that some shard took.
type candidate struct {
	topology.Topology
	on     map[string]bool
	missed map[string]bool // shards that have lost the topology since
	lost   bool            // so many shards lost the topology at once that the rest was no majority
}

// act is the request of an operator, with the answer.
type act struct {
	verb, shard string
	node        string
	begun       time.Duration
	pending     bool
	outcome     outcome
	became      epochStep     // if the change was done
	active      int           // the fewest shards that took timers before and after
	over        time.Duration // when the topology was at rest after the change; -1 before
}

type outcome int

const (
	unknown outcome = iota
	refused
	done
)

func (a *act) String() string {
	return fmt.Sprintf("%8.3fs %s %s through %s: %s %v", a.begun.Seconds(), a.verb, a.shard, a.node,
		[]string{"unknown", "refused", "done"}[a.outcome], a.became)
}

func newLedger() *ledger {
	return &ledger{steps: map[epochStep]*candidate{}, worked: map[epochStep]string{}, members: map[string]time.Duration{}}
}

// stored notes the topology on a shard after a call to store a topology.
func (l *ledger) stored(shard, text string) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) < 3 {
		return // the shard had no topology, and took none
	}
	var t topology.Topology
	err := json.Unmarshal([]byte(parts[2]), &t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.problems = append(l.problems, fmt.Sprintf("shard %s took %q: %v", shard, text, err))
		return
	}
	at := epochStep{t.Epoch, t.Change}
	if l.steps[at] == nil {
		l.steps[at] = &candidate{Topology: t, on: map[string]bool{}, missed: map[string]bool{}}
	}
	l.steps[at].on[shard], l.steps[at].missed[shard] = true, false
}

// forgot notes that a shard has lost data. text is the topology left on the shard, "" for none.
func (l *ledger) forgot(shard, text string) {
	var epoch int64
	_, _ = fmt.Sscan(text, &epoch) // 0 for none
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, c := range l.steps {
		if c.on[shard] && at.epoch > epoch {
			c.missed[shard] = true
			c.lost = c.lost || c.agreed() && 2*(c.count(c.on)-c.count(c.missed)) <= len(c.Shards)
		}
	}
}

// works notes the topology by which a node works.
func (l *ledger) works(node string, t *topology.Topology, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Epoch > 0 {
		l.worked[epochStep{t.Epoch, t.Change}] = node
	}
	for _, m := range t.Shards {
		l.members[m.Name] = now
	}
	l.places = placedBy(l.places, t, now)
	if t.Next != nil {
		l.next = t.Next
	}
	for _, a := range l.acts {
		if a.over < 0 {
			a.active = min(a.active, len(t.Active))
		}
	}
}

// noteCarriedOn notes a change without an operator at work. The operator did not live to the end of the
// change, and the topology seemed to be at rest meanwhile. l.mu is held.
func (l *ledger) noteCarriedOn(now time.Duration) {
	next := l.next
	l.next = nil
	if next == nil || slices.ContainsFunc(l.acts, func(a *act) bool { return a.over < 0 && a.outcome != refused }) {
		return
	}
	l.acts = append(l.acts, &act{verb: "carried-on", begun: now - time.Second, over: -1, active: len(next)})
}

func (l *ledger) ask(a *act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acts = append(l.acts, a)
}

// agreed reports whether most shards of the topology took the topology.
func (c *candidate) agreed() bool { return 2*c.count(c.on) > len(c.Shards) }

// count is the number of the topology's own shards in a set.
func (c *candidate) count(set map[string]bool) (n int) {
	for _, m := range c.Shards {
		if set[m.Name] {
			n++
		}
	}
	return n
}

// chain holds the agreed topologies that follow from one first topology, by epoch.
type chain map[int64]*candidate

// lost reports whether a loss of data took the majority of some topology in the chain.
func (c chain) lost() bool {
	for _, one := range c {
		if one.lost {
			return true
		}
	}
	return false
}

// chains returns all chains, by cluster. A second chain exists only if the shards have lost the first.
func (l *ledger) chains(complain func(format string, args ...any)) map[string]chain {
	all := map[string]chain{}
	for _, at := range slices.SortedFunc(maps.Keys(l.steps), func(a, b epochStep) int { return strings.Compare(a.change, b.change) }) {
		c := l.steps[at]
		if !c.agreed() {
			continue
		}
		if all[c.Cluster] == nil {
			all[c.Cluster] = chain{}
		}
		other := all[c.Cluster][at.epoch]
		if other != nil && !other.lost && !c.lost {
			complain("epoch %d was agreed on twice: %+v and %+v", at.epoch, other.Topology, c.Topology)
		}
		if other == nil || other.lost {
			all[c.Cluster][at.epoch] = c
		}
	}
	kept := 0
	for _, c := range all {
		if !c.lost() {
			kept++
		}
	}
	if kept > 1 {
		complain("%d first topologies were agreed on that no loss of data explains", kept)
	}
	return all
}

// judge lists the faults. Each epoch must have one topology, a step from the topology before. An operator
// must have asked for the step without a refusal. All acknowledged changes, and all topologies by which nodes
// worked, must be in the chain.
func (l *ledger) judge() (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong = slices.Clone(l.problems)
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	all := l.chains(complain)
	asked := slices.DeleteFunc(slices.Clone(l.acts), func(a *act) bool { return a.outcome == refused })
	for _, a := range asked {
		if c := l.steps[a.became]; a.outcome == done && (c == nil || !c.agreed()) {
			complain("%v: it was acknowledged, and not agreed on", a)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(all)) {
		asked = l.judgeSteps(all[cluster], asked, complain)
	}
	for at, node := range l.worked {
		// A node that starts while most shards are away works by the topology it finds. Such a topology is
		// one step from all agreed topologies.
		var c chain
		if one := l.steps[at]; one != nil {
			c = all[one.Cluster]
		}
		if one := c[at.epoch]; one == nil && !l.rivals(at.epoch) && !c.lost() || one != nil && one.Change != at.change && !one.lost {
			complain("node %s worked by %v, which was not agreed on", node, at)
		}
	}
	return wrong
}

// judgeSteps checks that each topology is a step from the topology before, and that an operator asked for the
// step, unless either topology was lost. judgeSteps returns the acts that asked for none of these steps.
func (l *ledger) judgeSteps(c chain, asked []*act, complain func(format string, args ...any)) []*act {
	epochs := slices.Sorted(maps.Keys(c))
	for i, epoch := range epochs {
		if i == 0 {
			continue
		}
		before, now := c[epochs[i-1]], c[epoch]
		verb, shard := stepBetween(&before.Topology, &now.Topology)
		between := epochs[i-1] + 1
		for between < epoch && l.rivals(between) {
			between++ // no rival got a majority, and one rival went on as the next epoch
		}
		lost := before.lost || now.lost
		if (epoch != between || verb == "") && !lost {
			complain("epoch %d follows %d by no step: %+v, %+v", epoch, epochs[i-1], before.Topology, now.Topology)
		}
		if verb == "enact" || verb == "swept" {
			continue
		}
		by := slices.IndexFunc(asked, func(a *act) bool { return a.outcome == done && a.became == epochStep{epoch, now.Change} })
		if by < 0 {
			by = slices.IndexFunc(asked, func(a *act) bool { return a.outcome == unknown && a.verb == verb && a.shard == shard })
		}
		if by >= 0 && asked[by].verb == verb && asked[by].shard == shard {
			asked = slices.Delete(asked, by, by+1)
		} else if !lost {
			complain("epoch %d is to %s %s, for which nobody asked who was not refused", epoch, verb, shard)
		}
	}
	return asked
}

// rivals reports whether several topologies of an epoch were begun; l.mu is held.
func (l *ledger) rivals(epoch int64) bool {
	n := 0
	for at := range l.steps {
		if at.epoch == epoch {
			n++
		}
	}
	return n > 1
}

// stepBetween names the change from one topology to another; "" if no single change fits.
func stepBetween(before, now *topology.Topology) (verb, shard string) {
	had, has := names(before), names(now)
	switch {
	case before.Next == nil && now.Next != nil && slices.Equal(now.Active, before.Active):
		for _, name := range now.Next {
			if !slices.Contains(before.Active, name) {
				return "add", name
			}
		}
		for _, name := range before.Active {
			if !slices.Contains(now.Next, name) {
				return "drain", name
			}
		}
	case before.Next != nil && now.Next == nil && slices.Equal(now.Active, before.Next) && slices.Equal(had, has):
		return "enact", ""
	case !slices.Equal(before.Active, now.Active):
	case len(had) == len(has)+1:
		for _, name := range had {
			if !slices.Contains(has, name) {
				return "remove", name
			}
		}
	case slices.Equal(had, has) && len(before.Former) > 0 && now.Former == nil:
		return "swept", ""
	}
	return "", ""
}

func names(t *topology.Topology) []string {
	var all []string
	for _, m := range t.Shards {
		all = append(all, m.Name)
	}
	return all
}
