package record

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Interval is the time between two pops.
func (r Record) Interval() time.Duration { return Milliseconds(r.intervalMs) }

// Quote is a text as the JSON of records has the text, without the quotes.
func Quote(text string) string {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return "\x00" // no record has a text that is not UTF-8
	}
	return string(quoted[1 : len(quoted)-1])
}

// ParseBrief reads what the script list says of a live copy: "picked repeat_for_ms tags rev uri". The copy has the
// revision rev, 0 for none.
func ParseBrief(text string) (brief *store.Brief, rev timer.Version, err error) {
	words := strings.SplitN(text, " ", 5)
	if len(words) != 5 {
		return nil, 0, fmt.Errorf("%w: a brief of %d words", ErrMalformed, len(words))
	}
	b := store.Brief{Picked: words[0] == "1"}
	repeatMs, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || repeatMs < 0 {
		return nil, 0, fmt.Errorf("%w: repeat_for_ms", ErrMalformed)
	}
	b.RepeatFor = Milliseconds(repeatMs)
	if words[2] != "-" {
		if b.Tags, err = parseTags(words[2]); err != nil {
			return nil, 0, err
		}
	}
	if words[3] != "-" {
		if rev, err = parseRevision(words[3]); err != nil {
			return nil, 0, err
		}
	}
	uri, err := jsontext.AppendUnquote(nil, `"`+words[4]+`"`)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: uri", ErrMalformed)
	}
	b.URI = string(uri)
	return &b, rev, nil
}
