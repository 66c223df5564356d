package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler"
)

func TestCommitFollowsTheStore(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, call string, a *scheduler.Admission) error {
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
		r.produce(early(0, "e"), malformedRecord(0, "y")) // behind one that is not done
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

// TestStoreDown: partitions are paused and nothing is committed, the member stays in
// its group, and goes on by itself.
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

// TestStoreThatFailsInPart: of a batch those that failed are tried again, and only
// those.
func TestStoreThatFailsInPart(t *testing.T) {
	inBubble(t, func(r *rig) {
		tries := make(map[string]int)
		r.timers.set(func(_ context.Context, call string, a *scheduler.Admission) error {
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

// TestQueueIsBounded: a partition that is read faster than it is stored is paused.
func TestQueueIsBounded(t *testing.T) {
	const n = 3 * maxPoll
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, _ string, _ *scheduler.Admission) error { return open.wait(ctx) })
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
