package kafka

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/replica"
)

// TestLateMessages: known messages are ignored; new messages are published at once and remembered.
func TestLateMessages(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.timers.waiting["waits"] = replica.Admission{Key: "waits", Origin: "in/1/7"}
		written := fmt.Sprintf("@%d", time.Now().UnixMilli())
		r.timers.waiting["this-waits"] = replica.Admission{Key: "this-waits", Origin: "in/0/1" + written}
		r.timers.over["this-was"] = "in/0/2" + written
		r.timers.over["was"] = "in/2/9"
		r.produce(late(0, "waits"), late(0, "this-waits"), late(0, "this-was"), late(0, "was"), late(0, "new"))
		b := r.start()
		r.awaitCommitted(5, -1, -1)
		wantIDs(r, r.ids("out"), "new", "was")
		if got := r.timers.over["new"]; got != "in/0/4"+written {
			t.Errorf("remembered of new is %q", got)
		}
		r.produce(late(1, "new"))
		r.awaitCommitted(5, 1, -1)
		wantIDs(r, r.ids("out"), "new", "new", "was")
		for as, want := range map[string]float64{asLate: 3, asDuplicate: 1, asAgain: 2, asStored: 0} {
			if got := counted(b.metrics.consumed.WithLabelValues(as)); got != want {
				t.Errorf("%v are %s, want %v", got, as, want)
			}
		}
		wantMetric(r, b, "chronos_bridge_late_publish_seconds", 3)
	})
}

// TestOrderOfOneID: a message counts for nothing only because of an earlier message.
func TestOrderOfOneID(t *testing.T) {
	for name, want := range map[string]struct{ waiting, published []string }{ // capitals are late
		"Aa":     {nil, []string{"a"}},
		"aA":     {[]string{"a"}, nil},
		"AA":     {nil, []string{"a"}},
		"aa":     {[]string{"a"}, nil},
		"BAcaAC": {[]string{"c"}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var all []*kgo.Record
				for _, c := range name {
					message := early
					if unicode.IsUpper(c) {
						message = late
					}
					all = append(all, message(0, strings.ToLower(string(c))))
				}
				open := r.holdProduce("out")
				r.audit.number(all)
				r.produce(all...)
				r.audit.produced(all)
				r.start()
				r.pass(time.Second)
				open()
				r.awaitCommitted(int64(len(all)), -1, -1)
				wantIDs(r, r.timers.keys(), want.waiting...)
				wantIDs(r, r.ids("out"), want.published...)
			})
		})
	}
}

// TestIDOnItsWay: an id is taken while a late message with the id is on its way to the output, in any
// partition. The message may even have to wait in the end.
func TestIDOnItsWay(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.holdProduce("out")
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.InvalidRecord, Count: 2}) // in company, and alone
		b := r.start()
		all := []*kgo.Record{late(0, "a"), late(1, "a"), early(2, "a"), early(0, "a")}
		r.audit.number(all)
		r.produce(all[0])
		r.audit.produced(all[:1])
		r.await("the first", func() bool { return b.output.Client().BufferedProduceRecords() == 1 })
		r.produce(all[1:]...)
		r.audit.produced(all[1:])
		r.awaitCommitted(-1, 1, 1)
		open()
		r.awaitCommitted(2, 1, 1)
		if got := r.timers.waiting["a"].Origin; !strings.HasPrefix(got, "in/0/0@") {
			t.Errorf("%q waits, want the first", got)
		}
		wantIDs(r, r.ids("out"))
		if got := counted(b.metrics.consumed.WithLabelValues(asDuplicate)); got != 3 {
			t.Errorf("%v are duplicates, want 3", got)
		}
		r.timers.fire(t.Context(), b, "a")
		r.produce(late(1, "a"))
		r.awaitCommitted(2, 2, 1)
		wantIDs(r, r.ids("out"), "a", "a")
	})
}

// TestPublishedAndNotRemembered: the message is done all the same.
func TestPublishedAndNotRemembered(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.timers.fail(remember)
		r.produce(late(0, "a"))
		r.start()
		r.awaitCommitted(1, -1, -1)
		wantIDs(r, r.ids("out"), "a")
	})
}

