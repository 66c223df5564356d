package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/api/tokens"
)

var tokenText = regexp.MustCompile(`chr_[\w-]{43}\b`)

func TestToken(t *testing.T) {
	t.Parallel()
	out, errs := nowhere(t).run(Done, "token orders read,write")
	set, err := tokens.Parse([]byte(out))
	if err != nil || set.Len() != 1 {
		t.Fatalf("standard output is no tokens file of one line: %v\n%s", err, out)
	}
	token := tokenText.FindString(errs)
	if token == "" || strings.Contains(out, token) {
		t.Fatalf("no token on standard error, or one on standard output:\n%s\n%s", errs, out)
	}
	for role, want := range map[tokens.Role]tokens.Outcome{tokens.Read: tokens.OK, tokens.Write: tokens.OK, tokens.Admin: tokens.Scope} {
		if got := set.Check([]byte("Bearer "+token), role, time.Now()); got.Outcome != want || got.Name != "orders" {
			t.Errorf("%s: %+v, want %s", role, got, want)
		}
	}
}

func TestTokenWithPrefix(t *testing.T) {
	t.Parallel()
	out, errs := nowhere(t).run(Done, "token orders write --prefix orders.")
	set, err := tokens.Parse([]byte(out))
	if err != nil {
		t.Fatalf("standard output is no tokens file: %v\n%s", err, out)
	}
	if got := set.Check([]byte("Bearer "+tokenText.FindString(errs)), tokens.Write, time.Now()); got.Outcome != tokens.OK || got.Prefix != "orders." {
		t.Errorf("%+v, want the prefix orders.", got)
	}
}

func TestTokenMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "orders", "orders root", "or\tders read", "orders read more", "orders read --prefix=", "orders read --prefix=a/b", "orders read --prefix=batch", "orders admin --prefix=a.", "orders read rate=5",
	} {
		out, errs, status := nowhere(t).execute(append([]string{"token"}, strings.Split(args, " ")...))
		if status != Misused || out != "" || !strings.HasPrefix(errs, "chronos: ") {
			t.Errorf("%s: status %d, out %q, errors %q", args, status, out, errs)
		}
	}
}
