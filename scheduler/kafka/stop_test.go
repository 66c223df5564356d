package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/awake"
	"chronos/scheduler/replica"
)

// TestStopDrains: records in hand are stored, published and committed, and the bridge leaves the group.
func TestStopDrains(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.timers.set(func(ctx context.Context, _ string, _ *replica.Admission) error {
			if !awake.Sleep(ctx, 500*time.Millisecond) {
				return errDown
			}
			return nil
		})
		r.produce(early(0, "a"), late(1, "b"), malformedRecord(2, "x"))
		b := r.start()
		r.await("all three in hand", func() bool {
			return r.timers.held(admit) == 1 && r.timers.held(known) == 1 && counted(b.metrics.malformed.WithLabelValues("missing_id")) == 1
		})
		b.cancel()
		<-b.ended
		r.wantCommitted(1, 1, 1)
		if info := r.cluster.GroupInfo("chronos"); len(info.Members) != 0 {
			t.Errorf("the group has members: %+v", info)
		}
		b.Close()
		wantIDs(r, r.ids("out"), "b")
	})
}

// TestStopWithoutBrokers: nobody waits for the brokers.
func TestStopWithoutBrokers(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"that are gone":    func(r *rig) { r.cluster.Close() },
		"that say nothing": func(r *rig) { r.silence() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) { // the bridge joins only once, while all is well
				open := make(gate)
				r.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
					if a.Key == "b" {
						return open.wait(ctx)
					}
					return nil
				})
				b := r.start()
				r.produce(early(0, "a"))
				r.awaitCommitted(1, -1, -1)
				r.produce(early(0, "b"))
				r.await("b", func() bool { return r.timers.held(admit) == 1 })
				end(r)
				close(open) // the record may be committed, but can't
				begun := time.Now()
				b.stop()
				if took := time.Since(begun); took > leaveTime+30*time.Second {
					t.Errorf("stopping took %v", took)
				}
			})
		})
	}
}

// TestCutLog: records that are read at earlier offsets again are new messages.
func TestCutLog(t *testing.T) {
	inBubble(t, func(r *rig) {
		in, stop := r.bare()
		defer stop()
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
			if a.Key == "old" {
				return open.wait(ctx)
			}
			return nil
		})
		in.take(fetched(0, 1, nil, early(0, "a"), early(0, "b"), early(0, "old"), early(0, "c")))
		r.await("b", func() bool { return len(r.timers.keys()) == 2 })
		in.take(fetched(1, 2, nil, early(0, "B"), early(0, "C")))
		in.take(fetched(3, 2, nil, early(0, "D")))
		r.await("D", func() bool { return len(r.timers.keys()) == 6 })
		close(open)
		r.pass(time.Minute)
		wantIDs(r, r.timers.keys(), "B", "C", "D", "a", "b", "c")
		if got := r.cluster.GroupInfo("other").Commits["in"][0]; got.Offset != 4 || got.LeaderEpoch != 2 {
			t.Errorf("committed is %+v, want 4 of epoch 2", got)
		}
		r.wantLogged(1, "topic was cut")
		r.wantLogged(0, "store can't be used")
	})
}

// TestFetchThatFailsInPart: records before an error are not read again, so the records count.
func TestFetchThatFailsInPart(t *testing.T) {
	inBubble(t, func(r *rig) {
		in, stop := r.bare()
		defer stop()
		in.take(fetched(0, 1, errors.New("checksum"), early(0, "a"), early(0, "b")))
		in.take(fetched(2, 1, errors.New("checksum")))
		in.take(fetched(2, 1, nil, early(0, "c")))
		in.take(kgo.FetchTopicPartition{Topic: "", FetchPartition: kgo.FetchPartition{Partition: 0, Err: errors.New("no session")}})
		r.await("all", func() bool { return len(r.timers.keys()) == 3 })
	})
}

// bare is an input with partition 0 that reads nothing by itself.
func (r *rig) bare() (in *input, stop func()) {
	r.Helper()
	b, err := Open(r.Context(), r.config(func(c *Config) { c.Group = "other" }))
	if err != nil {
		r.Fatal(err)
	}
	if in, err = newInput(b, r.timers); err != nil {
		r.Fatal(err)
	}
	in.assign(r.Context(), in.client, map[string][]int32{"in": {0}})
	return in, func() {
		in.lose(context.Background(), in.client, map[string][]int32{"in": {0}}) // unless the group has given the partition
		in.leave()
		b.Close()
	}
}

func fetched(from int64, epoch int32, err error, records ...*kgo.Record) kgo.FetchTopicPartition {
	for i, rec := range records {
		rec.Offset, rec.LeaderEpoch = from+int64(i), epoch
	}
	return kgo.FetchTopicPartition{Topic: "in", FetchPartition: kgo.FetchPartition{Partition: 0, Err: err, Records: records, HighWatermark: 10}}
}
