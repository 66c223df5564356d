package listing

import (
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// keyCharacters are the characters of keys, in order.
const keyCharacters = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

// veil returns a place between the same timers with the filter's key prefix as p, but without the key of any other
// timer: a reader who may see the timers of a prefix alone reads the place in the cursor. No timer at all is between
// the last timer up to p and the returned place, so a walk makes headway as behind p.
func (f *Filter) veil(p store.Place) store.Place {
	switch {
	case p.Key == "" || strings.HasPrefix(p.Key, f.KeyPrefix):
		return p
	case p.Key < f.KeyPrefix:
		return store.Place{At: p.At, Key: below(f.KeyPrefix)}
	}
	return store.Place{At: p.At.Add(time.Millisecond)} // all timers of the prefix at the instant are before p
}

// below is a key such that no timer lies between the key and the timers with the prefix; "" if there is no such key.
func below(prefix string) string {
	if at := strings.IndexFunc(prefix, func(r rune) bool { return !strings.ContainsRune(keyCharacters, r) }); at >= 0 {
		prefix = prefix[:at+1] // no key has the prefix
	}
	if prefix == "" {
		return ""
	}
	rest, last := prefix[:len(prefix)-1], prefix[len(prefix)-1]
	former := strings.TrimRightFunc(keyCharacters, func(r rune) bool { return r >= rune(last) })
	if former == "" { // no key is longer than rest and before the prefix
		if timer.ValidKey(rest) {
			return rest
		}
		return below(rest)
	}
	key := rest + former[len(former)-1:]
	if len(key) < timer.MaxKeyLength {
		key += strings.Repeat("~", timer.MaxKeyLength-len(key))
	}
	if !timer.ValidKey(key) {
		return ""
	}
	return key
}
