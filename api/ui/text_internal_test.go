package ui

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscapedTexts(t *testing.T) {
	t.Parallel()
	const open, end = `<span class="esc">`, `</span>`
	for text, want := range map[string]string{
		"":                               "",
		"plain text, π 火 é":              "plain text, π 火 é",
		"<b>&\"'":                        "&lt;b&gt;&amp;&#34;&#39;",
		"a\u202eb":                       "a" + open + `\u202e` + end + "b",
		"\u2066\u200d":                   open + `\u2066` + end + open + `\u200d` + end,
		"\x00\x1b[31m":                   open + `\u0000` + end + open + `\u001b` + end + "[31m",
		"\xff<":                          open + `\xff` + end + "&lt;",
		"\ufffd":                         "\ufffd",
		"a\tb\r":                         "a" + open + `\t` + end + "b" + open + `\r` + end,
		"\U000e0041":                     open + `\U000e0041` + end,
		"\u00a0\u3164\ufe0f\ue000\u2028": open + `\u00a0` + end + open + `\u3164` + end + open + `\ufe0f` + end + open + `\ue000` + end + open + `\u2028` + end,
	} {
		if got := string(shown(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	if got := string(shown(strings.Repeat("ä", 200))); strings.Contains(got, "…") {
		t.Errorf("200 characters are cut: %s", got)
	}
	if got, want := string(shown(strings.Repeat("ä", 201))), strings.Repeat("ä", 200)+`<span class="cut" title="the text goes on">…</span>`; got != want {
		t.Errorf("201 characters: %s", got)
	}
	if got := plain(strings.Repeat("\u202e", 500)); got != strings.Repeat(`\u202e`, 20)+"…" {
		t.Errorf("500 escapes: %s", got)
	}
	for _, r := range []string{"\u202e", "<", "\"", "火", "😀", "\U000e0041", "a\x00"} {
		if got := shown(strings.Repeat(r, 300)); len(got) > 700 {
			t.Errorf("%q 300 times takes %d bytes", r, len(got))
		}
	}
}

// FuzzEscapedTexts: whatever the text, the page has no markup but that of the escapes, and no character
// that does not show itself.
func FuzzEscapedTexts(f *testing.F) {
	f.Add("<script>alert(1)</script>\u202e\x00\xff'\"&")
	markup := regexp.MustCompile(`<span class="(esc|cut)"( title="the text goes on")?>|</span>`)
	f.Fuzz(func(t *testing.T, text string) {
		got := string(shown(text))
		bare := markup.ReplaceAllString(got, "")
		if strings.ContainsAny(bare, "<>\"'") {
			t.Errorf("%q: %q has markup", text, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q: %q has %U", text, got, r)
			}
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q: %q is not UTF-8", text, got)
		}
	})
}

// TestQuotedWords asks a shell for the words.
func TestQuotedWords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", "it's", "$(touch owned)`x`\"\\ *?!\n;&|<>", "''''", "\xff\u202e"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quoted(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q: a shell reads %q (%v)", text, out, err)
		}
	}
}

func TestLocalPaths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/ui/": "/ui/", "/ui/timers?key=a%20b": "/ui/timers?key=a%20b", "/ui/timers/x": "/ui/timers/x",
		"": "", "/": "", "/ui": "", "/uix/": "", "timers": "", "//evil.example/ui/": "", "/\\evil.example/ui/": "", "https://evil.example/ui/": "",
		"/ui/../dead": "", "/ui//evil.example": "", "/ui/%2e%2e/x": "", "javascript:alert(1)": "", "/ui/login": "", "/ui/logout": "", "/ui/a\r\nSet-Cookie: x": "",
		"\t/ui/": "", "/ui/#x": "", "/ui/" + strings.Repeat("a", 3000): "",
	} {
		if got := localPath(text); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
}
