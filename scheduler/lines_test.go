package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"chronos/scheduler/storetest"
)

// The log tells what becomes of the timers on a shard that is away, and says of an
// empty shard no more than that.
func TestLogTellsTheFateOfTimers(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		pass(5 * time.Second)
		c.connect("s1", storetest.LinkCut)
		pass(5 * time.Second)
		c.connect("s1", storetest.LinkUp)
		c.Wipe("s0")
		pass(20 * time.Second)
		c.nodes[0].stop()
		log := c.nodes[0].log.String()
		for line, want := range map[string]int{
			`level=WARN msg="shard can't be used; timers without a copy elsewhere wait until the shard is back" shard=s1`: 1,
			`msg="the shard is empty; all shards are swept, and it gets the copies that belong there" shard=s0`:           1,
			"lost": 0,
		} {
			if n := strings.Count(log, line); n != want {
				c.Errorf("%q is logged %d times, want %d:\n%s", line, n, want, log)
			}
		}
	})
}
