package simtest

import (
	"fmt"
	"testing"
	"time"
)

// TestGhostsStopNothing: forged announcements of many nodes, with future times, keep no timer from firing.
func TestGhostsStopNothing(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 2)
		defer c.close()
		for i := range 100 {
			mini := c.shards[i%2].mini
			if _, err := mini.ZAdd("chronos:{http}:nodes", float64(time.Now().Add(time.Hour).UnixMilli()), fmt.Sprint("ghost", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		for range 20 {
			c.create(t, c.machines[0], 5*time.Second)
		}
		time.Sleep(20 * time.Second)
		calls := c.receiver.Calls()
		if len(calls) != 20 {
			t.Fatalf("%d callbacks, want 20", len(calls))
		}
		for _, call := range calls {
			if at := call.Arrived.Sub(begun); at < 5*time.Second || at > 5*time.Second+50*time.Millisecond {
				t.Errorf("callback after %v, want 5 s", at)
			}
		}
	})
}
