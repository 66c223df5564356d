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

// topologyKey is where a shard keeps the topology; see lua/README.md.
const topologyKey = "chronos:topology"

// ledger is what became of the topology: what the shards took, what nodes worked by,
// and what operators asked for. It is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	steps    map[epochStep]*candidate
	worked   map[epochStep]string // by whom, for one
	acts     []*act
	members  map[string]time.Duration // when a shard was last seen in a node's topology
	places   []placing
	next     []string // of a change that some node has seen announced since the last look; nil if none is
	problems []string
}

// epochStep tells one step of the topology from all others.
type epochStep struct {
	epoch  int64
	change string
}

// candidate is a topology that some shard took.
type candidate struct {
	topology.Topology
	on     map[string]bool
	missed map[string]bool // shards that took it and have lost it since
	lost   bool            // so many have at once that the others were no majority
}

// act is what an operator asked for, and what was answered.
type act struct {
	verb, shard string
	node        string
	begun       time.Duration
	pending     bool
	outcome     outcome
	became      epochStep     // if it was done
	active      int           // the fewest shards that took timers before and after
	over        time.Duration // when the topology was at rest after it; -1 before that
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

// stored notes what a shard holds after it was told to store a topology.
func (l *ledger) stored(shard, text string) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) < 3 {
		return // it had nothing, and did not take it
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

// forgot notes that a shard has lost data, and which topology it still holds; "" for none.
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

// works notes by what a node works.
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

// noteCarriedOn notes a change that nobody seems to be about: it was begun by an operator who
// did not live to the end of it, when the topology seemed to be at rest. l.mu is held.
func (l *ledger) noteCarriedOn(now time.Duration) {
	next := l.next
	l.next = nil
	if next == nil || slices.ContainsFunc(l.acts, func(a *act) bool { return a.over < 0 }) {
		return
	}
	l.acts = append(l.acts, &act{verb: "carried-on", begun: now - time.Second, over: -1, active: len(next)})
}

func (l *ledger) ask(a *act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acts = append(l.acts, a)
}

// agreed reports whether most of its own shards took the topology.
func (c *candidate) agreed() bool { return 2*c.count(c.on) > len(c.Shards) }

// count is how many of the topology's own shards are in a set.
func (c *candidate) count(set map[string]bool) (n int) {
	for _, m := range c.Shards {
		if set[m.Name] {
			n++
		}
	}
	return n
}

// chain are the topologies that were agreed on and follow from one first one, by epoch.
type chain map[int64]*candidate

// lost reports whether data was lost that a majority needs to remember the chain.
func (c chain) lost() bool {
	for _, one := range c {
		if one.lost {
			return true
		}
	}
	return false
}

// chains are all of them. There is one, unless the shards have lost the others.
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

// judge says what is wrong: there must be one topology of each epoch, each a step from
// the one before, for which an operator asked, but nobody who was refused; all that
// was acknowledged is among them, and all that a node worked by.
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
		// A node that is started while most shards are away works by what it finds, which is
		// a step from all that counts.
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

// judgeSteps holds each topology to be a step from the one before for which an operator
// asked, unless one of both was lost. It returns those who asked for none of these.
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
			between++ // none of them could be agreed on, and one went on as the next
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

// stepBetween says by what change one topology becomes another; "" if by none.
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
