package timer

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what a callback may ask for.
const (
	MinTimeout  = 100 * time.Millisecond
	MaxTimeout  = 30 * time.Second
	MaxAttempts = 100
	MinRetry    = 100 * time.Millisecond // of Retry.First and Retry.Longest
	MaxFirst    = time.Hour
	MaxFactor   = 10
	MaxLongest  = 24 * time.Hour
)

// What holds for a callback that asks for nothing else.
const (
	DefaultMethod  = "POST"
	DefaultTimeout = 2 * time.Second
)

const noBody = "GET" // the method of requests without a body

// Methods are the methods that a callback may have.
func Methods() []string { return []string{"POST", "PUT", "PATCH", "DELETE", noBody} }

// Callback is an HTTP callback: a request to URI with Opaque as body, unchanged.
type Callback struct {
	URI     string
	Opaque  string
	Method  string        // "" for DefaultMethod
	Headers Headers       // beside the headers that chronos sends, or instead of some of these
	Timeout time.Duration // of an attempt, in whole milliseconds; 0 for DefaultTimeout
	Retry   Retry
}

// Verb is the method of the callback's requests.
func (c *Callback) Verb() string { return cmp.Or(c.Method, DefaultMethod) }

// HasBody reports whether the callback's requests have a body, perhaps an empty one.
func (c *Callback) HasBody() bool { return c.Method != noBody }

// Plain reports whether the callback has only a URI and an opaque, as most callbacks do.
func (c *Callback) Plain() bool {
	return c.Method == "" && c.Headers == "" && c.Timeout == 0 && c.Retry == Retry{}
}

// Retry is when further attempts follow failed attempts at a pop: after full jitter, a random part
// of a pause that grows from First by Factor up to Longest (exponential backoff, Brooker 2015). The
// zero value of a member stands for the default.
type Retry struct {
	Attempts int           // at a pop, the first included; 0 for the node's default
	First    time.Duration // in whole milliseconds; 0 for 1 s
	Factor   float64       // in whole thousandths; 0 for 2
	Longest  time.Duration // in whole milliseconds; 0 for a minute, or for First if First is longer
}

// Pause is the longest pause after the given attempt, from 1, has failed.
func (r Retry) Pause(attempt int) time.Duration {
	const first, factor, longest = time.Second, 2.0, time.Minute
	start := cmp.Or(r.First, first)
	end := cmp.Or(r.Longest, max(longest, start))
	pause := float64(start) * math.Pow(cmp.Or(r.Factor, factor), float64(max(attempt-1, 0)))
	if pause >= float64(end) {
		return end
	}
	return time.Duration(pause)
}

// RedactedUser stands for user and password in a URI for display.
const RedactedUser = "***"

// Redacted is the URI for display: user and password are RedactedUser. Redacted is empty if the URI
// can't be read.
func (c *Callback) Redacted() string {
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

// checkCallback is the part of Validate that is about the callback.
func (t *Timer) checkCallback() *InvalidError {
	c := &t.Callback
	if err := c.checkURI(); err != nil || c.Plain() {
		return err
	}
	if err := c.CheckMembers(); err != nil {
		return err
	}
	return c.checkAuthorization()
}

// CheckMembers is the part of Validate that is about method, timeout and retry.
func (c *Callback) CheckMembers() *InvalidError {
	if err := c.checkMethod(); err != nil {
		return err
	}
	return c.checkTimes()
}

func (c *Callback) checkMethod() *InvalidError {
	if c.Method != "" && !slices.Contains(Methods(), c.Method) {
		return Invalid("/callback/http/method", "method-unknown", "method is none of %s; give one of these in capitals, or leave it out for %s", strings.Join(Methods(), ", "), DefaultMethod)
	}
	if c.Opaque != "" && !c.HasBody() {
		return Invalid("/callback/http/opaque", "opaque-of-get", "a GET has no body; leave out opaque, or choose another method")
	}
	return nil
}

func (c *Callback) checkTimes() *InvalidError {
	within := func(d, least, most time.Duration) bool { return d == 0 || d >= least && d <= most }
	r := c.Retry
	switch {
	case !within(c.Timeout, MinTimeout, MaxTimeout):
		return TimeoutRange()
	case r.Attempts < 0 || r.Attempts > MaxAttempts:
		return AttemptsRange()
	case !within(r.First, MinRetry, MaxFirst):
		return FirstRange()
	case r.Factor != 0 && (r.Factor < 1 || r.Factor > MaxFactor):
		return FactorRange()
	case !within(r.Longest, MinRetry, MaxLongest):
		return LongestRange()
	}
	return nil
}

// TimeoutRange refuses a timeout.
func TimeoutRange() *InvalidError {
	return Invalid("/callback/http/timeout", "timeout-range", "timeout is not from 0.1 to 30 seconds; give a number in these bounds, or leave it out for 2")
}

// AttemptsRange refuses a number of attempts.
func AttemptsRange() *InvalidError {
	return Invalid("/callback/http/retry/attempts", "retry-range", "attempts is not a whole number from 1 to %d; give one, or leave it out", MaxAttempts)
}

// FirstRange refuses a first pause.
func FirstRange() *InvalidError {
	return Invalid("/callback/http/retry/first", "retry-range", "first is not from 0.1 to 3600 seconds; give a number in these bounds, or leave it out for 1")
}

// FactorRange refuses a factor.
func FactorRange() *InvalidError {
	return Invalid("/callback/http/retry/factor", "retry-range", "factor is not from 1 to %d; give a number in these bounds, or leave it out for 2", MaxFactor)
}

// LongestRange refuses a longest pause.
func LongestRange() *InvalidError {
	return Invalid("/callback/http/retry/longest", "retry-range", "longest is not from 0.1 to 86400 seconds; give a number in these bounds, or leave it out for 60")
}

func (c *Callback) checkURI() *InvalidError {
	const uri = "/callback/http/uri"
	raw := c.URI
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
