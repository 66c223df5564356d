package message

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseDeadline(t *testing.T) {
	base := time.Date(2022, 12, 1, 11, 9, 1, 0, time.UTC)
	ms := func(n int) time.Time { return base.Add(time.Duration(n) * time.Millisecond) }
	for text, want := range map[string]time.Time{
		"2022-12-01T11:09:01.123":       ms(123), // without a zone
		"2022-12-01T11:09:01":           base,
		"2022-12-01T11:09:01Z":          base,
		"2022-12-01t11:09:01z":          base,
		"2022-12-01 11:09:01":           base,
		"2022-12-01 11:09:01.5Z":        ms(500),
		"2022-12-01T11:09:01+00:00":     base,
		"2022-12-01T11:09:01-00:00":     base,
		"2022-12-01T12:09:01+01:00":     base,
		"2022-12-01T05:39:01.123-05:30": ms(123),
		"2022-12-02T11:08:01+23:59":     base,
		"2022-11-30T11:10:01-23:59":     base,

		// Finer than a millisecond is rounded up.
		"2022-12-01T11:09:01.1":          ms(100),
		"2022-12-01T11:09:01.12":         ms(120),
		"2022-12-01T11:09:01.000":        base,
		"2022-12-01T11:09:01.1230":       ms(123),
		"2022-12-01T11:09:01.1231":       ms(124),
		"2022-12-01T11:09:01.123000000Z": ms(123),
		"2022-12-01T11:09:01.123000001Z": ms(124),
		"2022-12-01T11:09:00.999999999":  base,
		"2022-12-01T11:09:00.999000001Z": base,
		"2022-12-31T23:59:59.9999":       time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.9999":       time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"1969-12-31T23:59:59.9995Z":      time.UnixMilli(0),
		"1969-12-31T23:59:59.9985Z":      time.UnixMilli(-1),

		// The calendar.
		"2024-02-29T00:00:00":       time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		"2000-02-29T00:00:00":       time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC),
		"2022-04-30T23:59:59":       time.Date(2022, 4, 30, 23, 59, 59, 0, time.UTC),
		"0000-01-01T00:00:00":       time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"0000-01-01T00:00:00+23:59": time.Date(-1, 12, 31, 0, 1, 0, 0, time.UTC),

		// Milliseconds since 1970.
		"0":               time.UnixMilli(0),
		"000":             time.UnixMilli(0),
		"1669892941123":   ms(123),
		"01669892941123":  ms(123),
		"20221201110901":  time.UnixMilli(20221201110901),
		"999999999999999": time.UnixMilli(999_999_999_999_999),
	} {
		got, ok := parseDeadline([]byte(text))
		if !ok || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s is %v, %t; want %v", text, got, ok, want.UTC())
		}
	}
}

func TestParseDeadlineRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "now", "null", "Z", ".", "+", "-",
		// Around what is accepted.
		" 2022-12-01T11:09:01", "2022-12-01T11:09:01 ", "\t2022-12-01T11:09:01", "2022-12-01T11:09:01\n", "\ufeff2022-12-01T11:09:01",
		"2022-12-01T11:09:01\x00", "2022-12-01T11:09:01Z ", "\"2022-12-01T11:09:01Z\"", "2022-12-01T11:09:01 Z", "2022-12-01T11:09:01 +01:00",
		// Other forms.
		"2022-12-01", "2022-12-01T", "2022-12-01T11:09", "2022-12-01T11:09Z", "2022-12-01T11", "11:09:01", "20221201T110901Z", "2022-12-01T110901",
		"2022-W48-4T11:09:01", "2022-335T11:09:01", "22-12-01T11:09:01", "02022-12-01T11:09:01", "+2022-12-01T11:09:01", "-2022-12-01T11:09:01",
		"2022-1-01T11:09:01", "2022-12-1T11:09:01", "2022-12-01T1:09:01", "2022-12-01T11:9:01", "2022-12-01T11:09:1",
		"2022/12/01T11:09:01", "2022-12-01_11:09:01", "2022-12-01  11:09:01", "2022-12-01T11.09.01", "2022-12-01\xa011:09:01",
		"Thu, 01 Dec 2022 11:09:01 GMT", "Thu Dec  1 11:09:01 2022", "2022-12-01T11:09:01 UTC", "2022-12-01T11:09:01Z[Europe/Paris]",
		// Fractions.
		"2022-12-01T11:09:01.", "2022-12-01T11:09:01.Z", "2022-12-01T11:09:01.+01:00", "2022-12-01T11:09:01,123", "2022-12-01T11:09:01.1234567890",
		"2022-12-01T11:09:01.12.3", "2022-12-01T11:09:01.-1", "2022-12-01T11:09:01.1e3", "2022-12-01T11:09:01.x", "2022-12-01T11:09:01. 1", "2022-12-01T11:09.5",
		// Offsets.
		"2022-12-01T11:09:01ZZ", "2022-12-01T11:09:01+", "2022-12-01T11:09:01+01", "2022-12-01T11:09:01+0100", "2022-12-01T11:09:01+1:00",
		"2022-12-01T11:09:01+01:0", "2022-12-01T11:09:01+01:000", "2022-12-01T11:09:01+24:00", "2022-12-01T11:09:01-24:00", "2022-12-01T11:09:01+01:60",
		"2022-12-01T11:09:01 01:00", "2022-12-01T11:09:01+01.00", "2022-12-01T11:09:01++1:00", "2022-12-01T11:09:01+01:+0", "2022-12-01T11:09:01\u221201:00",
		"2022-12-01T11:09:01+01:00Z", "2022-12-01T11:09:01+01:00:00", "2022-12-01T11:09:01A",
		// Instants that don't exist.
		"2022-00-01T11:09:01", "2022-13-01T11:09:01", "2022-12-00T11:09:01", "2022-12-32T11:09:01", "2022-02-29T11:09:01", "1900-02-29T11:09:01",
		"2022-04-31T11:09:01", "2022-99-99T11:09:01", "2022-12-01T24:00:00", "2022-12-01T11:60:01", "2022-12-01T11:09:60", "2016-12-31T23:59:60Z",
		// Numbers.
		"+1669892941123", "-1669892941123", "1669892941.123", "1e12", "0x1", "1_000", "1,000", "1669892941123 ", " 1669892941123", "1669892941123ms", "-0",
		"1000000000000000", "0000000000000000", "99999999999999999999", "1669892941123\x00",
		// Digits that aren't ASCII, and text that isn't UTF-8.
		"١٦٦٩", "２０２２-12-01T11:09:01", "2022-12-01T11:09:0\xb9", "\xff", "\xff\xfe1669892941123", "1669892941123\xff", "2022-12-01T11:09:01\xffZ",
		strings.Repeat("1", 1<<16), "2022-12-01T11:09:01." + strings.Repeat("1", 1<<16),
	} {
		if got, ok := parseDeadline([]byte(text)); ok || !got.IsZero() {
			t.Errorf("%.40q is accepted as %v, %t", text, got, ok)
		}
	}
	if _, ok := parseDeadline(nil); ok {
		t.Error("null is accepted")
	}
}

// FuzzParseDeadline writes every instant that was read, and reads the instant again. If package time
// can read the text, too, both results agree.
func FuzzParseDeadline(f *testing.F) {
	for _, text := range []string{
		"2022-12-01T11:09:01.123", "2022-12-01 11:09:01Z", "2022-12-01t11:09:01.123456789-05:30", "0000-01-01T00:00:00+23:59",
		"9999-12-31T23:59:59.9999", "2024-02-29T00:00:00z", "0", "1669892941123", "999999999999999", "1000000000000000", "2022-12-01T11:09:01.", "\xff", "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseDeadline(text)
		reference, err := time.Parse(time.RFC3339Nano, strings.ToUpper(strings.Replace(string(text), " ", "T", 1)))
		if !ok {
			if !got.IsZero() {
				t.Fatalf("%q is refused, and %v", text, got)
			}
			return
		}
		if err == nil {
			if behind := got.Sub(reference); behind < 0 || behind >= time.Millisecond {
				t.Fatalf("%q is %v, which package time reads as %v", text, got, reference)
			}
		}
		if got.Nanosecond()%int(time.Millisecond) != 0 {
			t.Fatalf("%q is %v, not in whole milliseconds", text, got)
		}
		var written []string
		if year := got.Year(); year >= 0 && year <= 9999 {
			written = append(written, got.Format("2006-01-02T15:04:05.000"), got.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano))
		}
		if epoch := got.UnixMilli(); epoch >= 0 && epoch < maxEpoch {
			written = append(written, strconv.FormatInt(epoch, 10))
		}
		for _, form := range written {
			if strings.HasPrefix(form, "10000-") { // an hour on, in the other zone
				continue
			}
			if again, ok := parseDeadline([]byte(form)); !ok || !again.Equal(got) {
				t.Fatalf("%q is %v, written %s, which is %v, %t", text, got, form, again, ok)
			}
		}
	})
}
