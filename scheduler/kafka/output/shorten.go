package output

import (
	"slices"
	"strconv"

	"chronos/scheduler/kafka/message"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TruncatedHeader is of a dead letter that was shortened: how long key, value and
// headers were together.
const TruncatedHeader = "chronosTruncated"

// maxCut is how much of the key, and of the value, a shortened dead letter has, and how
// long its headers may be: longer ones are left out.
const maxCut = 4 << 10

// shortened is a dead letter that has room in any topic. Headers of ours are never
// left out: they say where the rest is.
func shortened(letter, from *kgo.Record) *kgo.Record {
	headers := letter.Headers
	if message.Length(&kgo.Record{Headers: headers}) > maxCut {
		headers = headers[len(from.Headers):]
	}
	headers = append(slices.Clip(headers), kgo.RecordHeader{Key: TruncatedHeader, Value: strconv.AppendInt(nil, int64(message.Length(from)), 10)})
	return &kgo.Record{Topic: letter.Topic, Key: cut(letter.Key), Value: cut(letter.Value), Headers: headers}
}

func cut(b []byte) []byte { return b[:min(len(b), maxCut)] }
