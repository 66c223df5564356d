package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/kafka"
)

// setup is a Kafka in this process with an input, an output and a dead-letter topic,
// and a Redis in memory.
type setup struct {
	*testing.T
	brokers []string
	redis   *miniredis.Miniredis
	client  *kgo.Client
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "in", "out", "dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &setup{T: t, brokers: cluster.ListenAddrs(), redis: miniredis.RunT(t)}
	s.client, err = kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics("out", "dead"), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// start runs a bridge until the test ends, or what it returns is called.
func (s *setup) start(more ...string) (stop func()) {
	s.Helper()
	environ := append([]string{
		"CHRONOS_KAFKA_BROKERS=" + strings.Join(s.brokers, ","), "CHRONOS_KAFKA_INPUT=in", "CHRONOS_KAFKA_OUTPUT=out", "CHRONOS_KAFKA_DEAD_LETTERS=dead",
		"CHRONOS_REDIS=a=redis://" + s.redis.Addr(), "CHRONOS_BRIDGE_ADMIN_LISTEN=127.0.0.1:0", "CHRONOS_KAFKA_ADVANCE=0s",
	}, more...)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, environ, logTo{s.T}) }()
	var stopped bool
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-ended; err != nil {
				s.Error(err)
			}
		}
	}
	s.Cleanup(stop)
	return stop
}

type logTo struct{ testing.TB }

func (l logTo) Write(line []byte) (int, error) {
	return l.Output().Write(line)
}

func (s *setup) produce(id string, deadline time.Time, value string) {
	s.Helper()
	r := &kgo.Record{Topic: "in", Key: []byte("key-" + id), Value: []byte(value), Headers: []kgo.RecordHeader{
		{Key: "first", Value: nil}, {Key: kafka.IDHeader, Value: []byte(id)}, {Key: "second", Value: []byte{}},
		{Key: kafka.DeadlineHeader, Value: []byte(deadline.Format("2006-01-02T15:04:05.000Z07:00"))}, {Key: "second", Value: []byte{0xff, 0}},
	}}
	if err := s.client.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// consume returns the next n records of the output and the dead letters.
func (s *setup) consume(n int) (all []*kgo.Record) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	for len(all) < n {
		fetches := s.client.PollFetches(ctx)
		if ctx.Err() != nil {
			s.Fatalf("%d records came, want %d", len(all), n)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func TestAMessageComesAtItsDeadline(t *testing.T) {
	s := newSetup(t)
	s.start()
	deadline := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	for i := range 20 {
		s.produce(fmt.Sprint("m", i), deadline, "value")
	}
	s.produce("late", time.Now().Add(-time.Second), "late")
	for i, r := range s.consume(21) {
		t.Log(i, r.Topic, string(r.Key), r.Headers, time.Since(deadline))
	}
}
