package bridgetest

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// scenario is a schedule of faults under load.
type scenario struct {
	name                    string
	stores, copies, bridges int
	inject                  func(*rig)
	after                   func(*rig)    // once all has come, before the bridges stop
	late                    time.Duration // how late a message in a thousand may be without a fault, if that is more than elsewhere
	environ                 []string      // of the bridges, beside what all have
}

func scenarios() []*scenario {
	return []*scenario{
		{name: "no-fault", stores: 3, copies: 2, bridges: 1, inject: (*rig).noFault, after: (*rig).judgeNoFault},
		{name: "bridges-replaced", stores: 3, copies: 2, bridges: 2, inject: (*rig).replaceBridges, late: 2 * time.Second},
		{name: "rebalances", stores: 3, copies: 2, bridges: 2, inject: (*rig).rebalance, late: 2 * time.Second},
		{name: "store-killed", stores: 3, copies: 2, bridges: 2, inject: (*rig).killStore},
		{name: "store-stopped", stores: 1, copies: 1, bridges: 2, inject: (*rig).stopStore},
	}
}

func brokerScenarios() []*scenario {
	return []*scenario{
		{name: "broker-stopped", stores: 3, copies: 2, bridges: 2, inject: (*rig).stopBroker},
		{name: "all-away", stores: 3, copies: 2, bridges: 2, inject: (*rig).stopAll},
	}
}

func (r *rig) noFault() { r.wait(r.plan.seconds(5, 30)) }

// calm is load after the last fault: in a full run until it shows no more, and longer.
func (r *rig) calm() { r.wait(r.plan.seconds(3, 20)) }

const kcatKey = "customer-7"

// judgeNoFault has kcat come last, and looks at what is left in the stores.
func (r *rig) judgeNoFault() {
	r.t.Run("kcat", r.kcat)
	r.allRemembered(len(r.load.all()) + r.out.foreigners(kcatKey))
}

// kcat has librdkafka publish a message and read it from the output, as docs/kafka.md says.
func (r *rig) kcat(t *testing.T) {
	testkit.Program(t, "kcat")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run := func(stdin string, args ...string) string {
		var stderr bytes.Buffer
		c := exec.CommandContext(ctx, "kcat", append([]string{"-b", r.broker.Addr()}, args...)...)
		c.Stdin, c.Stderr = strings.NewReader(stdin), &stderr
		out, err := c.Output()
		if err != nil {
			t.Errorf("kcat %v: %v\n%s", args, err, &stderr)
		}
		return string(out)
	}
	deadline := time.Now().Add(1500 * time.Millisecond).UTC()
	run("hello", "-P", "-t", r.input, "-k", kcatKey, "-H", "chronosMessageId=order-4711",
		"-H", "chronosDeadline="+deadline.Format("2006-01-02T15:04:05.000"), "-H", "color=blue")
	testkit.Await(t, 10*time.Second, "kcat's message comes", func() bool { return r.out.foreigners(kcatKey) > 0 })
	if early := time.Until(deadline.Add(-advance)); early > 0 {
		t.Errorf("kcat's message came %v early", early)
	}
	all := run("", "-C", "-t", r.output, "-o", "beginning", "-e", "-f", `%k|%s|%h\n`)
	if n := strings.Count(all, kcatKey+"|hello|color=blue\n"); n != 1 {
		t.Errorf("kcat reads its message %d times, want once", n)
	}
	testkit.Await(t, 10*time.Second, "kcat's message is committed", func() bool { return r.lag() == 0 })
}

