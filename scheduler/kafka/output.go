package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// output publishes to the output and the dead-letter topic. What becomes of a
// record its promise alone can say: it has no deadline, and ends with the clients.
type output struct {
	shared      *producer
	single      *producer        // of alone
	alone       map[string]*lone // by topic: for what was refused in company, or is too long for the other
	poison      poison
	onTheWay    *onTheWay
	topic       string
	deadLetters string // "" for none
	relayID     bool
}

func newOutput(b *Bridge, largest map[string]int32) (*output, error) {
	config := &b.config
	options := slices.Concat(b.options, []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(250 * time.Millisecond), // a new leader is found that soon
		kgo.UnknownTopicRetries(-1),
		kgo.MaxBufferedRecords(2*config.MaxPending + 2*maxLate),
	})
	// A batch that is too long for its topic would take all that is in it down.
	shared, err := kgo.NewClient(slices.Concat(options, []kgo.Opt{
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return cmp.Or(largest[topic], usualLargest) }),
	}, config.more)...)
	if err != nil {
		return nil, err
	}
	// The client's bound is on what isn't compressed yet, the topic's on what is: so the
	// brokers say what is too long.
	single, err := kgo.NewClient(slices.Concat(options, []kgo.Opt{
		kgo.ProducerBatchMaxBytes(largestEver),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.NoCompression()),
	}, config.more)...)
	if err != nil {
		shared.Close()
		return nil, err
	}
	o := &output{
		shared: &producer{client: shared}, single: &producer{client: single}, alone: make(map[string]*lone),
		topic: config.Output, deadLetters: config.DeadLetters, relayID: config.RelayID,
		onTheWay: &b.onTheWay,
	}
	for _, topic := range []string{o.topic, o.deadLetters} {
		o.alone[topic] = &lone{producer: o.single, refused: b.metrics.refused}
	}
	return o, nil
}

// close has all promises kept.
func (o *output) close() {
	o.shared.client.Close()
	o.single.client.Close()
}

// publish sends the message to the output. The promise is kept once, and must not
// block. That the message was refused it says only if it was alone.
func (o *output) publish(m *Message, promise func(error)) {
	r := &kgo.Record{Topic: o.topic, Key: m.Key, Value: m.Value, Headers: make([]kgo.RecordHeader, 0, len(m.Headers)+1)}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if o.relayID {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: IDHeader, Value: []byte(m.ID)})
	}
	end := o.onTheWay.begin()
	judged := func(err error) {
		end()
		if refused(err) {
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

// produce sends a record in the company of others. When the brokers refuse one, the
// client fails all of its partition, and each is sent again alone.
func (o *output) produce(r *kgo.Record, promise func(error)) {
	o.shared.produce(r, func(err error) {
		if refused(err) {
			o.alone[r.Topic].send(r, promise)
			return
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
	end := o.onTheWay.begin()
	ended := func(err error) {
		end()
		promise(err)
	}
	o.produce(r, func(err error) {
		if refused(err) {
			o.produce(shortened(r, from), ended)
			return
		}
		ended(err)
	})
}

// refused says of an error of a promise that the brokers won't take the record
// as it is, however often it is sent.
func refused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.RecordListTooLarge)
}

// remedy is what to do about a refusal.
func remedy(err error) string {
	if errors.Is(err, kerr.InvalidRecord) {
		return "a compacted topic takes no message without a key: give messages one, or set the output's cleanup.policy to delete"
	}
	return "raise the output's max.message.bytes"
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
