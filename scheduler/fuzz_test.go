package scheduler_test

import (
	"cmp"
	"regexp"
	"strings"
	"testing"

	"chronos/scheduler/timer"
)

func FuzzParseVersion(f *testing.F) {
	for _, text := range []string{
		"", "0", "0000000000000000", "ffffffffffffffff", "0190c5a8b3f2beef", "0190C5A8B3F2BEEF", "+190c5a8b3f2beef", "0x90c5a8b3f2beef", "00000000000000000", "0190c5a8b3f2bee\xff",
	} {
		f.Add(text, "8000000000000000")
	}
	form := regexp.MustCompile(`^[0-9a-f]{16}$`)
	f.Fuzz(func(t *testing.T, text, other string) {
		version, err := timer.ParseVersion(text)
		if (err == nil) != form.MatchString(text) {
			t.Fatalf("%q: %v, %v", text, version, err)
		}
		if err != nil {
			if version != 0 || text != "" && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) && strings.Contains(err.Error(), text) {
				t.Fatalf("%q: %v, %v", text, version, err)
			}
			return
		}
		if version.String() != text {
			t.Fatalf("%q is written %q", text, version)
		}
		second, err := timer.ParseVersion(other)
		if err == nil && cmp.Compare(version, second) != strings.Compare(text, other) {
			t.Fatalf("%q and %q compare unlike their versions", text, other)
		}
	})
}
