package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// details are the texts of all refusals that decode knows, digits replaced. Faults at the same
// place have at most two texts, however many bodies have such a fault. The texts therefore hold
// nothing of a body.
func details(t testing.TB) (known map[string]bool, mask func(string) string) {
	digits := regexp.MustCompile(`[0-9]+`)
	mask = func(detail string) string { return digits.ReplaceAllString(detail, "N") }
	known = map[string]bool{}
	ways := map[string]map[string]bool{}
	for name, tc := range refusals() {
		_, _, err := decode([]byte(tc[0]))
		refused, ok := errors.AsType[*timer.InvalidError](err)
		if !ok {
			t.Fatalf("%s: have %v, want an InvalidError", name, err)
		}
		detail, place := mask(refused.Detail), refused.Code+refused.Pointer
		if ways[place] == nil {
			ways[place] = map[string]bool{}
		}
		known[detail], ways[place][detail] = true, true
		if len(ways[place]) > 2 {
			t.Fatalf("%s is said in many ways: %q", place, detail)
		}
	}
	return known, mask
}

func FuzzDecode(f *testing.F) {
	for _, tc := range refusals() {
		if len(tc[0]) < 1000 {
			f.Add([]byte(tc[0]))
		}
	}
	f.Add([]byte(apitest.WithMore(`"reliability":{"replication-factor":3,"sites":[{"a":null}]},"statistics":{"tag-info":[{"type":"T","count":2},{"type":"U"}]}`)))
	f.Add([]byte(apitest.WithMore(`"~/é\ud83d\ude00":1,"statistics":{"tag-info":[{"x":0,"type":"T"}]}`)))
	f.Add([]byte(apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00.0001Z"}`)))
	f.Add([]byte(apitest.WithCallback(`"timing":{"interval":1e-3,"repeat-for":0.30}`)))
	f.Add([]byte(apitest.WithHTTP(`"uri":"http://a/b","method":"PUT","headers":{"X-A":"b","Cookie":"c"},"timeout":2.5,"retry":{"attempts":8,"first":0.1,"factor":1.5,"longest":9,"x":1}`)))
	f.Add([]byte(apitest.WithCallback(`"timing":{"interval":1,"expires-after":1e3}`)))
	pointer := regexp.MustCompile(`^$|^/timing(/interval|/repeat-for|/at|/expires-after)?$|^/callback(/http(/uri|/opaque|/method|/headers(/([^~/]|~0)+)?|/timeout|/retry(/attempts|/first|/factor|/longest)?)?)?$|^/reliability(/replication-factor)?$|^/statistics(/tag-info(/[0-9]+(/type|/count)?)?)?$`)
	known, mask := details(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		asked, ignored, err := decode(body)
		if string(body) != before {
			t.Fatal("the body was changed")
		}
		if err == nil {
			checkDecoded(t, body, asked, ignored)
			return
		}
		refused, ok := errors.AsType[*timer.InvalidError](err)
		if !ok {
			t.Fatalf("have %v, want an InvalidError", err)
		}
		if refused.Code == "" || !known[mask(refused.Detail)] || Printable(refused.Detail) != refused.Detail || !pointer.MatchString(refused.Pointer) {
			t.Fatalf("the refusal is not all ours: %+v", refused)
		}
		if strings.HasPrefix(refused.Code, "body-syntax") && json.Valid(body) {
			t.Fatalf("valid JSON is refused as malformed: %s", refused.Detail)
		}
	})
}

// checkDecoded compares with the result of encoding/json for body.
func checkDecoded(t *testing.T, body []byte, asked timer.Timer, ignored []string) {
	t.Helper()
	peer := readPeer(t, body)
	timing, http := peer.object("timing"), peer.object("callback").object("http")
	uri, _ := http["uri"].(string)
	opaque, _ := http["opaque"].(string)
	method, _ := http["method"].(string)
	if c := asked.Callback; c.URI != uri || c.Opaque != opaque || c.Method != method {
		t.Fatalf("callback: have %+v, want %q, %q and %q", c, uri, opaque, method)
	}
	retry, _ := http["retry"].(map[string]any)
	own := asked.Callback.Retry
	for _, number := range []struct {
		in    map[string]any
		name  string
		shift int64
		have  int64
	}{
		{timing, "expires-after", 3, asked.ExpiresAfter.Milliseconds()}, {http, "timeout", 3, asked.Callback.Timeout.Milliseconds()},
		{retry, "attempts", 0, int64(own.Attempts)}, {retry, "first", 3, own.First.Milliseconds()},
		{retry, "factor", 3, int64(math.Round(own.Factor * 1000))}, {retry, "longest", 3, own.Longest.Milliseconds()},
	} {
		if given, ok := number.in[number.name].(json.Number); !ok && number.have != 0 || ok && !agrees(t, given.String(), number.shift, number.have) {
			t.Fatalf("%s: have %d for %v", number.name, number.have, number.in[number.name])
		}
	}
	named, _ := http["headers"].(map[string]any)
	sent := 0
	for name, value := range asked.Callback.Headers.All() {
		if sent++; named[name] != value {
			t.Fatalf("header %q: have %q, want %v", name, value, named[name])
		}
	}
	if sent != len(named) {
		t.Fatalf("%d headers, want %d", sent, len(named))
	}
	for name, have := range map[string]time.Duration{"interval": asked.Interval, "repeat-for": asked.RepeatFor} {
		if number, ok := timing[name].(json.Number); !ok && have != 0 || ok && !agrees(t, number.String(), 3, have.Milliseconds()) {
			t.Fatalf("%s: have %v for %v", name, have, timing[name])
		}
		if have%time.Millisecond != 0 || have < 0 || have > timer.MaxInterval {
			t.Fatalf("%s: %v is out of range", name, have)
		}
	}
	if at, ok := timing["at"].(string); ok == asked.At.IsZero() || asked.At.Nanosecond()%1e6 != 0 {
		t.Fatalf("at: have %v for %q", asked.At, at)
	}
	if factor, ok := peer.object("reliability")["replication-factor"].(json.Number); !ok && asked.ReplicationFactor != 0 || ok && !agrees(t, factor.String(), 0, int64(asked.ReplicationFactor)) {
		t.Fatalf("replication-factor: have %d for %v", asked.ReplicationFactor, factor)
	}
	entries, _ := peer.object("statistics")["tag-info"].([]any)
	if len(entries) != len(asked.Tags) {
		t.Fatalf("tags: have %v, want %v", asked.Tags, entries)
	}
	for i, tag := range asked.Tags {
		entry, _ := entries[i].(map[string]any)
		count, ok := entry["count"].(json.Number)
		if tag.Type == "" || tag.Type != entry["type"] || !ok && tag.Count != 1 || ok && !agrees(t, count.String(), 0, int64(tag.Count)) {
			t.Fatalf("tag %d: have %v, want %v", i, tag, entry)
		}
	}
	if len(ignored) > maxIgnored {
		t.Fatalf("%d ignored members are listed", len(ignored))
	}
	for _, path := range ignored {
		if !utf8.ValidString(path) || !leads(peer, path) {
			t.Fatalf("%q points to nothing", path)
		}
	}
}

// object is a JSON object as encoding/json reads the object. encoding/json replaces text that can't
// be sent unchanged; decode must have refused such text.
type object map[string]any

func (o object) object(name string) object {
	if inner, ok := o[name].(object); ok {
		return inner
	}
	inner, _ := o[name].(map[string]any)
	return inner
}

func readPeer(t *testing.T, body []byte) (peer object) {
	t.Helper()
	if !utf8.Valid(body) {
		t.Fatal("what is not UTF-8 was accepted")
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err := decoder.Decode(&peer); err != nil || !json.Valid(body) {
		t.Fatalf("encoding/json refuses what was accepted: %v", err)
	}
	return peer
}

// leads reports whether a JSON pointer (RFC 6901) leads to a value in the object.
func leads(value any, pointer string) bool {
	for pointer != "" {
		step, ok := strings.CutPrefix(pointer, "/")
		if !ok {
			return false
		}
		step, pointer = step[:strings.IndexByte(step+"/", '/')], step[strings.IndexByte(step+"/", '/'):]
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch within := value.(type) {
		case object:
			value, ok = within[step]
		case map[string]any:
			value, ok = within[step]
		case []any:
			i, err := strconv.Atoi(step)
			if ok = err == nil && i < len(within); ok {
				value = within[i]
			}
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// agrees reports whether have is number·10^shift rounded up. Vast exponents are not checked, since
// math/big would make vast numbers.
func agrees(t interface{ Fatalf(string, ...any) }, number string, shift, have int64) bool {
	if vast(number) {
		return true
	}
	return ceilScaled(t, number, shift).Cmp(big.NewInt(have)) == 0
}

func vast(number string) bool {
	const manageable = 1000
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	n, err := strconv.Atoi(exponent)
	return exponent != "" && (err != nil || n > manageable || n < -manageable)
}

func FuzzScaleDecimal(f *testing.F) {
	for _, number := range []string{"0", "-0.0e7", "0.3", "1e-3", "1E+2", "-1", "1e400", "1e-999999999", "1e99999999999999999999", "0.0010001", "123456789012345678", strings.Repeat("9", 100), "0." + strings.Repeat("0", 100) + "1e101"} {
		f.Add(number, byte(3))
	}
	whole := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDigits), nil)
	f.Fuzz(func(t *testing.T, number string, by byte) {
		if !whole.MatchString(number) {
			return
		}
		shift := int64(by % 4)
		have, exact, err := scaleDecimal([]byte(number), shift)
		if have < 0 || err != nil && have != 0 {
			t.Fatalf("%s: have %d, %v", number, have, err)
		}
		if vast(number) {
			return
		}
		value, ok := new(big.Rat).SetString(fmt.Sprintf("%se%d", strings.ToLower(number), shift))
		if !ok { // the number has an exponent already
			value, _ = new(big.Rat).SetString(number)
			value.Mul(value, big.NewRat(int64([]int{1, 10, 100, 1000}[shift]), 1))
		}
		want := ceilScaled(t, number, shift)
		switch {
		case value.Sign() < 0:
			ok = errors.Is(err, errNegative)
		case errors.Is(err, errHuge):
			ok = want.Cmp(limit) >= 0
		default:
			ok = err == nil && want.Cmp(big.NewInt(have)) == 0 && exact == value.IsInt()
		}
		if !ok {
			t.Fatalf("%s·10^%d: have %d, %v, %v; want %s", number, shift, have, exact, err, want)
		}
	})
}

func FuzzParseInstant(f *testing.F) {
	for _, text := range []string{
		"2030-01-31T12:00:00.250Z", "2030-01-31t12:00:00z", "2016-12-31T23:59:60Z", "2016-12-31T15:59:60.5-08:00", "2030-01-31T12:00:60Z", "0000-01-01T00:00:00+23:59",
		"9999-12-31T23:59:59.9999999999-23:59", "2030-01-31T12:00:00,5Z", "2030-01-31T1:00:00Z", "2030-01-31T12:00:00+24:00", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2030-01-31 12:00:00Z", "",
	} {
		f.Add(text)
	}
	grammar := regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	f.Fuzz(func(t *testing.T, text string) {
		have, ok := ParseInstant(text)
		peer, err := time.Parse(time.RFC3339, text)
		grammatical := grammar.MatchString(text)
		switch {
		case ok && !grammatical:
			t.Fatalf("%q is taken for %v, but is not RFC 3339", text, have)
		case !ok && grammatical && err == nil:
			t.Fatalf("%q is refused, but is %v", text, peer)
		case ok && err != nil && !strings.ContainsAny(text, "tz") && text[17:19] != "60":
			t.Fatalf("%q is taken for %v: %v", text, have, err)
		case ok && have.Nanosecond()%1e6 != 0, ok && have.Location() != time.UTC:
			t.Fatalf("%q becomes %v", text, have)
		case ok && err == nil && (have.Before(peer) || have.Sub(peer) > time.Millisecond):
			t.Fatalf("%q becomes %v, want %v rounded up", text, have, peer)
		case ok && err == nil && strings.TrimRight(fractionOf(text), "0") == "" && !have.Equal(peer):
			t.Fatalf("%q becomes %v, want %v", text, have, peer)
		}
	})
}

// fractionOf is the digits after the milliseconds.
func fractionOf(instant string) string {
	_, fraction, _ := strings.Cut(instant, ".")
	fraction = fraction[:len(fraction)-len(strings.TrimLeft(fraction, "0123456789"))]
	return fraction[min(3, len(fraction)):]
}
