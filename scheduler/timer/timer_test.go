package timer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/timer"
)

// fine is a valid timer, changed by the given function.
func fine(change func(*timer.Timer)) *timer.Timer {
	asked := &timer.Timer{
		Interval: time.Second, ReplicationFactor: 2, Callback: timer.Callback{URI: "http://localhost:8080/pop"},
	}
	change(asked)
	return asked
}

func TestValidate(t *testing.T) {
	const year = 365 * 24 * time.Hour
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name          string
		timer         *timer.Timer
		code, pointer string // "" if nothing is refused
	}{
		{"one-shot", fine(func(*timer.Timer) {}), "", ""},
		{"at once", fine(func(x *timer.Timer) { x.Interval = 0 }), "", ""},
		{"one millisecond", fine(func(x *timer.Timer) { x.Interval = time.Millisecond }), "", ""},
		{"100 years", fine(func(x *timer.Timer) { x.Interval = 100 * year }), "", ""},
		{"at an instant", fine(func(x *timer.Timer) { x.Interval, x.At = 0, at }), "", ""},
		{"at an instant long past", fine(func(x *timer.Timer) { x.Interval, x.At = 0, time.UnixMilli(-1) }), "", ""},
		{"recurring", fine(func(x *timer.Timer) { x.RepeatFor = time.Minute }), "", ""},
		{"recurring, one pop", fine(func(x *timer.Timer) { x.RepeatFor = time.Second }), "", ""},
		{"recurring, as fast as may be", fine(func(x *timer.Timer) { x.Interval, x.RepeatFor = 100*time.Millisecond, 100*year }), "", ""},

		{"interval negative", fine(func(x *timer.Timer) { x.Interval = -1 }), "interval-negative", "/timing/interval"},
		{"interval over 100 years", fine(func(x *timer.Timer) { x.Interval = 100*year + time.Millisecond }), "interval-too-long", "/timing/interval"},
		{"interval longest", fine(func(x *timer.Timer) { x.Interval = 1<<63 - 1 }), "interval-too-long", "/timing/interval"},
		{"repeat-for negative", fine(func(x *timer.Timer) { x.RepeatFor = -time.Second }), "repeat-for-negative", "/timing/repeat-for"},
		{"repeat-for over 100 years", fine(func(x *timer.Timer) { x.RepeatFor = 100*year + time.Millisecond }), "repeat-for-too-long", "/timing/repeat-for"},
		{"recurring from an instant", fine(func(x *timer.Timer) { x.At, x.RepeatFor = at, time.Minute }), "", ""},
		{"at and interval", fine(func(x *timer.Timer) { x.At = at }), "at-and-interval", "/timing"},
		{"at and repeat-for", fine(func(x *timer.Timer) { x.Interval, x.At, x.RepeatFor = 0, at, time.Minute }), "at-and-repeat-for", "/timing/repeat-for"},
		{"at and repeat-for less than interval", fine(func(x *timer.Timer) { x.At, x.RepeatFor = at, time.Millisecond }), "repeat-for-short", "/timing/repeat-for"},
		{"interval 0 and repeat-for", fine(func(x *timer.Timer) { x.Interval, x.RepeatFor = 0, time.Minute }), "interval-zero", "/timing/interval"},
		{"repeat-for less than interval", fine(func(x *timer.Timer) { x.RepeatFor = time.Second - time.Millisecond }), "repeat-for-short", "/timing/repeat-for"},
		{"recurring too fast", fine(func(x *timer.Timer) { x.Interval, x.RepeatFor = 99*time.Millisecond, time.Minute }), "interval-too-short", "/timing/interval"},

		{"one copy", fine(func(x *timer.Timer) { x.ReplicationFactor = 1 }), "", ""},
		{"16 copies", fine(func(x *timer.Timer) { x.ReplicationFactor = 16 }), "", ""},
		{"no copy", fine(func(x *timer.Timer) { x.ReplicationFactor = 0 }), "replication-factor-range", "/reliability/replication-factor"},
		{"fewer than no copies", fine(func(x *timer.Timer) { x.ReplicationFactor = -1 }), "replication-factor-range", "/reliability/replication-factor"},
		{"17 copies", fine(func(x *timer.Timer) { x.ReplicationFactor = 17 }), "replication-factor-range", "/reliability/replication-factor"},

		{"tags", fine(func(x *timer.Timer) { x.Tags = []timer.Tag{{Type: "a", Count: 1}, {Type: "-", Count: 1 << 40}} }), "", ""},
		{"32 tags", fine(func(x *timer.Timer) { x.Tags = slices.Repeat([]timer.Tag{{Type: "a", Count: 1}}, 32) }), "", ""},
		{"33 tags", fine(func(x *timer.Timer) { x.Tags = slices.Repeat([]timer.Tag{{Type: "a", Count: 1}}, 33) }), "tag-info", "/statistics/tag-info"},
		{"tag of 256 bytes", fine(func(x *timer.Timer) { x.Tags = []timer.Tag{{Type: strings.Repeat("é", 128), Count: 1}} }), "", ""},
		{"tag of 257 bytes", fine(func(x *timer.Timer) {
			x.Tags = []timer.Tag{{Type: "a", Count: 1}, {Type: "a" + strings.Repeat("é", 128), Count: 1}}
		}), "tag-info", "/statistics/tag-info"},
		{"tag without a type", fine(func(x *timer.Timer) { x.Tags = []timer.Tag{{Type: "a", Count: 1}, {Count: 1}} }), "tag-info", "/statistics/tag-info"},
		{"tag with count 0", fine(func(x *timer.Timer) { x.Tags = []timer.Tag{{Type: "a"}} }), "tag-info", "/statistics/tag-info"},
		{"tag with negative count", fine(func(x *timer.Timer) { x.Tags = []timer.Tag{{Type: "a", Count: -1}} }), "tag-info", "/statistics/tag-info"},

		{"the timing is looked at first", &timer.Timer{Interval: -1}, "interval-negative", "/timing/interval"},
		{"the zero value", &timer.Timer{}, "uri-missing", "/callback/http/uri"},
	} {
		t.Run(c.name, func(t *testing.T) { checkRefusal(t, c.timer.Validate(), c.code, c.pointer) })
	}
}

