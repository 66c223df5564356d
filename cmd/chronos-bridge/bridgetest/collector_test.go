package bridgetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// collector reads the whole output topic, and notes when the broker took every record.
type collector struct {
	client *kgo.Client

	wg       sync.WaitGroup
	mu       sync.Mutex
	records  int64
	arrivals map[int][]time.Time // by the number of the message
	altered  []string            // differences of altered messages
	foreign  map[string]int      // records that no load published, by key
}

// collect collects until the test ends.
func collect(t *testing.T, addr, topic string) *collector {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(250*time.Millisecond), kgo.MetadataMinAge(250*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{client: client, arrivals: make(map[int][]time.Time), foreign: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	c.wg.Go(func() { c.run(ctx) })
	t.Cleanup(func() { cancel(); c.wg.Wait(); client.Close() })
	return c
}

func (c *collector) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		c.mu.Lock()
		fetches.EachRecord(c.take)
		c.mu.Unlock()
	}
}

// take notes a record; c.mu is held.
func (c *collector) take(r *kgo.Record) {
	const logAppendTime = 1
	c.records++
	n, ok := numberOf(r)
	if !ok {
		c.foreign[string(r.Key)]++
		return
	}
	if how := difference(n, r); how != "" || r.Attrs.TimestampType() != logAppendTime {
		c.altered = append(c.altered, how)
	}
	c.arrivals[n] = append(c.arrivals[n], r.Timestamp)
}

// seen is how many messages of the load have come, and how many records in all.
func (c *collector) seen() (messages int, records int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrivals), c.records
}

// foreigners is how many records with the key came that no load published.
func (c *collector) foreigners(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.foreign[key]
}
