package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
)

// A page goes on behind its last key by the order of bytes. Lua compares strings in another order in some locales.
func TestListInAnyLocale(t *testing.T) {
	s := openStore(t, "node", "http", startBackwards(t))
	var want, got []string
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for i := range 200 {
		key := fmt.Sprintf("%02x-%d", i, i)
		w := oneWrite(key, 1)
		w.Timer.At = at
		if w := s.Merge(t.Context(), []store.Write{w})[0]; w.Status != store.WriteStored {
			t.Fatalf("merge %s: %+v", key, w)
		}
		want = append(want, key)
	}
	for after := (&store.Place{At: at}); after != nil; {
		page, err := s.List(t.Context(), "a", store.ListQuery{After: *after, N: 2})
		heads, until := page.Heads, page.Until
		if err != nil || until != nil && until.Compare(*after) <= 0 {
			t.Fatalf("behind %v: until %v, %v", after, until, err)
		}
		for _, h := range heads {
			if p := (store.Place{At: h.Look, Key: h.Key}); until == nil || p.Compare(*until) <= 0 {
				got = append(got, h.Key)
			}
		}
		after = until
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%d are listed, want each of %d once", len(got), len(want))
	}
}

// A page of large records ends early: a shard does nothing else meanwhile.
func TestListIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := openStore(t, "node", "http", startMini(t, time.Now()))
	keys := s.keysOf("a", 3, 12)
	for _, key := range keys {
		w := oneWrite(key, 1)
		w.Timer.Callback.Opaque = strings.Repeat("x", 1_000_000)
		if w := s.Merge(t.Context(), []store.Write{w})[0]; w.Status != store.WriteStored {
			t.Fatalf("merge %s: %+v", key, w)
		}
	}
	listed, after := 0, &store.Place{}
	for ; after != nil; listed++ {
		page, err := s.List(t.Context(), "a", store.ListQuery{After: *after, N: 100})
		if err != nil || len(page.Heads) > 2 {
			t.Fatalf("%d are listed at once, %v; want 1 MB of them", len(page.Heads), err)
		}
		after = page.Until
	}
	if listed != 13 { // the last page finds the end
		t.Errorf("%d pages of 12 records of 1 MB", listed)
	}
}
