package bridgetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// Times of bridges with default settings.
const (
	hold    = 5 * time.Second
	advance = 50 * time.Millisecond // how early a message may come: the bound of CHRONOS_KAFKA_ADVANCE=auto
	skew    = 2 * time.Second       // until a copy fires whose better copy is out of reach
	session = 10 * time.Second      // until a killed bridge leaves the group
)

// aftermath is how long a fault may show after its end: until the leases that nobody could
// renew are over, and the waiting messages are published.
const aftermath = hold + 3*time.Second

// soon is the bound, from the end of a fault, for messages that the fault has held up.
const soon = 4 * time.Second

// rig is a run of a scenario.
type rig struct {
	t        *testing.T
	plan     plan
	scenario *scenario
	broker   *broker.Broker
	admin    *kadm.Client
	stores   []*store
	bridges  []*bridge // running
	started  int
	logs     []*bridge // all, running or ended
	load     *load
	out      *collector
	windows  []window
	worst    time.Duration // the bound for a message that a fault holds up, if any

	input, output, deadLetters, group string
}

func newRig(t *testing.T, s *scenario, p plan, b *broker.Broker) *rig {
	t.Helper()
	r := &rig{
		t: t, plan: p, scenario: s, broker: b,
		input: s.name + "-in", output: s.name + "-out", deadLetters: s.name + "-dead", group: s.name,
	}
	stamped := map[string]string{"message.timestamp.type": "LogAppendTime"}
	b.CreateTopic(r.input, 6, nil)
	b.CreateTopic(r.output, 3, stamped)
	b.CreateTopic(r.deadLetters, 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(250*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.admin = kadm.NewClient(client)
	for i := range s.stores {
		r.stores = append(r.stores, newStore(t, string(rune('a'+i))))
	}
	for range s.bridges {
		r.startBridge()
	}
	r.awaitMembers(s.bridges)
	r.out = collect(t, b.Addr(), r.output)
	r.load = newLoad(t, b.Addr(), r.input, p.either(200, 1000))
	return r
}

// run makes the scenario's faults happen under load, waits for all messages, and judges.
func (s *scenario) run(t *testing.T, p plan, b *broker.Broker) {
	r := newRig(t, s, p, b)
	defer r.keepLogs()
	watch, err := heldup.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := r.load.start()
	r.wait(warmUp)
	s.inject(r)
	stop()
	r.awaitEnd()
	heldUp := watch.Stop().Longest()
	if s.after != nil {
		s.after(r)
	}
	for len(r.bridges) > 0 {
		r.stopBridge(r.bridges[0])
	}
	r.judge(heldUp)
}

// warmUp is the time of load before the first fault.
const warmUp = 3 * time.Second

// wait is a time in the schedule of the faults.
func (r *rig) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// fault begins a fault; over ends the fault.
func (r *rig) fault() (over func()) {
	i := len(r.windows)
	r.windows = append(r.windows, window{time.Now(), open})
	return func() {
		now := time.Now()
		r.windows[i].to = now.Add(aftermath)
		r.t.Logf("fault from %s to %s", clock(r.windows[i].from), clock(now))
	}
}

// awaitMembers waits until the group has n members, and the members have all partitions.
func (r *rig) awaitMembers(n int) {
	r.t.Helper()
	testkit.Await(r.t, session+10*time.Second, fmt.Sprintf("the group has %d members and is at rest", n), func() bool {
		return len(r.members()) == n
	})
}

// members are the ids of the group's members, or nil if the group is not at rest or can't be
// asked.
func (r *rig) members() (ids []string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	groups, err := r.admin.DescribeGroups(ctx, r.group)
	if err != nil || groups[r.group].Err != nil || groups[r.group].State != "Stable" {
		return nil
	}
	assigned := 0
	for _, m := range groups[r.group].Members {
		ids = append(ids, m.MemberID)
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range c.Topics {
				assigned += len(topic.Partitions)
			}
		}
	}
	if assigned == 6 {
		return ids
	}
	return nil
}

// awaitEnd waits until all messages have come, no store has a live message or a lease, and the
// whole input is committed. If the wait is in vain, the test fails, and judge judges all the same.
func (r *rig) awaitEnd() {
	r.t.Helper()
	begun, count := time.Now(), len(r.load.all())
	testkit.Await(r.t, r.plan.seconds(60, 120), "all messages have come", func() bool {
		messages, _ := r.out.seen()
		return messages >= count
	})
	came := time.Since(begun)
	var c contents
	testkit.Await(r.t, time.Minute, "no message waits in a store", func() (empty bool) {
		var err error
		c, err = r.readContents(r.t.Context())
		return err == nil && c.live == 0 && c.leases == 0
	})
	var lag int64
	testkit.Await(r.t, 20*time.Second, "all is committed", func() bool {
		lag = r.lag()
		return lag == 0
	})
	r.t.Logf("all messages have come %v after the load; in the stores %d live, %d leases, tombstones of %d messages; lag %d, %v after the load",
		came.Round(time.Millisecond), c.live, c.leases, len(c.tombstones), lag, time.Since(begun).Round(time.Millisecond))
	if len(c.tombstones) == 0 || c.letters > 0 {
		r.t.Errorf("the stores have tombstones of %d messages and %d dead letters, want of all that were remembered, and none", len(c.tombstones), c.letters)
	}
}

// lag is how many records of the input the group has not committed, -1 if unknown.
func (r *rig) lag() (n int64) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	ends, err := r.admin.ListEndOffsets(ctx, r.input)
	if err != nil || ends.Error() != nil {
		return -1
	}
	committed, err := r.admin.FetchOffsets(ctx, r.group)
	if err != nil || committed.Error() != nil {
		return -1
	}
	ends.Each(func(o kadm.ListedOffset) {
		at := int64(0)
		if c, ok := committed.Lookup(r.input, o.Partition); ok {
			at = max(c.At, 0)
		}
		n += o.Offset - at
	})
	return n
}

