package kafka

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/verify/testkit"
)

// TestDeadLetters: dead letters are unchanged, and say why and from where.
func TestDeadLetters(t *testing.T) {
	inBubble(t, func(r *rig) {
		const advice = "header chronosDeadline is missing; give it once, exactly so written"
		headers := []kgo.RecordHeader{
			{Key: "b", Value: []byte{0xff, 0}}, {Key: message.IDHeader, Value: []byte("\xfe")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}, {Key: output.ReasonHeader, Value: []byte("mine")},
		}
		sent := []*kgo.Record{
			{Key: []byte("\x00k"), Value: []byte("\xffv"), Headers: headers},
			{Key: nil, Value: nil, Headers: headers},
			{Key: []byte{}, Value: []byte{}, Headers: headers},
		}
		for i, rec := range sent {
			rec.Topic, rec.Partition = "in", int32(i)
		}
		r.produce(early(1, "before"))
		r.produce(sent...)
		b := r.start()
		r.awaitCommitted(1, 2, 1)
		came := make(map[string]*kgo.Record)
		for _, rec := range r.records("dead") {
			came[headerOf(rec, output.PartitionHeader)] = rec
		}
		for i, rec := range sent {
			p := fmt.Sprint(i)
			got := came[p]
			if got == nil {
				t.Errorf("that of partition %d is missing", i)
				continue
			}
			want := slices.Concat(headers, []kgo.RecordHeader{
				{Key: output.ReasonHeader, Value: []byte("missing_deadline")}, {Key: output.DetailHeader, Value: []byte(advice)},
				{Key: output.TopicHeader, Value: []byte("in")}, {Key: output.PartitionHeader, Value: []byte(p)},
				{Key: output.OffsetHeader, Value: []byte(map[bool]string{true: "1", false: "0"}[i == 1])},
			})
			if diff := cmp.Diff(want, got.Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([][]byte{rec.Key, rec.Value}, [][]byte{got.Key, got.Value}); diff != "" {
				t.Errorf("key and value (-want +got):\n%s", diff)
			}
		}
		wantMetric(r, b, "chronos_bridge_malformed_total", 3)
		r.wantLogged(3, "reason=missing_deadline")
	})
}

// TestNoTopicForDeadLetters: messages that can't be delayed are counted, and logged within bounds.
func TestNoTopicForDeadLetters(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 1000
		all := make([]*kgo.Record, n)
		for i := range all {
			all[i] = malformedRecord(0, "secret")
			r.audit.ack(message.Origin{Topic: "in", Partition: 0, Offset: int64(i)}.String())
		}
		r.produce(all...)
		b := r.start(func(c *Config) { c.DeadLetters = "" })
		r.awaitCommitted(n, -1, -1)
		wantMetric(r, b, "chronos_bridge_malformed_total", n)
		lines := r.log.Count("reason=missing_id")
		if lines < 50 || lines > 100 {
			t.Errorf("%d lines are logged, want about 50", lines)
		}
		r.pass(tellInterval)
		r.wantLogged(1, "lines were left out of the log")
		r.wantLogged(1, fmt.Sprintf(`line="message can't be delayed" count=%d offsets="partition 0: 50 to 999"`, n-lines))
		r.wantLogged(0, "secret")
		if got := r.records("dead"); len(got) != 0 {
			t.Errorf("%d dead letters, want none", len(got))
		}
	})
}

// TestComplaintsAreBounded: the rest of many lines of a kind is told once, in few words. Lines of a
// second kind go on being logged.
func TestComplaintsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &testkit.Log{To: t.Output()}
		c := newComplaints(newLog(book))
		want := func(n int, part string) {
			t.Helper()
			if got := book.Count(part); got != n {
				t.Errorf("%q is logged %d times, want %d", part, got, n)
			}
		}
		for i := range int64(200) {
			c.malformed.about(&kgo.Record{Topic: "in", Partition: int32(i % 50), Offset: 1000 - i})
			c.unpublished.say("n", i)
			c.unjoined.say("n", i)
		}
		want(1, `msg="could not join the group`)
		c.refused.about(&kgo.Record{Topic: "in", Partition: 7, Offset: 8})
		want(50, `"message can't be delayed" topic=in`)
		want(1, "partition=7 offset=8")
		for range 2 {
			c.tellRest()
			want(3, "lines were left out")
			want(1, `count=150 offsets="partition 0: 850 to 950, partition 1: 849 to 949,`)
			want(1, `partition 19: 831 to 931, and of 30 more partitions"`)
			want(1, `line="message could not be published; it is tried again" count=150`)
		}
	})
}

// TestDeadLettersCantBeWritten: a record is not done until its dead letter is written, and messages go
// on being stored.
func TestDeadLettersCantBeWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		refusal := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "dead", Err: kerr.TopicAuthorizationFailed, Count: -1})
		r.produce(early(0, "a"), malformedRecord(0, "x"), early(0, "b"), late(0, "c"), malformedRecord(1, "y"))
		r.start()
		r.awaitCommitted(1, -1, -1)
		r.pass(time.Minute)
		r.wantCommitted(1, -1, -1)
		wantIDs(r, r.timers.keys(), "a", "b")
		wantIDs(r, r.ids("out"), "c")
		if got := refusal.Hits(); got < 20 || got > 100 {
			t.Errorf("%d tries in a minute, want one every %v for each", got, maxPause)
		}
		refusal.Remove()
		r.awaitCommitted(4, 1, -1)
		if got := r.records("dead"); len(got) != 2 {
			t.Errorf("%d dead letters, want 2", len(got))
		}
	})
}

