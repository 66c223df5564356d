package output

import (
	"slices"
	"strconv"

	"chronos/scheduler/kafka/message"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TruncatedHeader marks a shortened dead letter, and has the former length of key, value and headers
// together.
const TruncatedHeader = "chronosTruncated"

// maxCut bounds the key, the value and the headers of a shortened dead letter. Longer headers are left
// out.
const maxCut = 4 << 10

// shortened is a dead letter that has room in any topic. The bridge's own headers always stay: these
// headers say where the rest is.
func shortened(letter, from *kgo.Record) *kgo.Record {
	headers := letter.Headers
	if message.Length(&kgo.Record{Headers: headers}) > maxCut {
		headers = headers[len(from.Headers):]
	}
	headers = append(slices.Clip(headers), kgo.RecordHeader{Key: TruncatedHeader, Value: strconv.AppendInt(nil, int64(message.Length(from)), 10)})
	return &kgo.Record{Topic: letter.Topic, Key: cut(letter.Key), Value: cut(letter.Value), Headers: headers}
}

func cut(b []byte) []byte { return b[:min(len(b), maxCut)] }
