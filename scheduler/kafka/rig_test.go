package kafka

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/verify/testkit"
)

// rig is a Kafka on a network in memory.
type rig struct {
	*testing.T
	real    bool // the time is real
	cluster *kfake.Cluster
	network *kfake.VirtualNetwork
	client  *kgo.Client // produces to the input
	timers  *fakeTimers
	log     *testkit.Log
	audit   *audit

	topicIDs map[string][16]byte
	ends     []func()
}

const partitions = 3

// inBubble has a test wait for no real time. The test's group never has two members, nor a member that
// joins again. While a client of the usual build joins, its autocommit waits for a sync.Mutex, which
// stops a bubble's clock.
func inBubble(t *testing.T, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { newRig(t).run(test) })
}

// inGroup has a test with several members take real time, unless `go test -tags synctests` has built
// the client for bubbles.
func inGroup(t *testing.T, test func(*rig)) {
	t.Helper()
	if builtForBubbles {
		inBubble(t, test)
		return
	}
	t.Parallel()
	r := newRig(t)
	r.real = true
	r.run(test)
}

func (r *rig) run(test func(*rig)) {
	defer r.close()
	test(r)
	for _, fault := range r.audit.end() {
		r.Error(fault)
	}
}

// onEnd has f run when the rig is closed; the first f runs last.
func (r *rig) onEnd(f func()) { r.ends = append(r.ends, f) }

func (r *rig) close() {
	for _, f := range slices.Backward(r.ends) {
		f()
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	a := &audit{acked: make(map[string]bool), serials: make(map[string][2]string), sent: make(map[string]string), sound: make(map[int32]int64)}
	r := &rig{T: t, network: new(kfake.VirtualNetwork), timers: newFakeTimers(a), log: &testkit.Log{To: t.Output()}, audit: a}
	var err error
	r.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(2), kfake.Ports(9092, 9093), kfake.ListenFn(r.network.Listen), kfake.SeedTopics(partitions, "in", "out", "dead"),
		kfake.GroupMinSessionTimeout(time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.onEnd(func() {
		// Two requests that are held while the cluster closes would wait for its mutex for ever.
		if !r.real {
			synctest.Wait()
		}
		r.cluster.Close()
	})
	r.topicIDs = make(map[string][16]byte)
	for _, name := range []string{"in", "out", "dead"} {
		r.topicIDs[name] = r.cluster.TopicInfo(name).TopicID
	}
	r.observe(kmsg.OffsetCommit, a.commit)
	r.client = r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(64<<20))
	return r
}

func (r *rig) brokers() []string { return []string{"127.0.0.1:9092", "127.0.0.1:9093"} }

func (r *rig) newClient(options ...kgo.Opt) *kgo.Client {
	r.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(r.brokers()...), kgo.Dialer(r.network.DialContext))...)
	if err != nil {
		r.Fatal(err)
	}
	r.onEnd(client.Close)
	return client
}

func (r *rig) config(change ...func(*Config)) Config {
	config := Config{
		Connection: Connection{Brokers: r.brokers()}, Input: "in", Output: "out", DeadLetters: "dead", Group: "chronos",
		RelayID: true, MaxPending: 64, Log: newLog(r.log),
		more: []kgo.Opt{kgo.Dialer(r.network.DialContext), kgo.WithHooks(r.audit)},
	}
	// A finalizer outside the bubble closes the zstd decoder.
	config.more = append(config.more, kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	if r.real {
		config.more = append(config.more, kgo.HeartbeatInterval(50*time.Millisecond), kgo.SessionTimeout(time.Second))
	}
	for _, c := range change {
		c(&config)
	}
	return config
}

func newLog(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// bridge is a running Bridge.
type bridge struct {
	*Bridge
	registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan struct{}
}

// start runs a bridge until the test ends, or it is stopped.
func (r *rig) start(change ...func(*Config)) *bridge {
	r.Helper()
	registry := prometheus.NewRegistry()
	config := r.config(change...)
	config.Registerer = registry
	opened, err := Open(r.Context(), config)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &bridge{Bridge: opened, registry: registry, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		if err := b.Run(ctx, r.timers); err != nil {
			r.Error(err)
		}
	}()
	r.onEnd(b.stop)
	return b
}

// stop does the same as a process at SIGTERM.
func (b *bridge) stop() {
	b.cancel()
	<-b.ended
	b.Close()
}

// record is a record of the input.
func record(partition int32, id string, deadline time.Time) *kgo.Record {
	return &kgo.Record{Topic: "in", Partition: partition, Key: []byte(id), Value: []byte("value of " + id), Headers: []kgo.RecordHeader{
		{Key: message.IDHeader, Value: []byte(id)}, {Key: message.DeadlineHeader, Value: []byte(strconv.FormatInt(deadline.UnixMilli(), 10))},
	}}
}

func early(partition int32, id string) *kgo.Record {
	return record(partition, id, time.Now().Add(time.Hour))
}

func late(partition int32, id string) *kgo.Record {
	return record(partition, id, time.Now().Add(-time.Minute))
}

func malformedRecord(partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: "in", Partition: partition, Value: []byte(value)}
}

func (r *rig) produce(all ...*kgo.Record) {
	r.Helper()
	if err := r.client.ProduceSync(r.Context(), all...).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

// committed is the group's committed offset of every partition of the input, -1 for nothing.
func (r *rig) committed() (offsets [partitions]int64) {
	for p := range offsets {
		offsets[p] = -1
	}
	if info := r.cluster.GroupInfo("chronos"); info != nil {
		for p, c := range info.Commits["in"] {
			offsets[p] = c.Offset
		}
	}
	return offsets
}

func (r *rig) wantCommitted(want ...int64) {
	r.Helper()
	if got := r.committed(); !slices.Equal(got[:], want) {
		r.Errorf("committed is %v, want %v", got, want)
	}
}

func (r *rig) awaitCommitted(want ...int64) {
	r.Helper()
	r.await(fmt.Sprintf("commits of %v", want), func() bool { got := r.committed(); return slices.Equal(got[:], want) })
}

// awaitMembers waits until the group has n members, all with a partition.
func (r *rig) awaitMembers(n int) {
	r.Helper()
	r.await(fmt.Sprint(n, " members"), func() bool {
		info := r.cluster.GroupInfo("chronos")
		return info != nil && info.State == "Stable" && len(info.Members) == n && info.NumAssigned() == partitions &&
			!slices.ContainsFunc(info.Members, func(m kfake.GroupMember) bool { return m.NumAssigned() == 0 })
	})
}

func (r *rig) await(what string, cond func() bool) {
	r.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.NewTimer(time.Minute)
	defer tick.Stop()
	defer end.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end.C:
			r.Fatalf("waited in vain for %s; committed is %v", what, r.committed())
		}
	}
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	if !r.real {
		synctest.Wait()
	}
}

