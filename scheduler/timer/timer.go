package timer

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a client's request.
const (
	MaxInterval              = 100 * 365 * 24 * time.Hour // also of repeat-for
	MinRecurringInterval     = 100 * time.Millisecond
	MaxReplicationFactor     = 16
	DefaultReplicationFactor = 2
	MaxURILength             = 8 << 10 // bytes
	MaxTags                  = 32
	MaxTagType               = 256 // bytes
)

// Timer is a client's request: when, how often, whom to call. The zero value is not valid. A Timer
// is a value: nothing in a Timer is changed after the Timer was handed over.
type Timer struct {
	// Interval is the time from the write to the first pop and between pops, in
	// whole milliseconds. Zero fires at once.
	Interval time.Duration
	// At is the instant of the only pop, in whole milliseconds; the zero Time if Interval says
	// when. With At, Interval and RepeatFor are zero.
	At time.Time
	// RepeatFor is how long the timer recurs, zero for a one-shot timer.
	RepeatFor time.Duration
	// ReplicationFactor is the number of copies asked for, 1 to 16.
	ReplicationFactor int
	// Callback says whom to call.
	Callback Callback
	// Tags are counted by the statistics; at most MaxTags.
	Tags []Tag
}

// Callback is an HTTP callback: POST to URI with Opaque as body, unchanged.
type Callback struct {
	URI    string
	Opaque string
}

// RedactedUser stands for user and password in a URI for display.
const RedactedUser = "***"

