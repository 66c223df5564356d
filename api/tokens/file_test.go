package tokens

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hash is a well-formed hash of no token.
func hash(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read is the content of a set, in words.
func read(s *Set) []string {
	lines := make([]string, s.Len())
	for i, h := range s.list.holders {
		lines[i] = fmt.Sprintf("%s %s sha256:%x", h.name, h.role, s.list.digests[i][:])
		if h.bucket != nil {
			lines[i] += fmt.Sprintf(" rate=%v burst=%d", float64(h.bucket.limiter.Limit()), h.bucket.limiter.Burst())
		}
		if h.prefix != "" {
			lines[i] += " prefix=" + h.prefix
		}
	}
	return lines
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		about, text string
		want        []string
	}{
		{"one line", "ops admin " + hash(1), []string{"ops admin " + hash(1)}},
		{"comments and blank lines", "# all\n\n  \t\nops admin " + hash(1) + " # of Ada, since May\n#end", []string{"ops admin " + hash(1)}},
		{"tabs, CRLF, byte order mark", "\ufeffops\tread,write  " + hash(1) + "\r\n", []string{"ops write " + hash(1)}},
		{"upper-case hash", "ops read sha256:" + strings.ToUpper(hash(0xabcdef)[7:]), []string{"ops read " + hash(0xabcdef)}},
		{"two tokens of one name", "a read " + hash(2) + " rate=5\na read " + hash(1) + " rate=5\n", []string{"a read " + hash(2) + " rate=5 burst=5", "a read " + hash(1) + " rate=5 burst=5"}},
		{"same role in other words", "a write " + hash(1) + "\na read,write " + hash(2), []string{"a write " + hash(1), "a write " + hash(2)}},
		{"rate alone", "a read " + hash(1) + " rate=2.5", []string{"a read " + hash(1) + " rate=2.5 burst=3"}},
		{"slow rate", "a read " + hash(1) + " rate=0.001", []string{"a read " + hash(1) + " rate=0.001 burst=1"}},
		{"rate and burst", "a read " + hash(1) + " burst=1000000 rate=1000000", []string{"a read " + hash(1) + " rate=1e+06 burst=1000000"}},
		{"prefix", "a write " + hash(1) + " prefix=orders.", []string{"a write " + hash(1) + " prefix=orders."}},
		{"prefix of every character", "a read " + hash(1) + " prefix=aZ09._~-", []string{"a read " + hash(1) + " prefix=aZ09._~-"}},
		{"longest prefix", "a read " + hash(1) + " prefix=" + strings.Repeat("a", 64), []string{"a read " + hash(1) + " prefix=" + strings.Repeat("a", 64)}},
		{"prefix, rate and burst", "a read " + hash(1) + " prefix=a burst=2 rate=1 # of Ada", []string{"a read " + hash(1) + " rate=1 burst=2 prefix=a"}},
		{"prefix within a prefix", "a read " + hash(1) + " prefix=a.\nb write " + hash(2) + " prefix=a.b.", []string{"a read " + hash(1) + " prefix=a.", "b write " + hash(2) + " prefix=a.b."}},
		{"prefix that begins like a reserved id", "a read " + hash(1) + " prefix=batch.", []string{"a read " + hash(1) + " prefix=batch."}},
		{"two tokens of one name and prefix", "a read " + hash(2) + " prefix=x\na read " + hash(1) + " prefix=x\n", []string{"a read " + hash(2) + " prefix=x", "a read " + hash(1) + " prefix=x"}},
		{"every character of names", "aZ0._- read " + hash(1), []string{"aZ0._- read " + hash(1)}},
		{"longest name", strings.Repeat("a", 32) + " read " + hash(1), []string{strings.Repeat("a", 32) + " read " + hash(1)}},
	} {
		t.Run(c.about, func(t *testing.T) {
			s, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, read(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	token, _ := generate(t, "a", Read)
	for _, c := range []struct {
		about, line string
		want        []string
	}{
		{"no roles", "a", []string{faultShape}},
		{"no hash", "a read", []string{faultShape}},
		{"comment instead of the hash", "a read #" + hash(1), []string{faultShape}},
		{"name", "a/b read " + hash(1), []string{faultName}},
		{"long name", strings.Repeat("a", 33) + " read " + hash(1), []string{faultName}},
		{"name with NUL", "a\x00 read " + hash(1), []string{faultName}},
		{"hash as name", hash(1)[7:] + " read " + hash(1), []string{faultName}},
		{"part of a token as name", token.Reveal()[:30] + " read " + hash(1), []string{faultName}},
		{"token as name", token.Reveal() + " read " + hash(1), []string{faultToken}},
		{"token instead of the hash", "a read " + token.Reveal(), []string{faultToken}},
		{"token after the hash", "a read " + hash(1) + " " + token.Reveal(), []string{faultToken}},
		{"token alone", token.Reveal(), []string{faultToken}},
		{"role", "a root " + hash(1), []string{faultRoles}},
		{"hash without its kind", "a read " + hash(1)[7:], []string{faultHash}},
		{"other kind of hash", "a read md5:" + hash(1)[7:], []string{faultHash}},
		{"short hash", "a read " + hash(1)[:70], []string{faultHash}},
		{"odd hash", "a read " + hash(1)[:69], []string{faultHash}},
		{"long hash", "a read " + hash(1) + "00", []string{faultHash}},
		{"hash not in hex", "a read " + hash(1)[:70] + "g", []string{faultHash}},
		{"option", "a read " + hash(1) + " until=2030", []string{faultOption}},
		{"option twice", "a read " + hash(1) + " rate=1 rate=1", []string{faultOption}},
		{"rate 0", "a read " + hash(1) + " rate=0", []string{faultRate}},
		{"rate below zero", "a read " + hash(1) + " rate=-1", []string{faultRate}},
		{"rate too low", "a read " + hash(1) + " rate=0.0009", []string{faultRate}},
		{"rate too high", "a read " + hash(1) + " rate=1000001", []string{faultRate}},
		{"rate without bound", "a read " + hash(1) + " rate=Inf", []string{faultRate}},
		{"rate with exponent", "a read " + hash(1) + " rate=1e3", []string{faultRate}},
		{"rate in hex", "a read " + hash(1) + " rate=0x10", []string{faultRate}},
		{"rate empty", "a read " + hash(1) + " rate=", []string{faultRate}},
		{"rate without value", "a read " + hash(1) + " rate", []string{faultRate}},
		{"prefix empty", "a read " + hash(1) + " prefix=", []string{faultPrefix}},
		{"prefix without value", "a read " + hash(1) + " prefix", []string{faultPrefix}},
		{"prefix twice", "a read " + hash(1) + " prefix=a. prefix=a.", []string{faultOption}},
		{"prefix in another case", "a read " + hash(1) + " Prefix=a.", []string{faultOption}},
		{"long prefix", "a read " + hash(1) + " prefix=" + strings.Repeat("a", 65), []string{faultPrefix}},
		{"prefix with a slash", "a read " + hash(1) + " prefix=a/", []string{faultPrefix}},
		{"prefix with an escape", "a read " + hash(1) + " prefix=a%2e", []string{faultPrefix}},
		{"prefix with NUL", "a read " + hash(1) + " prefix=a\x00", []string{faultPrefix}},
		{"prefix of another alphabet", "a read " + hash(1) + " prefix=ä.", []string{faultPrefix}},
		{"two prefixes", "a read " + hash(1) + " prefix=a.,b.", []string{faultPrefix}},
		{"prefix references", "a read " + hash(1) + " prefix=references", []string{faultPrefix}},
		{"prefix batch", "a read " + hash(1) + " prefix=batch", []string{faultPrefix}},
		{"prefix of a dot", "a read " + hash(1) + " prefix=.", []string{faultPrefix}},
		{"prefix of two dots", "a read " + hash(1) + " prefix=..", []string{faultPrefix}},
		{"part of a token as prefix", "a read " + hash(1) + " prefix=" + token.Reveal()[:40], []string{faultPrefix}},
		{"token as prefix", "a read " + hash(1) + " prefix=" + token.Reveal(), []string{faultToken}},
		{"admin with a prefix", "a admin " + hash(1) + " prefix=a.", []string{faultAdmin}},
		{"admin among the roles, with a prefix", "a read,admin " + hash(1) + " prefix=a. rate=1", []string{faultAdmin}},
		{"other prefix of one name", "first read " + hash(1) + " prefix=a.", []string{faultUnlike + " 1"}},
		{"burst 0", "a read " + hash(1) + " rate=1 burst=0", []string{faultBurst}},
		{"burst too high", "a read " + hash(1) + " rate=1 burst=1000001", []string{faultBurst}},
		{"burst with a sign", "a read " + hash(1) + " rate=1 burst=+1", []string{faultBurst}},
		{"burst not whole", "a read " + hash(1) + " rate=1 burst=1.5", []string{faultBurst}},
		{"burst too long for a number", "a read " + hash(1) + " rate=1 burst=" + strings.Repeat("9", 40), []string{faultBurst}},
		{"burst without rate", "a read " + hash(1) + " burst=1", []string{faultBurstOnly}},
		{"all at once", "a/b root md5:1 rate=x", []string{faultName, faultRoles, faultHash, faultRate}},
		{"other role of one name", "first write " + hash(1), []string{faultUnlike + " 1"}},
		{"other rate of one name", "first read " + hash(1) + " rate=1", []string{faultUnlike + " 1"}},
		{"same hash", "a write " + hash(99), []string{faultTwice + " 1"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			_, err := Parse([]byte("first read " + hash(99) + "\n\n" + c.line + "\n"))
			if err == nil {
				t.Fatal("it was taken")
			}
			want := make([]string, len(c.want))
			for i, text := range c.want {
				want[i] = "tokens file line 3: " + text
			}
			if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefusesTheWhole(t *testing.T) {
	var many, wrong, unlike strings.Builder
	for n := range maxTokens {
		fmt.Fprintf(&many, "n%d read %s\n", n, hash(n))
		fmt.Fprintf(&wrong, "n%d\n", n)
	}
	fmt.Fprintf(&unlike, "a read %s rate=1\na read %s rate=1 burst=2", hash(1), hash(2))
	if s, err := Parse([]byte(many.String())); err != nil || s.Len() != maxTokens {
		t.Errorf("%d tokens are refused: %v", maxTokens, err)
	}
	for _, c := range []struct{ about, text, want string }{
		{"nothing", "", errNoTokens.Error()},
		{"comments only", "# none\n \n#", errNoTokens.Error()},
		{"byte order mark only", "\ufeff", errNoTokens.Error()},
		{"too many", many.String() + "last read " + hash(maxTokens), "tokens file line 1001: " + faultMany},
		{"two bursts of one name", unlike.String(), "tokens file line 2: " + faultUnlike + " 1"},
	} {
		t.Run(c.about, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
	t.Run("a great many faults", func(t *testing.T) {
		_, err := Parse([]byte(wrong.String()))
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 20+1 || lines[0] != "tokens file line 1: "+faultShape || lines[20] != "and 980 more faults" {
			t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
		}
	})
}

func TestWarnings(t *testing.T) {
	const noAdmin = "no token has the role admin"
	loose := func(mode string) string {
		return "others may read or change the tokens file (its mode is " + mode + "); set it to 0640 or less"
	}
	for _, c := range []struct {
		mode os.FileMode
		role string
		want []string
	}{
		{0o400, "admin", nil},
		{0o600, "admin", nil},
		{0o640, "admin", nil},
		{0o644, "admin", []string{loose("0644")}},
		{0o660, "admin", []string{loose("0660")}},
		{0o604, "admin", []string{loose("0604")}},
		{0o600, "read,write", []string{noAdmin}},
		{0o666, "write", []string{noAdmin, loose("0666")}},
	} {
		t.Run(fmt.Sprintf("%o %s", c.mode, c.role), func(t *testing.T) {
			path := writeFile(t, "a "+c.role+" "+hash(1)+"\n")
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			s, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, s.Warnings()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	for about, c := range map[string]struct{ path, want string }{
		"missing":   {filepath.Join(t.TempDir(), "none"), "no such file"},
		"directory": {t.TempDir(), "the tokens file must be a regular file"},
		"device":    {os.DevNull, "the tokens file must be a regular file"},
		"too large": {writeFile(t, strings.Repeat("#", 1<<20+1)), "the tokens file is over 1 MiB"},
		"comment":   {writeFile(t, strings.Repeat("#", 1<<20)), errNoTokens.Error()},
		"wrong":     {writeFile(t, "a"), "tokens file line 1: " + faultShape},
	} {
		t.Run(about, func(t *testing.T) {
			if _, err := Load(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}
