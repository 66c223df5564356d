package tokens

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A set of any file says the same when written and read again. An error consists only of the
// package's words and of numbers.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "# comment", "a read " + hash(1), "a read,write " + hash(1) + " rate=1.5 burst=3 # of Ada\na write " + hash(2) + " rate=1.5 burst=3\r\n",
		"a admin\t" + hash(1) + " burst=1", "a read " + hash(1) + "\nb read " + hash(1), "chr_ x y z",
		"a write " + hash(1) + " prefix=orders.\na write " + hash(2) + " prefix=orders. rate=2", "a admin " + hash(1) + " prefix=x", "a read " + hash(1) + " prefix=batch",
		"a read " + hash(1) + " prefix=aZ09._~- # all", "a read " + hash(1) + " prefix= prefix=a=b",
		"\ufeffa root sha256: rate=1e9",
	} {
		f.Add([]byte(text))
	}
	number := regexp.MustCompile(`^(tokens file line |and )\d+(: | more faults)`)
	last := regexp.MustCompile(` on line \d+$`)
	ours := map[string]bool{"": true, errNoTokens.Error(): true}
	for _, text := range []string{
		faultShape, faultName, faultRoles, faultHash, faultToken, faultOption, faultRate, faultBurst, faultBurstOnly, faultPrefix, faultAdmin, faultUnlike, faultTwice, faultMany,
	} {
		ours[text] = true
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
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
		if s.Len() < 1 || s.Len() > maxTokens {
			t.Fatalf("%d tokens", s.Len())
		}
		again, err := Parse([]byte(strings.ReplaceAll(strings.Join(read(s), "\n"), "rate=1e+06", "rate=1000000")))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read(s), read(again)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Only headers with Bearer and the token pass.
func FuzzCheck(f *testing.F) {
	token, line, err := Generate("a", Write, "", bytes.NewReader(make([]byte, 32)))
	if err != nil {
		f.Fatal(err)
	}
	s, err := Parse([]byte(line))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "Bearer", "bearer   " + token.Reveal() + " ", "Basic " + token.Reveal(), "Bearer " + token.Reveal()[:46], "\tBEARER " + token.Reveal()} {
		f.Add([]byte(text))
	}
	scheme := regexp.MustCompile(`^[ \t]*(?i:bearer) +[^ \t]`)
	valid := regexp.MustCompile(`^[ \t]*(?i:bearer) +` + regexp.QuoteMeta(token.Reveal()) + `[ \t]*$`)
	f.Fuzz(func(t *testing.T, authorization []byte) {
		kept := bytes.Clone(authorization)
		d := s.Check(authorization, Write, time.Now())
		if !bytes.Equal(kept, authorization) {
			t.Fatal("the header was changed")
		}
		switch {
		case d.Outcome == OK && !valid.Match(authorization):
			t.Fatal("it passes")
		case d.Outcome != OK && valid.Match(authorization) && len(bytes.Trim(authorization, " \t")) <= 256:
			t.Fatalf("it is %v", d.Outcome)
		case d.Outcome == Missing && scheme.Match(authorization):
			t.Fatal("it is taken for none")
		case d.Outcome == Scope || d.Outcome == Limited:
			t.Fatalf("it is %v", d.Outcome)
		}
	})
}
