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

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

func TestCommitFollowsTheStore(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, call string, a *replica.Admission) error {
			if call == admit && a.Key == "c" {
				return open.wait(ctx)
			}
			return nil
		})
		b := r.start()
		r.produce(early(0, "a"), early(1, "b"), late(2, "l"), malformedRecord(1, "x"))
		r.awaitCommitted(1, 2, 1)
		r.produce(early(0, "c"), early(1, "d"))
		r.awaitCommitted(1, 3, 1)
		r.produce(early(0, "e"), malformedRecord(0, "y")) // behind a record that is not done
		r.pass(time.Minute)
		r.wantCommitted(1, 3, 1)
		r.wantLag(b, 3, 0, 0)
		close(open)
		r.awaitCommitted(4, 3, 1)
		wantIDs(r, r.timers.keys(), "a", "b", "c", "d", "e")
		wantIDs(r, r.ids("out"), "l")
		r.wantLag(b, 0, 0, 0)
		wantMetric(r, b, "chronos_bridge_messages_total", 6)
		wantMetric(r, b, "chronos_bridge_malformed_total", 2)
	})
}

// TestStoreDown: partitions are paused and nothing is committed. The member stays in its group, and
// goes on by itself.
func TestStoreDown(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.timers.fail(admit, known, remember)
		r.produce(early(0, "a"), early(1, "b"), late(2, "c"))
		b := r.start()
		r.await("pauses", func() bool { return b.metric("chronos_bridge_paused_partitions") == partitions })
		before := r.cluster.GroupInfo("chronos")
		r.produce(early(0, "d"), malformedRecord(1, "x"), late(2, "e"))
		r.pass(5 * time.Minute)
		r.wantCommitted(-1, -1, -1)
		after := r.cluster.GroupInfo("chronos")
		if len(after.Members) != 1 || after.Epoch != before.Epoch || after.Members[0].MemberID != before.Members[0].MemberID {
			t.Errorf("the member has not stayed in its group: %+v", after)
		}
		r.wantLogged(1, "store can't be used")
		r.wantLogged(0, "store is back")
		r.timers.fail()
		r.awaitCommitted(2, 2, 2)
		wantIDs(r, r.timers.keys(), "a", "b", "d")
		wantIDs(r, r.ids("out"), "c", "e")
		wantMetric(r, b, "chronos_bridge_paused_partitions", 0)
		r.wantLogged(1, "store can't be used")
		r.wantLogged(1, "store is back")
	})
}

// TestStoreThatFailsInPart: only the failed messages of a batch are tried again.
func TestStoreThatFailsInPart(t *testing.T) {
	inBubble(t, func(r *rig) {
		tries := make(map[string]int)
		r.timers.set(func(_ context.Context, call string, a *replica.Admission) error {
			if call == remember {
				return nil
			}
			if tries[call+a.Key]++; tries[call+a.Key] <= int(a.Key[0]-'a') {
				return errDown
			}
			return nil
		})
		r.produce(early(0, "c"), late(0, "b"), early(0, "a"), early(0, "d"), late(0, "c2"))
		r.start()
		r.awaitCommitted(5, -1, -1)
		wantIDs(r, r.timers.keys(), "a", "c", "d")
		wantIDs(r, r.ids("out"), "b", "c2")
		for key, want := range map[string]int{"admita": 1, "admitc": 3, "admitd": 4, "knownb": 2, "knownc2": 3} {
			if tries[key] != want {
				t.Errorf("%s was tried %d times, want %d", key, tries[key], want)
			}
		}
	})
}

// TestStopWhileTheStoreIsDown: nothing waits for a store that doesn't come back.
func TestStopWhileTheStoreIsDown(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.timers.fail(admit, known)
		r.produce(early(0, "a"), late(1, "b"))
		b := r.start()
		r.await("pauses", func() bool { return b.metric("chronos_bridge_paused_partitions") == 2 })
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > patience+time.Second {
			t.Errorf("stopping took %v", took)
		}
		r.wantCommitted(-1, -1, -1)
		r.wantLogged(0, "store is back")
		r.timers.fail()
		r.start()
		r.awaitCommitted(1, 1, -1)
	})
}

