package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/awake"
	"chronos/scheduler/replica"
)

// produceAll makes n records for every partition.
func (r *rig) produceAll(n int) {
	r.Helper()
	var all []*kgo.Record
	for p := range int32(partitions) {
		for i := range n {
			all = append(all, early(p, fmt.Sprintf("%d%c", p, 'a'+i)))
		}
	}
	r.produce(all...)
}

// TestRevocationDuringAWrite: a write without an answer when the partition goes is left to the next
// member with the partition.
func TestRevocationDuringAWrite(t *testing.T) {
	for name, heeds := range map[string]bool{"that is broken off": true, "that goes on": false} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(r *rig) {
				open := make(gate)
				r.timers.set(func(ctx context.Context, call string, a *replica.Admission) error {
					if call != admit || !strings.HasSuffix(a.Key, "b") {
						return nil
					}
					if heeds {
						return open.wait(ctx)
					}
					<-open
					return nil
				})
				r.produceAll(3)
				first := r.start()
				r.await("all writes", func() bool { return r.timers.count(admit) == partitions })
				second := r.start()
				if heeds {
					r.awaitMembers(2)
				} else {
					r.pass(patience + 500*time.Millisecond)
				}
				for p, offset := range r.committed() {
					if offset > 1 {
						t.Errorf("%d of partition %d is committed, want 1 at most", offset, p)
					}
				}
				close(open)
				r.awaitCommitted(3, 3, 3)
				r.awaitMembers(2)
				wantIDs(r, r.timers.keys(), "0a", "0b", "0c", "1a", "1b", "1c", "2a", "2b", "2c")
				both := make(map[string]bool)
				for _, c := range r.audit.all() {
					both[c.member] = true
				}
				if heeds && len(both) != 2 {
					t.Errorf("%d members have committed, want 2", len(both))
				}
				first.stop()
				second.stop()
				r.wantCommitted(3, 3, 3)
			})
		})
	}
}

// TestNoPauseSurvivesARevocation: an answer that comes after the partition has gone no longer pauses
// the partition, for nobody would resume the partition.
func TestNoPauseSurvivesARevocation(t *testing.T) {
	inGroup(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, call string, _ *replica.Admission) error {
			if call != admit || open.wait(ctx) == nil {
				return nil
			}
			time.Sleep(500 * time.Millisecond) // a store that notices slowly
			return errDown
		})
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.InvalidRecord, Count: -1})
		r.produce(late(0, "0"), late(1, "1"), late(2, "2"))
		first := r.start()
		r.await("the late ones to be known", func() bool { return r.timers.count(known) == partitions })
		second := r.start()
		r.awaitMembers(2)
		close(open)
		r.awaitCommitted(1, 1, 1)
		second.stop()
		r.awaitMembers(1)
		r.produceAll(1)
		r.awaitCommitted(2, 2, 2)
		wantMetric(r, first, "chronos_bridge_paused_partitions", 0)
		r.wantLogged(0, "store can't be used")
	})
}

// TestLostSession: a member that the brokers have given up joins again.
func TestLostSession(t *testing.T) {
	inGroup(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, call string, a *replica.Admission) error {
			if call == admit && strings.HasSuffix(a.Key, "b") {
				return open.wait(ctx)
			}
			return nil
		})
		r.produceAll(3)
		b := r.start()
		r.await("all writes", func() bool { return r.timers.count(admit) == partitions })
		lost := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "chronos", Err: kerr.UnknownMemberID})
		r.await("the session to be lost", func() bool { return lost.Hits() == 1 })
		r.awaitMembers(1)
		r.wantCommitted(-1, -1, -1)
		close(open)
		r.awaitCommitted(3, 3, 3)
		wantIDs(r, r.timers.keys(), "0a", "0b", "0c", "1a", "1b", "1c", "2a", "2b", "2c")
		wantMetric(r, b, "chronos_bridge_paused_partitions", 0)
		r.wantLag(b, 0, 0, 0)
	})
}

// TestPartitionsComeAndGo: while many bridges come and go, every message is stored once, and commits go
// on.
func TestPartitionsComeAndGo(t *testing.T) {
	inGroup(t, func(r *rig) {
		r.timers.set(func(ctx context.Context, _ string, _ *replica.Admission) error {
			if !awake.Sleep(ctx, 7*time.Millisecond) {
				return errDown
			}
			return nil
		})
		bridges := []*bridge{r.start()}
		for i := range 45 {
			r.produce(early(int32(i%partitions), fmt.Sprintf("e%02d", i)), late(int32((i+1)%partitions), fmt.Sprintf("l%02d", i)))
			switch i % 10 {
			case 4:
				bridges = append(bridges, r.start())
			case 9:
				bridges[0].stop()
				bridges = bridges[1:]
			}
			r.pass(50 * time.Millisecond)
		}
		r.awaitCommitted(30, 30, 30)
		if n := len(r.timers.keys()); n != 45 {
			t.Errorf("%d messages wait, want 45", n)
		}
		if ids := slices.Compact(r.ids("out")); len(ids) != 45 {
			t.Errorf("%d messages were published, want 45", len(ids))
		}
	})
}
