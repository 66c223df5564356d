package tokens

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// generate makes a token and the token's line.
func generate(t testing.TB, name string, role Role) (Token, string) {
	t.Helper()
	token, line, err := Generate(name, role, "", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

// parse makes a set of lines.
func parse(t testing.TB, lines ...string) *Set {
	t.Helper()
	s, err := Parse([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func header(token Token) []byte { return []byte("Bearer " + token.Reveal()) }

func TestGenerate(t *testing.T) {
	form := regexp.MustCompile(`^chr_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 100 {
		token, line := generate(t, "orders", Write)
		if !form.MatchString(token.Reveal()) || seen[token.Reveal()] {
			t.Fatal("token has the wrong form or was made twice")
		}
		seen[token.Reveal()] = true
		if !regexp.MustCompile(`^orders write sha256:[0-9a-f]{64}$`).MatchString(line) {
			t.Fatalf("line has the wrong form: %d bytes", len(line))
		}
		if d := parse(t, line).Check(header(token), Write, time.Now()); d != (Decision{Outcome: OK, Name: "orders"}) {
			t.Fatalf("the token is %v to its own line", d)
		}
	}
}

// Only a token that is let through comes with its prefix.
func TestGenerateWithPrefix(t *testing.T) {
	token, line, err := Generate("orders", Write, "orders.", rand.Reader)
	if err != nil || !regexp.MustCompile(`^orders write sha256:[0-9a-f]{64} prefix=orders\.$`).MatchString(line) {
		t.Fatalf("line of %d bytes, %v", len(line), err)
	}
	set := parse(t, line+" rate=0.001 burst=1")
	for _, want := range []Decision{
		{Outcome: OK, Name: "orders", Prefix: "orders."}, {Outcome: Limited, Name: "orders", RetryAfter: 1000001 * time.Millisecond},
	} {
		if d := set.Check(header(token), Write, time.Unix(1e9, 0)); d != want {
			t.Errorf("the token is %+v, want %+v", d, want)
		}
	}
	if d := set.Check(header(token), Admin, time.Now()); d != (Decision{Outcome: Scope, Name: "orders"}) {
		t.Errorf("to an admin's request the token is %+v", d)
	}
}

// The hash is the hash of the text, as `printf %s "$token" | sha256sum` shows.
func TestGenerateKnownAnswer(t *testing.T) {
	token, line, err := Generate("a", Read, "", bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	const wantToken = "chr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	const wantLine = "a read sha256:72e74ed358851670205ff8569b1975f4d789e7aaa9733a1424aefe1c085fe9e4"
	if token.Reveal() != wantToken || line != wantLine {
		t.Errorf("got %s and %s", token.Reveal(), line)
	}
}

func TestGenerateRefuses(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		about  string
		name   string
		role   Role
		random io.Reader
		want   string
		prefix string
	}{
		{"no name", "", Read, rand.Reader, faultName, ""},
		{"a name with a space", "a b", Read, rand.Reader, faultName, ""},
		{"a name with a line end", "a\nb", Read, rand.Reader, faultName, ""},
		{"a comment", "#a", Read, rand.Reader, faultName, ""},
		{"a long name", strings.Repeat("a", 33), Read, rand.Reader, faultName, ""},
		{"a token's prefix", "chr_a", Read, rand.Reader, faultName, ""},
		{"no role", "a", 0, rand.Reader, faultRoles, ""},
		{"an unknown role", "a", Admin + 1, rand.Reader, faultRoles, ""},
		{"too few bits", "a", Read, strings.NewReader("0123456789"), "read random bits: unexpected EOF", ""},
		{"no bits", "a", Read, iotest.ErrReader(broken), "read random bits: broken", ""},
		{"a prefix with a space", "a", Read, rand.Reader, faultPrefix, "a b"},
		{"a prefix with a line end", "a", Read, rand.Reader, faultPrefix, "a.\n"},
		{"a reserved prefix", "a", Read, rand.Reader, faultPrefix, "batch"},
		{"a token's prefix as prefix", "a", Read, rand.Reader, faultPrefix, "chr_"},
		{"an admin with a prefix", "a", Admin, rand.Reader, faultAdmin, "a."},
	} {
		t.Run(c.about, func(t *testing.T) {
			token, line, err := Generate(c.name, c.role, c.prefix, c.random)
			if err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if token != (Token{}) || line != "" {
				t.Error("it returned a token all the same")
			}
		})
	}
}

// Printing, logging or encoding these values never shows their secrets.
func TestSecretsStayHidden(t *testing.T) {
	token, line := generate(t, "orders", Write)
	set := parse(t, line)
	sum := set.list.digests[0]
	keeper := openKeeper(t, KeeperConfig{Path: writeFile(t, line+"\n")})
	type holds struct {
		Token  Token
		Digest digest
		Set    *Set
	}
	values := map[string]any{
		"token": token, "pointer to token": &token, "digest": sum, "slice of digests": []digest{sum}, "set": set,
		"set itself": *set, "keeper": keeper, "exported fields": holds{token, sum, set},
	}
	secrets := []string{
		token.Reveal()[len(tokenPrefix):],
		string(sum[:]),
		fmt.Sprintf("%x", sum[:]),
		fmt.Sprintf("%X", sum[:]),
		strings.Trim(fmt.Sprintf("%d", sum[:]), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", sum[:]), "[]byte{"), "}"),
		strings.Trim(fmt.Sprintf("%o", sum[:]), "[]"),
		strings.Trim(fmt.Sprintf("%b", sum[:]), "[]"),
		strings.Trim(fmt.Sprintf("%c", sum[:]), "[]"),
	}
	encoded, _ := json.Marshal([32]byte(sum))
	secrets = append(secrets, string(encoded))
	for about, value := range values {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "% x"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "value", value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "value", value)
		if encoded, err := json.Marshal(value); err == nil {
			out.Write(encoded)
		}
		for i, secret := range secrets {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s shows secret %d", about, i)
			}
		}
	}
	if got := fmt.Sprint(token, sum, set); got != "[hidden] [hidden] 1 tokens" {
		t.Errorf("they show %s", got)
	}
}

// Only a text in the form of a token is hashed, so a try with any text costs the same.
func TestIsToken(t *testing.T) {
	token, _ := generate(t, "a", Read)
	text := token.Reveal()
	for candidate, want := range map[string]bool{
		text: true, text[:46]: false, text + "A": false, "chr-" + text[4:]: false, "": false, tokenPrefix: false,
		text[:20] + "+" + text[21:]: false, text[:20] + "/" + text[21:]: false, text[:46] + "\x00": false, text[:46] + "\xff": false,
	} {
		if isToken([]byte(candidate)) != want {
			t.Errorf("%d bytes: %v", len(candidate), !want)
		}
	}
}

func TestRoleAllows(t *testing.T) {
	both := Write | List
	want := map[Role][]Role{0: nil, Read: {Read}, Write: {Read, Write}, List: {Read, List}, both: {Read, Write, List, both}, Admin: {Read, Write, List, both, Admin}}
	for role := range Admin + 2 {
		for need := range Admin + 2 {
			if role.Allows(need) != slices.Contains(want[role], need) {
				t.Errorf("%d allows %d is %v", role, need, role.Allows(need))
			}
		}
	}
}

func TestParseRoles(t *testing.T) {
	for text, want := range map[string]Role{
		"read": Read, "write": Write, "admin": Admin, "read,write": Write, "write,read": Write, "read,admin": Admin, "read,read": Read,
		"list": List, "list,read": List, "list,write": Write | List, "list,admin": Admin,
		"": 0, ",": 0, "read,": 0, "none": 0, "Read": 0, "read, write": 0, "root": 0, "read;write": 0,
	} {
		got, err := ParseRoles(text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %v with error %v, want %v", text, got, err, want)
		}
	}
}