// TestOutputThatRefuses: a late message that the brokers refuse waits in a timer, and nothing waits
// behind the message.
func TestOutputThatRefuses(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err := r.cluster.CreateTopic("small", 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
			t.Fatal(err)
		}
		b := r.start(func(c *Config) { c.Output = "small" })
		large := late(0, "large")
		large.Value = random(2000)
		r.produce(large, late(0, "a"), late(1, "b"))
		r.awaitCommitted(2, 1, -1)
		wantIDs(r, r.timers.keys(), "large")
		wantIDs(r, r.ids("small"), "a", "b")
		if got := r.timers.fire(t.Context(), b, "large"); got.Verdict != dispatch.VerdictFailed || !strings.Contains(got.Reason, "MESSAGE_TOO_LARGE") {
			t.Errorf("delivered is %+v", got)
		}
		refusal := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "small", Err: kerr.InvalidRecord, Count: 2})
		r.produce(late(2, "c"))
		r.awaitCommitted(2, 1, 1)
		if refusal.Hits() != 2 {
			t.Error("it was not refused alone too")
		}
		wantIDs(r, r.timers.keys(), "c", "large")
		r.timers.fire(t.Context(), b, "c")
		wantIDs(r, r.ids("small"), "a", "b", "c")
	})
}

// TestOutputRefusesAndStoreDown: refused messages take no more than the room.
func TestOutputRefusesAndStoreDown(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := make(gate)
		r.timers.set(func(ctx context.Context, call string, _ *replica.Admission) error {
			if call == admit {
				return open.wait(ctx)
			}
			return nil
		})
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1})
		r.start()
		const n = maxLate / 2
		for p := range int32(partitions) {
			var all []*kgo.Record
			for i := range n {
				all = append(all, late(p, fmt.Sprint(p, "/", i)))
			}
			r.produce(all...)
		}
		r.pass(time.Minute)
		if got := r.timers.held(admit); got > maxLate {
			t.Errorf("%d messages wait for the store, want %d at most", got, maxLate)
		}
		close(open)
		r.awaitCommitted(n, n, n)
	})
}

// TestOutputThatIsSlow: while the brokers say nothing, or name another leader, late messages are not
// done. Early messages go on.
func TestOutputThatIsSlow(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.holdProduce("out")
		b := r.start()
		r.produce(late(0, "a"), early(0, "b"), early(1, "c"))
		r.awaitCommitted(-1, 1, -1)
		r.produce(early(0, "d"))
		r.await("d", func() bool { return len(r.timers.keys()) == 3 })
		r.pass(30 * time.Second)
		r.wantCommitted(-1, 1, -1)
		moved := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: 5})
		open()
		r.awaitCommitted(3, 1, -1)
		if moved.Hits() != 5 {
			t.Errorf("%d requests went to those who don't lead, want 5", moved.Hits())
		}
		if d := r.timers.fire(t.Context(), b, "b"); d.Verdict != dispatch.VerdictDelivered {
			t.Errorf("delivered is %+v", d)
		}
		wantIDs(r, r.ids("out"), "a", "b")
	})
}

// TestRevocationDuringAPublish: a message that is published after the partition has gone is remembered.
// The next member with the partition does not publish the message again.
func TestRevocationDuringAPublish(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.holdProduce("out")
		r.produce(late(0, "a"), late(1, "b"), late(2, "c"))
		b := r.start()
		r.await("late messages", func() bool { return r.timers.count(known) == 3 })
		b.cancel()
		<-b.ended
		r.wantCommitted(-1, -1, -1)
		open()
		r.await("what is remembered", func() bool { return r.timers.count(remember) == 3 })
		b.Close()
		r.start()
		r.awaitCommitted(1, 1, 1)
		wantIDs(r, r.ids("out"), "a", "b", "c")
	})
}

// TestCloseDuringAPublish: a publish without an answer holds nothing up.
func TestCloseDuringAPublish(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.holdProduce("out", "dead")
		r.produce(late(0, "a"), malformedRecord(1, "x"), early(2, "b"))
		b := r.start()
		r.awaitCommitted(-1, -1, 1)
		answer := make(chan dispatch.Delivered, 1)
		go func() { answer <- r.timers.fire(context.Background(), b, "b") }()
		r.pass(time.Second)
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > patience+2*time.Second {
			t.Errorf("stopping took %v", took)
		}
		want := dispatch.Delivered{Reason: "the bridge was stopped"}
		if diff := cmp.Diff(want, <-answer); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		r.wantCommitted(-1, -1, 1)
	})
}
