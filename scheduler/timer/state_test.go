package timer_test

import (
	"cmp"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/timer"
)

func drawVersion(t *rapid.T, label string) timer.Version {
	return timer.Version(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3<<16)).Draw(t, label))
}

func TestVersionAt(t *testing.T) {
	for _, c := range []struct {
		name string
		wall time.Time
		tag  uint16
		want string
	}{
		{"epoch", time.UnixMilli(0), 0, "0000000000000000"},
		{"tag alone", time.UnixMilli(0), math.MaxUint16, "000000000000ffff"},
		{"one millisecond", time.UnixMilli(1), 0, "0000000000010000"},
		{"below a millisecond", time.UnixMicro(1_999), 1, "0000000000010001"},
		{"the year 2026", time.UnixMilli(0x019b_7667_9000), 0xbeef, "019b76679000beef"},
		{"another time zone", time.UnixMilli(0x019b_7667_9000).In(time.FixedZone("east", 3600)), 0xbeef, "019b76679000beef"},
	} {
		if got := timer.VersionAt(c.wall, c.tag).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestVersionsCompareAsStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawVersion(t, "a"), drawVersion(t, "b")
		if cmp.Compare(a.String(), b.String()) != cmp.Compare(a, b) {
			t.Fatalf("%d and %d compare otherwise than %s and %s", a, b, a, b)
		}
		if len(a.String()) != 16 {
			t.Fatalf("%s has not 16 digits", a)
		}
		if again, err := timer.ParseVersion(a.String()); err != nil || again != a {
			t.Fatalf("%d is written %s and parses to %d (%v)", a, a, again, err)
		}
	})
}

// The result of Above is in the next millisecond with the given tag, newer than the version
// whichever node wrote the version.
func TestAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-3).Draw(t, "ms")
		theirs, ours := rapid.Uint16().Draw(t, "theirs"), rapid.Uint16().Draw(t, "ours")
		stored := timer.VersionAt(time.UnixMilli(ms), theirs)
		above := stored.Above(ours)
		if above <= stored || above.String() <= stored.String() {
			t.Fatalf("%s above %s is not newer", above, stored)
		}
		if above != timer.VersionAt(time.UnixMilli(ms+1), ours) {
			t.Fatalf("%s above %s is not the next millisecond with tag %04x", above, stored, ours)
		}
	})
}

func TestParseVersionRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "019b76679000bee", "long": "019b76679000beef0", "upper case": "019B76679000BEEF",
		"not hexadecimal": "019b76679000beeg", "sign": "+19b76679000beef", "space": " 19b76679000beef",
		"prefix": "0x9b76679000beef", "underscore": "019b_76679000bee", "zero byte": "019b76679000bee\x00", "dash": "-",
	} {
		if got, err := timer.ParseVersion(text); err == nil {
			t.Errorf("%s: %q parses to %s", name, text, got)
		}
	}
}

// Rule "order of states": version, then ended or not, then sequence number, attempt.
func TestStateOrder(t *testing.T) {
	rising := []timer.State{
		{},
		{Version: 1, Seq: 1},
		{Version: 1, Seq: 1, Attempt: 1},
		{Version: 1, Seq: 1, Attempt: 2},
		{Version: 1, Seq: 2},
		{Version: 1, Seq: 2, Attempt: 9},
		{Version: 1, Seq: 10},
		{Version: 1, Ended: true},
		{Version: 2, Seq: 1},
		{Version: 2, Seq: 7, Attempt: 3},
		{Version: 2, Seq: 7, Attempt: 3, Ended: true},
		{Version: math.MaxUint64, Seq: 1},
	}
	for i, a := range rising {
		for k, b := range rising {
			if got := a.Compare(b); cmp.Compare(got, 0) != cmp.Compare(i, k) {
				t.Errorf("%+v compared with %+v is %d", a, b, got)
			}
		}
	}
	one, other := timer.State{Version: 3, Seq: 1, Ended: true}, timer.State{Version: 3, Seq: 8, Attempt: 2, Ended: true}
	if got := one.Compare(other); got != 0 {
		t.Errorf("two tombstones of one version compare as %d, want the same", got)
	}
}

func TestStateOrderIsTotal(t *testing.T) {
	draw := func(t *rapid.T, label string) timer.State {
		return timer.State{
			Version: timer.Version(rapid.Uint64Range(0, 2).Draw(t, label+" version")),
			Seq:     rapid.IntRange(1, 3).Draw(t, label+" seq"),
			Attempt: rapid.IntRange(0, 2).Draw(t, label+" attempt"),
			Ended:   rapid.Bool().Draw(t, label+" ended"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t, "a"), draw(t, "b"), draw(t, "c")
		if cmp.Compare(a.Compare(b), 0) != -cmp.Compare(b.Compare(a), 0) {
			t.Fatalf("%+v and %+v compare otherwise the other way round", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%+v, %+v, %+v are not in order", a, b, c)
		}
		if same := a; a.Compare(same) != 0 {
			t.Fatalf("%+v is not the same as itself", a)
		}
	})
}
