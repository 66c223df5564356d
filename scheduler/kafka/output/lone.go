package output

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"chronos/scheduler/kafka/message"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer is a client that publishes.
type producer struct {
	client     *kgo.Client
	forgetting atomic.Bool // a deleted topic
}

// produce never blocks. After a topic was deleted and made again, the client gets UnknownTopicID until
// the client is told to forget the deleted topic.
func (p *producer) produce(r *kgo.Record, promise func(error)) {
	p.client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) {
		if errors.Is(err, kerr.UnknownTopicID) && p.forgetting.CompareAndSwap(false, true) {
			go func() { // ends with the client at the latest
				defer p.forgetting.Store(false)
				p.client.PurgeTopicsFromProducing(r.Topic)
			}()
		}
		promise(err)
	})
}

// lone publishes the records of a topic in turn: the next record goes when the record before is
// answered. A refusal by the brokers is therefore about a single record.
type lone struct {
	producer *producer
	refused  prometheus.Counter

	mu    sync.Mutex
	queue []sending // the first is on its way; the bridge bounds the pending records, and so the queue
}

// sending is a record, and the promise that is told the outcome.
type sending struct {
	record  *kgo.Record
	promise func(error)
}

// send never blocks.
func (l *lone) send(r *kgo.Record, promise func(error)) {
	l.mu.Lock()
	l.queue = append(l.queue, sending{r, promise})
	first := len(l.queue) == 1
	l.mu.Unlock()
	if first {
		l.sendFirst(sending{r, promise})
	}
}

func (l *lone) sendFirst(s sending) {
	l.producer.produce(s.record, func(err error) {
		l.mu.Lock()
		l.queue[0] = sending{}
		l.queue = l.queue[1:]
		var next sending
		if len(l.queue) > 0 {
			next = l.queue[0]
		}
		l.mu.Unlock()
		if next.record != nil {
			l.sendFirst(next)
		}
		if Refused(err) {
			l.refused.Inc()
		}
		s.promise(err)
	})
}

// poison knows messages that were refused alone, so that the messages hold up nothing again. A
// forgotten message is found out once more.
type poison struct {
	mu  sync.Mutex
	all map[message.Origin]bool
}

const maxPoison = 10_000

func (p *poison) has(m message.Origin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[m]
}

func (p *poison) add(m message.Origin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPoison {
		p.all = make(map[message.Origin]bool)
	}
	p.all[m] = true
}
