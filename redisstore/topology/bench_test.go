package topology

import (
	"fmt"
	"testing"
)

func BenchmarkRendezvous(b *testing.B) {
	const key = "01a1fb85e06c712ab4c17a3759564143"
	for _, shards := range []int{3, 16} {
		names := make([]string, shards)
		for i := range names {
			names[i] = fmt.Sprintf("shard-%d", i)
		}
		r := newRing(names)
		b.Run(fmt.Sprintf("order of %d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.order(key)
			}
		})
	}
}
