package output

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// measure registers the output's metrics, and returns the counter of refused lone records.
func (o *Output) measure(r prometheus.Registerer) (rejections prometheus.Counter, err error) {
	rejections = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "chronos_bridge_refused_total", Help: "Attempts at which a topic refused a message or dead letter that was sent alone.",
	})
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "chronos_bridge_oldest_publish_seconds", Help: "How long the oldest message is on its way to the brokers; 0 if none is.",
	}, func() float64 { return o.Oldest().Seconds() })
	if r == nil {
		return rejections, nil
	}
	if err = r.Register(rejections); err == nil {
		err = r.Register(oldest)
	}
	return rejections, err
}

// Oldest is how long the oldest record has been on its way to the brokers; 0 without a record.
func (o *Output) Oldest() time.Duration { return o.onTheWay.oldest() }

// onTheWay knows since when records are on their way to the brokers.
type onTheWay struct {
	mu    sync.Mutex
	since list.List // the oldest first
}

// begin adds a record; end tells that the record is over.
func (o *onTheWay) begin() (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.since.PushBack(time.Now())
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.since.Remove(one)
	}
}

func (o *onTheWay) oldest() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first := o.since.Front(); first != nil {
		if since, ok := first.Value.(time.Time); ok {
			return time.Since(since)
		}
	}
	return 0
}
