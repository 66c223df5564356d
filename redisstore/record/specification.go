package record

import (
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
	Opaque      string `json:"opaque,omitempty"`
	RepeatForMs int64  `json:"repeat_for_ms,omitempty"`
	AtMs        *int64 `json:"at_ms,omitempty"`
}

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
	if spec.AtMs != nil {
		t.At = time.UnixMilli(*spec.AtMs).UTC()
	}
	return t, nil
}
