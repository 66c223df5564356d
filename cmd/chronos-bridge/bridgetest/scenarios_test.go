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
	after                   func(*rig)    // once all messages have come, before the bridges stop
	late                    time.Duration // how late a message in a thousand may be without a fault, if more than usual
	environ                 []string      // of the bridges, in addition to the common environment
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

// calm is load after the last fault: in a full run until the fault no longer shows, and longer.
func (r *rig) calm() { r.wait(r.plan.seconds(3, 20)) }

const kcatKey = "customer-7"

// judgeNoFault runs kcat last, and then looks at the rest in the stores.
func (r *rig) judgeNoFault() {
	r.t.Run("kcat", r.kcat)
	r.allRemembered(len(r.load.all()) + r.out.foreigners(kcatKey))
}

// kcat publishes a message by librdkafka and reads the message from the output, as in docs/kafka.md.
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

// allRemembered: without a fault, every copy of every message has become a tombstone, and the
// stores hold no live message.
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

// replaceBridges kills a bridge and starts a new bridge. Then replaceBridges replaces both
// bridges in good order. An orderly end is no fault.
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

// rebalance starts and stops a third bridge in good order, again and again. A rebalance is no
// fault.
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

// killStore kills one redis-server of three and starts the same redis-server with its data.
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

// stopStore makes the only redis-server stand still: the bridges pause, and stay in the group.
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

// stopBroker makes the broker stand still, and later kills and restarts the broker.
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
	r.worst = max(r.worst, time.Since(killed)+soon) // a broker starts slowly
	r.calm()
}

// stopAll makes the broker and all stores stand still, at overlapping times.
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
