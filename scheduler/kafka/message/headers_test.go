package message

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

var now = time.Date(2022, 12, 1, 11, 0, 0, 0, time.UTC)

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func TestParse(t *testing.T) {
	const stamp = "2022-12-01T11:09:01.123"
	at := time.Date(2022, 12, 1, 11, 9, 1, 123e6, time.UTC)
	id, deadline := header(IDHeader, "an id"), header(DeadlineHeader, stamp)
	from := Origin{Topic: "in", Partition: 3, Offset: 42}
	for _, c := range []struct {
		name       string
		key, value []byte
		headers    []kgo.RecordHeader
		want       Message
	}{
		{"no more than needed", nil, nil, []kgo.RecordHeader{id, deadline}, Message{ID: "an id", Deadline: at, From: from}},
		{"the other way round", nil, nil, []kgo.RecordHeader{deadline, id}, Message{ID: "an id", Deadline: at, From: from}},
		{
			"key and value", []byte("k"), []byte("\xff"), []kgo.RecordHeader{id, deadline},
			Message{ID: "an id", Deadline: at, From: from, Key: []byte("k"), Value: []byte("\xff")},
		},
		{
			"empty key and value", []byte{}, []byte{}, []kgo.RecordHeader{id, deadline},
			Message{ID: "an id", Deadline: at, From: from, Key: []byte{}, Value: []byte{}},
		},
		{
			"other headers", nil, nil,
			[]kgo.RecordHeader{header("b", "1"), deadline, {Key: "a"}, header("b", ""), id, header("b", "1"), header("\xff", "\xff")},
			Message{ID: "an id", Deadline: at, From: from, Headers: []Header{
				{"b", []byte("1")}, {"a", nil}, {"b", []byte{}}, {"b", []byte("1")}, {"\xff", []byte("\xff")},
			}},
		},
		{
			"other case is another header", nil, nil,
			[]kgo.RecordHeader{id, deadline, header("ChronosMessageId", "x"), header("chronosdeadline", "y"), header("chronosMessageId ", "z")},
			Message{ID: "an id", Deadline: at, From: from, Headers: []Header{
				{"ChronosMessageId", []byte("x")}, {"chronosdeadline", []byte("y")}, {"chronosMessageId ", []byte("z")},
			}},
		},
		{
			"id of any bytes", nil, nil, []kgo.RecordHeader{header(IDHeader, "\x00\xff é "), deadline},
			Message{ID: "\x00\xff é ", Deadline: at, From: from},
		},
		{
			"longest id", nil, nil, []kgo.RecordHeader{header(IDHeader, strings.Repeat("x", 128)), deadline},
			Message{ID: strings.Repeat("x", 128), Deadline: at, From: from},
		},
		{
			"long ago", nil, nil, []kgo.RecordHeader{id, header(DeadlineHeader, "0")},
			Message{ID: "an id", Deadline: time.UnixMilli(0).UTC(), From: from},
		},
		{
			"most milliseconds of nine digits", nil, nil, []kgo.RecordHeader{id, header(DeadlineHeader, "999999999")},
			Message{ID: "an id", Deadline: time.UnixMilli(999_999_999).UTC(), From: from},
		},
		{
			"least milliseconds of eleven digits", nil, nil, []kgo.RecordHeader{id, header(DeadlineHeader, "10000000000")},
			Message{ID: "an id", Deadline: time.UnixMilli(10_000_000_000).UTC(), From: from},
		},
		{
			"an instant of early 1970 in RFC 3339", nil, nil, []kgo.RecordHeader{id, header(DeadlineHeader, "1970-02-01T00:00:00Z")},
			Message{ID: "an id", Deadline: time.Date(1970, 2, 1, 0, 0, 0, 0, time.UTC), From: from},
		},
		{
			"as far as may be", nil, nil, []kgo.RecordHeader{id, header(DeadlineHeader, "2122-11-07T11:00:00Z")},
			Message{ID: "an id", Deadline: time.Date(2122, 11, 7, 11, 0, 0, 0, time.UTC), From: from},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &kgo.Record{Topic: "in", Partition: 3, Offset: 42, Key: c.key, Value: c.value, Headers: c.headers}
			got, fault := Parse(r, now)
			if fault != nil {
				t.Fatalf("%s: %v", fault.Reason, fault)
			}
			wantMessage(t, c.want, got)
		})
	}
}

