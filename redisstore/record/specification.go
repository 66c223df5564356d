package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

// specification is the JSON of a record: all that the head doesn't hold, with defaults left out.
type specification struct {
	URI         string `json:"uri"`
	Opaque      string `json:"opaque"`
	RepeatForMs int64  `json:"repeat_for_ms"`
	AtMs        *int64 `json:"at_ms"`
	members
}

// members are the members that only records of the second format have.
type members struct {
	ExpiresAfterMs int64   `json:"expires_after_ms,omitempty"`
	Method         string  `json:"method,omitempty"`
	Headers        headers `json:"headers,omitempty"`
	TimeoutMs      int64   `json:"timeout_ms,omitempty"`
	Retry          retry   `json:"retry,omitzero"`
}

type retry struct {
	Attempts  int     `json:"attempts,omitempty"`
	FirstMs   int64   `json:"first_ms,omitempty"`
	Factor    float64 `json:"factor,omitempty"`
	LongestMs int64   `json:"longest_ms,omitempty"`
}

// headers are a JSON object of headers.
type headers timer.Headers

// MarshalJSON writes the headers in their order.
func (h headers) MarshalJSON() (object []byte, err error) {
	delim := byte('{')
	for name, value := range timer.Headers(h).All() {
		if object, err = jsontext.AppendQuote(append(object, delim), name); err == nil {
			object, err = jsontext.AppendQuote(append(object, ':'), value)
		}
		if err != nil {
			return nil, fmt.Errorf("encode headers: %w", err)
		}
		delim = ','
	}
	return append(object, '}'), nil
}

// UnmarshalJSON reads the headers in the order of the object, and refuses headers that may not be sent.
// The error does not repeat the headers, which may be secrets.
func (h *headers) UnmarshalJSON(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != jsontext.KindBeginObject {
		return ErrMalformed
	}
	all := timer.Headers("")
	for d.PeekKind() == jsontext.KindString {
		name, err := textOf(d)
		if err != nil {
			return err
		}
		value, err := textOf(d)
		if err != nil {
			return err
		}
		with, refused := all.With(name, value)
		if refused != nil {
			return ErrMalformed
		}
		all = with
	}
	*h = headers(all)
	return nil
}

func textOf(d *jsontext.Decoder) (string, error) {
	token, err := d.ReadToken()
	if err != nil || token.Kind() != jsontext.KindString {
		return "", ErrMalformed
	}
	return token.String(), nil
}

func membersOf(t *timer.Timer) members {
	c, r := &t.Callback, &t.Callback.Retry
	return members{
		ExpiresAfterMs: t.ExpiresAfter.Milliseconds(), Method: c.Method, Headers: headers(c.Headers), TimeoutMs: c.Timeout.Milliseconds(),
		Retry: retry{r.Attempts, r.First.Milliseconds(), r.Factor, r.Longest.Milliseconds()},
	}
}

func (m *members) addTo(t *timer.Timer) {
	t.ExpiresAfter = Milliseconds(m.ExpiresAfterMs)
	c, r := &t.Callback, &m.Retry
	c.Method, c.Headers, c.Timeout = m.Method, timer.Headers(m.Headers), Milliseconds(m.TimeoutMs)
	c.Retry = timer.Retry{Attempts: r.Attempts, First: Milliseconds(r.FirstMs), Factor: r.Factor, Longest: Milliseconds(r.LongestMs)}
}

// hasMembers reports whether the timer has members of the second format.
func hasMembers(t *timer.Timer) bool { return t.Format() > timer.FirstFormat }

// plainSpecification reads most specifications: only fields that appendSpecification writes, with strings free of
// escapes. Every other specification is left to a JSON library.
func plainSpecification(body string) (spec specification, plain bool) {
	rest, ok := strings.CutPrefix(body, `{"uri":"`)
	if !ok {
		return specification{}, false
	}
	spec.URI, rest, ok = strings.Cut(rest, `"`)
	if opaque, found := strings.CutPrefix(rest, `,"opaque":"`); ok && found {
		spec.Opaque, rest, ok = strings.Cut(opaque, `"`)
	}
	if tail, found := strings.CutPrefix(rest, `,"repeat_for_ms":`); found {
		spec.RepeatForMs, rest, ok = cutInteger(tail, ok)
	}
	if tail, found := strings.CutPrefix(rest, `,"at_ms":`); found {
		var at int64
		at, rest, ok = cutInteger(tail, ok)
		spec.AtMs = &at
	}
	if !ok || rest != "}" || !utf8.ValidString(body) {
		return specification{}, false
	}
	special := func(c byte) bool { return c < ' ' || c == '\\' }
	for _, s := range [...]string{spec.URI, spec.Opaque} {
		for i := range len(s) {
			if special(s[i]) {
				return specification{}, false
			}
		}
	}
	return spec, true
}

// cutInteger cuts a JSON number without a fraction off the beginning of text.
func cutInteger(text string, ok bool) (n int64, rest string, still bool) {
	end := len(text) - len(strings.TrimLeft(text, "-0123456789"))
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, text[end:], ok && err == nil && strconv.FormatInt(n, 10) == text[:end]
}

// appendSpecification appends the JSON of a timer. An error means that a string is not UTF-8.
func appendSpecification(b []byte, t *timer.Timer) ([]byte, error) {
	b, err := jsontext.AppendQuote(append(b, `{"uri":`...), t.Callback.URI)
	if err == nil && t.Callback.Opaque != "" {
		b, err = jsontext.AppendQuote(append(b, `,"opaque":`...), t.Callback.Opaque)
	}
	if err != nil {
		return nil, fmt.Errorf("encode specification: %w", err)
	}
	if ms := t.RepeatFor.Milliseconds(); ms != 0 {
		b = strconv.AppendInt(append(b, `,"repeat_for_ms":`...), ms, 10)
	}
	if !t.At.IsZero() {
		b = strconv.AppendInt(append(b, `,"at_ms":`...), t.At.UnixMilli(), 10)
	}
	if hasMembers(t) {
		text, err := json.Marshal(membersOf(t))
		if err != nil {
			return nil, fmt.Errorf("encode specification: %w", err)
		}
		b = append(append(b, ','), text[1:len(text)-1]...)
	}
	return append(b, '}'), nil
}

// timer is the specification of a live record as the client gave the specification.
func (r Record) timer() (timer.Timer, error) {
	spec, plain := plainSpecification(r.body)
	if !plain {
		if err := json.Unmarshal([]byte(r.body), &spec); err != nil {
			return timer.Timer{}, fmt.Errorf("%w: specification is not valid JSON", ErrMalformed)
		}
	}
	t := timer.Timer{
		Interval:          Milliseconds(r.intervalMs),
		RepeatFor:         Milliseconds(spec.RepeatForMs),
		ReplicationFactor: r.RF,
		Callback:          timer.Callback{URI: spec.URI, Opaque: spec.Opaque},
		Tags:              r.tags,
	}
	spec.addTo(&t)
	if t.RepeatFor < 0 || hasMembers(&t) && (t.CheckExpiry() != nil || t.Callback.CheckMembers() != nil) {
		return timer.Timer{}, fmt.Errorf("%w: a member of the specification is out of bounds", ErrMalformed)
	}
	if spec.AtMs != nil {
		t.At = time.UnixMilli(*spec.AtMs).UTC()
	}
	return t, nil
}
