package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// instant is a time for display.
type instant struct {
	Machine  string // RFC 3339
	Absolute string // in UTC
	Relative string
}

// String is the time for a sentence.
func (i *instant) String() string { return i.Absolute + " UTC, " + i.Relative }

// at is how a time shows now; nil for the zero time.
func at(t, now time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	absolute := t.Format("2006-01-02 15:04:05")
	if ms := t.Nanosecond() / int(time.Millisecond); ms != 0 {
		absolute += fmt.Sprintf(".%03d", ms)
	}
	return &instant{t.Format("2006-01-02T15:04:05.000Z"), absolute, relative(t.Sub(now))}
}

// relative is a distance from now.
func relative(d time.Duration) string {
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + brief(d)
	}
	return brief(-d) + " ago"
}

// brief is a length of time in one or two units.
func brief(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "−" + brief(-d)
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < 10*time.Millisecond:
		return trimmed(float64(d)/float64(time.Millisecond), 1) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return trimmed(d.Seconds(), 1) + " s"
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + " s"
	case d < time.Hour:
		return units(d, time.Minute, "min", time.Second, "s")
	case d < 2*day:
		return units(d, time.Hour, "h", time.Minute, "min")
	case d < 365*day:
		return units(d, day, "d", time.Hour, "h")
	}
	return units(d, 365*day, "y", day, "d")
}

func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.FormatInt(int64(d/large), 10) + " " + largeName
	if rest := int64(d % large / small); rest > 0 {
		text += " " + strconv.FormatInt(rest, 10) + " " + smallName
	}
	return text
}

// trimmed is a number with so many digits behind the point at most.
func trimmed(f float64, digits int) string {
	text := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// whole numbers with commas: 1,234,567.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// about is a number in three digits or so: 1.23 M.
func about(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}} {
		if float64(n) >= unit.size {
			return trimmed(float64(n)/unit.size, 2) + unit.name
		}
	}
	return number(n)
}

// perSecond is a rate.
func perSecond(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.01:
		return "< 0.01"
	case f < 10:
		return trimmed(f, 2)
	}
	return number(int64(f + 0.5))
}

// size is a number of bytes.
func size(n int64) string {
	const kibi = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= kibi && i < len(units)-1 {
		f /= kibi
		i++
	}
	return trimmed(f, 1) + " " + units[i]
}

// percent is a share from 0 to 1. Only all is 100 %, and only nothing is 0 %.
func percent(f float64) string {
	switch {
	case f >= 1:
		return "100 %"
	case f <= 0:
		return "0 %"
	}
	return trimmed(min(max(f*100, 0.1), 99.9), 1) + " %"
}

// plural is a count with a noun.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}
