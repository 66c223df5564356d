package simtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/redisstore"
	"chronos/redisstore/topology"
	"chronos/scheduler/verify/history"
)

// chronicle is a ledger for tests to fill.
type chronicle struct {
	*ledger
	now topology.Topology
}

func newChronicle(shards ...string) *chronicle {
	c := &chronicle{ledger: newLedger()}
	for _, name := range shards {
		c.now.Shards = append(c.now.Shards, topology.Member{Name: name})
	}
	c.now.Active = shards
	c.step("first", func(*topology.Topology) {})
	return c
}

// step has all shards take the next topology.
func (c *chronicle) step(change string, edit func(*topology.Topology)) {
	c.now.Epoch, c.now.Change = c.now.Epoch+1, change
	edit(&c.now)
	c.store(c.now, names(&c.now)...)
}

func (c *chronicle) store(t topology.Topology, on ...string) {
	for _, shard := range on {
		c.stored(shard, stored(t))
	}
}

// stored is the text of a topology on a shard.
func stored(t topology.Topology) string {
	text, _ := json.Marshal(t) // a topology holds only names and numbers
	return fmt.Sprintf("%d %s %s", t.Epoch, t.Change, text)
}

func (c *chronicle) asked(verb, shard string, outcome outcome, change string) {
	a := &act{verb: verb, shard: shard, node: "1", outcome: outcome}
	if outcome == done {
		a.became = epochStep{c.now.Epoch, change}
	}
	c.ask(a)
}

func drainB(t *topology.Topology) { t.Next = []string{"a", "c"} }

func enact(t *topology.Topology) {
	t.Former, t.Active, t.Next = [][]string{t.Active}, t.Next, nil
}

// TestLedger: the answers to operators and the recorded topologies must agree.
func TestLedger(t *testing.T) {
	for name, d := range map[string]struct {
		tell func(c *chronicle)
		want string // in the only complaint, "" for no complaint
	}{
		"all steps of a change": {func(c *chronicle) {
			c.step("drain", drainB)
			c.asked("drain", "b", done, "drain")
			c.step("drain+", enact)
			c.step("swept", func(t *topology.Topology) { t.Former = nil })
			c.step("remove", func(t *topology.Topology) { t.Shards = slices.Delete(slices.Clone(t.Shards), 1, 2) })
			c.asked("remove", "b", done, "remove")
			c.works("1", &c.now, 0)
		}, ""},
		"done, lost, and done otherwise": {func(c *chronicle) {
			before := c.now
			c.asked("drain", "b", unknown, "")
			c.step("drain", drainB)
			c.forgot("a", "1 first")
			c.forgot("b", "1 first")
			c.asked("drain", "a", unknown, "")
			before.Epoch, before.Change, before.Next = 2, "another", []string{"b", "c"}
			c.store(before, "a", "b")
		}, ""},
		"lost by too few, and done otherwise": {func(c *chronicle) {
			before := c.now
			c.asked("drain", "b", unknown, "")
			c.step("drain", drainB)
			c.forgot("a", "1 first")
			c.asked("drain", "a", unknown, "")
			before.Epoch, before.Change, before.Next = 2, "another", []string{"b", "c"}
			c.store(before, "a", "c")
		}, "agreed on twice"},
		"begun anew after all was lost": {func(c *chronicle) {
			for _, shard := range []string{"a", "b", "c"} {
				c.forgot(shard, "")
			}
			again := c.now
			again.Change, again.Cluster = "again", "again"
			c.store(again, "a", "b", "c")
			c.works("1", &again, 0)
		}, ""},
		"begun anew for no reason": {func(c *chronicle) {
			again := c.now
			again.Change, again.Cluster = "again", "again"
			c.store(again, "a", "b", "c")
		}, "no loss of data explains"},
		"unknown, and done": {func(c *chronicle) {
			c.asked("drain", "b", unknown, "")
			c.step("drain", drainB)
		}, ""},
		"unknown, and not done": {func(c *chronicle) { c.asked("drain", "b", unknown, "") }, ""},
		"begun by few": {func(c *chronicle) {
			c.asked("drain", "b", unknown, "")
			begun := c.now
			begun.Epoch, begun.Change = 2, "begun"
			drainB(&begun)
			c.store(begun, "a")
		}, ""},
		"refused, and done": {func(c *chronicle) {
			c.asked("drain", "b", refused, "")
			c.step("drain", drainB)
		}, "for which nobody asked"},
		"another than was asked for": {func(c *chronicle) {
			c.asked("drain", "a", unknown, "")
			c.step("drain", drainB)
		}, "for which nobody asked"},
		"done twice": {func(c *chronicle) {
			c.asked("drain", "b", unknown, "")
			c.step("drain", drainB)
			c.step("drain+", enact)
			c.step("swept", func(t *topology.Topology) { t.Former = nil })
			c.asked("add", "b", unknown, "")
			c.step("add", func(t *topology.Topology) { t.Next = []string{"a", "b", "c"} })
			c.step("add+", enact)
			c.step("again", drainB)
		}, "for which nobody asked"},
		"acknowledged, and lost": {func(c *chronicle) {
			c.now.Epoch++
			c.asked("drain", "b", done, "drain")
		}, "was acknowledged, and not agreed on"},
		"two of one epoch": {func(c *chronicle) {
			c.asked("drain", "b", unknown, "")
			before := c.now
			c.step("drain", drainB)
			before.Epoch, before.Change, before.Next = 2, "another", []string{"a", "b"}
			c.store(before, "b", "c")
		}, "agreed on twice"},
		"begun by few beside another": {func(c *chronicle) {
			c.asked("drain", "b", unknown, "")
			c.asked("drain", "a", unknown, "")
			begun := c.now
			begun.Epoch, begun.Change, begun.Next = 2, "begun", []string{"b", "c"}
			c.store(begun, "a")
			c.step("drain", drainB)
		}, ""},
		"no step": {func(c *chronicle) { c.step("x", func(t *topology.Topology) { t.Active = []string{"a"} }) }, "by no step"},
		"a node works by what few have": {func(c *chronicle) {
			begun := c.now
			begun.Epoch, begun.Change = 2, "begun"
			c.store(begun, "a")
			c.works("1", &begun, 0)
		}, "worked by"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChronicle("a", "b", "c")
			d.tell(c)
			wrong := strings.Join(c.judge(), "\n")
			if (wrong == "") != (d.want == "") || !strings.Contains(wrong, d.want) {
				t.Errorf("complaints %q, want %q", wrong, d.want)
			}
		})
	}
}

