package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// The timing of a body, from the text to the pops.
func TestTimingOfBodies(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for timing, want := range map[string]struct {
		interval, repeatFor time.Duration
		pops                int
	}{
		`"interval":0`:                       {0, 0, 1},
		`"interval":-0`:                      {0, 0, 1},
		`"interval":-0.0E-0,"repeat-for":-0`: {0, 0, 1},
		`"interval":30`:                      {30 * time.Second, 0, 1},
		`"interval":30,"repeat-for":0`:       {30 * time.Second, 0, 1},
		`"interval":0.25`:                    {250 * time.Millisecond, 0, 1},
		`"interval":1e-3`:                    {time.Millisecond, 0, 1},
		`"interval":1E2`:                     {100 * time.Second, 0, 1},
		`"interval":1e+2`:                    {100 * time.Second, 0, 1},
		`"interval":0.0001`:                  {time.Millisecond, 0, 1},
		`"interval":1e-400`:                  {time.Millisecond, 0, 1},
		`"interval":1.001`:                   {1001 * time.Millisecond, 0, 1},
		`"interval":1.0010000000000000000000000000000001`:   {1002 * time.Millisecond, 0, 1},
		`"interval":3153600000`:                             {100 * year, 0, 1},
		`"interval":0.1,"repeat-for":0.3`:                   {100 * time.Millisecond, 300 * time.Millisecond, 3},
		`"interval":0.1,"repeat-for":0.7`:                   {100 * time.Millisecond, 700 * time.Millisecond, 7},
		`"interval":0.7,"repeat-for":4.9`:                   {700 * time.Millisecond, 4900 * time.Millisecond, 7},
		`"interval":1.1,"repeat-for":3.3`:                   {1100 * time.Millisecond, 3300 * time.Millisecond, 3},
		`"interval":4.35,"repeat-for":435`:                  {4350 * time.Millisecond, 435 * time.Second, 100},
		`"interval":0.29,"repeat-for":29e0`:                 {290 * time.Millisecond, 29 * time.Second, 100},
		`"interval":5,"repeat-for":5`:                       {5 * time.Second, 5 * time.Second, 1},
		`"interval":5,"repeat-for":9.999`:                   {5 * time.Second, 9999 * time.Millisecond, 1},
		`"interval":0.09991,"repeat-for":1`:                 {100 * time.Millisecond, time.Second, 10},
		`"interval":0.3,"repeat-for":0.2991`:                {300 * time.Millisecond, 300 * time.Millisecond, 1},
		`"interval":0.1,"repeat-for":3153600000`:            {100 * time.Millisecond, 100 * year, 31536000000},
		`"interval":3153600000,"repeat-for":3153600000.000`: {100 * year, 100 * year, 1},
	} {
		t.Run(timing, func(t *testing.T) {
			asked, _, err := understand(apitest.WithCallback(`"timing":{` + timing + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if asked.Interval != want.interval || asked.RepeatFor != want.repeatFor || asked.Pops() != want.pops {
				t.Errorf("have %v for %v, %d pops; want %v for %v, %d", asked.Interval, asked.RepeatFor, asked.Pops(), want.interval, want.repeatFor, want.pops)
			}
		})
	}
}

// The optional members of a callback, and expires-after.
func TestMembersOfBodies(t *testing.T) {
	for members, want := range map[string]timer.Callback{
		`"method":"PUT"`: {Method: "PUT"},
		`"method":null,"headers":null,"timeout":null,"retry":null`: {},
		`"headers":{}`:                      {},
		`"headers":{"X-B":"b: c","x-a":""}`: {Headers: "\r\nX-B: b: c\r\nx-a: "},
		`"headers":{"X-\u0041":"\u0041"}`:   {Headers: "\r\nX-A: A"},
		`"timeout":0.1`:                     {Timeout: 100 * time.Millisecond},
		`"timeout":29.9999`:                 {Timeout: 30 * time.Second},
		`"retry":{}`:                        {},
		`"retry":{"attempts":8,"first":0.1,"factor":1.0001,"longest":86400}`:  {Retry: timer.Retry{Attempts: 8, First: 100 * time.Millisecond, Factor: 1.001, Longest: 24 * time.Hour}},
		`"retry":{"attempts":null,"first":null,"factor":null,"longest":null}`: {},
		`"retry":{"attempts":1e2,"factor":10}`:                                {Retry: timer.Retry{Attempts: 100, Factor: 10}},
	} {
		t.Run(members, func(t *testing.T) {
			want.URI = "http://a/b"
			asked, ignored, err := understand(apitest.WithHTTP(`"uri":"http://a/b",` + members))
			if err != nil || len(ignored) > 0 || asked.Callback != want {
				t.Errorf("have %+v, %v, %v; want %+v", asked.Callback, ignored, err, want)
			}
		})
	}
	asked, _, err := understand(apitest.WithCallback(`"timing":{"interval":1,"expires-after":300.0001}`))
	if err != nil || asked.ExpiresAfter != 300001*time.Millisecond {
		t.Errorf("expires-after: have %v, %v", asked.ExpiresAfter, err)
	}
}

// Members that Timer.Validate refuses; refusals has the members that Decode refuses.
func TestMembersOfBodiesAreRefused(t *testing.T) {
	const http = "/callback/http/"
	for members, want := range map[string][2]string{
		`"method":"HEAD"`:             {"method-unknown", http + "method"},
		`"method":"GET","opaque":"x"`: {"opaque-of-get", http + "opaque"},
		`"timeout":30.001`:            {"timeout-range", http + "timeout"},
		`"retry":{"first":0.05}`:      {"retry-range", http + "retry/first"},
		`"retry":{"factor":0.5}`:      {"retry-range", http + "retry/factor"},
		`"retry":{"longest":86401}`:   {"retry-range", http + "retry/longest"},
	} {
		t.Run(members, func(t *testing.T) {
			_, _, err := understand(apitest.WithHTTP(`"uri":"http://a/b",` + members))
			if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != want[0] || refused.Pointer != want[1] {
				t.Errorf("have %v, want %v", err, want)
			}
		})
	}
	_, _, err := understand(apitest.WithCallback(`"timing":{"interval":1,"expires-after":0.9}`))
	if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != "expires-range" || refused.Pointer != "/timing/expires-after" {
		t.Errorf("expires-after: have %v", err)
	}
}

func TestTimingOfBodiesIsRefused(t *testing.T) {
	const interval, repeat = "/timing/interval", "/timing/repeat-for"
	nines := strings.Repeat("9", 100)
	for timing, want := range map[string][2]string{
		`"interval":1e400`:                           {"interval-too-long", interval},
		`"interval":` + nines:                        {"interval-too-long", interval},
		`"interval":3153600000.0000000000000000001`:  {"interval-too-long", interval},
		`"interval":-1e-400`:                         {"interval-negative", interval},
		`"interval":-` + nines:                       {"interval-negative", interval},
		`"interval":1,"repeat-for":1e400`:            {"repeat-for-too-long", repeat},
		`"interval":1,"repeat-for":3153600000.001`:   {"repeat-for-too-long", repeat},
		`"interval":1,"repeat-for":-0.001`:           {"repeat-for-negative", repeat},
		`"interval":1,"repeat-for":1e-400`:           {"repeat-for-short", repeat},
		`"interval":0.3001,"repeat-for":0.3`:         {"repeat-for-short", repeat},
		`"interval":0,"repeat-for":1e-400`:           {"interval-zero", interval},
		`"interval":0.099,"repeat-for":0.099`:        {"interval-too-short", interval},
		`"interval":1e-400,"repeat-for":1`:           {"interval-too-short", interval},
		`"repeat-for":1,"at":"1999-01-31T12:00:00Z"`: {"at-and-repeat-for", repeat},
		`"at":"1999-01-31T12:00:00Z","interval":0`:   {"at-and-interval", "/timing"},
		``: {"interval-missing", interval},
	} {
		t.Run(timing[:min(len(timing), 50)], func(t *testing.T) {
			_, _, err := understand(apitest.WithCallback(`"timing":{` + timing + `}`))
			if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != want[0] || refused.Pointer != want[1] {
				t.Errorf("have %v, want %v", err, want)
			}
		})
	}
}

// Numbers cost time in proportion to their text, not to their value.
func TestNumbersAreCheap(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	for _, number := range []string{"1e-999999999", "1e999999999", "0e999999999", "-1e-999999999", "1e-" + long, "1e" + long, long, "0." + long, long + "e-" + long} {
		text := []byte(number)
		if n := testing.AllocsPerRun(10, func() {
			if value, _, err := scaleDecimal(text, 3); err == nil && value > 7778 {
				t.Errorf("%.20s… becomes %d", number, value)
			}
		}); n > 0 {
			t.Errorf("%.20s… makes %v allocations", number, n)
		}
	}
}

func TestSyntaxErrorsSayWhere(t *testing.T) {
	for body, want := range map[string]string{
		`{`:                                  "ends too early",
		`{"timing`:                           "ends too early",
		`{"timing":{"interval":1`:            "ends too early",
		`{"a":tru`:                           "ends too early",
		`{x:{}}`:                             "at byte 2;",
		`{"a" 1}`:                            "at byte 6;",
		`{"a":1 "b":2}`:                      "at byte 8;",
		`{"a":1,}`:                           "at byte 7;",
		"{\"a\":\"\x01\"}":                   "at byte 7;",
		`{"a":"\x"}`:                         "at byte 7;",
		`{"a":01}`:                           "at byte 7;",
		`{"a":NaN}`:                          "at byte 6;",
		`{"é":"漢字",x}`:                       "at byte 16;",
		`{"a":[1,{"b":nul}]}`:                "at byte 17;",
		"{\"a\":\"\xff\"}":                   "at byte 7,",
		`{"a":"x\ud800"}`:                    "at byte 8,",
		apitest.WithHTTP(`"uri":"a"`) + " x": "at byte 59;",
		"\n" + apitest.WithHTTP(`"uri":"a"`) + "]": "at byte 59;",
	} {
		t.Run(body, func(t *testing.T) {
			_, _, err := decode([]byte(body))
			refused, ok := errors.AsType[*timer.InvalidError](err)
			if !ok || !strings.Contains(refused.Detail, want) {
				t.Errorf("have %v, want one %q", err, want)
			}
		})
	}
}

// An error names its place in the whole body.
func TestBatchSaysWhere(t *testing.T) {
	before := `{"a":"é","timers" : [` + apitest.Due(1) + " ,\n"
	place := func(skip int) string { return "at byte " + strconv.Itoa(len(before)+skip+1) }
	for entry, skip := range map[string]int{"{\"a\":\"\xff\"}": 6, `{"a":["\ud800"]}`: 7, "{\"x\xff\":1}": 3} {
		b, err := DecodeBatch([]byte(before+entry+"]}"), "", Lenient)
		if err != nil {
			t.Fatal(err)
		}
		if have := b.Entries[1].Err; have == nil || !strings.Contains(have.Error(), place(skip)) {
			t.Errorf("entry %q: have %v, want %s", entry, have, place(skip))
		}
	}
	for rest, skip := range map[string]int{
		`{"a":nul}]}`: 8, "\xff]}": 0, `{"a":"\x"}]}`: 6, `1]}}`: 3, `1 2]}`: 2, "1],\"b\":[\"\xff\"]}": 9, "1],\"b\xff\":1}": 5,
		apitest.Nest(maxParserDepth) + "]}": maxParserDepth - 2,
	} {
		_, err := DecodeBatch([]byte(before+rest), "", Lenient)
		if err == nil || !strings.Contains(err.Error(), place(skip)) {
			t.Errorf("%.20s: have %v, want %s", rest, err, place(skip))
		}
	}
}

// An opaque is sent unchanged, so decoding must not change the opaque: every character, and as long
// as a body may be.
func TestOpaqueIsUnchanged(t *testing.T) {
	var all strings.Builder
	for r := range rune(0x30000) {
		if r < 0xd800 || r > 0xdfff {
			all.WriteRune(r)
		}
	}
	want := all.String()
	w := strings.Builder{}
	for _, r := range want {
		if r < ' ' || r == '"' || r == '\\' {
			w.WriteString(`\u00`)
			w.WriteByte("0123456789abcdef"[r>>4])
			w.WriteByte("0123456789ABCDEF"[r&15])
			continue
		}
		w.WriteRune(r)
	}
	asked, _, err := decode([]byte(apitest.WithHTTP(`"uri":"http://a/b","opaque":"` + w.String() + `"`)))
	if err != nil {
		t.Fatal(err)
	}
	if asked.Callback.Opaque != want {
		t.Errorf("%d bytes became %d others", len(want), len(asked.Callback.Opaque))
	}
}

// A client of Metaswitch's Chronos sends only the mandatory members, or all members, or the members
// that nodes of Metaswitch's Chronos sent each other.
func TestBodiesOfTheTimerServiceAPI(t *testing.T) {
	callback := timer.Callback{URI: "http://10.0.0.1:9888/timers", Opaque: "b3BhcXVl"}
	for name, tc := range map[string]struct {
		body    string
		timer   timer.Timer
		ignored []string
	}{
		"mandatory": {
			body:  `{"timing":{"interval":300},"callback":{"http":{"uri":"http://10.0.0.1:9888/timers","opaque":"b3BhcXVl"}}}`,
			timer: timer.Timer{Interval: 300 * time.Second, ReplicationFactor: timer.DefaultReplicationFactor, Callback: callback},
		},
		"all": {
			body: `{"timing":{"interval":100,"repeat-for":200},"callback":{"http":{"uri":"http://10.0.0.1:9888/timers","opaque":"b3BhcXVl"}},
				"reliability":{"replication-factor":3},"statistics":{"tag-info":[{"type":"TAG 1","count":1},{"type":"TAG 2","count":7},{"type":"TAG 3"}]}}`,
			timer: timer.Timer{
				Interval: 100 * time.Second, RepeatFor: 200 * time.Second, ReplicationFactor: 3, Callback: callback,
				Tags: []timer.Tag{{Type: "TAG 1", Count: 1}, {Type: "TAG 2", Count: 7}, {Type: "TAG 3", Count: 1}},
			},
		},
		"internal": {
			body: `{"timing":{"interval":100,"repeat-for":200,"start-time-delta":-235,"sequence-number":3},"callback":{"http":{"uri":"http://10.0.0.1:9888/timers","opaque":"b3BhcXVl"}},
				"reliability":{"cluster-view-id":"17","replicas":["10.0.0.1:7253","10.0.0.2:7253"],"sites":["one"]}}`,
			timer:   timer.Timer{Interval: 100 * time.Second, RepeatFor: 200 * time.Second, ReplicationFactor: timer.DefaultReplicationFactor, Callback: callback},
			ignored: []string{"/timing/start-time-delta", "/timing/sequence-number", "/reliability/cluster-view-id", "/reliability/replicas", "/reliability/sites"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ignored, err := understand(tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.timer, asked); diff != "" {
				t.Errorf("timer (-want +have):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ignored, ignored); diff != "" {
				t.Errorf("ignored (-want +have):\n%s", diff)
			}
		})
	}
}
