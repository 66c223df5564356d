package record

import (
	"net/url"
	"strings"
	"time"
)

// Escape is a text as a word of a record or of a call: without a space, and never empty.
func Escape(s string) string {
	if s == "" {
		return "-"
	}
	if s == "-" {
		return "%2D"
	}
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// Unescape reads what Escape wrote.
func Unescape(s string) (string, error) {
	if s == "-" {
		return "", nil
	}
	return url.QueryUnescape(s)
}

// Milliseconds is the only way from wire numbers to durations. A number too large for a duration becomes the longest
// duration.
func Milliseconds(ms int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(ms, -longest), longest)) * time.Millisecond
}

// Until is how long after nowUs the instant ms is, negative for an earlier instant. A number too large for a
// duration becomes the longest duration.
func Until(ms, nowUs int64) time.Duration {
	const ages, longest = int64(1<<63-1) / 2000, int64(1<<63-1) / int64(time.Microsecond)
	us := min(max(ms, -ages), ages)*1000 - nowUs
	return time.Duration(min(max(us, -longest), longest)) * time.Microsecond
}

// WholeMs rounds up: no rounding makes a timer early.
func WholeMs(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
