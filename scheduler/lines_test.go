package scheduler_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
)

// However many timers fail at once, the log has some lines about the failures, and the number of
// lines left out.
func TestLogLinesAboutTimersAreSampled(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		const timers = 400
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 500"}
		}
		for range timers {
			c.create(oneShot(time.Second))
		}
		pass(15 * time.Second)
		c.nodes[0].stop()
		log := c.nodes[0].log.String()
		lines := strings.Count(log, "all attempts failed; the timer goes to the dead letters")
		if lines < 50 || lines > 100 {
			c.Errorf("%d lines for %d timers, want some more than 50", lines, timers)
		}
		left := 0
		for _, found := range regexp.MustCompile(`msg="lines were left out of the log" line="all attempts at a pop failed" count=(\d+)`).FindAllStringSubmatch(log, -1) {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				c.Fatal(err)
			}
			left += n
		}
		if left != timers-lines {
			c.Errorf("%d lines are said to be left out, want %d", left, timers-lines)
		}
	}, func(config *settings.Config) { config.Attempts = 1 })
}

// The log says how timers on a shard that is away go on, and says of an empty shard only that the
// shard is empty.
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
