package redisstore

import (
	"strings"
	"testing"

	"chronos/scheduler/timer"
)

// Golden values freeze the partitions: with any change, every stored timer would be looked for in the wrong place.
func TestPartitionsAreFrozen(t *testing.T) {
	for key, want := range map[string]int{"0198f1c2a3b47d5e8f00112233445566": 14, "my-own-key": 1, "x": 3, "A~b.c_d-e": 8} {
		if got := partitionOf(key); got != want {
			t.Errorf("partition of %s is %d, want %d", key, got, want)
		}
	}
}

// A new key begins with its prefix, is a valid key, and shares a partition with the keys before, whatever the prefix.
func TestNewKeysOfPrefixes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "orders.", "x-2-0123456789abcdef", "00a5c3d2e4f60001-", "ik-", "~", strings.Repeat("-", 64)} {
		s, in, seen := &Store{}, map[int]int{}, map[string]bool{}
		for range 3 * together {
			key, err := s.NewKey(prefix)
			rest, begins := strings.CutPrefix(key, prefix)
			if err != nil || !begins || len(rest) != 32 || strings.Trim(rest, "0123456789abcdef") != "" || !timer.ValidKey(key) || seen[key] {
				t.Fatalf("prefix %q: key %q, %v", prefix, key, err)
			}
			seen[key] = true
			in[partitionOf(key)]++
		}
		if len(in) > 4 {
			t.Errorf("prefix %q: %d keys are in %d partitions", prefix, 3*together, len(in))
		}
	}
}
