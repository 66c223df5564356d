package timer_test

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
)

// Every mask has three bits, whatever the hash. The test tries all pairs of the two parts of a
// mask.
func TestMaskHasThreeBits(t *testing.T) {
	for first := range uint64(64) {
		for step := range uint64(64) {
			// The bits without a part to play are set, to show any influence.
			hash := first | step<<32 | 0xffffff00_ffffff00&^0x3f_0000003f
			mask := timer.HintOf(hash)
			if n := bits.OnesCount64(uint64(mask)); n != 3 {
				t.Fatalf("mask of hash %#x is %#x with %d bits, want 3", hash, uint64(mask), n)
			}
			if mask != timer.HintOf(first|step<<32) {
				t.Fatalf("mask of hash %#x depends on more than its two parts", hash)
			}
			if !mask.Has(mask) || mask.Empty() || timer.Hint(0).Has(mask) {
				t.Fatalf("mask %#x: a member isn't found, or nothing is", uint64(mask))
			}
		}
	}
}

func TestHint(t *testing.T) {
	a, b := timer.Hint(0b0111), timer.Hint(0b0111_0000)
	for _, c := range []struct {
		name        string
		hint        timer.Hint
		a, b, empty bool
	}{
		{"none", 0, false, false, true},
		{"a", a, true, false, false},
		{"b", b, false, true, false},
		{"both", a | b, true, true, false},
		{"two bits name nobody", 0b0011, false, false, true},
		{"parts of both name nobody", 0b0011_0011, false, false, false},
		{"all ones name everybody", ^timer.Hint(0), true, true, false},
	} {
		if c.hint.Has(a) != c.a || c.hint.Has(b) != c.b || c.hint.Empty() != c.empty {
			t.Errorf("%s: has a %t, has b %t, empty %t", c.name, c.hint.Has(a), c.hint.Has(b), c.hint.Empty())
		}
	}
}

// The rate of false members: how often a shard without a copy looks like a member. A false member
// costs a request that finds nothing, so a loose bound will do.
func TestFalseMembersAreRare(t *testing.T) {
	const rounds = 20_000
	for _, c := range []struct {
		shards, copies int
		most           float64 // of 1
	}{
		{4, 1, 0.002}, {4, 2, 0.004}, {4, 3, 0.008},
		{8, 2, 0.004}, {8, 3, 0.008}, {16, 2, 0.004}, {16, 4, 0.015}, {16, 8, 0.07},
	} {
		random := rand.New(rand.NewPCG(1, uint64(c.shards)))
		masks := make([]timer.Hint, c.shards)
		asked, wrong := 0, 0
		for range rounds {
			var filter timer.Hint
			for i := range masks {
				masks[i] = timer.HintOf(random.Uint64())
				if i < c.copies {
					filter |= masks[i]
				}
			}
			for _, mask := range masks[c.copies:] {
				asked++
				if filter.Has(mask) {
					wrong++
				}
			}
		}
		rate := float64(wrong) / float64(asked)
		t.Logf("%d shards, %d copies: %.3f %% false members", c.shards, c.copies, 100*rate)
		if rate > c.most {
			t.Errorf("%d shards, %d copies: %.3f %% false members, want at most %.1f %%", c.shards, c.copies, 100*rate, 100*c.most)
		}
	}
}

