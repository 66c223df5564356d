package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/loadtest/check"
)

func TestKeyOf(t *testing.T) {
	for in, want := range map[string]string{
		"abc-2-0123456789abcdef":      "abc",
		"a-b.c~d-16-0123456789abcdef": "a-b.c~d",
		"abc":                         "abc",
		"a-2-0123456789abcde":         "a-2-0123456789abcde",
		"a-2-0123456789ABCDEF":        "a-2-0123456789ABCDEF",
		"a-x-0123456789abcdef":        "a-x-0123456789abcdef",
		"a--0123456789abcdef":         "a--0123456789abcdef",
		"-2-0123456789abcdef":         "-2-0123456789abcdef",
		"-0123456789abcdef":           "-0123456789abcdef",
		"a-1-2-0123456789abcdef":      "a-1",
		"":                            "",
	} {
		if got := check.KeyOf(in); got != want {
			t.Errorf("KeyOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func headers() check.Headers {
	return check.Headers{
		TimerID: "a.b-2-0123456789abcdef", WebhookID: "a.b.00ff.3", Sequence: "3", Attempt: "2", Due: "2026-01-02T03:04:05.678Z",
	}
}

func TestParse(t *testing.T) {
	got, err := check.Parse(check.CallbackPath("s-1", 7), headers())
	want := check.Callback{
		Session: "s-1", Revision: 7, TimerID: "a.b-2-0123456789abcdef", Key: "a.b", Version: "00ff", Sequence: 3, Attempt: 2,
		Due: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC),
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Parse: %v (-want +got):\n%s", err, diff)
	}
}

func TestParseOtherPaths(t *testing.T) {
	for _, path := range []string{"/", "/cb", "/cb/", "/cb/s", "/cb//1", "/cb/s/0", "/cb/s/x", "/other/s/1"} {
		got, err := check.Parse(path, headers())
		if err != nil || got.Session != "" || got.Revision != 0 {
			t.Errorf("Parse(%q) = session %q, revision %d, %v", path, got.Session, got.Revision, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*check.Headers)
		want   string
	}{
		"no sequence":        {func(h *check.Headers) { h.Sequence = "" }, "X-Sequence-Number"},
		"sequence 0":         {func(h *check.Headers) { h.Sequence = "0" }, "X-Sequence-Number"},
		"another sequence":   {func(h *check.Headers) { h.Sequence = "4" }, "sequence 4"},
		"no attempt":         {func(h *check.Headers) { h.Attempt = "" }, "X-Chronos-Attempt"},
		"no due time":        {func(h *check.Headers) { h.Due = "soon" }, "X-Chronos-Due"},
		"no timer":           {func(h *check.Headers) { h.TimerID = "" }, "X-Chronos-Timer"},
		"another timer":      {func(h *check.Headers) { h.TimerID = "b" }, "X-Chronos-Timer"},
		"no webhook-id":      {func(h *check.Headers) { h.WebhookID = "" }, "webhook-id"},
		"webhook-id of two":  {func(h *check.Headers) { h.WebhookID = "a.3" }, "webhook-id"},
		"webhook-id, no key": {func(h *check.Headers) { h.WebhookID = ".v.3" }, "webhook-id"},
	} {
		t.Run(name, func(t *testing.T) {
			h := headers()
			test.change(&h)
			if _, err := check.Parse("/", h); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse = %v, want an error about %q", err, test.want)
			}
		})
	}
}
