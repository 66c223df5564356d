package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/timer"
)

// slowDown delays every answer of a shard by d; 0 for no delay.
func (c *cluster) slowDown(shard string, d time.Duration) {
	c.Inject(nil, func(_, of string) error {
		if of == shard && d > 0 {
			<-time.After(d)
		}
		return nil
	})
}

// A shard whose answers are late for long is done without, and taken back when the answers are
// quick. Timers without a copy on the shard don't notice.
func TestASlowShardIsDoneWithout(t *testing.T) {
	const skew = 2 * time.Second
	inCluster(t, 3, 2, func(c *cluster) {
		var keys []string
		for range 60 {
			keys = append(keys, c.create(oneShot(10*time.Second)).ID.Key)
		}
		c.slowDown("s1", 400*time.Millisecond)
		pass(20 * time.Second)
		there := 0
		for _, key := range keys {
			if c.homes(key, 1)[0] == "s1" {
				there++
				c.wantOnce(key, 1, skew+300*time.Millisecond)
				continue
			}
			c.wantOnce(key, 1, maxLate)
		}
		if there == 0 {
			t.Error("no timer's first copy was on the slow shard")
		}
		c.slowDown("s1", 0)
		pass(30 * time.Second) // quick for 3 s, and then swept
		var ids []timer.ID
		for range 40 {
			ids = append(ids, c.create(oneShot(10*time.Second)).ID)
		}
		if wrong := c.inPlace(ids); len(wrong) > 0 {
			t.Errorf("%d not in place on a shard that is quick again: %s", len(wrong), wrong[0])
		}
		pass(11 * time.Second)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// If all shards are late, or the only shard, the nodes do without no shard.
func TestShardsThatAreAllSlowAreWaitedFor(t *testing.T) {
	for _, shards := range []int{1, 3} {
		inCluster(t, shards, 2, func(c *cluster) {
			c.Inject(nil, func(string, string) error {
				<-time.After(300 * time.Millisecond)
				return nil
			})
			pass(10 * time.Second)
			var keys []string
			for range 20 {
				receipt := c.create(oneShot(5 * time.Second))
				if want := min(shards, 2); receipt.Copies != want {
					t.Errorf("%d copies, want %d", receipt.Copies, want)
				}
				keys = append(keys, receipt.ID.Key)
			}
			pass(12 * time.Second)
			for _, key := range keys {
				c.wantOnce(key, 1, 4*time.Second)
			}
		})
	}
}
