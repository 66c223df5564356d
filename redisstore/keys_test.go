package redisstore

import "testing"

// Golden values freeze the partitions: with any change, every stored timer would be looked for in the wrong place.
func TestPartitionsAreFrozen(t *testing.T) {
	for key, want := range map[string]int{"0198f1c2a3b47d5e8f00112233445566": 14, "my-own-key": 1, "x": 3, "A~b.c_d-e": 8} {
		if got := partitionOf(key); got != want {
			t.Errorf("partition of %s is %d, want %d", key, got, want)
		}
	}
}