func TestParseID(t *testing.T) {
	longest := strings.Repeat("k", timer.MaxKeyLength)
	for _, c := range []struct {
		name, text string
		want       timer.ID
	}{
		{"whole", "abc-2-0123456789abcdef", timer.ID{Key: "abc", RF: 2, Hint: 0x0123456789abcdef}},
		{"most copies, all ones", "abc-16-ffffffffffffffff", timer.ID{Key: "abc", RF: 16, Hint: ^timer.Hint(0)}},
		{"empty filter", "abc-1-0000000000000000", timer.ID{Key: "abc", RF: 1}},
		{"bare", "abc", timer.ID{Key: "abc"}},
		{"one character", "~", timer.ID{Key: "~"}},
		{"every kind of character", "aZ09._~-", timer.ID{Key: "aZ09._~-"}},
		{"longest", longest, timer.ID{Key: longest}},
		{"longest with suffix", longest + "-3-0000000000000001", timer.ID{Key: longest, RF: 3, Hint: 1}},
		{"three dots", "...", timer.ID{Key: "..."}},
		{"reserved word within", "references2", timer.ID{Key: "references2"}},

		// A mere look-alike of a suffix belongs to the key.
		{"rf 0", "abc-0-0123456789abcdef", timer.ID{Key: "abc-0-0123456789abcdef"}},
		{"rf 17", "abc-17-0123456789abcdef", timer.ID{Key: "abc-17-0123456789abcdef"}},
		{"rf with a leading zero", "abc-02-0123456789abcdef", timer.ID{Key: "abc-02-0123456789abcdef"}},
		{"rf without digits", "abc-x-0123456789abcdef", timer.ID{Key: "abc-x-0123456789abcdef"}},
		{"rf missing", "abc--0123456789abcdef", timer.ID{Key: "abc--0123456789abcdef"}},
		{"rf huge", "abc-99999999999999999999-0123456789abcdef", timer.ID{Key: "abc-99999999999999999999-0123456789abcdef"}},
		{"filter in upper case", "abc-2-0123456789ABCDEF", timer.ID{Key: "abc-2-0123456789ABCDEF"}},
		{"filter too short", "abc-2-0123456789abcde", timer.ID{Key: "abc-2-0123456789abcde"}},
		{"filter too long", "abc-2-0123456789abcdef0", timer.ID{Key: "abc-2-0123456789abcdef0"}},
		{"filter not hexadecimal", "abc-2-0123456789abcdeg", timer.ID{Key: "abc-2-0123456789abcdeg"}},
		{"filter with a sign", "abc-2-_123456789abcdef", timer.ID{Key: "abc-2-_123456789abcdef"}},
		{"nothing before the suffix", "-2-0123456789abcdef", timer.ID{Key: "-2-0123456789abcdef"}},
		{"no key, no hyphen", "2-0123456789abcdef", timer.ID{Key: "2-0123456789abcdef"}},
		{"a UUID in its usual form", "0198f1c2-a3b4-7d5e-8f00-112233445566", timer.ID{Key: "0198f1c2-a3b4-7d5e-8f00-112233445566"}},
		{"of the reference", "00a5c3d2e4f60001-2", timer.ID{Key: "00a5c3d2e4f60001-2", RF: 2}},
		{"of the reference, most copies", "00A5c3d2e4f60001-16", timer.ID{Key: "00A5c3d2e4f60001-16", RF: 16}},
		{"of the reference, as chronos answers it", "00a5c3d2e4f60001-2-2-0123456789abcdef", timer.ID{Key: "00a5c3d2e4f60001-2", RF: 2, Hint: 0x0123456789abcdef}},
		{"of the reference, with another factor", "00a5c3d2e4f60001-2-3-0123456789abcdef", timer.ID{Key: "00a5c3d2e4f60001-2", RF: 3, Hint: 0x0123456789abcdef}},
		{"of the reference, rf 0", "00a5c3d2e4f60001-0", timer.ID{Key: "00a5c3d2e4f60001-0"}},
		{"of the reference, rf 17", "00a5c3d2e4f60001-17", timer.ID{Key: "00a5c3d2e4f60001-17"}},
		{"of the reference, rf with a leading zero", "00a5c3d2e4f60001-02", timer.ID{Key: "00a5c3d2e4f60001-02"}},
		{"15 digits and a factor", "0a5c3d2e4f60001-2", timer.ID{Key: "0a5c3d2e4f60001-2"}},
		{"17 digits and a factor", "000a5c3d2e4f60001-2", timer.ID{Key: "000a5c3d2e4f60001-2"}},
		{"no hexadecimal digits and a factor", "00a5c3d2e4f6000g-2", timer.ID{Key: "00a5c3d2e4f6000g-2"}},
		{"digits alone", "00a5c3d2e4f60001", timer.ID{Key: "00a5c3d2e4f60001"}},
		{"hyphens at the end", "abc-2-", timer.ID{Key: "abc-2-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := timer.ParseID(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := written(c.text, got); got.String() != want {
				t.Errorf("written again: %q, want %q", got, want)
			}
			if want := got.Key == c.text; timer.ValidKey(c.text) != want {
				t.Errorf("a valid key: %v, want %v", !want, want)
			}
		})
	}
}

