package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

var exported = cmp.AllowUnexported(Record{})

// String writes a record as the scripts do.
func (r Record) String() string {
	var b strings.Builder
	b.Write(appendState(nil, r.State))
	fmt.Fprintf(&b, " %02d %02d %013d %+015d", r.Rank, r.RF, r.intervalMs, r.startMs)
	word := func(name, value string) {
		if value != "" {
			b.WriteString(" " + name + "=" + value)
		}
	}
	if r.firingUntilMs > 0 {
		word("mark", strconv.FormatInt(r.firingUntilMs, 10))
	}
	if r.failure.Node != "" {
		word("failure", string(appendFailure(nil, r.failure)))
	}
	if r.leftOut > 0 {
		word("left", strconv.Itoa(r.leftOut))
	}
	word("tags", formatTags(r.tags))
	if r.bodyHash != "" {
		word("hash", Escape(r.bodyHash))
	}
	if len(r.away) > 0 {
		word("away", string(appendAway(nil, r.away)))
	}
	if r.site != "" {
		word("site", Escape(r.site))
	}
	if r.body != "" {
		b.WriteString(" " + r.body)
	}
	return b.String()
}

// full has a value in every field.
func full() Record {
	return Record{
		State: timer.State{Version: 0x019b76679000beef, Seq: 7, Attempt: 2}, Rank: 1, RF: 3, site: "north hall", away: []store.Away{{Shard: "c"}, {Shard: "d.1", Rank: 2}},
		startMs: 1767225600000, intervalMs: 1500, firingUntilMs: 1767225612345, leftOut: 12,
		failure: store.Failure{Node: "node-1", At: time.UnixMilli(1767225611000).UTC(), Reason: "status 503"}, bodyHash: "0af1",
		tags: []timer.Tag{{Type: "call", Count: 1}, {Type: "a=b, c", Count: 40}},
		body: `{"uri":"http://localhost:8080/pop","opaque":"a b","repeat_for_ms":60000}`,
	}
}

