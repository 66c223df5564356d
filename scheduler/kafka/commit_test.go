package kafka

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"chronos/scheduler/replica"
	"chronos/scheduler/verify/testkit"
)

// TestCommitsNeverRunAhead draws messages and faults. The audit compares every commit with the
// acknowledgements until then, and in the end nothing is lost.
func TestCommitsNeverRunAhead(t *testing.T) {
	check := func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // without the Deadline, which a T in a bubble lacks
			r := newRig(t)
			r.real = !builtForBubbles
			defer r.close()
			(&course{rig: r, rt: rt, next: [partitions]int64{-1, -1, -1}, wanted: make(map[string]bool)}).run()
			for _, fault := range r.audit.end() {
				rt.Error(fault)
			}
		})
	}
	if builtForBubbles {
		testkit.RapidChecks(t, 100)
		synctest.Test(t, check)
		return
	}
	t.Parallel() // with no test that uses rapid
	testkit.RapidChecks(t, 3)
	check(t)
}

// course is a run of the test.
type course struct {
	*rig
	rt      *rapid.T
	bridges []*bridge
	next    [partitions]int64 // offsets
	wanted  map[string]bool   // ids that must come to the timers or to the output
	bad     int               // malformed records
}

func (c *course) run() {
	c.store(0, 0)
	c.bridges = append(c.bridges, c.start())
	steps := map[string]func(){
		"messages": c.messages, "store": c.changeStore, "output": c.breakOutput, "bridge": c.changeBridges, "session": c.loseSession,
		"time": func() {
			c.pass(time.Duration(rapid.IntRange(1, c.most(5000, 200)).Draw(c.rt, "ms")) * time.Millisecond)
		},
	}
	names := []string{"messages", "messages", "messages", "time", "time", "store", "output", "bridge", "session"}
	for range rapid.IntRange(5, 40).Draw(c.rt, "steps") {
		steps[rapid.SampledFrom(names).Draw(c.rt, "step")]()
	}
	c.store(0, 0)
	if len(c.bridges) == 0 {
		c.bridges = append(c.bridges, c.start())
	}
	c.awaitCommitted(c.next[:]...)
	for _, b := range c.bridges {
		b.stop()
	}
	there := append(c.timers.keys(), c.ids("out")...)
	for id := range c.wanted {
		if !slices.Contains(there, id) {
			c.rt.Errorf("%s is lost", id)
		}
	}
	if got := len(c.records("dead")); got < c.bad {
		c.rt.Errorf("%d dead letters, want %d", got, c.bad)
	}
}

// most is the longest time in ms, in a bubble and outside.
func (c *course) most(bubble, outside int) int {
	if c.real {
		return outside
	}
	return bubble
}

func (c *course) messages() {
	var all []*kgo.Record
	for range rapid.IntRange(1, 30).Draw(c.rt, "n") {
		p := rapid.Int32Range(0, partitions-1).Draw(c.rt, "partition")
		switch kind := rapid.IntRange(0, 9).Draw(c.rt, "kind"); {
		case kind == 0:
			all = append(all, malformedRecord(p, "x"))
			c.bad++
		case kind < 4:
			all = append(all, late(p, c.draw("l")))
		default:
			all = append(all, early(p, c.draw("e")))
		}
		c.next[p] = max(c.next[p], 0) + 1
	}
	c.audit.number(all)
	c.produce(all...)
	c.audit.produced(all)
}

// draw is an id, most often a new id.
func (c *course) draw(kind string) string {
	id := fmt.Sprint(kind, rapid.IntRange(0, 9999).Draw(c.rt, "id"))
	if rapid.IntRange(0, 3).Draw(c.rt, "again") == 0 {
		id = fmt.Sprint("again", rapid.IntRange(0, 3).Draw(c.rt, "id"))
	}
	c.wanted[id] = true
	return id
}

// store has a share of calls fail, in percent, and batches take up to slowMs.
func (c *course) store(failing, slowMs int) {
	seed, n := maphash.MakeSeed(), new(atomic.Uint64)
	c.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
		h := maphash.String(seed, fmt.Sprint(a.Origin, n.Add(1))) % 100
		if slowMs > 0 && h%10 == 0 {
			time.Sleep(time.Duration(h) * time.Duration(slowMs) * time.Millisecond / 100) // whether or not ctx ends
		}
		if int(h) < failing || ctx.Err() != nil {
			return errDown
		}
		return nil
	})
}

func (c *course) changeStore() {
	c.store(rapid.SampledFrom([]int{0, 0, 10, 50, 100}).Draw(c.rt, "failing"), rapid.SampledFrom([]int{0, 0, 10, c.most(1000, 100), c.most(4000, 300)}).Draw(c.rt, "slow"))
}

func (c *course) breakOutput() {
	c.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: rapid.SampledFrom([]string{"out", "dead"}).Draw(c.rt, "topic"), Count: rapid.IntRange(1, 5).Draw(c.rt, "count"),
		Err: rapid.SampledFrom([]*kerr.Error{
			kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.TopicAuthorizationFailed, kerr.CorruptMessage,
		}).Draw(c.rt, "error"),
	})
}

func (c *course) changeBridges() {
	if n := len(c.bridges); n == 0 || n < 3 && rapid.Bool().Draw(c.rt, "start") {
		c.bridges = append(c.bridges, c.start())
		return
	}
	c.bridges[0].stop()
	c.bridges = c.bridges[1:]
}

func (c *course) loseSession() {
	c.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{rapid.SampledFrom([]kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit}).Draw(c.rt, "request")}, Group: "chronos",
		Err: rapid.SampledFrom([]*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.NotCoordinator, kerr.RebalanceInProgress}).Draw(c.rt, "error"),
	})
}
