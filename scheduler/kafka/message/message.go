// Package message reads a message from a record of the input topic, and converts messages to the text
// that the store keeps, and back. Null is kept apart from empty. Headers keep their order and repeats.
package message

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"chronos/scheduler/timer"
)

// Origin is where a record stands on the input topic.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
}

// String is topic/partition/offset.
func (o Origin) String() string {
	return o.Topic + "/" + strconv.FormatInt(int64(o.Partition), 10) + "/" + strconv.FormatInt(o.Offset, 10)
}

// Header is a header of a record. Kafka tells a null value from an empty one.
type Header struct {
	Key   string
	Value []byte // nil for null
}

// Message is a message of the input topic, to go out at the deadline.
type Message struct {
	ID       string // 1 to 128 bytes, not necessarily UTF-8
	Deadline time.Time
	From     Origin
	// Written is the record's timestamp on the input topic. A new topic under the name of a deleted
	// topic repeats offsets, but no timestamps. Written is not kept with a waiting message.
	Written time.Time
	Key     []byte // nil for null
	Value   []byte // nil for null
	// Headers are in their order and with their repeats, without the two headers for chronos.
	Headers []Header
}

const (
	maxID        = 128 // bytes
	frameVersion = 1
)

// The faults of a stored message. No fault quotes the message, since the message may hold anything.
var (
	errNotBase64 = errors.New("decode message: it isn't base64")
	errVersion   = errors.New("decode message: it is of another version of chronos")
	errTruncated = errors.New("decode message: it ends early, or a length in it is wrong")
	errTrailing  = errors.New("decode message: more follows its end")
	errIDLength  = errors.New("decode message: its id isn't of 1 to 128 bytes")
	errRange     = errors.New("decode message: its deadline, partition or offset is out of range")
)

// Encode makes the text that the store keeps. The store's JSON has no place for bytes, so the text is
// the base64 of
//
//	version, id, deadline in ms, topic, partition, offset, key, value, number of headers, (key, value) of each
//
// Lengths are uvarints, the remaining numbers varints. If null is possible, the length is increased
// by 1, and 0 stands for null. The deadline is kept in whole milliseconds.
func (m *Message) Encode() string {
	size := 1 + 7*binary.MaxVarintLen64 + len(m.ID) + len(m.From.Topic) + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		size += 2*binary.MaxVarintLen32 + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	b := append(make([]byte, 0, size), frameVersion)
	b = appendText(b, m.ID)
	b = binary.AppendVarint(b, m.Deadline.UnixMilli())
	b = appendText(b, m.From.Topic)
	b = binary.AppendVarint(b, int64(m.From.Partition))
	b = binary.AppendVarint(b, m.From.Offset)
	b = appendNullable(b, m.Key)
	b = appendNullable(b, m.Value)
	b = binary.AppendUvarint(b, uint64(len(m.Headers)))
	for i := range m.Headers {
		b = appendText(b, m.Headers[i].Key)
		b = appendNullable(b, m.Headers[i].Value)
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendNullable(b, value []byte) []byte {
	if value == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(value))+1), value...)
}

// Decode reads a text of Encode. The text may be anything: everybody with access to the store can write
// the text.
func Decode(s string) (Message, error) {
	raw, err := base64.RawStdEncoding.DecodeString(s)
	switch {
	case err != nil:
		return Message{}, errNotBase64 // base64's error would quote a byte
	case len(raw) == 0:
		return Message{}, errTruncated
	case raw[0] != frameVersion:
		return Message{}, errVersion
	}
	r := frameReader{rest: raw[1:]}
	m := Message{ID: r.text()}
	deadline := r.varint()
	m.From.Topic = r.text()
	partition := r.varint()
	m.From.Offset = r.varint()
	m.Key, m.Value = r.nullable(), r.nullable()
	m.Headers = r.headers()
	switch {
	case r.torn:
		return Message{}, errTruncated
	case len(r.rest) > 0:
		return Message{}, errTrailing
	case m.ID == "" || len(m.ID) > maxID:
		return Message{}, errIDLength
	case deadline <= -maxEpoch || deadline >= maxEpoch, partition < 0 || partition > math.MaxInt32, m.From.Offset < 0:
		return Message{}, errRange
	}
	m.Deadline, m.From.Partition = time.UnixMilli(deadline).UTC(), int32(partition)
	return m, nil
}

// frameReader takes a frame apart. After a fault all later values are zero, so a check at the end is
// enough.
type frameReader struct {
	rest []byte
	torn bool
}

func (r *frameReader) tear() { r.rest, r.torn = nil, true }

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.tear()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *frameReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.tear()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes doesn't copy: the frame belongs to the message alone.
func (r *frameReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.tear()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *frameReader) text() string { return string(r.bytes(r.uvarint())) }

func (r *frameReader) nullable() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.bytes(n - 1)
}

func (r *frameReader) headers() []Header {
	const least = 2 // bytes of a header
	n := r.uvarint()
	if n > uint64(len(r.rest)/least) {
		r.tear()
	}
	if n == 0 || r.torn {
		return nil
	}
	headers := make([]Header, n)
	for i := range headers {
		headers[i] = Header{Key: r.text(), Value: r.nullable()}
	}
	return headers
}

// TimerKey is the key of the message with this id in the store: the id itself if valid as a key,
// otherwise a '~' and the hash of the id. An id that begins with '~' is hashed, too, so two ids have
// the same key only if their SHA-256 sums are equal.
func TimerKey(id string) string {
	// An invalid key would be taken for another message's key, or not be found.
	if id != "" && id[0] != '~' && timer.ValidKey(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:])
}
