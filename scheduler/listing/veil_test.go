package listing

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// A cursor leads on to the same timers of the prefix, names no timer without the prefix, and makes headway.
func TestCursorsOfAPrefixNameNoOtherTimer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[-.09AZ_az~]{1,4}|batch-|batch`).Filter(timer.ValidKey)
		at := func(ms int) time.Time { return time.UnixMilli(int64(1_900_000_000_000 + ms)) }
		place := rapid.Custom(func(t *rapid.T) store.Place {
			return store.Place{At: at(rapid.IntRange(0, 2).Draw(t, "ms")), Key: key.Draw(t, "key")}
		})
		f := Filter{KeyPrefix: rapid.StringMatching(`[-.09AZ_az~{é]{0,3}|batch-|references[-.]`).Draw(t, "prefix")}
		p := place.Draw(t, "place")
		veiled := f.veil(p)
		if own := strings.HasPrefix(p.Key, f.KeyPrefix); own && veiled != p || veiled.Key != "" && !timer.ValidKey(veiled.Key) {
			t.Fatalf("%q behind the prefix %q becomes %q", p.Key, f.KeyPrefix, veiled.Key)
		}
		if other := (store.Place{At: p.At, Key: key.Draw(t, "other key")}); f.KeyPrefix != "" && !strings.HasPrefix(p.Key, f.KeyPrefix) && !strings.HasPrefix(other.Key, f.KeyPrefix) &&
			(p.Key < f.KeyPrefix) == (other.Key < f.KeyPrefix) && f.veil(other) != veiled {
			t.Fatalf("the cursors behind %q and %q differ: %v, %v", p.Key, other.Key, veiled, f.veil(other))
		}
		for _, q := range rapid.SliceOf(place).Draw(t, "timers") {
			before, now := q.Compare(p) <= 0, q.Compare(veiled) <= 0
			if strings.HasPrefix(q.Key, f.KeyPrefix) && before != now {
				t.Fatalf("the timer %v with the prefix %q is behind %v and not behind %v", q, f.KeyPrefix, p, veiled)
			}
			if before && !now {
				t.Fatalf("the timer %v is looked at again: behind %v comes %v", q, p, veiled)
			}
		}
	})
}
