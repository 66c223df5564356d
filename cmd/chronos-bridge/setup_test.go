package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/verify/testkit"

	"chronos/scheduler/kafka/message"
)

const partitions = 4

// setup is a Kafka in this process with an input, an output and a dead-letter topic,
// and a Redis.
type setup struct {
	*testing.T
	cluster *kfake.Cluster
	brokers string
	redis   string // URL

	runtimeDir string
	client     *kgo.Client
	came       []*kgo.Record // so far, from the output and the dead letters
}

// newSetup is a setup with a Redis in this process.
func newSetup(t *testing.T) *setup {
	t.Helper()
	return newSetupOn(t, "redis://"+miniredis.RunT(t).Addr())
}

func newSetupOn(t *testing.T, redis string) *setup {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "in", "out", "dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &setup{T: t, cluster: cluster, brokers: strings.Join(cluster.ListenAddrs(), ","), redis: redis, runtimeDir: t.TempDir()}
	s.client, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("out", "dead"), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, what, cond)
}

// bridge is a running bridge.
type bridge struct {
	*setup
	log  *testkit.Log
	stop func()
}

// environ is a bridge's environment.
func (s *setup) environ(more ...string) []string {
	return append([]string{
		"CHRONOS_KAFKA_BROKERS=" + s.brokers, "CHRONOS_KAFKA_INPUT=in", "CHRONOS_KAFKA_OUTPUT=out", "CHRONOS_KAFKA_DEAD_LETTERS=dead",
		"CHRONOS_REDIS=a=" + s.redis, "CHRONOS_BRIDGE_ADMIN_LISTEN=127.0.0.1:0", "CHRONOS_KAFKA_ADVANCE=0s",
		"XDG_RUNTIME_DIR=" + s.runtimeDir,
		"CHRONOS_KAFKA_HOLD=1m", // no bridge takes over from a bridge that is merely slow
	}, more...)
}

// start runs a bridge until stop or the end of the test, and returns when the bridge has its
// share of the partitions.
func (s *setup) start(more ...string) *bridge {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &bridge{setup: s, log: &testkit.Log{To: s.Output()}}
	ended := make(chan error, 1)
	var members int
	await(s.T, "the group to have settled", func() bool { members = s.members(); return members >= 0 })
	go func() { ended <- run(ctx, s.environ(more...), b.log) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(b.stop)
	await(s.T, "the bridge to have joined", func() bool { return s.members() == members+1 })
	return b
}

// members is how many members the group has, all with partitions; -1 while the group changes.
func (s *setup) members() (n int) {
	info := s.cluster.GroupInfo("chronos")
	if info == nil {
		return 0
	}
	if info.State != "Stable" && info.State != "Empty" || len(info.Members) > 0 && info.NumAssigned() != partitions {
		return -1
	}
	for i := range info.Members {
		if info.Members[i].NumAssigned() == 0 {
			return -1
		}
	}
	return len(info.Members)
}

var listening = regexp.MustCompile(`msg="bridge is up".* admin=(\S+)\s`)

// get asks the admin listener.
func (b *bridge) get(path string) (status int, body string) {
	b.Helper()
	var at []string
	await(b.T, "the bridge to be up", func() bool { at = listening.FindStringSubmatch(b.log.String()); return at != nil })
	got, err := testkit.Ask(nil, http.MethodGet, at[1]+path, "")
	if err != nil {
		b.Fatal(err)
	}
	return got.Status, got.Body
}

// metric is the value of one series.
func (b *bridge) metric(series string) float64 {
	b.Helper()
	_, text := b.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	return 0
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// stamp is a deadline in the format of publishers.
func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

// newMessage is a record with all needed headers.
func newMessage(id string, deadline time.Time, value string) *kgo.Record {
	return &kgo.Record{
		Topic: "in", Key: []byte("key of " + id), Value: []byte(value),
		Headers: []kgo.RecordHeader{header(message.IDHeader, id), header(message.DeadlineHeader, stamp(deadline))},
	}
}

func on(partition int32, r *kgo.Record) *kgo.Record {
	r.Partition = partition
	return r
}

// produce publishes records to the input, at once.
func (s *setup) produce(all ...*kgo.Record) {
	s.Helper()
	if err := s.client.ProduceSync(s.Context(), all...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// consume waits until so many records have come to the output and the dead letters.
func (s *setup) consume(n int) []*kgo.Record {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	for len(s.came) < n {
		s.came = append(s.came, s.client.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			s.Fatalf("%d records came, want %d: %q", len(s.came), n, valuesOf(s.came))
		}
	}
	return s.came
}

// wantValues waits for records with the wanted values, sorted, in the output and the dead
// letters. Then wantValues waits until the whole input is committed, and wants no more records.
func (s *setup) wantValues(want ...string) {
	s.Helper()
	got := valuesOf(s.consume(len(want)))
	s.awaitDone()
	if n := s.published(); n != len(want) || !slices.Equal(got, want) {
		s.Errorf("%d records were published, of them %q, want %q", n, got, want)
	}
}

func valuesOf(all []*kgo.Record) (values []string) {
	for _, r := range all {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

// published is how many records the output and the dead letters hold.
func (s *setup) published() (n int) {
	for _, topic := range []string{"out", "dead"} {
		for _, p := range s.cluster.PartitionInfos(topic) {
			n += int(p.HighWatermark)
		}
	}
	return n
}

// awaitDone waits until all of the input is committed.
func (s *setup) awaitDone() {
	s.Helper()
	await(s.T, "commits", func() bool {
		info := s.cluster.GroupInfo("chronos")
		for p, in := range s.cluster.PartitionInfos("in") {
			if in.HighWatermark > 0 && (info == nil || info.Commits["in"][int32(p)].Offset != in.HighWatermark) {
				return false
			}
		}
		return true
	})
}

func soon(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Millisecond) }

func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return all
}
