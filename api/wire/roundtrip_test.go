package wire

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawRequest makes a valid body with all members that GET should show again.
func drawRequest(t *rapid.T) object {
	text := rapid.String()
	timing := object{}
	switch rapid.SampledFrom([]string{"one-shot", "recurring", "at"}).Draw(t, "kind") {
	case "one-shot":
		timing["interval"] = json.Number(rapid.StringMatching(`(0|[1-9][0-9]{0,7})(\.[0-9]{1,12})?([eE]-?[01])?`).Draw(t, "interval"))
	case "recurring":
		timing["interval"] = json.Number(rapid.StringMatching(`[1-9][0-9]{0,3}(\.[0-9]{1,6})?`).Draw(t, "interval"))
		timing["repeat-for"] = json.Number(rapid.StringMatching(`[1-9][0-9]{4,8}(\.[0-9]{1,6})?`).Draw(t, "repeat-for"))
	case "at":
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at"))
		timing["at"] = at.In(time.FixedZone("", 60*rapid.IntRange(-1439, 1439).Draw(t, "offset"))).Format(time.RFC3339Nano)
	}
	http := object{"uri": "http://host/" + rapid.StringMatching(`([a-z"<&é]|%[0-9a-fA-F]{2}){0,5}`).Draw(t, "path"), "opaque": text.Draw(t, "opaque")}
	if rapid.Bool().Draw(t, "more") {
		drawMore(t, timing, http)
	}
	request := object{
		"timing":      timing,
		"callback":    object{"http": http},
		"reliability": object{"replication-factor": json.Number(strconv.Itoa(rapid.IntRange(1, 16).Draw(t, "factor")))},
	}
	var tags []any
	for range rapid.IntRange(0, 3).Draw(t, "tags") {
		tags = append(tags, object{"type": "T" + text.Draw(t, "type"), "count": json.Number(strconv.Itoa(rapid.IntRange(1, 1<<31-1).Draw(t, "count")))})
	}
	if tags != nil {
		request["statistics"] = object{"tag-info": tags}
	}
	return request
}

// drawMore adds optional members.
func drawMore(t *rapid.T, timing, http object) {
	number := func(pattern, name string) json.Number {
		return json.Number(rapid.StringMatching(pattern).Draw(t, name))
	}
	const thousandths = `(\.[0-9]{0,2}[1-9])?`
	timing["expires-after"] = number(`[1-9][0-9]{0,5}`+thousandths, "expires")
	http["method"] = rapid.SampledFrom([]string{"POST", "PUT", "PATCH", "DELETE"}).Draw(t, "method")
	http["timeout"] = number(`(0\.[1-9]|[12]?[1-9]`+thousandths+`)`, "timeout")
	headers := object{}
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		headers[rapid.StringMatching(`[A-Z!#$%&'*+.^|~-][0-9]{1,4}`).Draw(t, "name")] = rapid.StringMatching(`([!-~]([ -~\t]*[!-~])?)?`).Draw(t, "value")
	}
	if len(headers) > 0 {
		http["headers"] = headers
	}
	http["retry"] = object{
		"attempts": json.Number(strconv.Itoa(rapid.IntRange(1, 100).Draw(t, "attempts"))), "first": number(`[1-9][0-9]{0,2}`+thousandths, "first"),
		"factor": number(`[1-9]`+thousandths, "growth"), "longest": number(`[1-9][0-9]{0,3}`+thousandths, "longest"),
	}
}

// GET shows the meaning of every valid request. A request made of GET's answer makes the same
// timer.
func TestRequestsRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		request := drawRequest(r)
		w := writer{t: r}
		w.value("", request)
		body := w.text.String()
		if !json.Valid([]byte(body)) {
			r.Fatalf("%s is no JSON", body)
		}
		made, ignored, err := understand(body)
		if err != nil {
			r.Fatalf("%s: %v", body, err)
		}
		if len(ignored) != min(len(w.unknown), maxIgnored) || !subset(ignored, w.unknown) {
			r.Fatalf("%s: ignored %q, want %q", body, ignored, w.unknown)
		}
		got := show(r, made)
		shown := readPeer(t, got)
		checkShown(r, request, shown)

		replaced, ignored, err := understand(string(got))
		if err != nil {
			r.Fatalf("%s: %v", got, err)
		}
		for member := range shown {
			_, asked := request[member]
			if slices.Contains(ignored, "/"+member) == asked {
				r.Fatalf("%s of what GET showed: ignored is %v", member, !asked)
			}
		}
		if diff := cmp.Diff(made, replaced); diff != "" {
			r.Fatalf("sent again it is another timer (-first +second):\n%s", diff)
		}
		if after := show(r, replaced); !bytes.Equal(got, after) {
			r.Fatalf("have %s, want %s", after, got)
		}
	})
}