// allRemembered: where nothing failed each message has left a tombstone for each of
// its copies, and nothing else.
func (r *rig) allRemembered(want int) {
	r.t.Helper()
	c, err := r.readContents(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	copies := 0
	for _, n := range c.tombstones {
		copies += n
	}
	if len(c.tombstones) != want || copies != want*r.scenario.copies || c.live > 0 {
		r.t.Errorf("the stores have %d tombstones of %d messages, and %d that wait; want %d of %d and none",
			copies, len(c.tombstones), c.live, want*r.scenario.copies, want)
	}
}

// replaceBridges kills a bridge and starts another, and then replaces both in good
// order, which is no fault.
func (r *rig) replaceBridges() {
	r.worst = session + soon
	over := r.fault()
	killed := r.bridges[0]
	killed.Kill()
	r.forget(killed)
	r.wait(r.plan.seconds(3, 6))
	r.startBridge()
	r.awaitMembers(2)
	over()
	r.wait(aftermath)
	for range r.plan.either(1, 3) {
		for range 2 {
			r.stopBridge(r.bridges[0])
			r.startBridge()
			r.awaitMembers(2)
			r.wait(r.plan.seconds(1, 5))
		}
	}
	r.calm()
	suspected := 0
	for _, b := range r.logs {
		suspected += strings.Count(b.Log.String(), "suspected failure of "+killed.id+" for message ")
	}
	r.t.Logf("the other bridge has taken over, and logged that for %d messages", suspected)
}

// rebalance has a third bridge come and go in good order, which is no fault.
func (r *rig) rebalance() {
	each := r.plan.seconds(2, 5)
	for begun := time.Now(); time.Since(begun) < r.plan.seconds(10, 40); {
		third := r.startBridge()
		r.wait(each)
		r.stopBridge(third)
		r.wait(each)
	}
	r.calm()
}

// killStore kills a redis-server of three and starts it again with its data.
func (r *rig) killStore() {
	r.worst = skew + time.Second
	for i, s := range r.stores[:r.plan.either(1, 3)] {
		if i > 0 {
			r.wait(aftermath + 5*time.Second)
		}
		over := r.fault()
		s.Kill()
		r.wait(r.plan.seconds(3, 10))
		s.Start()
		over()
	}
	r.calm()
}

// stopStore has the only redis-server stand still: the bridges pause, and stay in
// their group.
func (r *rig) stopStore() {
	outage := r.plan.seconds(4, 10)
	r.worst = outage + soon
	before, assignments := r.members(), r.assignments()
	over := r.fault()
	r.stores[0].stop()
	stopped := time.Now()
	for _, b := range r.bridges {
		testkit.Await(r.t, outage, b.name+" has paused partitions", func() bool {
			return b.metric("chronos_bridge_paused_partitions") > 0
		})
	}
	r.wait(outage - time.Since(stopped))
	r.stores[0].goOn()
	over()
	for _, b := range r.bridges {
		testkit.Await(r.t, 10*time.Second, b.name+" has no paused partitions", func() bool {
			return b.metric("chronos_bridge_paused_partitions") == 0
		})
	}
	r.calm()
	if after := r.members(); len(before) != 2 || !slices.Equal(before, after) || r.assignments() != assignments {
		r.t.Errorf("members were %v and are %v, want the same; %d partitions came or went", before, after, r.assignments()-assignments)
	}
}

func (r *rig) assignments() (n int) {
	for _, b := range r.bridges {
		n += b.assignments()
	}
	return n
}

// stopBroker has the broker stand still, and then kills it and starts it again.
func (r *rig) stopBroker() {
	outage := r.plan.seconds(6, 20)
	r.worst = outage + soon
	over := r.fault()
	r.broker.Stop()
	r.wait(outage)
	r.broker.Continue()
	over()
	r.wait(r.plan.seconds(4, 20))
	over = r.fault()
	killed := time.Now()
	r.broker.Kill()
	r.wait(r.plan.seconds(1, 5))
	r.broker.Restart()
	over()
	r.worst = max(r.worst, time.Since(killed)+soon) // a broker takes its time to start
	r.calm()
}

// stopAll has the broker and all stores stand still for an overlapping time.
func (r *rig) stopAll() {
	outage := r.plan.seconds(3, 10)
	r.worst = 2*time.Second + outage + soon
	over := r.fault()
	r.broker.Stop()
	r.wait(time.Second)
	for _, s := range r.stores {
		s.stop()
	}
	r.wait(outage)
	r.broker.Continue()
	r.wait(time.Second)
	for _, s := range r.stores {
		s.goOn()
	}
	over()
	r.calm()
}