func TestMalformed(t *testing.T) {
	id, deadline := header(IDHeader, "secret id"), header(DeadlineHeader, "1669892941123")
	for _, c := range []struct {
		name    string
		headers []kgo.RecordHeader
		want    string
	}{
		{"no headers", nil, "missing_id"},
		{"no id", []kgo.RecordHeader{deadline}, "missing_id"},
		{"id in another case", []kgo.RecordHeader{header("chronosmessageid", "x"), deadline}, "missing_id"},
		{"two ids", []kgo.RecordHeader{id, deadline, header(IDHeader, "other")}, "repeated_id"},
		{"two ids that agree", []kgo.RecordHeader{id, id, deadline}, "repeated_id"},
		{"two ids, one of them null", []kgo.RecordHeader{id, {Key: IDHeader}, deadline}, "repeated_id"},
		{"two ids and no deadline", []kgo.RecordHeader{id, id}, "repeated_id"},
		{"null id", []kgo.RecordHeader{{Key: IDHeader}, deadline}, "null_id"},
		{"empty id", []kgo.RecordHeader{header(IDHeader, ""), deadline}, "empty_id"},
		{"id too long", []kgo.RecordHeader{header(IDHeader, strings.Repeat("x", 129)), deadline}, "id_too_long"},
		{"no deadline", []kgo.RecordHeader{id}, "missing_deadline"},
		{"two deadlines", []kgo.RecordHeader{deadline, id, deadline}, "repeated_deadline"},
		{"null deadline", []kgo.RecordHeader{id, {Key: DeadlineHeader}}, "null_deadline"},
		{"empty deadline", []kgo.RecordHeader{id, header(DeadlineHeader, "")}, "bad_deadline"},
		{"no instant", []kgo.RecordHeader{id, header(DeadlineHeader, "secret\xff")}, "bad_deadline"},
		{"seconds since 1970", []kgo.RecordHeader{id, header(DeadlineHeader, "1669892941")}, "deadline_seconds"},
		{"first second of ten digits", []kgo.RecordHeader{id, header(DeadlineHeader, "1000000000")}, "deadline_seconds"},
		{"last second of ten digits", []kgo.RecordHeader{id, header(DeadlineHeader, "9999999999")}, "deadline_seconds"},
		{"seconds behind zeros", []kgo.RecordHeader{id, header(DeadlineHeader, "0001669892941")}, "deadline_seconds"},
		{"100 years and a bit", []kgo.RecordHeader{id, header(DeadlineHeader, "2122-11-07T11:00:00.001Z")}, "deadline_too_far"},
		{"as far as can be", []kgo.RecordHeader{id, header(DeadlineHeader, "999999999999999")}, "deadline_too_far"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, fault := Parse(&kgo.Record{Topic: "in", Value: []byte("secret"), Headers: c.headers}, now)
			if fault == nil || fault.Reason != c.want {
				t.Fatalf("%+v, want %s", fault, c.want)
			}
			wantMessage(t, Message{}, got)
			if !regexp.MustCompile(`^[a-z_]+$`).MatchString(fault.Reason) {
				t.Errorf("reason %q is no label", fault.Reason)
			}
			text := fault.Advice
			if !strings.HasPrefix(text, "header chronos") || strings.Contains(text, "secret") || strings.Contains(text, "xxx") {
				t.Errorf("advice is %q", text)
			}
		})
	}
}

func TestParseCopiesNoBytes(t *testing.T) {
	r := &kgo.Record{
		Key: []byte("key"), Value: []byte("value"),
		Headers: []kgo.RecordHeader{header("h", "v"), header(IDHeader, "id"), header(DeadlineHeader, "0")},
	}
	m, fault := Parse(r, now)
	if fault != nil {
		t.Fatal(fault)
	}
	for name, pair := range map[string][2][]byte{
		"key": {r.Key, m.Key}, "value": {r.Value, m.Value}, "header": {r.Headers[0].Value, m.Headers[0].Value},
	} {
		if unsafe.SliceData(pair[0]) != unsafe.SliceData(pair[1]) {
			t.Errorf("%s was copied", name)
		}
	}
	copy(r.Headers[1].Value, "xx")
	if m.ID != "id" {
		t.Errorf("the id follows the record: %s", m.ID)
	}
}

// TestMessagesOutliveTheirPoll: later reads of the client leave earlier messages unchanged, and null
// stays apart from empty on the way.
func TestMessagesOutliveTheirPoll(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("in"), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	required := []kgo.RecordHeader{header(IDHeader, "id"), header(DeadlineHeader, "0")}
	want := []Message{
		{Key: nil, Value: []byte{}},
		{Key: []byte{}, Value: nil, Headers: []Header{{"h", nil}, {"h", []byte{}}, {"h", nil}}},
		{Key: []byte("k"), Value: []byte(strings.Repeat("abc", 1000))},
		{Key: []byte("K"), Value: []byte(strings.Repeat("xyz", 1000)), Headers: []Header{{"\xff", []byte("\xff")}}},
	}
	var got []Message
	for i := range want {
		m := &want[i]
		m.ID, m.Deadline, m.From = "id", time.UnixMilli(0).UTC(), Origin{Topic: "in", Offset: int64(i)}
		r := &kgo.Record{Topic: "in", Key: m.Key, Value: m.Value, Headers: required}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for len(got) <= i {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				m, fault := Parse(r, now)
				if fault != nil {
					t.Fatal(fault)
				}
				m.Written = time.Time{}
				got = append(got, m)
			})
		}
	}
	for i := range want {
		wantMessage(t, want[i], got[i])
	}
}