// show is the answer to a GET of the timer.
func show(t *rapid.T, asked timer.Timer) []byte {
	found := store.ReadResult{
		Record: store.Record{ID: timer.ID{Key: "k", RF: asked.ReplicationFactor}, Timer: asked, State: timer.State{Version: 1, Seq: 1}},
		Due:    time.UnixMilli(1_900_000_000_000),
	}
	body, err := RenderTimer(&found)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func checkShown(t *rapid.T, request, shown object) {
	for _, member := range []string{"callback", "reliability", "statistics"} {
		if diff := cmp.Diff(plain(request[member]), shown[member]); diff != "" {
			t.Fatalf("%s (-want +have):\n%s", member, diff)
		}
	}
	want, have := request.object("timing"), shown.object("timing")
	if len(want) != len(have) {
		t.Fatalf("asked %v, shown %v", want, have)
	}
	for name, value := range want {
		switch value := value.(type) {
		case json.Number:
			ms := ceilScaled(t, value.String(), 3)
			number, _ := have[name].(json.Number)
			seconds, ok := new(big.Rat).SetString(number.String())
			if !ok || seconds.Cmp(new(big.Rat).SetFrac(ms, big.NewInt(1000))) != 0 {
				t.Fatalf("%s: asked %s, shown %v", name, value, have[name])
			}
		case string:
			was, _ := time.Parse(time.RFC3339, value)
			text, _ := have[name].(string)
			is, err := time.Parse(time.RFC3339, text)
			if err != nil || !is.Equal(was) {
				t.Fatalf("%s: asked %s, shown %v", name, value, have[name])
			}
		}
	}
}

// plain converts a drawn value to the value that encoding/json would read.
func plain(value any) any {
	switch value := value.(type) {
	case object:
		members := map[string]any{}
		for name, inner := range value {
			members[name] = plain(inner)
		}
		return members
	case []any:
		elements := make([]any, len(value))
		for i, inner := range value {
			elements[i] = plain(inner)
		}
		return elements
	}
	return value
}

// writer writes a value in one of the many ways in which JSON can say it, and adds unknown members.
type writer struct {
	t       *rapid.T
	text    strings.Builder
	unknown []string // JSON pointers to the unknown members
}

func (w *writer) space() {
	w.text.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t", "\r\n  "}).Draw(w.t, "space"))
}

func (w *writer) value(pointer string, value any) {
	w.space()
	defer w.space()
	switch value := value.(type) {
	case object:
		w.object(pointer, value)
	case []any:
		w.text.WriteByte('[')
		for i, element := range value {
			w.comma(i)
			w.value(pointer+"/"+strconv.Itoa(i), element)
		}
		w.text.WriteByte(']')
	case string:
		if pointer == "/timing/at" && rapid.Bool().Draw(w.t, "lower case") {
			value = strings.ToLower(value)
		}
		w.string(value)
	case json.Number:
		w.text.WriteString(respell(w.t, value.String()))
	}
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.text.WriteByte(',')
	}
}

func (w *writer) object(pointer string, members object) {
	var names []string
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	if pointer != "/callback" && pointer != "/callback/http/headers" { // a member there would be another kind, or a header
		names = append(names, rapid.SliceOfNDistinct(unknownName(), 0, 2, rapid.ID[string]).Draw(w.t, "unknown")...)
	}
	w.text.WriteByte('{')
	for i, name := range rapid.Permutation(names).Draw(w.t, "order") {
		w.comma(i)
		w.space()
		w.string(name)
		w.space()
		w.text.WriteByte(':')
		inner := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if member, ok := members[name]; ok {
			w.value(inner, member)
			continue
		}
		w.unknown = append(w.unknown, inner)
		w.text.WriteString(rapid.SampledFrom([]string{"null", "true", `"\u0000"`, "-0.5e-7", "1e999", "[[],{}]", `{"a":1,"a":[2,{"interval":null}]}`}).Draw(w.t, "value"))
	}
	w.text.WriteByte('}')
}

// unknownName makes names short enough to be listed.
func unknownName() *rapid.Generator[string] {
	internal := rapid.SampledFrom([]string{"replicas", "sites", "start-time-delta", "sequence-number", "cluster-view-id", "Timing", "id", "", "~1/"})
	return rapid.OneOf(internal, rapid.Map(rapid.StringN(0, 10, 40), func(s string) string { return "x" + s }))
}

func (w *writer) string(text string) {
	const short = `"\/bfnrt`
	w.text.WriteByte('"')
	for _, r := range text {
		style := rapid.IntRange(0, 3).Draw(w.t, "style")
		at := strings.IndexRune("\"\\/\b\f\n\r\t", r)
		switch {
		case at >= 0 && (style < 3 || r != '/'):
			w.text.WriteString(`\` + short[at:at+1])
		case r < ' ' || style == 0:
			w.escape(r)
		default:
			w.text.WriteRune(r)
		}
	}
	w.text.WriteByte('"')
}

// escape writes one \u or, beyond the basic plane, two.
func (w *writer) escape(r rune) {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		w.unit(high)
		r = low
	}
	w.unit(r)
}

func (w *writer) unit(unit rune) {
	digits := strconv.FormatInt(int64(unit)+0x10000, 16)[1:]
	if rapid.Bool().Draw(w.t, "upper case") {
		digits = strings.ToUpper(digits)
	}
	w.text.WriteString(`\u` + digits)
}

// respell writes a number that isn't negative in another way.
func respell(t *rapid.T, number string) string {
	mantissa, exponent := splitExponent([]byte(number))
	whole, fraction, _ := strings.Cut(string(mantissa), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return rapid.SampledFrom([]string{"0", "-0", "0.00", "-0e5", "0E-999999999"}).Draw(t, "zero")
	}
	exponent += int64(len(digits) - len(fraction)) // of 0.digits
	digits += strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros"))
	point := rapid.IntRange(-3, len(digits)).Draw(t, "point")
	exponent -= int64(point)
	text := digits
	switch {
	case point <= 0:
		text = "0." + strings.Repeat("0", -point) + digits
	case point < len(digits):
		text = digits[:point] + "." + digits[point:]
	}
	if exponent == 0 && rapid.Bool().Draw(t, "bare") {
		return text
	}
	sign := ""
	if exponent >= 0 {
		sign = rapid.SampledFrom([]string{"", "+", "-0", "00"}).Draw(t, "sign")
		if sign == "-0" && exponent != 0 {
			sign = "+0"
		}
	}
	return text + rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") + sign + strconv.FormatInt(exponent, 10)
}
