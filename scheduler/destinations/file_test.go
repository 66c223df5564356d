package destinations

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// named is the name of a destination in tests: in lower case, and refused with a space's worth of
// wrong letters.
func named(text string) (string, error) {
	if !strings.HasPrefix(text, "https://") {
		return "", errors.New("is wrong")
	}
	return strings.ToLower(text), nil
}

func TestParseFile(t *testing.T) {
	const text = "\ufeff# limits\n\nhttps://API.example.com rate=50 burst=100 concurrency=20 # of the shop\r\n" +
		"\thttps://slow.example.com\trate=0.2\nhttps://few.example.com concurrency=1\nhttps://half.example.com burst=3 rate=2.5\n"
	want := map[string]Limit{
		"https://api.example.com":  {Rate: 50, Burst: 100, Concurrency: 20},
		"https://slow.example.com": {Rate: 0.2, Burst: 1},
		"https://few.example.com":  {Concurrency: 1},
		"https://half.example.com": {Rate: 2.5, Burst: 3},
	}
	got, err := ParseFile([]byte(text), named)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := ParseFile([]byte("# nothing yet\n"), named); err != nil || len(got) != 0 {
		t.Errorf("a file of comments has %v, %v; want no limits", got, err)
	}
}

func TestFaultsOfAFile(t *testing.T) {
	for line, want := range map[string]string{
		"https://a":                          faultShape,
		"https://a # rate=1":                 faultShape,
		"hush:secret@a rate=1":               "the destination is wrong",
		"https://a rate=0":                   faultRate,
		"https://a rate=-1":                  faultRate,
		"https://a rate=1e3":                 faultRate,
		"https://a rate=NaN":                 faultRate,
		"https://a rate=1000001":             faultRate,
		"https://a rate=":                    faultRate,
		"https://a rate=1 rate=2":            faultOption,
		"https://a burst=1":                  faultBurstOnly,
		"https://a burst=1.5 rate=1":         faultBurst,
		"https://a burst=99999999999 rate=1": faultBurst,
		"https://a concurrency=0":            faultConcurrency,
		"https://a concurrency=+1":           faultConcurrency,
		"https://a parallel=1":               faultOption,
		"https://a concurrency":              faultConcurrency,
		"https://b rate=1\nhttps://B rate=2": faultTwice + " 1",
	} {
		_, err := ParseFile([]byte("https://ok rate=1\n"+line), named)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+strings.Replace(want, "line 1", "line 2", 1)) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the line", line)
		}
	}
}

func TestAFileIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range maxLines + 30 {
		fmt.Fprintf(&text, "https://host%d rate=1\n", i)
	}
	_, err := ParseFile([]byte(text.String()), named)
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "and 10 more faults") {
		t.Errorf("%d lines: %v", maxLines+30, err)
	}
}

// FuzzParseFile: limits of any file are within the bounds, and say the same when written and read
// again. An error consists only of the package's words and of numbers.
func FuzzParseFile(f *testing.F) {
	for _, text := range []string{
		"", "# comment", "https://a rate=50 burst=100 concurrency=20", "https://a rate=1.5 # x\r\nhttps://b concurrency=3",
		"https://a burst=1", "https://a rate=1\nhttps://A rate=1", "x y z", "\ufeffhttps://a rate=1e9", "https://a rate=1 rate=1",
	} {
		f.Add([]byte(text))
	}
	number := regexp.MustCompile(`^(destinations file line |and )\d+(: | more faults)`)
	last := regexp.MustCompile(` on line \d+$`)
	ours := map[string]bool{"": true, "the destination is wrong": true}
	for _, text := range []string{faultShape, faultOption, faultRate, faultBurst, faultConcurrency, faultBurstOnly, faultTwice, faultMany} {
		ours[text] = true
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		limits, err := ParseFile(text, named)
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			for _, line := range lines {
				if !ours[last.ReplaceAllString(number.ReplaceAllString(line, ""), " on line")] {
					t.Fatal("the error says something else than it may")
				}
			}
			if len(lines) > 20+1 {
				t.Fatalf("the error has %d lines", len(lines))
			}
			return
		}
		var again strings.Builder
		for name, l := range limits {
			if l == (Limit{}) || l.Rate < 0 || l.Rate > 1e6 || (l.Burst > 0) != (l.Rate > 0) || l.Burst > maxBurst || l.Concurrency < 0 || l.Concurrency > maxConcurrency {
				t.Fatalf("limit %+v", l)
			}
			again.WriteString(name)
			if l.Rate > 0 {
				fmt.Fprintf(&again, " rate=%f burst=%d", l.Rate, l.Burst)
			}
			if l.Concurrency > 0 {
				fmt.Fprintf(&again, " concurrency=%d", l.Concurrency)
			}
			again.WriteString("\n")
		}
		second, err := ParseFile([]byte(again.String()), named)
		if err != nil {
			t.Fatal(err)
		}
		for name, l := range limits {
			if s := second[name]; s.Burst != l.Burst || s.Concurrency != l.Concurrency || s.Rate < l.Rate-1e-6 || s.Rate > l.Rate+1e-6 {
				t.Fatalf("%+v became %+v", l, s)
			}
		}
	})
}
