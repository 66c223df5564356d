package scheduler_test

import (
	"sync"
	"testing"
	"time"

	"chronos/scheduler"
)

// A repeated create is read on all owners before anything is written: an owner that lost
// its data takes no second timer, not even for a moment.
func TestARepeatedCreateIsReadFirst(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		key := scheduler.OnceKey("once")
		create := func() scheduler.Receipt {
			receipt, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Second))
			if err != nil {
				c.Error(err)
			}
			return receipt
		}
		create()
		pass(5 * time.Second)
		better := c.homes(key, 2)[0]
		c.Wipe(better)
		var mu sync.Mutex
		live := false
		c.Inject(nil, func(op, shard string) error {
			if op == "merge" && shard == better {
				mu.Lock()
				defer mu.Unlock()
				state, there := c.Copies(better)[key]
				live = live || there && !state.Ended
			}
			return nil
		})
		if !create().Replayed {
			c.Error("the repeat was taken for the first")
		}
		c.Inject(nil, nil)
		mu.Lock()
		defer mu.Unlock()
		if live {
			c.Error("the owner that lost its data took a second timer")
		}
	})
}