// records is how many records a topic has.
func (r *rig) records(topic string) (n int64) {
	r.t.Helper()
	ends, err := r.admin.ListEndOffsets(r.t.Context(), topic)
	if err != nil || ends.Error() != nil {
		r.t.Fatalf("end of topic %s: %v, %v", topic, err, ends.Error())
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// judge judges the arrivals, once no bridge runs and no more messages can come.
func (r *rig) judge(heldUp time.Duration) {
	r.t.Helper()
	end := r.records(r.output)
	testkit.Await(r.t, 20*time.Second, "the whole output is read", func() bool {
		_, records := r.out.seen()
		return records >= end
	})
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	v := judge(r.load.all(), r.out.arrivals, r.windows, advance)
	v.altered = len(r.out.altered)
	v.examples = append(v.examples, r.out.altered[:min(len(r.out.altered), 3)]...)
	r.t.Logf("%s: %v\n  the test itself was held up for %v at most", r.scenario.name, &v, heldUp)
	for key, n := range r.out.foreign {
		if key != kcatKey || n > 1 {
			r.t.Errorf("%d records with key %q came that nobody published", n, key)
		}
	}
	more := heldup.Slack(heldUp)
	for _, fault := range v.faults(max(r.scenario.late, time.Duration(r.plan.either(1000, 500))*time.Millisecond) + more) {
		r.t.Error(fault)
	}
	if r.worst > 0 && v.worst > r.worst+more {
		r.t.Errorf("under a fault a message came %v late, want at most %v", v.worst, r.worst+more)
	}
	if n := r.records(r.deadLetters); n > 0 {
		r.t.Errorf("%d dead letters", n)
	}
	if lag := r.lag(); lag != 0 {
		r.t.Errorf("the group lags behind by %d when all bridges have stopped", lag)
	}
	for _, b := range r.logs {
		if log := b.Log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "panic:") {
			r.t.Errorf("%s has logged an error", b.name)
		}
	}
}

// keepLogs writes the logs of the bridges to files.
func (r *rig) keepLogs() {
	if r.plan.keep == "" {
		return
	}
	for _, b := range r.logs {
		path := filepath.Join(r.plan.keep, r.scenario.name+"-"+b.name+".log")
		if err := os.WriteFile(path, []byte(b.Log.String()), 0o600); err != nil {
			r.t.Errorf("keep the log: %v", err)
		}
	}
}