// TestLongDeadLetters: every topic has its own bound for a batch. A dead letter beyond the bound is
// shortened or dropped, and takes no dead letter along.
func TestLongDeadLetters(t *testing.T) {
	for name, c := range map[string]struct {
		out, dead string // max.message.bytes
		sizes     []int
		come      int
	}{
		"the output takes more":       {"10000000", "1048588", []int{300e3, 300e3, 300e3, 300e3, 300e3, 300e3}, 6},
		"the output takes less":       {"1000", "1048588", []int{300e3, 300e3, 300e3, 300e3, 300e3, 300e3}, 6},
		"one is too long":             {"1048588", "100000", []int{10e3, 200e3, 10e3, 10e3}, 4},
		"one that the headers do for": {"1048588", "100000", []int{99_900, 10e3}, 2},
		"all but one are":             {"1048588", "2000", []int{10e3, 100, 10e3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				for topic, largest := range map[string]string{"out2": c.out, "dead2": c.dead} {
					if err := r.cluster.CreateTopic(topic, 1, map[string]string{"max.message.bytes": largest}); err != nil {
						t.Fatal(err)
					}
				}
				for i, size := range c.sizes {
					r.produce(malformedRecord(0, string(random(size))))
					r.audit.ack(message.Origin{Topic: "in", Partition: 0, Offset: int64(i)}.String())
				}
				b := r.start(func(c *Config) { c.Output, c.DeadLetters = "out2", "dead2" })
				r.awaitCommitted(int64(len(c.sizes)), -1, -1)
				if got := r.records("dead2"); len(got) != c.come {
					t.Errorf("%d dead letters came, want %d", len(got), c.come)
				}
				r.wantLogged(len(c.sizes)-c.come, "dead letter was refused")
				wantMetric(r, b, "chronos_bridge_dead_letters_refused_total", float64(len(c.sizes)-c.come))
				wantMetric(r, b, "chronos_bridge_malformed_total", float64(len(c.sizes)))
			})
		})
	}
}

// TestShortenedDeadLetters: shortened dead letters say where they come from and their former length,
// with as much content as has room in any topic.
func TestShortenedDeadLetters(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err := r.cluster.CreateTopic("dead2", 1, map[string]string{"max.message.bytes": "100000"}); err != nil {
			t.Fatal(err)
		}
		mine := kgo.RecordHeader{Key: "mine", Value: []byte("x")}
		large := kgo.RecordHeader{Key: "large", Value: random(300e3)}
		r.produce(
			&kgo.Record{Topic: "in", Partition: 0, Value: random(300e3), Headers: []kgo.RecordHeader{mine}},
			&kgo.Record{Topic: "in", Partition: 1, Key: random(200e3), Headers: []kgo.RecordHeader{mine, large}},
			&kgo.Record{Topic: "in", Partition: 2, Value: bytes.Repeat([]byte("a"), 1e6)}, // short when compressed
		)
		b := r.start(func(c *Config) { c.DeadLetters = "dead2" })
		r.awaitCommitted(1, 1, 1)
		came := make(map[string]*kgo.Record)
		for _, rec := range r.records("dead2") {
			came[headerOf(rec, output.PartitionHeader)] = rec
		}
		ours := func(partition, truncated string) []kgo.RecordHeader {
			return []kgo.RecordHeader{
				{Key: output.ReasonHeader, Value: []byte("missing_id")}, {Key: output.DetailHeader, Value: []byte("header chronosMessageId is missing; give it once, exactly so written")},
				{Key: output.TopicHeader, Value: []byte("in")}, {Key: output.PartitionHeader, Value: []byte(partition)}, {Key: output.OffsetHeader, Value: []byte("0")},
				{Key: output.TruncatedHeader, Value: []byte(truncated)},
			}
		}
		for p, want := range map[string]*kgo.Record{
			"0": {Value: random(4096), Headers: append([]kgo.RecordHeader{mine}, ours("0", "300005")...)},
			"1": {Key: random(4096), Headers: ours("1", "500010")},
		} {
			got := came[p]
			if got == nil {
				t.Errorf("that of partition %s is missing", p)
				continue
			}
			if diff := cmp.Diff([]any{want.Key, want.Value, want.Headers}, []any{got.Key, got.Value, got.Headers}); diff != "" {
				t.Errorf("that of partition %s (-want +got):\n%s", p, diff)
			}
		}
		if got := came["2"]; got == nil || len(got.Value) != 1e6 {
			t.Error("one that is short when it is compressed didn't come as it was")
		}
		wantMetric(r, b, "chronos_bridge_dead_letters_refused_total", 0)
	})
}