// records is what a topic holds, in no order.
func (r *rig) records(topic string) (all []*kgo.Record) {
	r.Helper()
	end := int64(0)
	for _, p := range r.cluster.PartitionInfos(topic) {
		end += p.HighWatermark
	}
	client := r.newClient(kgo.ConsumeTopics(topic), kgo.FetchMaxWait(10*time.Millisecond))
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	for int64(len(all)) < end {
		all = append(all, client.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			r.Fatalf("%d records of %s came, want %d", len(all), topic, end)
		}
	}
	return all
}

// ids are the sorted ids of a topic's records, repeats included.
func (r *rig) ids(topic string) (ids []string) {
	r.Helper()
	for _, rec := range r.records(topic) {
		ids = append(ids, headerOf(rec, message.IDHeader))
	}
	slices.Sort(ids)
	return ids
}

func headerOf(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func wantIDs(t rapid.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// holdProduce has requests to produce to these topics wait until end is called, or the test ends.
func (r *rig) holdProduce(topics ...string) (end func()) {
	open := make(gate)
	r.cluster.ControlKey(kmsg.Produce.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if p, ok := request.(*kmsg.ProduceRequest); ok && slices.ContainsFunc(p.Topics, func(t kmsg.ProduceRequestTopic) bool { return slices.Contains(topics, r.nameOf(&t)) }) {
			r.cluster.SleepControl(func() { <-open })
		}
		return nil, nil, false
	})
	return r.opens(open)
}

// silence leaves requests with these keys without an answer until end is called, or the test ends; no
// keys for all requests.
func (r *rig) silence(keys ...kmsg.Key) (end func()) {
	open := make(gate)
	r.cluster.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if len(keys) == 0 || slices.Contains(keys, kmsg.Key(request.Key())) {
			r.cluster.SleepControl(func() { <-open })
		}
		return nil, nil, false
	})
	return r.opens(open)
}

func (r *rig) opens(g gate) func() {
	open := sync.OnceFunc(func() { close(g) })
	r.onEnd(open)
	return open
}

// nameOf is the topic's name: new requests only have the topic's id.
func (r *rig) nameOf(t *kmsg.ProduceRequestTopic) string {
	for name, id := range r.topicIDs {
		if t.Topic == name || t.TopicID == id {
			return name
		}
	}
	return ""
}

// wantMetric adds up all series of this name.
func wantMetric(t rapid.TB, b *bridge, name string, want float64) {
	t.Helper()
	if got := b.metric(name); got != want {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func (b *bridge) metric(name string) (sum float64) {
	families, _ := b.registry.Gather()
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// counted is the value of a single series.
func counted(c prometheus.Counter) float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, _ := registry.Gather()
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// random is bytes that can't be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(b)
	return b
}

// observe has look see every request with this key before the request is carried out.
func (r *rig) observe(key kmsg.Key, look func(kmsg.Request)) {
	r.cluster.ControlKey(key.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		look(request)
		return nil, nil, false
	})
}

func (r *rig) wantLogged(want int, part string) {
	r.Helper()
	if got := r.log.Count(part); got != want {
		r.Errorf("%q is logged %d times, want %d", part, got, want)
	}
}
