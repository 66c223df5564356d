package listing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
)

// A cursor leads back to its place, whatever key somebody has put into a Redis.
func TestCursorsOfAnyKey(t *testing.T) {
	f := &Filter{Text: "abc"}
	at := time.UnixMilli(1_800_000_000_123).UTC()
	for _, key := range []string{"", "tea", strings.Repeat("k", 128), "a b", "\x00\xff\xfe", strings.Repeat("\xff", 100)} {
		got, begun, err := readCursor(cursorOf(store.Place{At: at, Key: key}, "v", f, 7<<40), "v", f)
		if err != nil || got != (store.Place{At: at, Key: key}) || begun != 7<<40 {
			t.Errorf("%q: %+v, %v, %v", key, got, begun, err)
		}
	}
	long := strings.Repeat("k", 1<<20)
	got, _, err := readCursor(cursorOf(store.Place{At: at, Key: long}, "v", f, 0), "v", f)
	if err != nil || got.Key <= long || got.Key > strings.Repeat("k", 127)+"l" || got.Key <= strings.Repeat("k", 128) {
		t.Errorf("of a long key: %.20q, %v", got.Key, err)
	}
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	f := &Filter{Text: "abc"}
	good := cursorOf(store.Place{At: time.Now(), Key: "tea"}, "v", f, 0)
	for name, tc := range map[string]struct {
		text, view string
		filter     *Filter
		want       error
	}{
		"another view":   {good, "w", f, ErrStale},
		"another filter": {good, "v", &Filter{Text: "abd"}, store.ErrCursor},
		"cut off":        {good[:len(good)-3], "v", f, store.ErrCursor},
		"no base64":      {"%%%", "v", f, store.ErrCursor},
		"no JSON":        {"aGVsbG8", "v", f, store.ErrCursor},
		"too long":       {strings.Repeat("a", 600), "v", f, store.ErrCursor},
	} {
		if got, _, err := readCursor(tc.text, tc.view, tc.filter); !errors.Is(err, tc.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
