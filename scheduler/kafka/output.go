package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// output publishes to the output and the dead-letter topic. What becomes of a
// record its promise alone can say: it has no deadline, and ends with the client.
type output struct {
	client      *kgo.Client
	topic       string
	deadLetters string // "" for none
	relayID     bool
	forgetting  atomic.Bool // a topic that was deleted
}

func newOutput(config *Config, options []kgo.Opt, largest map[string]int32) (*output, error) {
	client, err := kgo.NewClient(slices.Concat(options, []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(250 * time.Millisecond), // a new leader is found that soon
		kgo.UnknownTopicRetries(-1),
		// A batch that is too long for its topic would take all that is in it down.
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return cmp.Or(largest[topic], usualLargest) }),
		kgo.MaxBufferedRecords(2*config.MaxPending + 2*maxLate),
	}, config.more)...)
	if err != nil {
		return nil, err
	}
	return &output{client: client, topic: config.Output, deadLetters: config.DeadLetters, relayID: config.RelayID}, nil
}

// publish sends the message to the output. The promise is kept once, and must not
// block.
func (o *output) publish(m *Message, promise func(error)) {
	r := &kgo.Record{Topic: o.topic, Key: m.Key, Value: m.Value, Headers: make([]kgo.RecordHeader, 0, len(m.Headers)+1)}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if o.relayID {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: IDHeader, Value: []byte(m.ID)})
	}
	o.produce(r, promise)
}

// produce is told by the client that a topic of the same name is another one, until it
// is told to forget the first.
func (o *output) produce(r *kgo.Record, promise func(error)) {
	o.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
		if errors.Is(err, kerr.UnknownTopicID) && o.forgetting.CompareAndSwap(false, true) {
			go func() { // ends with the client, if not before
				defer o.forgetting.Store(false)
				o.client.PurgeTopicsFromProducing(r.Topic)
			}()
		}
		promise(err)
	})
}

// Headers of a dead letter, beside those that it had.
const (
	ReasonHeader    = "chronosReason"
	DetailHeader    = "chronosDetail"
	TopicHeader     = "chronosTopic"
	PartitionHeader = "chronosPartition"
	OffsetHeader    = "chronosOffset"
)

// bury sends a record that can't be delayed to the dead-letter topic, as it came, or
// shortened if it is too long for it so.
func (o *output) bury(from *kgo.Record, why *malformed, promise func(error)) {
	headers := append(slices.Clone(from.Headers),
		kgo.RecordHeader{Key: ReasonHeader, Value: []byte(why.Reason)},
		kgo.RecordHeader{Key: DetailHeader, Value: []byte(why.Error())},
		kgo.RecordHeader{Key: TopicHeader, Value: []byte(from.Topic)},
		kgo.RecordHeader{Key: PartitionHeader, Value: strconv.AppendInt(nil, int64(from.Partition), 10)},
		kgo.RecordHeader{Key: OffsetHeader, Value: strconv.AppendInt(nil, from.Offset, 10)},
	)
	r := &kgo.Record{Topic: o.deadLetters, Key: from.Key, Value: from.Value, Headers: headers}
	o.produce(r, func(err error) {
		if refused(err) {
			o.produce(shortened(r, from), promise)
			return
		}
		promise(err)
	})
}

// refused says of an error of a promise that the brokers won't take the record
// as it is, however often it is sent.
func refused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.RecordListTooLarge)
}

// printable is an error in a few words for people.
func printable(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, err.Error())
	const most = 200
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(fmt.Sprintf("not published: %s", text), "?")
}
