package apitest

import (
	"fmt"
	"strconv"
	"strings"
)

// Simple is the body of a request for a timer.
const Simple = `{"timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb","opaque":"o"}}}`

// Typical is a body with all parts that clients usually send.
const Typical = `{"timing":{"interval":30,"repeat-for":600},"callback":{"http":{"uri":"http://10.0.0.17:8080/callbacks/registration","opaque":"{\"aor\":\"sip:6505551234@example.com\",\"n\":17}"}},"reliability":{"replication-factor":2},"statistics":{"tag-info":[{"type":"REG","count":1}]}}`

// WithCallback makes a body of the given members and a callback.
func WithCallback(members string) string {
	return `{` + members + `,"callback":{"http":{"uri":"http://a/b"}}}`
}

// WithHTTP makes a body with the given members of the callback.
func WithHTTP(members string) string {
	return `{"timing":{"interval":1},"callback":{"http":{` + members + `}}}`
}

// WithMore makes a body of the given members and the mandatory members.
func WithMore(members string) string {
	return `{"timing":{"interval":1},"callback":{"http":{"uri":"http://a/b"}},` + members + `}`
}

// Due makes a body whose timer is recognised by its interval.
func Due(seconds int) string {
	return WithCallback(`"timing":{"interval":` + strconv.Itoa(seconds) + `}`)
}

// ListOf makes the body of a batch.
func ListOf(entries ...string) string { return `{"timers":[` + strings.Join(entries, ",") + `]}` }

// TimersOf makes the body of a batch with n equal entries.
func TimersOf(n int, entry string) string {
	return ListOf(strings.Repeat(entry+",", n-1) + entry)
}

// Nest makes arrays in arrays.
func Nest(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// WithLength is a request with Simple as its body.
func WithLength(head string) string {
	return head + "Content-Length: " + strconv.Itoa(len(Simple)) + "\r\n\r\n" + Simple
}

// InChunks is body in chunks of at most size bytes, up to the last chunk.
func InChunks(body string, size int) string {
	var b strings.Builder
	for body != "" {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n"
}
