package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/verify/testkit"
)

// TestHeaders: the allowed and the malformed forms of the two headers, and where their
// messages go.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	b := s.start()
	null := func(key string) kgo.RecordHeader { return kgo.RecordHeader{Key: key} }
	id, deadline := func(v string) kgo.RecordHeader { return header(message.IDHeader, v) }, func(v string) kgo.RecordHeader { return header(message.DeadlineHeader, v) }
	at := soon(time.Second)
	due := deadline(stamp(at))
	long := strings.Repeat("é", 64) // of 128 bytes
	for name, c := range map[string]struct {
		headers []kgo.RecordHeader
		reason  string // "" if the message is published
	}{
		"deadline, id":         {[]kgo.RecordHeader{due, id("b")}, ""},
		"among others":         {[]kgo.RecordHeader{header("a", "1"), id("c"), header("a", "2"), due, header("chronosmessageid", "x")}, ""},
		"no zone":              {[]kgo.RecordHeader{id("d"), deadline(at.UTC().Format("2006-01-02T15:04:05.000"))}, ""},
		"an offset":            {[]kgo.RecordHeader{id("e"), deadline(stamp(at.In(time.FixedZone("", -5*3600-1800))))}, ""},
		"a space":              {[]kgo.RecordHeader{id("f"), deadline(at.UTC().Format("2006-01-02 15:04:05"))}, ""},
		"ms since 1970":        {[]kgo.RecordHeader{id("g"), deadline(strconv.FormatInt(at.UnixMilli(), 10))}, ""},
		"ns":                   {[]kgo.RecordHeader{id("h"), deadline(at.UTC().Format(time.RFC3339Nano))}, ""},
		"long ago":             {[]kgo.RecordHeader{id("i"), deadline("0000-01-01T00:00:00Z")}, ""},
		"zero time":            {[]kgo.RecordHeader{id("j"), deadline("0001-01-01T00:00:00Z")}, ""},
		"0 ms":                 {[]kgo.RecordHeader{id("k"), deadline("0")}, ""},
		"id of 128 bytes":      {[]kgo.RecordHeader{id(long), due}, ""},
		"id of 129 bytes":      {[]kgo.RecordHeader{id(long + "x"), due}, "id_too_long"},
		"id isn't UTF-8":       {[]kgo.RecordHeader{id("\xff\xfe\x00"), due}, ""},
		"id of odd bytes":      {[]kgo.RecordHeader{id("a b\n{\"c\":1}*%2F~/\\'\x7f"), due}, ""},
		"id like our own":      {[]kgo.RecordHeader{id("~x.2.0011223344556677"), due}, ""},
		"id is a dash":         {[]kgo.RecordHeader{id("-"), due}, ""},
		"no headers":           {nil, "missing_id"},
		"no id":                {[]kgo.RecordHeader{due}, "missing_id"},
		"id in another case":   {[]kgo.RecordHeader{header("chronosMessageID", "x"), due}, "missing_id"},
		"no deadline":          {[]kgo.RecordHeader{id("x")}, "missing_deadline"},
		"two ids":              {[]kgo.RecordHeader{id("x"), due, id("y")}, "repeated_id"},
		"an id twice":          {[]kgo.RecordHeader{id("x"), id("x"), due}, "repeated_id"},
		"two ids, no deadline": {[]kgo.RecordHeader{id("x"), id("y")}, "repeated_id"},
		"two deadlines":        {[]kgo.RecordHeader{due, id("x"), due}, "repeated_deadline"},
		"null id":              {[]kgo.RecordHeader{null(message.IDHeader), due}, "null_id"},
		"null deadline":        {[]kgo.RecordHeader{id("x"), null(message.DeadlineHeader)}, "null_deadline"},
		"empty id":             {[]kgo.RecordHeader{id(""), due}, "empty_id"},
		"empty deadline":       {[]kgo.RecordHeader{id("x"), deadline("")}, "bad_deadline"},
		"deadline isn't UTF-8": {[]kgo.RecordHeader{id("x"), deadline("\xff2030")}, "bad_deadline"},
		"words":                {[]kgo.RecordHeader{id("x"), deadline("tomorrow")}, "bad_deadline"},
		"no such day":          {[]kgo.RecordHeader{id("x"), deadline("2023-02-29T00:00:00Z")}, "bad_deadline"},
		"before 1970 in ms":    {[]kgo.RecordHeader{id("x"), deadline("-1")}, "bad_deadline"},
		"an exponent":          {[]kgo.RecordHeader{id("x"), deadline("1e12")}, "bad_deadline"},
		"too many digits":      {[]kgo.RecordHeader{id("x"), deadline("1000000000000000")}, "bad_deadline"},
		"s since 1970":         {[]kgo.RecordHeader{id("x"), deadline(strconv.FormatInt(at.Unix(), 10))}, "deadline_seconds"},
		"in 101 years":         {[]kgo.RecordHeader{id("x"), deadline(stamp(at.AddDate(101, 0, 0)))}, "deadline_too_far"},
		"in the year 9999":     {[]kgo.RecordHeader{id("x"), deadline("9999-12-31T23:59:59.999999999Z")}, "deadline_too_far"},
		"most digits":          {[]kgo.RecordHeader{id("x"), deadline("999999999999999")}, "deadline_too_far"},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(s.came)
			s.produce(&kgo.Record{Topic: "in", Partition: int32(n % partitions), Key: []byte(name), Value: []byte(name), Headers: c.headers})
			r := s.consume(n + 1)[n]
			if string(r.Key) != name || string(r.Value) != name {
				t.Fatalf("%s came, with key %q", r.Value, r.Key)
			}
			if c.reason == "" {
				var want []kgo.RecordHeader
				for _, h := range c.headers {
					if h.Key != message.IDHeader && h.Key != message.DeadlineHeader {
						want = append(want, h)
					}
				}
				if diff := cmp.Diff(want, r.Headers); r.Topic != "out" || diff != "" {
					t.Errorf("it came to topic %s, headers (-want +got):\n%s", r.Topic, diff)
				}
				return
			}
			k := len(c.headers)
			if r.Topic != "dead" || len(r.Headers) <= k {
				t.Fatalf("it came to topic %s with headers %v", r.Topic, r.Headers)
			}
			if diff := cmp.Diff(append(c.headers[:k:k], header(output.ReasonHeader, c.reason)), r.Headers[:k+1]); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
	n := len(s.came)
	s.produce(newMessage("far", soon(99*365*24*time.Hour), "far"))
	s.awaitDone()
	if got := b.metric(`chronos_bridge_messages_total{as="stored"}`); got == 0 || s.published() != n {
		t.Errorf("%v messages were stored and %d published, want %d and one that waits", got, s.published(), n)
	}
}

