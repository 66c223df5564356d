package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/api/tokens"
	"chronos/cmd/internal/environment"
)

func TestTokenCommand(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if status := command([]string{"token", "orders", "read,write"}, &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	set, err := tokens.Parse([]byte(out.String()))
	if err != nil || set.Len() != 1 {
		t.Fatalf("standard output is no tokens file of one line: %v\n%s", err, out.String())
	}
	token := regexp.MustCompile(`chr_[\w-]{43}\b`).FindString(errs.String())
	if token == "" || strings.Contains(out.String(), token) {
		t.Fatalf("no token on standard error, or one on standard output:\n%s\n%s", errs.String(), out.String())
	}
	for role, want := range map[tokens.Role]tokens.Outcome{tokens.Read: tokens.OK, tokens.Write: tokens.OK, tokens.Admin: tokens.Scope} {
		if got := set.Check([]byte("Bearer "+token), role, time.Now()); got.Outcome != want || got.Name != "orders" {
			t.Errorf("%s: %+v, want %s", role, got, want)
		}
	}
}

func TestTokenCommandWithPrefix(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if status := command([]string{"token", "orders", "write", "prefix=orders."}, &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	set, err := tokens.Parse([]byte(out.String()))
	if err != nil {
		t.Fatalf("standard output is no tokens file: %v\n%s", err, out.String())
	}
	token := regexp.MustCompile(`chr_[\w-]{43}\b`).FindString(errs.String())
	if got := set.Check([]byte("Bearer "+token), tokens.Write, time.Now()); got.Outcome != tokens.OK || got.Prefix != "orders." {
		t.Errorf("%+v, want the prefix orders.", got)
	}
}

func TestHelpTellsTheConfiguration(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if status := command([]string{"help"}, &out, &errs); status != 0 || errs.Len() != 0 || !strings.HasSuffix(out.String(), "\n"+environment.TableOf[environment.Node]()) {
		t.Errorf("status %d, errors %q, and a text that does not end in the table of variables:\n%s", status, errs.String(), out.String())
	}
}

func TestCommandMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"token", "token orders", "token orders root", "token or\tders read", "token orders read more", "token orders read prefix=", "token orders read prefix=a/b",
		"token orders read prefix=batch", "token orders admin prefix=a.", "token orders read orders.", "token orders read prefix=a. prefix=b.", "token orders read rate=5",
		"tokens", "start"} {
		var out, errs strings.Builder
		if status := command(strings.Split(args, " "), &out, &errs); status != 2 || out.Len() != 0 || !strings.HasPrefix(errs.String(), "chronos: ") {
			t.Errorf("%s: status %d, out %q, errors %q", args, status, out.String(), errs.String())
		}
	}
}

// TestAFoundTokenGoesToItsListenerAlone: a command sends a found token only to the address of
// the token's listener: not to a proxy, and not to another address of the name in the URL.
func TestAFoundTokenGoesToItsListenerAlone(t *testing.T) {
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"host":"`+r.Host+`"}`)
	}))
	defer listener.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a proxy was asked for %s", r.URL)
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	node := remote{url: "http://elsewhere.test:7254", token: "secret", client: &http.Client{Transport: only(listener.Listener.Addr().String())}}
	var answer struct{ Host string }
	if err := node.ask(t.Context(), http.MethodGet, "/dead", "", &answer); err != nil || answer.Host != "elsewhere.test:7254" {
		t.Errorf("answered %+v, %v", answer, err)
	}
}
