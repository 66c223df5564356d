// Package output publishes messages to the output topic, and records that can't be delayed to the
// dead-letter topic.
package output

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"chronos/scheduler/kafka/message"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Output publishes to the output and the dead-letter topic. Only its promise tells the outcome of a
// record: a record has no deadline, and ends with the clients.
type Output struct {
	shared      *producer
	single      *producer        // of alone
	alone       map[string]*lone // by topic: for records refused in company, or too long for shared
	poison      poison
	onTheWay    onTheWay
	topic       string
	deadLetters string
	relayID     bool
}

// Options say where an Output publishes, and how.
type Options struct {
	Topic       string
	DeadLetters string // the topic of records that can't be delayed; Bury needs the topic
	RelayID     bool   // add its id to a message
	// Largest are the longest batches that topics take, as far as known.
	Largest map[string]int32
	// MaxBuffered is how many records a client may have at once.
	MaxBuffered int
	// Connect makes a client with these options and the options of all clients.
	Connect    func(...kgo.Opt) (*kgo.Client, error)
	Registerer prometheus.Registerer // nil for none
}

// New makes an Output, which Close ends.
func New(o Options) (*Output, error) {
	out := &Output{topic: o.Topic, deadLetters: o.DeadLetters, relayID: o.RelayID, alone: make(map[string]*lone)}
	rejections, err := out.measure(o.Registerer)
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(250 * time.Millisecond), // a new leader is found that soon
		kgo.UnknownTopicRetries(-1),
		kgo.MaxBufferedRecords(o.MaxBuffered),
	}
	// A batch that is too long for its topic would fail with all its records.
	shared, err := o.Connect(append(slices.Clip(options), kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
		return min(max(cmp.Or(o.Largest[topic], usualLargest), leastEver), largestEver)
	}))...)
	if err != nil {
		return nil, err
	}
	// The client bounds the uncompressed batch, the topic the compressed batch. The brokers therefore
	// decide whether a batch is too long.
	single, err := o.Connect(append(slices.Clip(options),
		kgo.ProducerBatchMaxBytes(largestEver),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.NoCompression()),
	)...)
	if err != nil {
		shared.Close()
		return nil, err
	}
	out.shared, out.single = &producer{client: shared}, &producer{client: single}
	for _, topic := range []string{o.Topic, o.DeadLetters} {
		out.alone[topic] = &lone{producer: out.single, refused: rejections}
	}
	return out, nil
}

const (
	// usualLargest is the longest batch that brokers take by default.
	usualLargest = 1048588
	// A topic's setting is bounded: franz-go takes no less, and a request must fit into the most that
	// franz-go sends at once.
	leastEver   = 512
	largestEver = 64 << 20
)

// Client is the client that publishes most records, also for questions to the brokers.
func (o *Output) Client() *kgo.Client { return o.shared.client }

// Close ends the clients; all promises are kept.
func (o *Output) Close() {
	o.shared.client.Close()
	o.single.client.Close()
}

// Publish sends the message to the output. The promise is called once, and must not block. The promise
// gets a refusal only if the message was sent alone.
func (o *Output) Publish(m *message.Message, promise func(error)) {
	r := &kgo.Record{Topic: o.topic, Key: m.Key, Value: m.Value, Headers: make([]kgo.RecordHeader, 0, len(m.Headers)+1)}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if o.relayID {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: message.IDHeader, Value: []byte(m.ID)})
	}
	end := o.onTheWay.begin()
	judged := func(err error) {
		end()
		if Refused(err) {
			o.poison.add(m.From)
		}
		promise(err)
	}
	if o.poison.has(m.From) {
		o.alone[r.Topic].send(r, judged)
		return
	}
	o.produce(r, judged)
}

// produce sends a record in the company of further records. When the brokers refuse a record, the
// client fails all records of the partition, and every failed record is sent again alone.
func (o *Output) produce(r *kgo.Record, promise func(error)) {
	o.shared.produce(r, func(err error) {
		if Refused(err) {
			o.alone[r.Topic].send(r, promise)
			return
		}
		promise(err)
	})
}

// Headers of a dead letter, in addition to the record's own headers.
const (
	ReasonHeader    = "chronosReason"
	DetailHeader    = "chronosDetail"
	TopicHeader     = "chronosTopic"
	PartitionHeader = "chronosPartition"
	OffsetHeader    = "chronosOffset"
)

// Bury sends a record that can't be delayed to the dead-letter topic: unchanged, or shortened if too
// long.
func (o *Output) Bury(from *kgo.Record, why *message.Fault, promise func(error)) {
	headers := append(slices.Clone(from.Headers),
		kgo.RecordHeader{Key: ReasonHeader, Value: []byte(why.Reason)},
		kgo.RecordHeader{Key: DetailHeader, Value: []byte(why.Advice)},
		kgo.RecordHeader{Key: TopicHeader, Value: []byte(from.Topic)},
		kgo.RecordHeader{Key: PartitionHeader, Value: strconv.AppendInt(nil, int64(from.Partition), 10)},
		kgo.RecordHeader{Key: OffsetHeader, Value: strconv.AppendInt(nil, from.Offset, 10)},
	)
	r := &kgo.Record{Topic: o.deadLetters, Key: from.Key, Value: from.Value, Headers: headers}
	end := o.onTheWay.begin()
	ended := func(err error) {
		end()
		promise(err)
	}
	o.produce(r, func(err error) {
		if Refused(err) {
			o.produce(shortened(r, from), ended)
			return
		}
		ended(err)
	})
}

// Refused reports whether the brokers will never take the record unchanged, by the error of a promise.
func Refused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.RecordListTooLarge)
}

// Remedy is what to do about a refusal.
func Remedy(err error) string {
	if errors.Is(err, kerr.InvalidRecord) {
		return "a compacted topic takes no message without a key: give messages one, or set the output's cleanup.policy to delete"
	}
	return "raise the output's max.message.bytes"
}
