package message

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/timer"
)

// The headers that a publisher gives every record, exactly so written.
const (
	IDHeader       = "chronosMessageId"
	DeadlineHeader = "chronosDeadline"
)

// maxRecord bounds key, value and headers of a message together. A store must take all copies of a
// message, as text, within the store's time limit.
const maxRecord = 16 << 20

// Fault is why a record is no message.
type Fault struct {
	Reason string // stable, for programs: a label of metrics and a header's value
	Advice string // what the publisher has to do; quotes nothing of the record, which may hold anything
}

const adviceDeadline = "must be an instant in RFC 3339, such as 2022-12-01T11:09:01.123+01:00, where UTC is meant if there is no offset, " +
	"or the milliseconds since 1970 in up to 15 digits"

// Parse reads a record. The message keeps the record's bytes, without a copy.
func Parse(r *kgo.Record, now time.Time) (Message, *Fault) {
	if r.Context != nil {
		if long, ok := r.Context.Value(skippedBatch{}).(*kgo.ErrDecompressTooLarge); ok {
			return Message{}, &Fault{"too_large", fmt.Sprintf("batch of offsets %d to %d is longer than 64 MiB when decompressed, and is not read; send smaller ones", long.Offset, r.Offset)}
		}
	}
	if Length(r) > maxRecord {
		return Message{}, &Fault{"too_large", "key, value and headers are longer than 16 MiB together; send less, or where the rest is"}
	}
	var id, deadline requiredHeader
	for i := range r.Headers {
		switch r.Headers[i].Key {
		case IDHeader:
			id.see(r.Headers[i].Value)
		case DeadlineHeader:
			deadline.see(r.Headers[i].Value)
		}
	}
	if fault := id.fault(IDHeader, "id"); fault != nil {
		return Message{}, fault
	}
	switch {
	case len(id.value) == 0:
		return Message{}, &Fault{"empty_id", "header " + IDHeader + " is empty; give an id of 1 to 128 bytes"}
	case len(id.value) > maxID:
		return Message{}, &Fault{"id_too_long", "header " + IDHeader + " is longer than 128 bytes; give a shorter id"}
	}
	if fault := deadline.fault(DeadlineHeader, "deadline"); fault != nil {
		return Message{}, fault
	}
	at, ok := parseDeadline(deadline.value)
	switch {
	case inSeconds(deadline.value):
		return Message{}, &Fault{"deadline_seconds", "header " + DeadlineHeader + " is a number of ten digits, which is seconds since 1970; give milliseconds, such as 1669892941123"}
	case !ok:
		return Message{}, &Fault{"bad_deadline", "header " + DeadlineHeader + " " + adviceDeadline}
	case at.Sub(now) > timer.MaxInterval:
		return Message{}, &Fault{"deadline_too_far", "header " + DeadlineHeader + " is more than 100 years ahead; give an earlier instant"}
	}
	return Message{
		ID: string(id.value), Deadline: at, From: Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}, Written: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: others(r.Headers),
	}, nil
}

// skippedBatch is the key of a batch in the context of the record that stands for the batch.
type skippedBatch struct{}

// Skipped is a record in place of a batch that is too long to be read. The record stands at the end of
// the batch, and Parse reports the fault.
func Skipped(batch *kgo.ErrDecompressTooLarge) *kgo.Record {
	return &kgo.Record{
		Topic: batch.Topic, Partition: batch.Partition, Offset: batch.NextOffset - 1, LeaderEpoch: batch.Epoch,
		Context: context.WithValue(context.Background(), skippedBatch{}, batch),
	}
}

// Length is the total length of key, value and headers of a record.
func Length(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// requiredHeader is a header that a record must have exactly once.
type requiredHeader struct {
	count int
	value []byte // of the last
}

func (h *requiredHeader) see(value []byte) { h.count, h.value = h.count+1, value }

// fault is what is wrong with the header, whatever the value should be. Two equal headers are refused,
// too: a program that adds the second can't know of the first.
func (h *requiredHeader) fault(name, what string) *Fault {
	switch {
	case h.count == 0:
		return &Fault{"missing_" + what, "header " + name + " is missing; give it once, exactly so written"}
	case h.count > 1:
		return &Fault{"repeated_" + what, "header " + name + " is there more than once; give it once"}
	case h.value == nil:
		return &Fault{"null_" + what, "header " + name + " is null; give it a value"}
	}
	return nil
}

// others are the headers to pass on: all but chronos' own two headers.
func others(headers []kgo.RecordHeader) []Header {
	if len(headers) <= 2 {
		return nil
	}
	kept := make([]Header, 0, len(headers)-2)
	for i := range headers {
		if h := &headers[i]; h.Key != IDHeader && h.Key != DeadlineHeader {
			kept = append(kept, Header(*h))
		}
	}
	return kept
}
