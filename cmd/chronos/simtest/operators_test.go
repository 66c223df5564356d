package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"chronos/redisstore"
	"chronos/redisstore/topology"
	"chronos/scheduler/awake"
	"chronos/scheduler/verify/history"
)

const (
	// askingTakes is how long an operator waits for an answer.
	askingTakes = 15 * time.Second
	// removeTries is how often an operator asks for a removal while refused, tryAgain the pause between two
	// requests.
	removeTries = 4
	tryAgain    = 5 * time.Second
	// resting is the time after the last fault within which the topology must come to rest, the sweep
	// included.
	resting = 75 * time.Second
	// lasting is the interval of timers that outlive the run.
	lasting = 3 * time.Hour
)

// trap kills a process after the process has written some calls of the topology script. The zero value waits
// for no process. A trap is safe for concurrent use.
type trap struct {
	mu     sync.Mutex
	victim *process
	left   int
	sprung chan struct{}
}

// set has the trap wait for the n-th call of a process.
func (t *trap) set(p *process, n int) (sprung <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.victim, t.left, t.sprung = p, n, make(chan struct{})
	return t.sprung
}

func (t *trap) lift() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.victim = nil
}

// hear takes the bytes that a process has written. The awaited call is the last write of the process.
func (t *trap) hear(p *process, written []byte) {
	if t == nil || p == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.victim != p || !bytes.Contains(written, []byte(topologyKey)) || !bytes.Contains(bytes.ToUpper(written), []byte("EVAL")) {
		return
	}
	if t.left--; t.left == 0 {
		p.dead.Store(true)
		t.victim = nil
		close(t.sprung)
	}
}

// beginChange has operators change the topology. undo ends the accompanying fault.
func (c *cluster) beginChange(f fault, m *machine) (undo func()) {
	switch f.kind {
	case topoKill:
		return c.killAmidChange(f, m)
	case topoCut:
		return c.cutAmidChange(f, m)
	case topoTwo:
		first := int(f.pick >> 8 % uint64(len(c.machines)))
		c.operators.Go(func() { c.operate(c.machines[first], f.pick) })
		c.operators.Go(func() {
			time.Sleep(time.Duration(f.pick>>32%400) * time.Millisecond)
			c.operate(c.machines[(first+1)%len(c.machines)], f.pick>>40)
		})
	default:
		c.operators.Go(func() { c.operate(c.machines[f.pick>>8%uint64(len(c.machines))], f.pick) })
	}
	return func() {}
}

func (c *cluster) killAmidChange(f fault, m *machine) (undo func()) {
	m.mu.Lock()
	p := m.current
	m.mu.Unlock()
	if p == nil {
		return func() {}
	}
	sprung, ended := m.trap.set(p, f.call()), make(chan struct{})
	var killed sync.WaitGroup
	died := time.Duration(-1)
	killed.Go(func() {
		select {
		case <-sprung:
			died = c.journal.now()
			m.kill()
		case <-ended:
		}
	})
	c.operators.Go(func() { c.operate(m, f.pick) })
	return func() {
		m.trap.lift()
		close(ended)
		killed.Wait()
		if died >= 0 {
			c.start(m)
			c.journal.fault(history.Fault{
				Kind: string(f.kind), Class: history.NodeDeath, Node: m.name, StartNs: int64(died), EndNs: int64(c.journal.now()),
			})
		}
	}
}

func (c *cluster) cutAmidChange(f fault, m *machine) (undo func()) {
	begun := c.journal.now()
	condition := Cut
	if f.pick>>40&1 == 1 {
		condition = BlackHole
	}
	var lifts []func()
	for i, s := range c.shards {
		if f.cutsOff(i) {
			lift := m.links[s.name].impose(condition)
			lifts = append(lifts, func() {
				lift()
				h := history.Fault{Kind: string(f.kind), Class: history.LinkCut, Node: m.name, Shard: s.name, StartNs: int64(begun), EndNs: int64(c.journal.now())}
				if !c.wasMember(s.name, begun) {
					h.Class = history.Harmless
				}
				c.journal.fault(h)
			})
		}
	}
	c.operators.Go(func() { c.operate(m, f.pick) })
	return func() {
		for _, lift := range lifts {
			lift()
		}
	}
}

