package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/timer"
)

// legible turns compression off, so that a request can be searched.
func legible(c *Config) {
	c.more = append(c.more, kgo.ProducerBatchCompression(kgo.NoCompression()))
}

// narrow makes the output a topic of one partition, with all records in the same company.
func (r *rig) narrow(settings map[string]string) func(*Config) {
	r.Helper()
	if err := r.cluster.CreateTopic("narrow", 1, settings); err != nil {
		r.Fatal(err)
	}
	r.topicIDs["narrow"] = r.cluster.TopicInfo("narrow").TopicID
	return func(c *Config) { c.Output = "narrow" }
}

// refusePoison has a topic refuse records that are produced together with "poison".
func (r *rig) refusePoison(topic string) *kfake.FaultHandle {
	return r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.InvalidRecord, Count: -1,
		When: func(request kmsg.Request) bool {
			p, ok := request.(*kmsg.ProduceRequest)
			return ok && bytes.Contains(p.Topics[0].Partitions[0].Records, []byte("poison"))
		},
	})
}

func poisonous(r *kgo.Record) *kgo.Record {
	r.Value = []byte("poison")
	return r
}

// attempt has a bridge make the n-th attempt at the message that waits under the key.
func (f *fakeTimers) attempt(b *bridge, key string, n int) dispatch.Delivered {
	f.mu.Lock()
	asked := f.waiting[key].Timer
	f.mu.Unlock()
	return b.Deliver(context.Background(), dispatch.Delivery{Callback: asked.Callback, ID: timer.ID{Key: key}, Attempt: n, Due: asked.At})
}

// TestRefusedInCompany: only one of many messages on their way together is refused, and the rest waits
// for nothing.
func TestRefusedInCompany(t *testing.T) {
	inBubble(t, func(r *rig) {
		output := r.narrow(nil)
		open := r.holdProduce("narrow")
		refusal := r.refusePoison("narrow")
		b := r.start(output, legible)
		all := []*kgo.Record{poisonous(late(0, "bad"))}
		for i := range 30 {
			all = append(all, late(0, fmt.Sprint("late", i)), early(1, fmt.Sprint("early", i)))
		}
		r.produce(all[0]) // on its way when the rest comes
		r.produce(all[1:]...)
		r.await("the early ones", func() bool { return len(r.timers.keys()) == 30 })
		var firing sync.WaitGroup
		for i := range 30 {
			firing.Go(func() {
				if d := r.timers.fire(context.Background(), b, fmt.Sprint("early", i)); d.Verdict != dispatch.VerdictDelivered {
					t.Errorf("delivered is %+v", d)
				}
			})
		}
		r.pass(time.Second)
		opened := time.Now()
		open()
		firing.Wait()
		r.awaitCommitted(31, 30, -1)
		if took := time.Since(opened); took > time.Second { // took includes a commit's interval
			t.Errorf("messages took %v after one that was refused", took)
		}
		wantIDs(r, r.timers.keys(), "bad")
		if got := len(r.ids("narrow")); got != 60 {
			t.Errorf("%d messages came, want 60", got)
		}
		if refusal.Hits() != 2 {
			t.Errorf("%d requests were refused, want one of all and one of it alone", refusal.Hits())
		}
		wantMetric(r, b, "chronos_bridge_refused_total", 1)
	})
}

// TestPoison: a message that the output refuses is given up after some attempts, and takes no messages
// along meanwhile. A message that is tried again for another reason is not given up.
func TestPoison(t *testing.T) {
	inBubble(t, func(r *rig) {
		output := r.narrow(nil)
		refusal := r.refusePoison("narrow")
		b := r.start(output, legible)
		r.produce(poisonous(early(0, "bad")), early(0, "good"))
		r.awaitCommitted(2, -1, -1)
		for n := range maxRefusals {
			got := r.timers.attempt(b, "bad", n+1)
			if got.Verdict != dispatch.VerdictFailed || got.Final != (n+1 == maxRefusals) || !strings.Contains(got.Reason, "INVALID_RECORD") {
				t.Errorf("attempt %d: delivered is %+v", n+1, got)
			}
		}
		if want := 1 + maxRefusals; refusal.Hits() != want {
			t.Errorf("%d requests were refused, want %d: once in company", refusal.Hits(), want)
		}
		wantMetric(r, b, "chronos_bridge_refused_total", maxRefusals)
		r.wantLogged(maxRefusals, "output refuses message")
		r.wantLogged(1, "it goes to the dead letters")
		refusal.Remove()
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "narrow", Err: kerr.TopicAuthorizationFailed})
		if got := r.timers.attempt(b, "good", 100); got.Final || got.Verdict != dispatch.VerdictFailed {
			t.Errorf("delivered is %+v", got)
		}
		for _, key := range []string{"bad", "good"} { // as an operator fires a dead letter again
			if got := r.timers.fire(context.Background(), b, key); got.Verdict != dispatch.VerdictDelivered {
				t.Errorf("delivered is %+v", got)
			}
		}
	})
}