// written is the text of an ID that was read from text: the text as it was, or, if the text is a
// key that says the number of copies, with a suffix.
func written(text string, id timer.ID) string {
	if id.RF == 0 || id.Key != text {
		return text
	}
	return fmt.Sprintf("%s-%d-0000000000000000", text, id.RF)
}

func TestParseIDRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, code string }{
		{"empty", "", "id-length"},
		{"too long", strings.Repeat("k", timer.MaxKeyLength+1), "id-length"},
		{"too long before a suffix", strings.Repeat("k", timer.MaxKeyLength+1) + "-2-0123456789abcdef", "id-length"},
		{"huge", strings.Repeat("-", 1<<20), "id-length"},
		{"space", "a b", "id-characters"},
		{"slash", "a/b", "id-characters"},
		{"the write counter's name", "#", "id-characters"},
		{"percent", "a%20b", "id-characters"},
		{"colon", "a:b", "id-characters"},
		{"line end", "abc\n", "id-characters"},
		{"zero byte", "a\x00b", "id-characters"},
		{"letter of another alphabet", "grüße", "id-characters"},
		{"invalid UTF-8", "a\xffb", "id-characters"},
		{"a suffix before the suffix", "a-1-0000000000000000-2-0123456789abcdef", "id-suffix"},
		{"space before a suffix", "a b-2-0123456789abcdef", "id-characters"},
		{"references", "references", "id-reserved"},
		{"batch", "batch", "id-reserved"},
		{"references with a suffix", "references-2-0123456789abcdef", "id-reserved"},
		{"one dot", ".", "id-dots"},
		{"two dots", "..", "id-dots"},
		{"two dots with a suffix", "..-2-0123456789abcdef", "id-dots"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := timer.ParseID(c.text)
			var invalid *timer.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v and error %v, want an InvalidError", got, err)
			}
			if invalid.Code != c.code {
				t.Errorf("code %s, want %s", invalid.Code, c.code)
			}
			if got != (timer.ID{}) {
				t.Errorf("an ID comes with the error: %+v", got)
			}
			if len(c.text) > 4 && strings.Contains(err.Error(), c.text) {
				t.Errorf("the error repeats the input: %v", err)
			}
		})
	}
}

func TestNewKey(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`) // version 7, variant 10
	var keys []string
	for range 1000 {
		key, err := timer.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if !form.MatchString(key) {
			t.Fatalf("%q is no UUIDv7 as 32 hexadecimal digits", key)
		}
		if id, err := timer.ParseID(key); err != nil || id != (timer.ID{Key: key}) {
			t.Fatalf("%q is no bare ID: %+v, %v", key, id, err)
		}
		keys = append(keys, key)
	}
	if !slices.IsSorted(keys) {
		t.Error("keys don't sort by when they were made")
	}
	if n := len(slices.Compact(keys)); n != 1000 {
		t.Errorf("%d distinct keys of 1000", n)
	}
}

func FuzzParseID(f *testing.F) {
	for _, text := range []string{
		"", "abc", "abc-2-0123456789abcdef", "a-1-0000000000000000-2-0123456789abcdef", "-2-0123456789abcdef", "references",
		"abc-16-ffffffffffffffff", "abc-02-0123456789abcdef", "00a5c3d2e4f60001-2", "..", "a\xffb", strings.Repeat("k", 129),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := timer.ParseID(text)
		if err != nil {
			var invalid *timer.InvalidError
			if !errors.As(err, &invalid) || invalid.Code == "" || invalid.Detail == "" {
				t.Fatalf("error of %q is %v, want an InvalidError with code and detail", text, err)
			}
			return
		}
		if id.Key == "" || len(id.Key) > timer.MaxKeyLength || id.RF < 0 || id.RF > timer.MaxReplicationFactor {
			t.Fatalf("%q parses to %+v", text, id)
		}
		if id.String() != written(text, id) {
			t.Fatalf("%q parses to %+v, which is written %q", text, id, id)
		}
		again, err := timer.ParseID(id.String())
		if err != nil || again != id {
			t.Fatalf("%q parses to %+v, and what that is written as to %+v (%v)", text, id, again, err)
		}
		// With any filter, as in the answer to a write, the ID parses to itself.
		id.RF, id.Hint = 2, 1
		if again, err = timer.ParseID(id.String()); err != nil || again != id {
			t.Fatalf("%+v is written %q and parses to %+v (%v)", id, id, again, err)
		}
	})
}
