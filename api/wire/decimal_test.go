package wire

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScaleDecimal(t *testing.T) {
	for _, tc := range []struct {
		text  string
		ms    int64
		exact bool
		err   error
	}{
		{text: "0", exact: true},
		{text: "-0", exact: true},
		{text: "-0.000e5", exact: true},
		{text: "0e999999999999999999999", exact: true},
		{text: "0.1", ms: 100, exact: true},
		{text: "0.3", ms: 300, exact: true},
		{text: "0.29", ms: 290, exact: true},
		{text: "1.1", ms: 1100, exact: true},
		{text: "4.35", ms: 4350, exact: true},
		{text: "30", ms: 30000, exact: true},
		{text: "1e-3", ms: 1, exact: true},
		{text: "1E2", ms: 100000, exact: true},
		{text: "1.5e+1", ms: 15000, exact: true},
		{text: "0.0001", ms: 1},
		{text: "0.0010001", ms: 2},
		{text: "0.001000000000000000000000000000000", ms: 1, exact: true},
		{text: "0.00099999999999999999999999999999999999999", ms: 1},
		{text: "1.0000000000000000000000000000000001", ms: 1001},
		{text: "1e-999999999", ms: 1},
		{text: "1e-99999999999999999999999999999", ms: 1},
		{text: "3153600000", ms: 3153600000000, exact: true},
		{text: "3153600000.0001", ms: 3153600000001},
		{text: "999999999999999", ms: 999999999999999000, exact: true},
		{text: "1000000000000000", err: errHuge},
		{text: "1e999999999", err: errHuge},
		{text: "1e99999999999999999999999999999", err: errHuge},
		{text: "0.00001e20", err: errHuge},
		{text: "1" + strings.Repeat("0", 100000), err: errHuge},
		{text: "1" + strings.Repeat("0", 100000) + "e-100000", ms: 1000, exact: true},
		{text: "0." + strings.Repeat("0", 100000) + "1e100000", ms: 100, exact: true},
		{text: "-1", err: errNegative},
		{text: "-0.0000000000001", err: errNegative},
		{text: "-1e999999999", err: errNegative},
	} {
		t.Run(tc.text[:min(len(tc.text), 40)], func(t *testing.T) {
			ms, exact, err := scaleDecimal([]byte(tc.text), 3)
			if ms != tc.ms || exact != tc.exact || !errors.Is(err, tc.err) {
				t.Errorf("have %d, %v, %v; want %d, %v, %v", ms, exact, err, tc.ms, tc.exact, tc.err)
			}
		})
	}
}

// drawDecimal makes a JSON number whose value a big.Rat can hold at once.
func drawDecimal(t *rapid.T) string {
	text := rapid.StringMatching(`(0|[1-9][0-9]{0,11})(\.[0-9]{1,25})?`).Draw(t, "mantissa")
	if rapid.Bool().Draw(t, "has exponent") {
		text += rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") +
			rapid.SampledFrom([]string{"", "+", "-"}).Draw(t, "sign") +
			fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "exponent"))
	}
	return text
}

// ceilScaled is number·10^shift rounded up, by a different method than scaleDecimal.
func ceilScaled(t interface{ Fatalf(string, ...any) }, number string, shift int64) *big.Int {
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("%q is not a number", number)
	}
	value.Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(shift), nil)))
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

func TestScaleDecimalAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawDecimal(t)
		want := ceilScaled(t, text, 3)
		have, _, err := scaleDecimal([]byte(text), 3)
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDigits), nil)
		switch {
		case errors.Is(err, errHuge):
			if want.Cmp(limit) < 0 {
				t.Fatalf("%s is refused as too large, but is %s ms", text, want)
			}
		case err != nil:
			t.Fatalf("%s: %v", text, err)
		case want.Cmp(big.NewInt(have)) != 0:
			t.Fatalf("%s: have %d ms, want %s", text, have, want)
		}
	})
}

func TestFormatSecondsIsExact(t *testing.T) {
	for ms, want := range map[int64]string{0: "0", 1: "0.001", 10: "0.01", 250: "0.25", 1000: "1", 30000: "30", 1001: "1.001", 100500: "100.5"} {
		if have := string(formatSeconds(time.Duration(ms) * time.Millisecond)); have != want {
			t.Errorf("%d ms: have %q, want %q", ms, have, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 3153600000000).Draw(t, "ms")
		text := formatSeconds(time.Duration(ms) * time.Millisecond)
		have, exact, err := scaleDecimal(text, 3)
		if have != ms || !exact || err != nil {
			t.Fatalf("%d ms becomes %s, which reads as %d, %v, %v", ms, text, have, exact, err)
		}
	})
}