// Redacted is the URI for display: user and password are RedactedUser. Redacted is empty if the URI
// can't be read.
func (c Callback) Redacted() string {
	if !strings.Contains(c.URI, "@") {
		return c.URI
	}
	u, err := url.Parse(c.URI)
	switch {
	case err != nil:
		return ""
	case u.User == nil:
		return c.URI
	}
	// The text is cut, since url.URL would write the rest in another way.
	scheme, rest, _ := strings.Cut(c.URI, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	return scheme + "://" + RedactedUser + rest[strings.LastIndexByte(rest[:end], '@'):]
}

// redacted reports whether a URI has RedactedUser in place of a user or a password.
func redacted(user *url.Userinfo) bool {
	password, _ := user.Password()
	return user.Username() == RedactedUser || password == RedactedUser
}

// Tag says what a timer represents, for the statistics.
type Tag struct {
	Type  string // not empty, MaxTagType bytes at most
	Count int    // at least 1
}

// Pops is how many pops the timer has in all: floor(RepeatFor / Interval), and
// 1 for a one-shot timer.
func (t *Timer) Pops() int {
	if t.RepeatFor == 0 || t.Interval <= 0 {
		return 1
	}
	return int(t.RepeatFor / t.Interval)
}

// Validate reports the first part of t that is refused as an *InvalidError whose pointer is into
// the request body of api/openapi.yaml, nil if t is fine.
func (t *Timer) Validate() error {
	for _, check := range []func(*Timer) *InvalidError{
		(*Timer).CheckTiming, (*Timer).checkCallback, (*Timer).CheckReplication, (*Timer).CheckTags,
	} {
		if err := check(t); err != nil {
			return err
		}
	}
	return nil
}

// CheckTiming is the part of Validate that is about interval, at and repeat-for.
func (t *Timer) CheckTiming() *InvalidError {
	const interval, repeat = "/timing/interval", "/timing/repeat-for"
	switch {
	case t.Interval < 0:
		return Invalid(interval, "interval-negative", "interval is negative; give a number of seconds from 0 up")
	case t.RepeatFor < 0:
		return Invalid(repeat, "repeat-for-negative", "repeat-for is negative; give a number of seconds from 0 up, or leave it out")
	case t.Interval > MaxInterval:
		return Invalid(interval, "interval-too-long", "interval is over 100 years; give at most 3153600000 seconds")
	case t.RepeatFor > MaxInterval:
		return Invalid(repeat, "repeat-for-too-long", "repeat-for is over 100 years; give at most 3153600000 seconds")
	case !t.At.IsZero() && t.Interval != 0:
		return Invalid("/timing", "at-and-interval", "at and interval exclude each other; give one of them")
	case !t.At.IsZero() && t.RepeatFor != 0:
		return Invalid(repeat, "at-and-repeat-for", "a timer with at fires once; use interval with repeat-for for a recurring timer")
	case t.RepeatFor == 0:
		return nil
	case t.Interval == 0:
		return Invalid(interval, "interval-zero", "a recurring timer needs an interval; interval 0 fires once and takes no repeat-for")
	case t.RepeatFor < t.Interval:
		return Invalid(repeat, "repeat-for-short", "repeat-for is less than interval, so the timer would never fire; raise it to at least interval")
	case t.Interval < MinRecurringInterval:
		return Invalid(interval, "interval-too-short", "a recurring timer's interval is less than 0.1 s; raise it, or leave out repeat-for")
	}
	return nil
}

func (t *Timer) checkCallback() *InvalidError {
	const uri = "/callback/http/uri"
	raw := t.Callback.URI
	switch {
	case raw == "":
		return Invalid(uri, "uri-missing", "uri is missing; give the absolute http or https URL to call")
	case len(raw) > MaxURILength:
		return Invalid(uri, "uri-too-long", "uri is longer than %d bytes; shorten it, and put data into opaque", MaxURILength)
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }):
		return Invalid(uri, "uri-characters", "uri holds a space, a control character or invalid UTF-8; percent-encode it")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return Invalid(uri, "uri-malformed", "uri is not a valid URL; give an absolute one, such as http://localhost:8080/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return Invalid(uri, "uri-scheme", "uri is not absolute or of another scheme; begin it with http:// or https://")
	case u.Hostname() == "":
		return Invalid(uri, "uri-host", "uri names no host; give an absolute URL, such as http://localhost:8080/path")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }):
		return Invalid(uri, "uri-host-ascii", "uri's host is not in ASCII; give it in its xn-- form")
	case redacted(u.User):
		return Invalid(uri, "uri-redacted", "uri has %s in place of a user or a password, as answers do that hide them; give the real ones", RedactedUser)
	case !validPort(u.Port()):
		return Invalid(uri, "uri-port", "uri's port is not from 1 to 65535; correct it, or leave it out")
	}
	return nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// CheckReplication is the part of Validate that is about the replication factor.
func (t *Timer) CheckReplication() *InvalidError {
	if t.ReplicationFactor < 1 || t.ReplicationFactor > MaxReplicationFactor {
		return Invalid("/reliability/replication-factor", "replication-factor-range",
			"replication-factor is not a whole number from 1 to %d; give one, or leave it out", MaxReplicationFactor)
	}
	return nil
}

// CheckTags is the part of Validate that is about the tags.
func (t *Timer) CheckTags() *InvalidError {
	if len(t.Tags) > MaxTags {
		return Invalid("/statistics/tag-info", "tag-info", "tag-info has more than %d entries; leave some out", MaxTags)
	}
	for _, tag := range t.Tags {
		if len(tag.Type) > MaxTagType {
			return Invalid("/statistics/tag-info", "tag-info", "a type in tag-info is longer than %d bytes; shorten it", MaxTagType)
		}
		if tag.Type == "" || tag.Count < 1 {
			return Invalid("/statistics/tag-info", "tag-info", "an entry of tag-info has no type or no positive count; give each a non-empty string type, and a whole count from 1 up or none")
		}
	}
	return nil
}

// Size is how many bytes of memory a timer takes in a node, about.
func (t *Timer) Size() int {
	const tag = 24 // bytes of a Tag beside its type
	size := len(t.Callback.URI) + len(t.Callback.Opaque)
	for i := range t.Tags {
		size += tag + len(t.Tags[i].Type)
	}
	return size
}
