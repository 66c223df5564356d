package bridgetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load is an open loop: messages are published at a fixed rate, whether or not the broker
// answers. A broker that was away gets the messages when the broker is back.
type load struct {
	t      *testing.T
	client *kgo.Client
	topic  string
	rate   int // messages a second
	seed   uint64

	wg   sync.WaitGroup
	mu   sync.Mutex
	sent []sent // by number
}

// sent is a published message.
type sent struct {
	deadline     time.Time
	acknowledged time.Time // by the broker, for the input; zero without an acknowledgement
	late         bool      // the deadline was over at the time of publishing
}

// Deadlines of messages, from the time of publishing.
const (
	shareLate = 0.1
	shortest  = time.Second
	longest   = 3 * time.Second
)

func newLoad(t *testing.T, addr, topic string, rate int) *load {
	t.Helper()
	// No message that is published during an outage may be dropped, or hold up the loop.
	const outage = 1 << 20
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxBufferedRecords(outage), kgo.MetadataMinAge(250*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &load{t: t, client: client, topic: topic, rate: rate, seed: rand.Uint64()}
}

// start begins to publish; stop ends the publishing, and waits until the broker has all
// messages.
func (l *load) start() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.wg.Go(func() { l.publish(ctx) })
	return func() {
		l.t.Helper()
		cancel()
		l.wg.Wait()
		bounded, cancel := context.WithTimeout(l.t.Context(), time.Minute)
		defer cancel()
		if err := l.client.Flush(bounded); err != nil {
			l.t.Fatalf("%d messages were not taken by the broker: %v", l.client.BufferedProduceRecords(), err)
		}
	}
}

func (l *load) publish(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	begun := time.Now()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for ; n < int(time.Since(begun).Seconds()*float64(l.rate)); n++ {
			l.publishOne(n)
		}
	}
}

func (l *load) publishOne(n int) {
	s := l.draw(n)
	l.mu.Lock()
	l.sent = append(l.sent, s)
	l.mu.Unlock()
	// Not with the test's context: the end of the context would fail messages on their way.
	l.client.Produce(context.Background(), delayed(l.topic, n, s.deadline), func(_ *kgo.Record, err error) {
		now := time.Now()
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			l.sent[n].acknowledged = now
		}
	})
}

func (l *load) draw(n int) sent {
	r := rand.New(rand.NewPCG(l.seed, uint64(n)))
	now := time.Now()
	if r.Float64() < shareLate {
		return sent{deadline: now.Add(-rand.N(5 * time.Second)).Truncate(time.Millisecond), late: true}
	}
	return sent{deadline: now.Add(shortest + rand.N(longest-shortest)).Truncate(time.Millisecond)}
}

// all returns the messages that were published so far.
func (l *load) all() []sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]sent(nil), l.sent...)
}
