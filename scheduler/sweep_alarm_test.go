package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
)

// alarm is part of the log line about copies that differ without an explanation.
const alarm = "please report this"

// A copy is missing though no shard has missed anything. The hourly sweep makes the copy again, and
// raises an alarm.
func TestWhatTheHourlySweepFindsIsAnAlarm(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		pass(30 * time.Second) // the sweep of the start is over
		asked := oneShot(3 * time.Hour)
		asked.ReplicationFactor = 2
		key := c.create(asked).ID.Key
		lost := c.homes(key, 2)[1]
		drop := store.Write{Kind: store.WriteDrop, Shard: lost, Key: key, State: c.Copies(lost)[key], RF: 2, Rank: 1}
		if done := c.Open("probe").Tell(c.Context(), lost, []store.Write{drop})[0]; done.Err != nil {
			c.Fatal(done.Err)
		}
		if after := c.watch(key, lost, 2*time.Hour); after < 10*time.Minute {
			c.Errorf("the copy was back after %v (0 for never), want about an hour", after)
		}
		c.wantLog(alarm, true)
		c.wantLog(key, true)
	})
}

// The hourly sweep meets writes under way, and timers that fire, and reports no difference.
func TestTheHourlySweepIsQuietAboutWritesUnderWay(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		c.jitter(100 * time.Millisecond)
		pass(59 * time.Minute)
		for n := range 300 {
			pass(500 * time.Millisecond)
			asked := oneShot(20 * time.Second)
			asked.ReplicationFactor = 2
			receipt := c.create(asked)
			if n%3 == 0 {
				if _, err := c.nodes[1].Delete(c.Context(), receipt.ID); err != nil {
					c.Error(err)
				}
			}
		}
		pass(time.Minute)
		for i, n := range c.nodes {
			if _, found, is := strings.Cut(n.log.String(), alarm); is {
				c.Errorf("node %d: %s", i, found)
			}
		}
	})
}