// All nodes, scripts and people at redis-cli read the text of a record. The text doesn't change from one release to
// the next.
func TestRecordText(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  Record
		text string
	}{
		{"every field", full(), `1L 019b76679000beef 00000000007 002 01 03 0000000001500 +01767225600000 mark=1767225612345 ` +
			`failure=node-1:1767225611000:status%20503 left=12 tags=call=1,a%3Db%2C%20c=40 hash=0af1 away=c:0,d.1:2 site=north%20hall ` +
			`{"uri":"http://localhost:8080/pop","opaque":"a b","repeat_for_ms":60000}`},
		{"fresh", Record{State: timer.State{Version: 1, Seq: 1}, RF: 2, startMs: 1, intervalMs: 2, body: `{"uri":"http://h"}`},
			`1L 0000000000000001 00000000001 000 00 02 0000000000002 +00000000000001 {"uri":"http://h"}`},
		{"tombstone", Record{State: timer.State{Version: 1, Ended: true}, RF: 1}, `1T 0000000000000001 00000000000 000 00 01 0000000000000 +00000000000000`},
		{"tombstone with a hash", Record{State: timer.State{Version: 1, Seq: 3, Ended: true}, RF: 1, bodyHash: "9f86d081"},
			`1T 0000000000000001 00000000003 000 00 01 0000000000000 +00000000000000 hash=9f86d081`},
		{"start before 1970", Record{State: timer.State{Version: 1, Seq: 1}, RF: 1, startMs: -3155760000000, body: "{}"},
			`1L 0000000000000001 00000000001 000 00 01 0000000000000 -03155760000000 {}`},
		{"largest numbers", Record{
			State: timer.State{Version: math.MaxUint64, Seq: 99999999999, Attempt: 999}, Rank: 99, RF: 99,
			startMs: -99999999999999, intervalMs: 9999999999999, firingUntilMs: math.MaxInt64, tags: []timer.Tag{{Type: "t", Count: math.MaxInt64}}, body: "{}",
		}, `1L ffffffffffffffff 99999999999 999 99 99 9999999999999 -99999999999999 mark=9223372036854775807 tags=t=9223372036854775807 {}`},
		{"texts that look empty", Record{State: timer.State{Version: 1, Seq: 1}, RF: 1, site: "-", failure: store.Failure{Node: "n", At: time.UnixMilli(-1).UTC(), Reason: "-"},
			tags: []timer.Tag{{Type: "-", Count: 1}}, bodyHash: "-", body: "{}"},
			`1L 0000000000000001 00000000001 000 00 01 0000000000000 +00000000000000 failure=n:-1:%2D tags=%2D=1 hash=%2D site=%2D {}`},
		{"texts that would break the header", Record{State: timer.State{Version: 1, Seq: 1}, RF: 1, site: "a b\n%+é\x00\xff",
			failure: store.Failure{Node: "n", At: time.UnixMilli(0).UTC(), Reason: ": "}, tags: []timer.Tag{{Type: "{\"", Count: 1}, {Type: ",=", Count: 2}}, body: "{}"},
			`1L 0000000000000001 00000000001 000 00 01 0000000000000 +00000000000000 failure=n:0:%3A%20 tags=%7B%22=1,%2C%3D=2 ` +
				`site=a%20b%0A%25%2B%C3%A9%00%FF {}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rec.String(); got != c.text {
				t.Errorf("written\n%s, want\n%s", got, c.text)
			}
			got, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.rec, got, exported); diff != "" {
				t.Errorf("parsed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ %+,=\-{}]{0,5}`))
	number, instant := rapid.Int64Range(-99_999_999_999_999, 9_999_999_999_999), rapid.Int64Range(0, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		want := Record{
			State: timer.State{
				Version: timer.Version(rapid.Uint64().Draw(t, "version")), Seq: rapid.IntRange(0, 99_999_999_999).Draw(t, "seq"), Attempt: rapid.IntRange(0, 999).Draw(t, "attempt"),
			},
			Rank: rapid.IntRange(0, 99).Draw(t, "rank"), RF: rapid.IntRange(0, 99).Draw(t, "rf"), site: text.Draw(t, "site"),
			startMs: number.Draw(t, "start"), intervalMs: max(number.Draw(t, "interval"), 0), firingUntilMs: instant.Draw(t, "firing"),
			leftOut:  rapid.IntRange(0, math.MaxInt).Draw(t, "left out"),
			bodyHash: text.Draw(t, "body hash"), body: rapid.SampledFrom([]string{"", `{"uri":"x y"}`, "{"}).Draw(t, "body"),
		}
		if node := rapid.StringMatching(`[0-9a-f-]{0,9}`).Draw(t, "node"); node != "" {
			want.failure = store.Failure{
				Node: node, At: time.UnixMilli(rapid.Int64Range(-1<<40, 1<<50).Draw(t, "at")).UTC(), Reason: text.Draw(t, "reason"),
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "copies away") {
			want.away = append(want.away, store.Away{
				Shard: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,9}`).Draw(t, "shard"), Rank: rapid.IntRange(0, 255).Draw(t, "away rank"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "tags") {
			want.tags = append(want.tags, timer.Tag{Type: text.Filter(func(s string) bool { return s != "" }).Draw(t, "type"), Count: rapid.IntRange(1, math.MaxInt).Draw(t, "count")})
		}
		want.State.Ended = want.body == ""
		got, err := Parse(want.String())
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if diff := cmp.Diff(want, got, exported); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", want, diff)
		}
	})
}

func TestMalformedRecords(t *testing.T) {
	const good = `1L 0000000000000001 00000000001 000 00 02 0000000000002 +00000000000001 {}`
	if _, err := Parse(good); err != nil {
		t.Fatal(err)
	}
	with := func(old, broken string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the record has no %q", old)
		}
		return strings.Replace(good, old, broken, 1)
	}
	word := func(text string) string { return with(" {}", " "+text+" {}") }
	for name, text := range map[string]string{
		"empty":            "",
		"one word":         "x",
		"a head too short": good[:headWidth-1],
		"of no format":     with("1L", "xL"),

		"neither live nor ended":    with("1L", "1X"),
		"live, and nothing to call": with(" {}", ""),
		"ended, and something":      with("1L", "1T"),
		"version short":             with("0000000000000001", "001"),
		"version in upper case":     with("0000000000000001", "000000000000000A"),
		"version with a space":      with("0000000000000001", " 000000000000001"),
		"sequence no number":        with("00000000001", "0000000000x"),
		"sequence negative":         with("00000000001", "-0000000001"),
		"sequence with a sign":      with("00000000001", "+0000000001"),
		"sequence hexadecimal":      with("00000000001", "0x000000001"),
		"sequence too wide":         with("00000000001", "000000000001"),
		"attempt fractional":        with(" 000 ", " 0.5 "),
		"attempt in e notation":     with(" 000 ", " 1e3 "),
		"rank with a space":         with(" 00 ", "  0 "),
		"start without a sign":      with("+00000000000001", "000000000000001"),
		"interval infinite":         with("0000000000002", "          inf"),
		"two spaces":                with(" {}", "  {}"),
		"no space before a word":    with(" {}", "mark=1 {}"),
		"a word that is not known":  word("marks=1"),
		"a word without a value":    word("mark="),
		"a word without a name":     word("=1"),
		"mark negative":             word("mark=-1"),
		"mark no number":            word("mark=nan"),
		"hash badly encoded":        word("hash=%zz"),
		"site badly encoded":        word("site=%zz"),
		"away without rank":         word("away=b"),
		"away without shard":        word("away=:1"),
		"away ends early":           word("away=b:1,"),
		"away of rank -1":           word("away=b:-1"),
		"away of rank 256":          word("away=b:256"),
		"tag without count":         word("tags=a"),
		"tag without type":          word("tags==1"),
		"tag with count 0":          word("tags=a=0"),
		"tag negative":              word("tags=a=-1"),
		"tag list ends early":       word("tags=a=1,"),
		"tag type badly coded":      word("tags=%=1"),
		"failure is a node":         word("failure=node"),
		"failure of nobody":         word("failure=:1:why"),
		"failure at no time":        word("failure=node:x:why"),
		"failure badly encoded":     word("failure=node:1:%zz"),
		"tab instead of space":      strings.ReplaceAll(full().String(), " ", "\t"),
		"binary":                    "\x00\xff\xfe",
	} {
		if got, err := Parse(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: parses to %+v with error %v", name, got, err)
		}
	}
}

// An error names the word and doesn't repeat the value, which may be a client's secret.
func TestRecordErrorsKeepSecrets(t *testing.T) {
	text := strings.Replace(full().String(), "status%20503", "%s3cret", 1)
	_, err := Parse(text)
	if err == nil || !strings.Contains(err.Error(), "failure") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v, want one that names the word alone", err)
	}
	broken := full()
	broken.body = `{"uri":"s3cret`
	if _, err := broken.timer(); !errors.Is(err, ErrMalformed) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error of a cut specification: %v", err)
	}
}

func TestSpecification(t *testing.T) {
	for _, c := range []struct {
		name  string
		timer timer.Timer
		json  string
	}{
		{"defaults are left out", timer.Timer{Interval: time.Second, Callback: timer.Callback{URI: "http://h"}}, `{"uri":"http://h"}`},
		{"recurring", timer.Timer{Interval: time.Second, RepeatFor: time.Minute, Callback: timer.Callback{URI: "http://h", Opaque: "o"}},
			`{"uri":"http://h","opaque":"o","repeat_for_ms":60000}`},
		{"at", timer.Timer{At: time.UnixMilli(1767225600001).UTC(), Callback: timer.Callback{URI: "http://h"}}, `{"uri":"http://h","at_ms":1767225600001}`},
		{"at 1970", timer.Timer{At: time.UnixMilli(0).UTC(), Callback: timer.Callback{URI: "http://h"}}, `{"uri":"http://h","at_ms":0}`},
		{"before 1970", timer.Timer{At: time.UnixMilli(-1).UTC(), Callback: timer.Callback{URI: "http://h"}}, `{"uri":"http://h","at_ms":-1}`},
		{"readable", timer.Timer{Callback: timer.Callback{URI: "http://h/?a=1&b=<2>", Opaque: "line\nend \"é\" \x00"}},
			`{"uri":"http://h/?a=1&b=<2>","opaque":"line\nend \"é\" \u0000"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := appendSpecification(nil, &c.timer)
			if err != nil {
				t.Fatal(err)
			}
			if string(body) != c.json {
				t.Errorf("written %s, want %s", body, c.json)
			}
			got, err := Record{intervalMs: c.timer.Interval.Milliseconds(), RF: 2, body: string(body)}.timer()
			if err != nil {
				t.Fatal(err)
			}
			c.timer.ReplicationFactor = 2
			if diff := cmp.Diff(c.timer, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScheduled(t *testing.T) {
	got, err := full().Scheduled("key")
	if err != nil {
		t.Fatal(err)
	}
	want := store.Record{
		ID: timer.ID{Key: "key", RF: 3}, State: timer.State{Version: 0x019b76679000beef, Seq: 7, Attempt: 2}, Rank: 1,
		Site: "north hall", Start: time.UnixMilli(1767225600000).UTC(),
		Failure: store.Failure{Node: "node-1", At: time.UnixMilli(1767225611000).UTC(), Reason: "status 503"}, LeftOut: 12, BodyHash: "0af1",
		Away: []store.Away{{Shard: "c"}, {Shard: "d.1", Rank: 2}},
		Timer: timer.Timer{
			Interval: 1500 * time.Millisecond, RepeatFor: time.Minute, ReplicationFactor: 3,
			Callback: timer.Callback{URI: "http://localhost:8080/pop", Opaque: "a b"},
			Tags:     []timer.Tag{{Type: "call", Count: 1}, {Type: "a=b, c", Count: 40}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if due := full().DueMs(); due != 1767225600000+7*1500 {
		t.Errorf("due at %d", due)
	}
	tombstone := full()
	tombstone.State.Ended, tombstone.body = true, "hash"
	if got, err = tombstone.Scheduled("key"); err != nil || !got.State.Ended || got.Timer.Callback.URI != "" {
		t.Errorf("a tombstone is scheduled as %+v, %v", got, err)
	}
}

func TestConversions(t *testing.T) {
	const longest = time.Duration(math.MaxInt64 / 1_000_000 * 1_000_000)
	for _, c := range []struct {
		ms   int64
		want time.Duration
	}{
		{0, 0}, {1, time.Millisecond}, {-1, -time.Millisecond}, {3_155_760_000_000, 3_155_760_000 * time.Second},
		{math.MaxInt64, longest}, {math.MinInt64, -longest}, {math.MaxInt64 / 1_000_000, longest}, {math.MaxInt64/1_000_000 + 1, longest},
	} {
		if got := Milliseconds(c.ms); got != c.want {
			t.Errorf("%d ms is %d ns, want %d", c.ms, got, c.want)
		}
	}
	for _, c := range []struct {
		d    time.Duration
		want int64
	}{
		{0, 0}, {1, 1}, {time.Millisecond, 1}, {time.Millisecond + 1, 2}, {time.Second - 1, 1000},
		{timer.MaxInterval, int64(timer.MaxInterval / time.Millisecond)},
	} {
		if got := WholeMs(c.d); got != c.want {
			t.Errorf("%v is %d whole ms, want %d", c.d, got, c.want)
		}
	}
}

func TestUntil(t *testing.T) {
	const nowUs, longest = 1_790_000_000_000_300, time.Duration(math.MaxInt64 / 1000 * 1000)
	for _, c := range []struct {
		ms   int64
		want time.Duration
	}{
		{1_790_000_000_000, -300 * time.Microsecond}, {1_790_000_000_001, 700 * time.Microsecond},
		{1_790_000_000_000 + 3_155_760_000_000, 3_155_760_000*time.Second - 300*time.Microsecond},
		{-62_135_596_800_000, -longest}, {253_402_300_799_999, longest}, {math.MinInt64, -longest}, {math.MaxInt64, longest},
	} {
		if got := Until(c.ms, nowUs); got != c.want {
			t.Errorf("until %d ms it is %v, want %v", c.ms, got, c.want)
		}
	}
}

// headPattern is a head with a 0 for every digit.
const headPattern = "1L 0000000000000000 00000000000 000 00 00 0000000000000 +00000000000000"

func FuzzRecord(f *testing.F) {
	tombstone := full()
	tombstone.State.Ended, tombstone.body = true, ""
	for _, text := range []string{
		full().String(), tombstone.String(), "", "1L", full().String()[:headWidth], headPattern, headPattern + " {", headPattern + "  {}",
		headPattern + " mark=1 mark=2 tags=a=1,%2D=2 {", "1T" + headPattern[2:] + " away=a:1 =", "1T" + headPattern[2:] + " hash=% {}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of %q is %v", text, err)
			}
			return
		}
		again, err := Parse(rec.String())
		if err != nil {
			t.Fatalf("%q parses, but not what it is written as, %q: %v", text, rec, err)
		}
		if diff := cmp.Diff(rec, again, exported); diff != "" {
			t.Fatalf("%q is written %q, which parses to something else:\n%s", text, rec, diff)
		}
		if again.String() != rec.String() {
			t.Fatalf("%q is written %q and then %q", text, rec, again)
		}
		if _, err := rec.Scheduled("key"); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("error of the specification of %q is %v", text, err)
		}
		_ = rec.DueMs()
	})
}

// A specification read without the JSON library is the same as a specification read with the library.
func FuzzPlainSpecification(f *testing.F) {
	for _, body := range []string{
		`{"uri":"http://h"}`, `{"uri":"http://h","opaque":"o"}`, `{"uri":"a","opaque":"\n"}`, `{"uri":"é","opaque":""}`,
		`{"uri":"a","at_ms":1}`, `{"uri":"a","repeat_for_ms":10,"at_ms":-1}`, `{"uri":"a","at_ms":-0}`, `{"uri":"a","at_ms":01}`, `{"uri":"a"} `, `{"uri":"a\","opaque":"b"}`, `{"uri":"` + "\x01\xff" + `"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, plain := plainSpecification(body)
		if !plain {
			return
		}
		var want specification
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q was read as plain, and is no JSON: %v", body, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(specification{})); diff != "" {
			t.Errorf("%q (-library +plain):\n%s", body, diff)
		}
	})
}

func TestWrittenSpecificationsArePlain(t *testing.T) {
	for _, opaque := range []string{"", "plain", "é ☃"} {
		asked := timer.Timer{
			Interval: time.Second, RepeatFor: time.Minute, At: time.UnixMilli(1), Callback: timer.Callback{URI: "http://h/p?q=1&r=<2>", Opaque: opaque},
		}
		body, err := appendSpecification(nil, &asked)
		if err != nil {
			t.Fatal(err)
		}
		if _, plain := plainSpecification(string(body)); !plain {
			t.Errorf("%s is left to the library", body)
		}
	}
}

const benchedRecord = "1L 01a1fbe0aefb231c 00000000001 000 00 02 0000000600000 +01795227168508 " +
	`{"uri":"http://127.0.0.1:9000/callbacks/abcdefghijklmnopqr","opaque":"` + "plain text of some length, as most have it" + `"}`

// A record as a claim reads the record.
func BenchmarkReadRecord(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		rec, err := Parse(benchedRecord)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := rec.Scheduled("key"); err != nil {
			b.Fatal(err)
		}
	}
}

// What a Redis holds is checked like a client's request: nothing in a record can end a line of a callback's
// head, or exceed the bounds.
func TestHostileSpecifications(t *testing.T) {
	parse := func(members string) (timer.Timer, error) {
		rec, err := Parse(`2L 0000000000000001 00000000001 000 00 02 0000000000002 +00000000000001 {"uri":"http://h",` + members + `}`)
		if err != nil {
			return timer.Timer{}, err
		}
		got, err := rec.Scheduled("k")
		return got.Timer, err
	}
	got, err := parse(`"method":"PUT","headers":{"X-A":"b","Cookie":"c"},"timeout_ms":100,"retry":{"attempts":1},"expires_after_ms":1000`)
	if err != nil || got.Callback.Headers != "\r\nX-A: b\r\nCookie: c" {
		t.Fatalf("a good one: %+v, %v", got.Callback, err)
	}
	many := `"headers":{"X":""`
	for i := range timer.MaxHeaders {
		many += fmt.Sprintf(`,"X-%d":""`, i)
	}
	for _, members := range []string{
		`"method":"GET / HTTP/1.1\r\nX: y"`, `"method":"get"`, `"method":1`, `"method":"GET","opaque":"body"`,
		`"headers":{"X":"a\r\n\r\nPOST /"}`, `"headers":{"X\r\nY":"a"}`, `"headers":{"":"a"}`, `"headers":{"Host":"a"}`, `"headers":{"X":"a","x":"b"}`,
		`"headers":{"X":1}`, `"headers":{"X":null}`, `"headers":{"X":{}}`, `"headers":[]`, `"headers":"X: a"`, many + "}",
		`"timeout_ms":-1`, `"timeout_ms":30001`, `"timeout_ms":1`, `"timeout_ms":9e18`, `"retry":{"attempts":-1}`, `"retry":{"attempts":101}`, `"retry":{"first_ms":1}`,
		`"retry":{"factor":1e308}`, `"retry":{"factor":0.1}`, `"retry":{"longest_ms":-5}`, `"expires_after_ms":-1500`, `"expires_after_ms":9223372036854775807`,
		`"repeat_for_ms":-1`,
	} {
		if got, err := parse(members); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", members, got.Callback, err)
		} else if strings.Contains(err.Error(), "POST") {
			t.Errorf("%s: the error repeats the record: %v", members, err)
		}
	}
}
