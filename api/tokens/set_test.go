package tokens

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCheckRoles(t *testing.T) {
	reader, readLine := generate(t, "reader", Read)
	writer, writeLine := generate(t, "writer", Write)
	admin, adminLine := generate(t, "admin", Admin)
	stranger, _ := generate(t, "stranger", Admin)
	s := parse(t, readLine, writeLine, adminLine)
	for _, c := range []struct {
		about string
		token Token
		need  Role
		want  Decision
	}{
		{"reader reads", reader, Read, Decision{Outcome: OK, Name: "reader"}},
		{"reader writes", reader, Write, Decision{Outcome: Scope, Name: "reader"}},
		{"reader administers", reader, Admin, Decision{Outcome: Scope, Name: "reader"}},
		{"writer reads", writer, Read, Decision{Outcome: OK, Name: "writer"}},
		{"writer writes", writer, Write, Decision{Outcome: OK, Name: "writer"}},
		{"writer administers", writer, Admin, Decision{Outcome: Scope, Name: "writer"}},
		{"admin reads", admin, Read, Decision{Outcome: OK, Name: "admin"}},
		{"admin writes", admin, Write, Decision{Outcome: OK, Name: "admin"}},
		{"admin administers", admin, Admin, Decision{Outcome: OK, Name: "admin"}},
		{"admin where nobody may", admin, 0, Decision{Outcome: Scope, Name: "admin"}},
		{"admin above the ladder", admin, Admin + 1, Decision{Outcome: Scope, Name: "admin"}},
		{"stranger reads", stranger, Read, Decision{Outcome: Unknown, Name: ""}},
		{"zero token", Token{}, Read, Decision{Outcome: Missing, Name: ""}},
	} {
		t.Run(c.about, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.Check(header(c.token), c.need, time.Now())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckHeader(t *testing.T) {
	token, line := generate(t, "a", Read)
	s, text := parse(t, line), token.Reveal()
	for _, c := range []struct {
		about, header string
		want          Outcome
	}{
		{"as usual", "Bearer " + text, OK},
		{"lower case", "bearer " + text, OK},
		{"any case", "bEaReR " + text, OK},
		{"spaces", "  Bearer    " + text + "  ", OK},
		{"as many spaces as allowed", "Bearer" + strings.Repeat(" ", 256-6-47) + text, OK},
		{"a space more", "Bearer" + strings.Repeat(" ", 257-6-47) + text, Unknown},
		{"nothing", "", Missing},
		{"spaces only", "   ", Missing},
		{"scheme only", "Bearer", Missing},
		{"scheme and spaces", "Bearer   ", Missing},
		{"token only", text, Missing},
		{"no space", "Bearer" + text, Missing},
		{"tab", "Bearer\t" + text, Missing},
		{"tab after the space", "Bearer \t" + text, Unknown},
		{"colon", "Bearer: " + text, Missing},
		{"basic", "Basic " + text, Missing},
		{"long negotiate", "Negotiate " + strings.Repeat("A", 4000), Missing},
		{"folded look-alike", "Beaɾer " + text, Missing},
		{"comma", "Bearer " + text + ",", Unknown},
		{"two tokens", "Bearer " + text + " " + text, Unknown},
		{"two schemes", "Bearer Bearer " + text, Unknown},
		{"quoted", `Bearer "` + text + `"`, Unknown},
		{"without prefix", "Bearer " + text[4:], Unknown},
		{"prefix in upper case", "Bearer CHR_" + text[4:], Unknown},
		{"one character short", "Bearer " + text[:46], Unknown},
		{"one character long", "Bearer " + text + "A", Unknown},
		// The last character has four of the token's bits and two that are 0, so the last character
		// is never B.
		{"one character other", "Bearer " + text[:46] + "B", Unknown},
		{"padded", "Bearer " + text + "=", Unknown},
		{"NUL", "Bearer " + text[:46] + "\x00", Unknown},
		{"line end", "Bearer " + text + "\n", Unknown},
		{"not ASCII", "Bearer " + text[:45] + "é", Unknown},
		{"very long", "Bearer " + strings.Repeat(text, 1000), Unknown},
		{"its hash", "Bearer " + strings.Fields(line)[2], Unknown},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := s.Check([]byte(c.header), Read, time.Now()).Outcome; got != c.want {
				t.Errorf("outcome %v, want %v", got, c.want)
			}
		})
	}
}

// Tokens with the same name are valid at once and share a rate. A request refused for its role does
// not count towards the rate.
func TestCheckLimits(t *testing.T) {
	old, oldLine := generate(t, "a", Read)
	next, nextLine := generate(t, "a", Read)
	other, otherLine := generate(t, "b", Read)
	free, freeLine := generate(t, "c", Read)
	const limit = " rate=10 burst=3"
	s := parse(t, oldLine+limit, nextLine+limit, otherLine+limit, freeLine)
	now := time.Now()
	check := func(token Token, need Role, want Decision) {
		t.Helper()
		if diff := cmp.Diff(want, s.Check(header(token), need, now)); diff != "" {
			t.Error(diff)
		}
	}
	for range 10 {
		check(old, Write, Decision{Outcome: Scope, Name: "a"})
	}
	check(old, Read, Decision{Outcome: OK, Name: "a"})
	check(next, Read, Decision{Outcome: OK, Name: "a"})
	check(old, Read, Decision{Outcome: OK, Name: "a"})
	for range 10 {
		check(next, Read, Decision{Outcome: Limited, Name: "a", RetryAfter: 101 * time.Millisecond})
		check(old, Read, Decision{Outcome: Limited, Name: "a", RetryAfter: 101 * time.Millisecond})
	}
	check(other, Read, Decision{Outcome: OK, Name: "b"})
	for range 1000 {
		check(free, Read, Decision{Outcome: OK, Name: "c"})
	}
	now = now.Add(101 * time.Millisecond)
	check(old, Read, Decision{Outcome: OK, Name: "a"})
	check(old, Read, Decision{Outcome: Limited, Name: "a", RetryAfter: 100 * time.Millisecond})
}

func TestZeroDecisionRefuses(t *testing.T) {
	if d := (Decision{}); d.Outcome == OK || d.Outcome != Missing {
		t.Errorf("a decision nobody made is %v", d.Outcome)
	}
	want := []string{"token-missing", "token-unknown", "token-scope", "rate-limited", "ok", "none"}
	got := make([]string, len(want))
	for i := range got {
		got[i] = Outcome(i).String() //nolint:gosec // six of them
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// With any file and any tokens, a token of the file passes as far as its role goes, and no other
// token passes.
func TestOnlyTokensOfTheFilePass(t *testing.T) {
	type made struct {
		token Token
		role  Role
		kept  bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var all []made
		var text strings.Builder
		text.WriteString("always read " + hash(1) + "\n")
		for range rapid.IntRange(1, 12).Draw(t, "tokens") {
			m := made{role: rapid.SampledFrom([]Role{Read, Write, List, Write | List, Admin}).Draw(t, "role"), kept: rapid.Bool().Draw(t, "kept")}
			var line string
			var err error
			if m.token, line, err = Generate("n-"+strings.ReplaceAll(m.role.String(), ",", "-"), m.role, "", rand.Reader); err != nil {
				t.Fatal(err)
			}
			if m.kept {
				text.WriteString(line + "\n")
			}
			all = append(all, m)
		}
		s, err := Parse([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			for _, need := range []Role{Read, Write, List, Admin} {
				got := s.Check(header(m.token), need, time.Now()).Outcome
				want := Unknown
				if m.kept {
					want = Scope
					if m.role.Allows(need) {
						want = OK
					}
				}
				if got != want {
					t.Fatalf("outcome %v, want %v", got, want)
				}
			}
			near := []byte(m.token.Reveal())
			i := rapid.IntRange(0, len(near)-1).Draw(t, "index")
			near[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			if got := s.Check(append([]byte("Bearer "), near...), Read, time.Now()).Outcome; got == OK {
				t.Fatal("a token with other bits passes")
			}
		}
	})
}

func TestCheckDoesNotAllocate(t *testing.T) {
	token, line := generate(t, "a", Write)
	spent, spentLine := generate(t, "b", Write)
	stranger, _ := generate(t, "c", Write)
	s := parse(t, line+" rate=1000000 burst=1000000", spentLine+" rate=0.001 burst=1")
	s.Check(header(spent), Write, time.Now())
	for want, h := range map[Outcome][]byte{
		OK: header(token), Limited: header(spent), Unknown: header(stranger), Missing: nil,
	} {
		n := testing.AllocsPerRun(1000, func() {
			if got := s.Check(h, Write, time.Now()).Outcome; got != want {
				t.Errorf("outcome %v, want %v", got, want)
			}
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", want, n)
		}
	}
}