// operate asks a node, or another node if the first node is down, for a change that the topology allows. A
// refused removal is asked for again.
func (c *cluster) operate(m *machine, pick uint64) {
	at := slices.Index(c.machines, m)
	for i := 0; i < len(c.machines) && !m.up(); i++ {
		m = c.machines[(at+i)%len(c.machines)]
	}
	t, ok := m.topology()
	if !ok {
		return
	}
	wishes := c.wishes(&t)
	wish := wishes[pick%uint64(len(wishes))]
	outcome, _ := c.request(m, wish.verb, wish.shard)
	for try := 1; wish.verb == "remove" && outcome == refused && try < removeTries; try++ {
		time.Sleep(tryAgain)
		c.shards[c.shardNamed(wish.shard)].dropLetters() // as an operator does after reading the dead letters
		if t, ok = m.topology(); !ok || c.setting.load <= c.journal.now() || t.StateOf(wish.shard) != topology.Draining {
			return
		}
		outcome, _ = c.request(m, wish.verb, wish.shard)
	}
	if spare := c.shardNamed(wish.shard); wish.verb == "remove" && outcome == done && pick>>50&1 == 1 && spare >= c.setting.shards {
		c.replace(c.shards[spare])
	}
}

// replace empties a removed spare shard: an empty shard of the same name takes its place. replace does
// nothing while a request of an operator is pending.
func (c *cluster) replace(s *shard) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if !slices.ContainsFunc(c.ledger.acts, func(a *act) bool { return a.pending }) {
		s.wipe()
	}
}

func (c *cluster) shardNamed(name string) int {
	return slices.IndexFunc(c.shards, func(s *shard) bool { return s.name == name })
}

// wish is a change that an operator may ask for.
type wish struct{ verb, shard string }

// wishes returns the changes that a topology allows.
func (c *cluster) wishes(t *topology.Topology) (all []wish) {
	for _, s := range c.shards {
		switch state := t.StateOf(s.name); {
		case !slices.Contains(names(t), s.name):
			all = append(all, wish{"add", s.name}, wish{"add", s.name})
		case state == topology.Draining:
			all = append(all, wish{"remove", s.name}, wish{"remove", s.name}, wish{"add", s.name})
		case len(t.Active) > 1:
			all = append(all, wish{"drain", s.name})
		default:
		}
	}
	if len(all) == 0 {
		all = append(all, wish{"drain", t.Active[0]}) // the node refuses
	}
	return all
}

// request asks a node for a change, and records the outcome.
func (c *cluster) request(m *machine, verb, shard string) (outcome, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), askingTakes)
	defer cancel()
	a := &act{verb: verb, shard: shard, node: m.name, begun: c.journal.now(), over: -1, pending: true, active: len(c.shards)}
	c.ledger.ask(a)
	var t topology.Topology
	var err error
	heard, down := m.operate(func(s *redisstore.Store) {
		switch verb {
		case "add":
			t, err = s.AddShard(ctx, topology.Member{Name: shard, URL: c.shards[c.shardNamed(shard)].url()}, false)
		case "drain":
			t, err = s.DrainShard(ctx, shard, false)
		default:
			t, err = s.RemoveShard(ctx, shard, false)
		}
	})
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	a.pending = false
	no, isRefusal := errors.AsType[*topology.RefusedError](err)
	switch {
	case down != nil:
		a.outcome, err = refused, down
	case !heard:
		err = errors.New("no answer")
	case isRefusal:
		a.outcome = refused
		if no.Reason == "" {
			c.ledger.problems = append(c.ledger.problems, fmt.Sprintf("%v: refused with %+v", a, no))
		}
	case err == nil:
		a.outcome, a.became = done, epochStep{t.Epoch, t.Change}
	}
	c.t.Logf("%v: %v", a, err)
	return a.outcome, err
}

