package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/replica"
)

// wantLag compares every partition's series with want, once the lag was measured again; -1 is for no
// series.
func (r *rig) wantLag(b *bridge, want ...float64) {
	r.Helper()
	r.pass(lagInterval + time.Second)
	got := make([]float64, partitions)
	for i := range got {
		got[i] = -1
	}
	families, err := b.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "chronos_bridge_lag" {
			continue
		}
		for _, m := range family.GetMetric() {
			var id int
			if _, err := fmt.Sscan(m.GetLabel()[0].GetValue(), &id); err != nil {
				r.Fatal(err)
			}
			got[id] = m.GetGauge().GetValue()
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("the lag is %v, want %v", got, want)
	}
}

// TestLagOfAPausedPartition: records that come while nothing is read count.
func TestLagOfAPausedPartition(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.start()
		r.wantLag(b, 0, 0, 0)
		r.timers.fail(admit)
		r.produce(early(0, "a"))
		r.await("a pause", func() bool { return b.metric("chronos_bridge_paused_partitions") == 1 })
		r.wantLag(b, 1, 0, 0)
		for i := range 100 {
			r.produce(early(0, fmt.Sprint("more", i)))
		}
		r.wantLag(b, 101, 0, 0)
		r.timers.fail()
		r.awaitCommitted(101, -1, -1)
		r.wantLag(b, 0, 0, 0)
		b.stop()
		r.wantLag(b, -1, -1, -1)
	})
}

// TestLagThatCantBeAsked: every partition has its series all the same.
func TestLagThatCantBeAsked(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: -1})
		b := r.start()
		r.wantLag(b, 0, 0, 0)
	})
}

// TestLagOfWhatIsNotReadYet: a new bridge counts from the committed offset, or from the beginning of
// the topic.
func TestLagOfWhatIsNotReadYet(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.produce(early(0, "a"), early(0, "b"), early(1, "c"))
		b := r.start()
		r.awaitCommitted(2, 1, -1)
		b.stop()
		r.produce(early(0, "d"), early(0, "e"), early(2, "f"), early(2, "g"), early(2, "h"))
		deletion := kmsg.NewPtrDeleteRecordsRequest()
		topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		partition.Partition, partition.Offset = 2, 2
		topic.Topic, topic.Partitions = "in", append(topic.Partitions, partition)
		deletion.Topics = append(deletion.Topics, topic)
		if _, err := deletion.RequestWith(r.Context(), r.client); err != nil {
			r.Fatal(err)
		}
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
		b = r.start()
		r.wantLag(b, 2, 0, 1)
	})
}

// TestLagOfTransactions: the end of a transaction is no message, and an open transaction counts for
// nothing.
func TestLagOfTransactions(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
			if a.Key == "held" {
				return open.wait(ctx)
			}
			return nil
		})
		client := r.newClient(kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		transact := func(commit kgo.TransactionEndTry, all ...*kgo.Record) {
			r.Helper()
			if err := client.BeginTransaction(); err != nil {
				r.Fatal(err)
			}
			if err := client.ProduceSync(r.Context(), all...).FirstErr(); err != nil {
				r.Fatal(err)
			}
			r.pass(lagInterval)
			if err := client.EndTransaction(r.Context(), commit); err != nil {
				r.Fatal(err)
			}
		}
		b := r.start()
		for _, end := range []string{"in/0/1", "in/1/0", "in/1/1", "in/2/1"} {
			r.audit.ack(end)
		}
		transact(kgo.TryCommit, early(0, "a"))
		transact(kgo.TryAbort, early(1, "b"))
		transact(kgo.TryCommit, early(2, "held"))
		r.wantLag(b, 0, 0, 2)
		close(open)
		r.awaitCommitted(2, 2, 2)
		r.wantLag(b, 0, 0, 0)
		b.stop()
		b = r.start()
		r.wantLag(b, 0, 0, 0)
		if err := client.BeginTransaction(); err != nil {
			r.Fatal(err)
		}
		if err := client.ProduceSync(r.Context(), early(0, "c")).FirstErr(); err != nil {
			r.Fatal(err)
		}
		r.wantLag(b, 0, 0, 0)
		wantIDs(r, r.timers.keys(), "a", "held")
	})
}
