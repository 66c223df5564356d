package wire

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

var (
	errNegative = errors.New("number is negative")
	errHuge     = errors.New("number is too large")
)

// maxDigits is a number of digits that an int64 can always hold. No mantissa within the body limit
// can make up for an exponent of maxExponent.
const (
	maxDigits   = 18
	maxExponent = 1 << 40
)

// scaleDecimal returns number·10^shift, rounded up to a whole number, and whether the result is
// exact. number is text that the JSON grammar allows. The time is proportional to len(number),
// whatever the exponent. The errors are errNegative and errHuge.
func scaleDecimal(number []byte, shift int64) (value int64, exact bool, err error) {
	mantissa, exponent := splitExponent(number)
	fraction := 0
	if dot := bytes.IndexByte(mantissa, '.'); dot >= 0 {
		fraction = len(mantissa) - dot - 1
	}
	significant := bytes.TrimLeft(mantissa, "-0.")
	if len(significant) == 0 {
		return 0, true, nil
	}
	if number[0] == '-' {
		return 0, false, errNegative
	}
	digits := int64(len(significant) - bytes.Count(significant, []byte{'.'}))
	whole := digits - int64(fraction) + exponent + shift // how many digits stand before the point of the result
	if whole > maxDigits {
		return 0, false, errHuge
	}
	if whole <= 0 {
		return 1, false, nil
	}
	value, exact = takeDigits(significant, whole)
	if !exact {
		value++
	}
	return value, exact, nil
}

// takeDigits makes a number of the first n digits, as if zeros followed the last digit. exact
// reports whether only zeros are left.
func takeDigits(significant []byte, n int64) (value int64, exact bool) {
	exact = true
	for _, c := range significant {
		switch {
		case c == '.':
		case n > 0:
			value = value*10 + int64(c-'0')
			n--
		case c != '0':
			exact = false
		}
	}
	for ; n > 0; n-- {
		value *= 10
	}
	return value, exact
}

func splitExponent(number []byte) (mantissa []byte, exponent int64) {
	at := bytes.IndexAny(number, "eE")
	if at < 0 {
		return number, 0
	}
	digits := bytes.TrimLeft(number[at+1:], "+-")
	for _, c := range digits {
		exponent = min(exponent*10+int64(c-'0'), maxExponent)
	}
	if number[at+1] == '-' {
		exponent = -exponent
	}
	return number[:at], exponent
}

// formatSeconds writes a duration of whole milliseconds as an exact decimal number of seconds: 30,
// 0.25.
func formatSeconds(d time.Duration) []byte {
	ms := d.Milliseconds()
	text := strconv.AppendInt(nil, ms/1000, 10)
	if ms %= 1000; ms == 0 {
		return text
	}
	text = append(text, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
	return bytes.TrimRight(text, "0")
}