// oversee looks at the nodes each second until ctx ends.
func (c *cluster) oversee(ctx context.Context) {
	for awake.Sleep(ctx, time.Second) {
		c.look()
	}
}

// look notes the topologies by which the nodes work. Once the topology is at rest, look marks the changes as
// over.
func (c *cluster) look() {
	now := c.journal.now()
	atRest, _ := c.atRest(now)
	c.lookForUnknown(now)
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if slices.ContainsFunc(c.ledger.acts, func(a *act) bool { return a.pending }) {
		return
	}
	c.ledger.noteCarriedOn(now)
	for _, a := range c.ledger.acts {
		if atRest && a.over < 0 {
			a.over = now
			c.tell(a)
		}
	}
}

// lookForUnknown records the shards that no node knew for a time.
func (c *cluster) lookForUnknown(now time.Duration) {
	var running []topology.Topology
	for _, m := range c.machines {
		if t, up := m.topology(); up {
			running = append(running, t)
		}
	}
	for _, f := range c.unknown.look(running, now) {
		c.journal.fault(f)
	}
}

// tell records a change in the history, unless the change was refused.
func (c *cluster) tell(a *act) {
	if a.outcome != refused {
		c.journal.fault(history.Fault{
			Kind: "topology-" + a.verb, Class: history.TopologyChange, StartNs: int64(a.begun), EndNs: int64(a.over), Active: a.active,
		})
	}
}

// tellRest records the changes that are not over, and the shards that no node knows. Nobody looks at the nodes
// meanwhile.
func (c *cluster) tellRest() {
	for _, f := range c.unknown.faults(c.journal.now()) {
		c.journal.fault(f)
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for _, a := range c.ledger.acts {
		if a.over < 0 {
			c.tell(a)
		}
	}
}

// atRest reports whether all nodes work by the same topology, and no change is left to do. why shows the
// topology of each node.
func (c *cluster) atRest(now time.Duration) (rests bool, why string) {
	first := int64(0)
	rests = true
	for _, m := range c.machines {
		t, up := m.topology()
		if !up {
			continue
		}
		c.ledger.works(m.name, &t, now)
		if first == 0 {
			first = t.Epoch
		}
		if t.Epoch == 0 || t.Epoch != first || t.Next != nil || len(t.Former) > 0 {
			rests = false
		}
		why += fmt.Sprintf("\nnode %s: %+v", m.name, t)
	}
	return rests, why
}

// wasMember reports whether a shard was in a node's topology since an instant.
func (c *cluster) wasMember(name string, since time.Duration) bool {
	_, _ = c.atRest(c.journal.now())
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	last, ever := c.ledger.members[name]
	return ever && last >= since-2*time.Second
}

// lastChange changes the topology after all faults have healed, and waits until the topology is at rest. The
// sweep then passes over all copies that faults have left on wrong shards.
func (c *cluster) lastChange() {
	if c.setting.spares == 0 {
		return
	}
	until := c.setting.load + resting
	var err error
	for made := false; !made; {
		if c.journal.now() > until {
			c.t.Errorf("no change of the topology could be made after all had healed: %v", err)
			return
		}
		for _, m := range c.machines {
			t, up := m.topology()
			if !up {
				continue
			}
			wishes := slices.DeleteFunc(c.wishes(&t), func(w wish) bool { return w.verb == "remove" })
			var result outcome
			if result, err = c.request(m, wishes[0].verb, wishes[0].shard); result == done {
				made = true
				break
			}
		}
		time.Sleep(time.Second)
	}
	for {
		rests, why := c.atRest(c.journal.now())
		switch {
		case rests:
			return
		case c.journal.now() > until:
			c.t.Errorf("the topology was not at rest %v after all had healed:%s", resting, why)
			return
		}
		time.Sleep(time.Second)
	}
}
