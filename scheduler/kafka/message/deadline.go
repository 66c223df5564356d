package message

import "time"

const (
	maxEpochDigits = 15                    // of milliseconds
	maxEpoch       = 1e15                  // milliseconds; no deadline is so far from 1970, before or after
	maxFraction    = 9                     // digits of a second
	stampForm      = "0000-00-00T00:00:00" // a 0 stands for any digit
)

// parseDeadline reads an instant as publishers write deadlines: RFC 3339, or milliseconds since 1970 as
// plain digits. In RFC 3339 a space may stand for the T, and a missing offset means UTC. The result is
// in UTC and in whole milliseconds, rounded up: nothing goes out early. A leap second is refused, as in
// Go.
func parseDeadline(text []byte) (time.Time, bool) {
	if isEpoch(text) {
		return time.UnixMilli(number(text)).UTC(), true
	}
	if len(text) < len(stampForm) {
		return time.Time{}, false
	}
	t, stamped := parseStamp(text[:len(stampForm)])
	fraction, rest, precise := parseFraction(text[len(stampForm):])
	offset, placed := parseOffset(rest)
	if !stamped || !precise || !placed {
		return time.Time{}, false
	}
	return t.Add(fraction - offset), true
}

// isEpoch reports whether text is a number that can be milliseconds since 1970.
func isEpoch(text []byte) bool {
	n := len(text)
	return n > 0 && n <= maxEpochDigits && digits(text) == n
}

// inSeconds reports whether text must be seconds since 1970. Numbers of ten digits are the seconds from
// 2001 to 2286. As milliseconds the numbers would mean days of early 1970, for which nobody delays a
// message.
func inSeconds(text []byte) bool {
	const first, last = 1_000_000_000, 9_999_999_999
	return isEpoch(text) && first <= number(text) && number(text) <= last
}

// parseStamp reads date and time of day, to the second.
func parseStamp(text []byte) (time.Time, bool) {
	for i, c := range text {
		switch stampForm[i] {
		case '0':
			if !digit(c) {
				return time.Time{}, false
			}
		case 'T':
			if c != 'T' && c != 't' && c != ' ' {
				return time.Time{}, false
			}
		default:
			if c != stampForm[i] {
				return time.Time{}, false
			}
		}
	}
	year, month, day := int(number(text[:4])), time.Month(number(text[5:7])), int(number(text[8:10]))
	hour, minute, second := int(number(text[11:13])), int(number(text[14:16])), int(number(text[17:19]))
	if hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	return t, t.Month() == month && t.Day() == day // a day that doesn't exist comes out as another day
}

// parseFraction reads a point and up to nine digits, or nothing, and rounds up to
// whole milliseconds.
func parseFraction(text []byte) (fraction time.Duration, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	n := digits(text[1:])
	if n == 0 || n > maxFraction {
		return 0, nil, false
	}
	fraction = time.Duration(number(text[1 : 1+n]))
	for range maxFraction - n {
		fraction *= 10
	}
	return (fraction + time.Millisecond - 1).Truncate(time.Millisecond), text[1+n:], true
}

// parseOffset reads how far a clock is ahead of UTC; 0 without an offset.
func parseOffset(text []byte) (time.Duration, bool) {
	if len(text) == 0 || len(text) == 1 && (text[0] == 'Z' || text[0] == 'z') {
		return 0, true
	}
	if len(text) != len("+00:00") || digits(text[1:3]) != 2 || text[3] != ':' || digits(text[4:]) != 2 {
		return 0, false
	}
	hours, minutes := number(text[1:3]), number(text[4:])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	switch text[0] {
	case '+':
		return offset, true
	case '-':
		return -offset, true
	}
	return 0, false
}

// digits is how many digits text begins with.
func digits(text []byte) int {
	for i, c := range text {
		if !digit(c) {
			return i
		}
	}
	return len(text)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number is the value of digits, too few to overflow.
func number(text []byte) int64 {
	n := int64(0)
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}