// TestWhatIsTooLong: the topic decides what is too long, by the compressed length. The bound known at
// the start does not count.
func TestWhatIsTooLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.start(r.narrow(map[string]string{"max.message.bytes": "100000"}))
		compressible, large := early(0, "compressible"), early(0, "large")
		compressible.Value, large.Value = make([]byte, 1_500_000), random(200_000)
		r.produce(compressible, large)
		r.awaitCommitted(2, -1, -1)
		if got := r.timers.fire(context.Background(), b, "compressible"); got.Verdict != dispatch.VerdictDelivered {
			t.Errorf("delivered is %+v", got)
		}
		if got := r.timers.fire(context.Background(), b, "large"); !strings.Contains(got.Reason, "MESSAGE_TOO_LARGE") {
			t.Errorf("delivered is %+v", got)
		}
		r.wantLogged(1, "raise the output's max.message.bytes")
		r.setLargest("narrow", "1000000")
		if got := r.timers.fire(context.Background(), b, "large"); got.Verdict != dispatch.VerdictDelivered {
			t.Errorf("delivered is %+v", got)
		}
		wantIDs(r, r.ids("narrow"), "compressible", "large")
	})
}

// setLargest has a topic take longer or shorter batches.
func (r *rig) setLargest(topic, largest string) {
	r.Helper()
	ask := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "max.message.bytes", &largest
	resource.Configs = append(resource.Configs, config)
	ask.Resources = append(ask.Resources, resource)
	answer, err := ask.RequestWith(r.Context(), r.client)
	if err != nil || answer.Resources[0].ErrorCode != 0 {
		r.Fatal(answer, err)
	}
}

// TestDeadLetterRefusedInCompany: the dead letter is dropped, and takes no dead letter along.
func TestDeadLetterRefusedInCompany(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err := r.cluster.CreateTopic("dead1", 1, nil); err != nil {
			t.Fatal(err)
		}
		r.refusePoison("dead1")
		r.audit.ack(message.Origin{Topic: "in", Partition: 0, Offset: 1}.String())
		r.produce(malformedRecord(0, "a"), malformedRecord(0, "poison"), malformedRecord(0, "b"))
		r.start(func(c *Config) { c.DeadLetters = "dead1" }, legible)
		r.awaitCommitted(3, -1, -1)
		if got := len(r.records("dead1")); got != 2 {
			t.Errorf("%d dead letters, want 2", got)
		}
		r.wantLogged(1, "dead letter was refused")
	})
}

// TestCloseDuringARefusal: records that wait to be sent alone hold nothing up.
func TestCloseDuringARefusal(t *testing.T) {
	inBubble(t, func(r *rig) {
		output := r.narrow(nil)
		b := r.start(output, legible)
		r.produce(poisonous(early(0, "bad0")), poisonous(early(0, "bad1")), early(0, "good"))
		r.awaitCommitted(3, -1, -1)
		refusal := r.refusePoison("narrow")
		for _, key := range []string{"bad0", "bad1"} {
			r.timers.attempt(b, key, 1)
		}
		refusal.Remove()
		r.holdProduce("narrow")
		answers := make(chan dispatch.Delivered, 3)
		for _, key := range []string{"bad0", "bad1", "good"} {
			go func() { answers <- r.timers.attempt(b, key, 2) }()
		}
		r.pass(time.Second)
		b.stop()
		for range cap(answers) {
			if got := <-answers; got.Reason != "the bridge was stopped" {
				t.Errorf("delivered is %+v", got)
			}
		}
		if got := r.timers.attempt(b, "bad0", 3); got.Reason != "the bridge was stopped" {
			t.Errorf("delivered after the end is %+v", got)
		}
	})
}