// TestQueueIsBounded: a partition that is read faster than stored is paused.
func TestQueueIsBounded(t *testing.T) {
	const n = 3 * maxPoll
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, _ *replica.Admission) error { return open.wait(ctx) })
		all := make([]*kgo.Record, n)
		for i := range all {
			all[i] = early(0, fmt.Sprint(i))
		}
		r.produce(all...)
		b := r.start()
		r.await("a pause", func() bool { return b.metric("chronos_bridge_paused_partitions") == 1 })
		r.pass(10 * time.Second)
		r.wantCommitted(-1, -1, -1)
		close(open)
		r.awaitCommitted(n, -1, -1)
		wantMetric(r, b, "chronos_bridge_paused_partitions", 0)
		wantMetric(r, b, "chronos_bridge_messages_total", n)
	})
}

// TestStoreThatTakesLittleAtOnce: as with a slow link, smaller questions get through.
func TestStoreThatTakesLittleAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n, most = 100, 3
		r.timers.set(func(_ context.Context, call string, _ *replica.Admission) error {
			if call != remember && r.timers.held(call) > most {
				return errDown
			}
			return nil
		})
		var all []*kgo.Record
		for i := range n {
			all = append(all, early(0, fmt.Sprint(i)), late(1, fmt.Sprint("late", i)))
		}
		r.produce(all...)
		b := r.start()
		r.awaitCommitted(n, n, -1)
		wantMetric(r, b, "chronos_bridge_messages_total", 2*n)
		if ids := r.ids("out"); len(ids) != n {
			t.Errorf("%d messages are published, want %d", len(ids), n)
		}
	})
}

// TestTimersThatRefuse: a message that the timers never take becomes a dead letter, early or late, and
// holds nothing up.
func TestTimersThatRefuse(t *testing.T) {
	for _, deadLetters := range []string{"dead", ""} {
		t.Run("dead letters: "+deadLetters, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.timers.set(func(_ context.Context, call string, a *replica.Admission) error {
					if call == admit && a.Key[0] == 'x' {
						return &timer.InvalidError{Detail: "a test has it so"}
					}
					return nil
				})
				for _, origin := range []string{"in/0/1", "in/1/0"} {
					r.audit.ack(origin)
				}
				r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.InvalidRecord, Count: 2}) // in company, and alone
				r.produce(early(0, "a"), early(0, "x"), early(0, "b"), late(1, "x-late"))
				b := r.start(func(c *Config) { c.DeadLetters = deadLetters })
				r.awaitCommitted(3, 1, -1)
				wantIDs(r, r.timers.keys(), "a", "b")
				if deadLetters != "" {
					wantIDs(r, r.ids("dead"), "x", "x-late")
				}
				if got := counted(b.metrics.malformed.WithLabelValues("invalid")); got != 2 {
					t.Errorf("%v are invalid, want 2", got)
				}
				r.wantLogged(2, "timers refuse")
				r.wantLogged(0, "store can't be used")
			})
		})
	}
}

const maxRecord = 16 << 20 // bytes of a message

// TestTooLarge: a message that no store takes in time never goes there.
func TestTooLarge(t *testing.T) {
	inBubble(t, func(r *rig) {
		large, largest := early(0, "large"), early(0, "largest")
		large.Value = make([]byte, maxRecord+1)
		largest.Value = make([]byte, maxRecord-message.Length(largest)+len(largest.Value))
		for _, rec := range []*kgo.Record{large, largest, early(0, "a")} {
			r.produce(rec)
		}
		r.start()
		r.awaitCommitted(3, -1, -1)
		wantIDs(r, r.timers.keys(), "a", "largest")
		wantIDs(r, r.ids("dead"), "large")
		r.wantLogged(1, "reason=too_large")
	})
}

// TestStoreIsNotFlooded: all partitions together send no more to the store at once than the store takes
// in time.
func TestStoreIsNotFlooded(t *testing.T) {
	inBubble(t, func(r *rig) {
		open, size := make(gate), maxRecord/4
		r.timers.set(func(ctx context.Context, _ string, _ *replica.Admission) error { return open.wait(ctx) })
		for p := range int32(partitions) {
			large := early(p, fmt.Sprint(p))
			large.Value = make([]byte, size)
			r.produce(large)
		}
		r.start()
		r.pass(5 * time.Second)
		if got, want := r.timers.held(admit), 1; got != want {
			t.Errorf("%d messages of %d bytes are on their way to the store, want %d", got, size, want)
		}
		close(open)
		r.awaitCommitted(1, 1, 1)
	})
}
