package kafka

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/replica"
)

// TestInputIsBounded: all partitions together never have more in hand than maxInput. Partitions with
// nothing in hand are read meanwhile, and all go on.
func TestInputIsBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, _ *replica.Admission) error { return open.wait(ctx) })
		in, stop := r.bare()
		defer stop()
		in.assign(r.Context(), in.client, map[string][]int32{"in": {1, 2, 3, 4, 5, 6}})
		defer in.lose(context.Background(), in.client, map[string][]int32{"in": {1, 2, 3, 4, 5, 6}})
		paused := func() map[int32]bool {
			all := make(map[int32]bool)
			for _, p := range in.client.PauseFetchPartitions(nil)["in"] {
				all[p] = true
			}
			return all
		}
		value, most := make([]byte, 1<<20), 0
		for offset := int64(0); len(paused()) < 6 && offset < 100; offset++ {
			for p := range int32(6) {
				if !paused()[p] {
					rec := early(p, fmt.Sprint(p, "/", offset))
					rec.Value, rec.Offset = value, offset
					r.audit.ack(message.Origin{Topic: "in", Partition: p, Offset: offset}.String())
					in.partition(p).offer([]*kgo.Record{rec})
					most += sizeOf(rec)
				}
			}
		}
		if over := most - maxInput; over < 0 || over > 1<<20+1000 {
			t.Errorf("they have %d bytes in hand, want %d and one message at most", most, maxInput)
		}
		want := map[int32]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true}
		if diff := cmp.Diff(want, paused()); diff != "" {
			t.Errorf("paused are (-want +got):\n%s", diff)
		}
		close(open)
		r.await("the others", func() bool {
			in.budget.mu.Lock()
			defer in.budget.mu.Unlock()
			return in.budget.used == 0 && len(paused()) == 0
		})
	})
}

// TestBatchThatIsABomb: a batch that would take all memory is not read, and a dead letter says so.
// Partitions go on, and the records before the batch are committed when done, not sooner.
func TestBatchThatIsABomb(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
			if a.Key == "before" {
				return open.wait(ctx)
			}
			return nil
		})
		client := r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(100<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))
		bomb := early(0, "bomb")
		bomb.Value = bytes.Repeat([]byte("a"), maxDecompressed+1)
		r.produce(early(0, "before"))
		if err := client.ProduceSync(r.Context(), bomb).FirstErr(); err != nil {
			t.Fatal(err)
		}
		r.produce(early(0, "after"), early(1, "b"))
		b := r.start()
		r.awaitCommitted(-1, 1, -1)
		r.pass(5 * time.Second)
		r.wantCommitted(-1, 1, -1)
		close(open)
		r.awaitCommitted(3, 1, -1)
		wantIDs(r, r.timers.keys(), "after", "b", "before")
		letters := r.records("dead")
		if len(letters) != 1 {
			t.Fatalf("%d dead letters, want 1", len(letters))
		}
		for header, want := range map[string]string{
			output.ReasonHeader: "too_large", output.OffsetHeader: "1", output.PartitionHeader: "0",
			output.DetailHeader: "batch of offsets 1 to 1 is longer than 64 MiB when decompressed, and is not read; send smaller ones",
		} {
			if got := headerOf(letters[0], header); got != want {
				t.Errorf("%s is %q, want %q", header, got, want)
			}
		}
		wantMetric(r, b, "chronos_bridge_malformed_total", 1)
	})
}

// TestBombAlone: the batch is committed like any batch, and later records are read.
func TestBombAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		client := r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(100<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))
		bomb := early(0, "bomb")
		bomb.Value = bytes.Repeat([]byte("a"), maxDecompressed+1)
		if err := client.ProduceSync(r.Context(), bomb).FirstErr(); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.awaitCommitted(1, -1, -1)
		r.produce(early(0, "after"))
		r.awaitCommitted(2, -1, -1)
	})
}

// TestOwn: a record stays the same, and keeps none of the former bytes.
func TestOwn(t *testing.T) {
	came := func() *kgo.Record {
		all := []byte("keyvalue12")
		return &kgo.Record{Topic: "in", Partition: 1, Offset: 2, Key: all[:3], Value: all[3:8], Headers: []kgo.RecordHeader{
			{Key: "a", Value: all[8:9]}, {Key: "b"}, {Key: "c", Value: []byte{}}, {Key: "a", Value: all[9:]},
		}}
	}
	for name, change := range map[string]func(*kgo.Record){
		"whole": func(*kgo.Record) {},
		"null":  func(r *kgo.Record) { r.Key, r.Value = nil, nil },
		"empty": func(r *kgo.Record) { r.Key, r.Value = []byte{}, []byte{} },
		"bare":  func(r *kgo.Record) { r.Key, r.Value, r.Headers = nil, nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			given, want := came(), came()
			change(given)
			change(want)
			got := own(given)
			for _, b := range [][]byte{given.Key, given.Value} {
				clear(b)
			}
			for _, h := range given.Headers {
				clear(h.Value)
			}
			clear(given.Headers)
			if diff := cmp.Diff([]any{want.Topic, want.Partition, want.Offset, want.Key, want.Value, want.Headers}, []any{got.Topic, got.Partition, got.Offset, got.Key, got.Value, got.Headers}); diff != "" {
				t.Errorf("own (-want +got):\n%s", diff)
			}
		})
	}
}
