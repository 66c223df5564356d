package kafka

import (
	"slices"
	"strings"
	"sync"

	"chronos/scheduler/kafka/message"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxInput is how many bytes of records all partitions together may have in hand. Beyond maxInput, all
// partitions with records in hand are paused, until half of maxInput is free.
const maxInput = 64 << 20

// budget is how much of maxInput is used.
type budget struct {
	mu   sync.Mutex
	used int
	over bool
	news bool // over has changed
}

// add takes n bytes, or gives bytes back if n is less than 0.
func (b *budget) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	was := b.over
	b.over = tooMuch(was, b.used, maxInput)
	b.news = b.news || b.over != was
}

// changed reports whether the result of exceeded may have changed since the last call of changed.
func (b *budget) changed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.news
	b.news = false
	return news
}

func (b *budget) exceeded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// own is the record with bytes of its own. The former bytes are a part of a fetch for all partitions,
// and would keep the fetch in memory.
func own(r *kgo.Record) *kgo.Record {
	bytes := make([]byte, 0, message.Length(r))
	keep := func(value []byte) []byte {
		if value == nil {
			return nil
		}
		bytes = append(bytes, value...)
		return slices.Clip(bytes[len(bytes)-len(value):])
	}
	c := *r
	c.Key, c.Value, c.Headers = keep(r.Key), keep(r.Value), slices.Clone(r.Headers)
	for i := range c.Headers {
		h := &c.Headers[i]
		h.Key, h.Value = strings.Clone(h.Key), keep(h.Value)
	}
	return &c
}
