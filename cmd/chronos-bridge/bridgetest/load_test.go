package bridgetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load is an open loop: messages are published at a fixed rate, whether or not the
// broker answers. What it doesn't take at once it gets when it is back.
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

// sent is what is known of a message that was published.
type sent struct {
	deadline     time.Time
	acknowledged time.Time // by the broker, for the input; zero if it never was
	late         bool      // the deadline was over when it was published
}

// Deadlines of messages, from when they are made.
const (
	shareLate = 0.1
	shortest  = time.Second
	longest   = 3 * time.Second
)

func newLoad(t *testing.T, addr, topic string, rate int) *load {
	t.Helper()
	// Nothing that is published during an outage may be dropped, or hold up the loop.
	const outage = 1 << 20
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxBufferedRecords(outage), kgo.MetadataMinAge(250*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &load{t: t, client: client, topic: topic, rate: rate, seed: rand.Uint64()}
}

// start begins to publish; what it returns ends that and waits until the broker has
// everything.
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
	// Without the test's context: its end would fail what is on its way.
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

// all returns what was published so far.
func (l *load) all() []sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]sent(nil), l.sent...)
}