// changingCluster is a quiet cluster with a shard to spare.
func changingCluster(t *testing.T, nodes, shards int) *cluster {
	t.Helper()
	c := clusterOf(t, setting{seed: 1, mode: history.Liveness, nodes: nodes, shards: shards, spares: 1, load: time.Hour})
	time.Sleep(5 * time.Second) // nodes that start together may keep each other from storing the first topology at once
	return c
}

// TestCoordinatorIsKilled: a node dies right after the n-th call of a change. For each n, the change is
// finished or never was.
func TestCoordinatorIsKilled(t *testing.T) {
	for n := range 18 {
		inBubble(t, fmt.Sprint("call ", n+1), func(t *testing.T) {
			c := changingCluster(t, 2, 2)
			defer c.close()
			m := c.machines[0]
			m.mu.Lock()
			p := m.current
			m.mu.Unlock()
			sprung := m.trap.set(p, n+1)
			c.operators.Go(func() {
				select {
				case <-sprung:
					m.kill()
				case <-time.After(30 * time.Second):
					t.Error("the node was not killed")
				}
			})
			if outcome, err := c.request(m, "add", "c"); outcome == refused {
				t.Errorf("refused: %v", err)
			}
			c.operators.Wait()
			time.Sleep(40 * time.Second)
			c.start(m)
			time.Sleep(20 * time.Second)
			if rests, why := c.atRest(c.journal.now()); !rests {
				t.Errorf("not at rest: %s", why)
			}
			for _, wrong := range c.ledger.judge() {
				t.Error(wrong)
			}
			for _, m := range c.machines {
				_, _ = m.operate(func(s *redisstore.Store) {
					if err := s.Writable(); err != nil {
						t.Errorf("node %s: %v", m.name, err)
					}
				})
			}
		})
	}
}

// TestShardsComeAndGo: a cluster follows operators, and the history records the changes.
func TestShardsComeAndGo(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := changingCluster(t, 2, 2)
		defer c.close()
		for range 20 {
			c.create(t, c.machines[1], time.Hour)
		}
		for _, w := range []wish{{"add", "c"}, {"drain", "a"}, {"remove", "a"}} {
			if outcome, err := c.request(c.machines[0], w.verb, w.shard); outcome != done {
				t.Fatalf("%v: %v", w, err)
			}
			time.Sleep(30 * time.Second)
			c.look()
		}
		c.dump()
		h := c.journal.finish(true)
		if len(h.Faults) != 3 || h.Faults[0].Class != history.TopologyChange || h.Faults[1].Active != 2 || h.Faults[2].EndNs < 0 {
			t.Errorf("recorded %+v", h.Faults)
		}
		if !slices.Equal(h.End.Active, []string{"b", "c"}) || len(h.Copies) != 20 || len(h.Strays) != 0 {
			t.Errorf("active %v, %d copies, strays %v", h.End.Active, len(h.Copies), h.Strays)
		}
		for _, found := range h.Copies {
			if found.Shard == "a" {
				t.Errorf("left behind: %+v", found)
			}
		}
		for _, wrong := range c.ledger.judge() {
			t.Error(wrong)
		}
		if outcome, err := c.request(c.machines[0], "drain", "a"); outcome != refused {
			t.Errorf("what isn't there was drained: %v", err)
		}
	})
}

// TestAChangeThatIsCarriedOnIsRecorded: a change without a heard answer may be carried on long after the
// topology seemed to be at rest.
func TestAChangeThatIsCarriedOnIsRecorded(t *testing.T) {
	for what, d := range map[string]struct {
		acts []*act
		next []string
		want int
	}{
		"nobody is about it":       {[]*act{{over: time.Second, active: 2}}, []string{"c"}, 1},
		"its operator is about it": {[]*act{{over: -1, active: 2}}, []string{"c"}, 0},
		"an operator was refused":  {[]*act{{over: -1, active: 2, outcome: refused}}, []string{"c"}, 1},
		"no change is announced":   {nil, nil, 0},
	} {
		l := newLedger()
		l.acts = d.acts
		l.works("1", &topology.Topology{Epoch: 1, Active: []string{"b", "c"}, Next: d.next}, 10*time.Second)
		l.noteCarriedOn(10 * time.Second)
		found := l.acts[len(d.acts):]
		if len(found) != d.want || d.want == 1 && (found[0].begun != 9*time.Second || found[0].active != 1 || found[0].over >= 0) {
			t.Errorf("%s: noted %v", what, found)
		}
	}
}
