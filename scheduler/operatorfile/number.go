package operatorfile

import (
	"strconv"
	"strings"
)

const (
	minRate = 0.001
	maxRate = 1e6
)

// Rate reads a rate per second: a decimal number from 0.001 to 1000000. Rate is 0 for any other text.
func Rate(text string) float64 {
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !isDecimal(text) || rate < minRate || rate > maxRate {
		return 0
	}
	return rate
}

// Whole reads a whole number from 1 to most. Whole is 0 for any other text.
func Whole(text string, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || !isDecimal(text) || n < 1 || n > most {
		return 0
	}
	return n
}

// isDecimal reports whether text has only digits and points: no sign, exponent, hex or name of a
// number.
func isDecimal(text string) bool { return strings.Trim(text, "0123456789.") == "" }
