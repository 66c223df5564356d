package kafka

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/awake"
)

// TestOutputThatDoesNotAnswer: the log says once that messages wait and why, and once that the wait is
// over. A metric says how long messages wait.
func TestOutputThatDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*rig) (end func())
		want  string
	}{
		"no broker answers": {func(r *rig) func() { return r.silence(kmsg.Produce, kmsg.Metadata) }, "no broker answers"},
		"its topic is gone": {func(r *rig) func() {
			if err := r.cluster.DeleteTopic("out"); err != nil {
				r.Fatal(err)
			}
			return func() {
				if err := r.cluster.CreateTopic("out", partitions, nil); err != nil {
					r.Fatal(err)
				}
			}
		}, "topic out doesn't exist; create it"},
		"it alone doesn't answer": {func(r *rig) func() { return r.holdProduce("out") }, "min.insync.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				b := r.start()
				r.produce(early(0, "a"), early(0, "b"))
				r.awaitCommitted(2, -1, -1)
				r.timers.fire(r.Context(), b, "a")
				end := c.begin(r)
				fired := make(chan struct{})
				go func() {
					defer close(fired)
					for len(r.timers.keys()) > 0 {
						r.timers.fire(r.Context(), b, "b")
						awake.Sleep(r.Context(), 100*time.Millisecond)
					}
				}()
				r.pass(publishPatience - time.Second)
				r.wantLogged(0, "output doesn't answer")
				r.pass(26 * time.Second)
				r.wantLogged(1, "output doesn't answer")
				r.wantLogged(1, c.want)
				if got := b.metric("chronos_bridge_oldest_publish_seconds"); got < 25 || got > 31 {
					t.Errorf("the oldest is on its way for %v s, want some 30", got)
				}
				r.wantLogged(0, "output is back")
				end()
				<-fired
				r.pass(askInterval + askTime)
				r.wantLogged(1, "output is back")
				r.wantLogged(1, "output doesn't answer")
				wantMetric(r, b, "chronos_bridge_oldest_publish_seconds", 0)
			})
		})
	}
}

// TestPublishingGoesOnWhenTheBrokersAreBack: clients wait for at most a second between attempts,
// however long the brokers were down.
func TestPublishingGoesOnWhenTheBrokersAreBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.start()
		r.produce(early(0, "a"))
		r.awaitCommitted(1, -1, -1)
		var up atomic.Bool
		r.cluster.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			down := slices.Contains([]kmsg.Key{kmsg.Produce, kmsg.InitProducerID, kmsg.Metadata}, kmsg.Key(request.Key())) && !up.Load()
			return nil, errors.New("the broker is down"), down
		})
		fired := make(chan struct{})
		go func() {
			defer close(fired)
			r.timers.fire(r.Context(), b, "a")
		}()
		r.pass(time.Minute)
		up.Store(true)
		back := time.Now()
		<-fired
		if took := time.Since(back); took > 1100*time.Millisecond {
			t.Errorf("the message was published %v after the brokers were back, want at most a second and a try", took)
		}
		wantIDs(t, r.ids("out"), "a")
	})
}

// TestTopicsThatAreMissingLater: if no broker could be asked at the start, a broker is asked later.
func TestTopicsThatAreMissingLater(t *testing.T) {
	inBubble(t, func(r *rig) {
		end := r.silence()
		b, err := Open(context.Background(), r.config(func(c *Config) { c.DeadLetters = "nowhere" }))
		if err != nil {
			t.Fatal(err)
		}
		r.onEnd(b.Close)
		r.pass(time.Minute)
		r.wantLogged(1, "no broker answers")
		end()
		r.pass(time.Minute)
		r.wantLogged(1, "topic nowhere doesn't exist")
		r.wantLogged(0, "output is back")
		if err := r.cluster.CreateTopic("nowhere", 1, nil); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * askInterval)
		r.wantLogged(1, "output is back")
		r.wantLogged(1, "topic nowhere doesn't exist")
	})
}
