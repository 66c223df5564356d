package wire

import (
	"bytes"
	"strings"
	"time"
)

// at reads an instant, rounded up to the next millisecond. An instant before 1970 is as much in the
// past as 1970 itself, so the timer gets 1970.
func (d *Decoder) at() error {
	const pointer = "/timing/at"
	text, ok, err := d.text(pointer)
	switch {
	case err != nil:
		return err
	case !ok:
		return d.mistyped(pointer, "at-type", "at is not a string; give an instant such as 2030-01-31T12:00:00.250Z")
	}
	at, ok := ParseInstant(text)
	switch {
	case !ok:
		return refuse(pointer, "at-malformed", "at is not an RFC 3339 instant with its offset, such as 2030-01-31T12:00:00.250Z")
	case at.Year() > 9999:
		return refuse(pointer, "at-too-late", "at is after the year 9999 in UTC; give an earlier instant")
	case at.Before(time.UnixMilli(0)):
		at = time.UnixMilli(0).UTC()
	}
	d.timer.At = at
	return nil
}

// shape is the length of an instant before the fraction.
const shape = len("2006-01-02T15:04:05")

// ParseInstant reads an instant of RFC 3339, rounded up to the next millisecond, in UTC. T and Z
// may be in lower case. A leap second counts as the beginning of the next second.
func ParseInstant(text string) (at time.Time, ok bool) {
	if len(text) <= shape {
		return time.Time{}, false
	}
	raw := []byte(text)
	if raw[10] == 't' {
		raw[10] = 'T'
	}
	if last := len(raw) - 1; raw[last] == 'z' {
		raw[last] = 'Z'
	}
	leap := text[shape-2:shape] == "60"
	if leap {
		copy(raw[shape-2:], "59")
	}
	at, err := time.Parse(time.RFC3339, string(raw))
	if err != nil || !strict(raw) {
		return time.Time{}, false
	}
	at = at.UTC()
	if leap {
		at = at.Truncate(time.Second).Add(time.Second)
		return at, endsMonth(at)
	}
	if whole := at.Truncate(time.Millisecond); whole.Before(at) || finer(text[shape:]) {
		at = whole.Add(time.Millisecond)
	}
	return at, true
}

// strict refuses texts that time.Parse takes beyond RFC 3339: hours of one digit, a comma before
// the fraction, offsets of more than a day.
func strict(text []byte) bool {
	switch {
	case text[len("2006-01-02T15")] != ':', bytes.ContainsRune(text, ','):
		return false
	case text[len(text)-1] == 'Z':
		return true
	}
	offset := text[len(text)-len("+07:00"):]
	return string(offset[1:3]) < "24" && string(offset[4:]) < "60"
}

// endsMonth reports whether a month ends at an instant, as at every leap second.
func endsMonth(at time.Time) bool {
	year, month, _ := at.Date()
	return at.Equal(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC))
}

// finer reports whether the end of a valid instant, from the fraction on, has nonzero digits that a
// time.Time can't hold.
func finer(end string) bool {
	const nanoseconds = len(".000000000")
	fraction := end[:len(end)-len(strings.TrimLeft(end, ".0123456789"))]
	return len(fraction) > nanoseconds && strings.Trim(fraction[nanoseconds:], "0") != ""
}
