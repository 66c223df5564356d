package storetest

import (
	"fmt"
	"testing"
	"time"
)

func TestModelKeepsTheContract(t *testing.T) {
	for name, shards := range map[string][]string{"one shard": {"main"}, "three shards": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(*testing.T) Fixture {
				clock := NewClock(time.UnixMilli(1_790_000_000_000).Add(300 * time.Microsecond))
				model := NewModel(shards...)
				model.SetClock(clock.Now)
				model.KeepDeliveries(KeptDeliveries)
				return Fixture{Open: model.Open, Now: clock.Now, Pass: clock.Advance, Neighbors: neighbors, DeadLetters: model.DeadLetters}
			})
		})
	}
}

func neighbors(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("neighbor-%04d", i)
	}
	return keys
}
