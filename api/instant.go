package api

import (
	"bytes"
	"time"
)

// at reads an instant, up to the next millisecond. One before 1970 is as much in
// the past as 1970 itself, which is what the timer gets.
func (d *decoder) at() error {
	const pointer = "/timing/at"
	if d.next() != '"' {
		return d.mistyped(pointer, "at-type", "at is not a string; give an instant such as 2030-01-31T12:00:00.250Z")
	}
	text, err := d.text(pointer)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil || !shapedAsInstant(text) {
		return refuse(pointer, "at-malformed", "at is not an RFC 3339 instant with its offset, such as 2030-01-31T12:00:00.250Z")
	}
	if whole := at.Truncate(time.Millisecond); whole.Before(at) || finer(text) {
		at = whole.Add(time.Millisecond)
	}
	if epoch := time.UnixMilli(0); at.Before(epoch) {
		at = epoch
	}
	d.timer.At = at.UTC()
	return nil
}

// finer reports whether a valid instant has digits other than zero that a
// time.Time can't hold.
func finer(text []byte) bool {
	const nanoseconds = 9
	_, fraction, _ := bytes.Cut(text, []byte{'.'})
	if len(fraction) <= nanoseconds {
		return false
	}
	for _, c := range fraction[nanoseconds:] {
		switch {
		case !isDigit(c):
			return false
		case c != '0':
			return true
		}
	}
	return false
}

// shapedAsInstant refuses what time.Parse takes beyond RFC 3339: hours of one
// digit, a comma before the fraction, offsets of more than a day.
func shapedAsInstant(text []byte) bool {
	const shape = "2006-01-02T15:04:05"
	if len(text) <= len(shape) || text[len("2006-01-02T15")] != ':' {
		return false
	}
	rest := text[len(shape):]
	if rest[0] == '.' {
		rest = bytes.TrimLeft(rest[1:], "0123456789")
	}
	switch {
	case string(rest) == "Z":
		return true
	case len(rest) != len("+07:00"):
		return false
	}
	return string(rest[1:3]) < "24" && string(rest[4:]) < "60"
}
