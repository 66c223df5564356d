package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/verify/testkit"
)

// TestDuplicates: only a single message waits under an id, whichever way the duplicates came.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	first, second := s.start(), s.start()
	at := soon(5 * time.Second)
	var all []*kgo.Record
	for i := range int32(10) { // in one batch: the first waits
		all = append(all, on(0, newMessage("batch", at, fmt.Sprint("batch ", i))))
	}
	for p := range int32(partitions) { // on the partitions of both bridges: any may wait
		all = append(all, on(p, newMessage("partitions", at, "partitions")), on(p, newMessage(fmt.Sprint("alone", p), at, fmt.Sprint("alone ", p))))
	}
	s.produce(all...)
	s.awaitDone()
	s.produce(on(1, newMessage("batch", at, "batch, later")), on(2, newMessage("batch", soon(-time.Minute), "batch, late")))
	s.awaitDone()
	s.wantValues("alone 0", "alone 1", "alone 2", "alone 3", "batch 0", "partitions")
	const duplicates = `chronos_bridge_messages_total{as="duplicate"}`
	if got := first.metric(duplicates) + second.metric(duplicates); got != 9+3+2 {
		t.Errorf("%v duplicates are counted, want 14", got)
	}
}

// TestIDAgain: once a message has fired, its id is free again.
func TestIDAgain(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.start()
	for i, delay := range []time.Duration{200 * time.Millisecond, 200 * time.Millisecond, -time.Second, -time.Second, 200 * time.Millisecond} {
		at := soon(delay)
		s.produce(on(int32(i%2), newMessage("again", at, fmt.Sprint(i))))
		came := s.consume(i + 1)
		if got := string(came[i].Value); got != fmt.Sprint(i) {
			t.Errorf("%s came, want %d", got, i)
		}
		s.awaitDone() // the message is remembered, and settled
		await(t, "what has fired to be over", func() bool { return time.Since(at) > 700*time.Millisecond })
	}
	s.wantValues("0", "1", "2", "3", "4")
}

// TestRedelivery: a bridge that reads a record again ignores the record, even once the message has fired.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	s := newSetupOn(t, testkit.StartVolatileRedis(t).URL)
	first := s.start()
	var all []*kgo.Record
	var want []string
	for p := range int32(partitions) {
		for i, delay := range []time.Duration{300 * time.Millisecond, -time.Second, time.Hour} {
			value := fmt.Sprint(p, " ", i)
			all = append(all, on(p, newMessage(value, soon(delay), value)))
			if delay < time.Hour {
				want = append(want, value)
			}
		}
	}
	s.produce(all...)
	s.wantValues(want...)
	first.stop() // when all has settled
	s.rewind()
	second := s.start()
	s.awaitDone()
	s.wantValues(want...)
	if got := second.metric(`chronos_bridge_messages_total{as="again"}`); got != float64(len(all)) {
		t.Errorf("%v messages are known to have come before, want %d", got, len(all))
	}
}

// rewind makes the group read the input from the start again. The group must have no members.
func (s *setup) rewind() {
	s.Helper()
	ask := kmsg.NewPtrOffsetCommitRequest()
	ask.Group = "chronos"
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "in", s.cluster.TopicInfo("in").TopicID
	for p := range int32(partitions) {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition = p
		topic.Partitions = append(topic.Partitions, partition)
	}
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(s.Context(), s.client)
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range answer.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			s.Fatalf("rewind: error %d", p.ErrorCode)
		}
	}
}
