package bridgetest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/kafka/message"
)

// numberHeader has the number of a message of a load.
const numberHeader = "number"

// newMessage is the n-th message of a load, as the message must come out: all its content
// follows from n. Some keys and values are null, empty or no text; some headers repeat.
func newMessage(n int) *kgo.Record {
	r := &kgo.Record{
		Key: []byte("key " + strconv.Itoa(n%1000)), Value: fmt.Appendf(nil, "value %d \xff\x00", n),
		Headers: []kgo.RecordHeader{
			{Key: numberHeader, Value: strconv.AppendInt(nil, int64(n), 10)},
			{Key: "repeated", Value: []byte("first")},
			{Key: "null"},
			{Key: "empty", Value: []byte{}},
			{Key: "repeated", Value: []byte{0xff, 0, byte(n)}},
		},
	}
	switch n % 7 {
	case 0:
		r.Key = nil
	case 1:
		r.Key = []byte{}
	}
	switch n % 11 {
	case 0:
		r.Value = nil
	case 1:
		r.Value = []byte{}
	case 2:
		r.Value = bytes.Repeat([]byte(strconv.Itoa(n)), 200)
	}
	return r
}

// delayed is the n-th message in the form for the input: the two headers that chronos needs
// stand anywhere among the message's own headers.
func delayed(topic string, n int, deadline time.Time) *kgo.Record {
	r := newMessage(n)
	r.Topic = topic
	r.Headers = slices.Insert(r.Headers, n%(len(r.Headers)+1),
		kgo.RecordHeader{Key: message.DeadlineHeader, Value: []byte(written(n, deadline))})
	r.Headers = slices.Insert(r.Headers, n/7%(len(r.Headers)+1),
		kgo.RecordHeader{Key: message.IDHeader, Value: []byte(idOf(n))})
	return r
}

// idOf is a message's id, now and then an id that no timer could have.
func idOf(n int) string {
	if n%10 == 3 {
		return fmt.Sprintf("a/b %d\xff", n)
	}
	return "message-" + strconv.Itoa(n)
}

// written is a deadline in one of the allowed formats.
func written(n int, deadline time.Time) string {
	switch n % 3 {
	case 0:
		return deadline.UTC().Format("2006-01-02T15:04:05.000")
	case 1:
		return deadline.In(time.FixedZone("", 5400)).Format("2006-01-02T15:04:05.000Z07:00")
	}
	return strconv.FormatInt(deadline.UnixMilli(), 10)
}

// numberOf is the number of a record that came out, if any.
func numberOf(r *kgo.Record) (n int, ok bool) {
	for _, h := range r.Headers {
		if h.Key == numberHeader {
			n, err := strconv.Atoi(string(h.Value))
			return n, err == nil
		}
	}
	return 0, false
}

// difference is how a record differs from the n-th message, or "".
func difference(n int, r *kgo.Record) string {
	want := newMessage(n)
	same := same(want.Key, r.Key) && same(want.Value, r.Value) && slices.EqualFunc(want.Headers, r.Headers, func(a, b kgo.RecordHeader) bool {
		return a.Key == b.Key && same(a.Value, b.Value)
	})
	if same {
		return ""
	}
	type content struct {
		Key, Value []byte
		Headers    []kgo.RecordHeader
	}
	return cmp.Diff(content{want.Key, want.Value, want.Headers}, content{r.Key, r.Value, r.Headers})
}

// same tells null from empty, as Kafka does.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