// TestOpaque: a message keeps all its bytes, if the message waits and if the message is late.
func TestOpaque(t *testing.T) {
	t.Parallel()
	large := make([]byte, 1<<20-400)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(large)
	others := []kgo.RecordHeader{
		header("b", "2"), {Key: "a"}, header("b", ""), header("", "\xfe"), header("b", "2"), header("\xff", "x"), {Key: "a"}, header("chronosReason", "mine"),
	}
	for name, more := range map[string]string{"without the id": "CHRONOS_KAFKA_RELAY_ID=false", "with the id": "CHRONOS_KAFKA_RELAY_ID=true"} {
		t.Run(name, func(t *testing.T) {
			s := newSetupOn(t, testkit.StartVolatileRedis(t).URL) // miniredis takes long for long values
			s.start(more)
			for _, delay := range []time.Duration{200 * time.Millisecond, -time.Second} {
				for _, c := range []struct {
					name       string
					key, value []byte
					headers    []kgo.RecordHeader
				}{
					{"text", []byte("key"), []byte(`{"b": 1,  "a": [ ]}`), nil},
					{"null key", nil, []byte("v"), nil},
					{"null value", []byte("k"), nil, nil},
					{"both null", nil, nil, others},
					{"empty", []byte{}, []byte{}, others},
					{"binary", []byte{0, 0xff, '\n'}, []byte("\x00\xff\xfe\x80\r\n"), others},
					{"large", []byte("k"), large, nil},
				} {
					id := c.name + delay.String()
					r := newMessage(id, soon(delay), "")
					r.Key, r.Value = c.key, c.value
					r.Headers = append(append(r.Headers[:1:1], c.headers...), r.Headers[1])
					s.produce(r)
					want := &kgo.Record{Topic: "out", Key: c.key, Value: c.value, Headers: c.headers}
					if name == "with the id" {
						want.Headers = append(slices.Clone(c.headers), header(message.IDHeader, id))
					}
					came := s.consume(len(s.came) + 1)
					got := came[len(came)-1]
					if !sameRecord(want, got) {
						t.Errorf("%s, %v: %d bytes came to %s, key %q, headers %v (%v)", c.name, delay, len(got.Value), got.Topic, got.Key, got.Headers, want.Headers)
					}
				}
			}
		})
	}
}

// sameRecord tells null from empty. A nil list of headers equals an empty list.
func sameRecord(a, b *kgo.Record) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) } // cmp takes long for long slices
	return a.Topic == b.Topic && same(a.Key, b.Key) && same(a.Value, b.Value) &&
		(len(a.Headers)+len(b.Headers) == 0 || cmp.Equal(a.Headers, b.Headers))
}