func TestValidateURI(t *testing.T) {
	const secret = "s3cret"
	for _, c := range []struct{ name, uri, code string }{
		{"http", "http://example.com/pop?x=1#y", ""},
		{"https", "https://example.com", ""},
		{"scheme in upper case", "HTTPS://example.com", ""},
		{"with a user", "http://user:" + secret + "@example.com/", ""},
		{"IPv4", "http://127.0.0.1:8080/", ""},
		{"IPv6", "http://[::1]:8080/", ""},
		{"letters of another alphabet", "http://example.com/grüße", ""},
		{"percent-encoded", "http://example.com/a%20b", ""},
		{"longest", "http://h/" + strings.Repeat("a", timer.MaxURILength-9), ""},

		{"missing", "", "uri-missing"},
		{"too long", "http://h/" + strings.Repeat("a", timer.MaxURILength-8), "uri-too-long"},
		{"relative", "/pop/" + secret, "uri-scheme"},
		{"no scheme", "//example.com/" + secret, "uri-scheme"},
		{"host alone", "example.com", "uri-scheme"},
		{"another scheme", "ftp://example.com/" + secret, "uri-scheme"},
		{"a file", "file:///etc/" + secret, "uri-scheme"},
		{"opaque", "http:example.com", "uri-host"},
		{"no host", "http:///" + secret, "uri-host"},
		{"a port alone", "http://:8080/", "uri-host"},
		{"a user alone", "http://user:" + secret + "@/", "uri-host"},
		{"space", "http://example.com/a b", "uri-characters"},
		{"space before", " http://example.com/", "uri-characters"},
		{"line end", "http://example.com/\r\nX-Evil: 1", "uri-characters"},
		{"zero byte", "http://example.com/\x00", "uri-characters"},
		{"delete", "http://example.com/\x7f", "uri-characters"},
		{"invalid UTF-8", "http://example.com/\xff", "uri-characters"},
		{"bad percent-encoding", "http://example.com/%zz" + secret, "uri-malformed"},
		{"lowest port", "http://h:1/", ""},
		{"highest port", "http://h:65535/", ""},
		{"port empty", "http://h:/", ""},
		{"port 0", "http://h:0/", "uri-port"},
		{"port too high", "http://h:65536/", "uri-port"},
		{"port of many digits", "http://h:" + strings.Repeat("9", 99) + "/", "uri-port"},
		{"bad port", "http://example.com:port/" + secret, "uri-malformed"},
		{"bad IPv6", "http://[::1/" + secret, "uri-malformed"},
		{"scheme missing before the colon", "://example.com/" + secret, "uri-malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fine(func(x *timer.Timer) { x.Callback.URI = c.uri }).Validate()
			pointer := ""
			if c.code != "" {
				pointer = "/callback/http/uri"
			}
			checkRefusal(t, err, c.code, pointer)
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats the URI: %v", err)
			}
		})
	}
}

func checkRefusal(t *testing.T, err error, code, pointer string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var invalid *timer.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	if invalid.Code != code || invalid.Pointer != pointer || invalid.Detail == "" {
		t.Errorf("refused with %s at %q (%s), want %s at %q", invalid.Code, invalid.Pointer, invalid.Detail, code, pointer)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("the error can't stand in a header: %q", err)
	}
}

func TestPops(t *testing.T) {
	for _, c := range []struct {
		interval, repeatFor time.Duration
		want                int
	}{
		{0, 0, 1},
		{time.Second, 0, 1},
		{time.Second, time.Second, 1},
		{time.Second, 1999 * time.Millisecond, 1},
		{time.Second, 2 * time.Second, 2},
		{100 * time.Millisecond, time.Second, 10},
		{100 * time.Millisecond, timer.MaxInterval, 100 * 365 * 24 * 3600 * 10},
		{timer.MaxInterval, timer.MaxInterval, 1},
	} {
		asked := timer.Timer{Interval: c.interval, RepeatFor: c.repeatFor}
		if got := asked.Pops(); got != c.want {
			t.Errorf("interval %v, repeat for %v: %d pops, want %d", c.interval, c.repeatFor, got, c.want)
		}
	}
}

// Every valid timer fires: at least once, and not past its repeat-for.
func TestWhatIsValidFires(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(-2, int64(timer.MaxInterval/time.Millisecond)+2)
		asked := fine(func(x *timer.Timer) {
			x.Interval = time.Duration(rapid.OneOf(ms, rapid.Int64Range(0, 300)).Draw(t, "interval")) * time.Millisecond
			x.RepeatFor = time.Duration(rapid.OneOf(ms, rapid.Just(int64(0))).Draw(t, "repeat for")) * time.Millisecond
		})
		if asked.Validate() != nil {
			return
		}
		pops := asked.Pops()
		if pops < 1 {
			t.Fatalf("%d pops", pops)
		}
		if last := time.Duration(pops) * asked.Interval; asked.RepeatFor > 0 && (last > asked.RepeatFor || last+asked.Interval <= asked.RepeatFor) {
			t.Fatalf("%d pops of interval %v, the last at %v, for %v", pops, asked.Interval, last, asked.RepeatFor)
		}
	})
}
