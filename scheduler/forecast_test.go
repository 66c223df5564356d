package scheduler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/forecast"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

func TestLoadCountsWhatComesDue(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		for range 10 {
			c.create(oneShot(90 * time.Second))
			c.create(recurring(150*time.Second, 9))
		}
		n, q := c.nodes[0], forecast.Query{Step: time.Minute, Buckets: 3}
		load, err := n.Load(c.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		// The second copy is looked at half a second later at most. A shard may have more first copies than another.
		if !slices.Equal(load.Copies, []int64{0, 20, 20}) || load.Timers[0] != 0 || load.Timers[1]+load.Timers[2] != 20 || load.Timers[1] < 7 || load.Timers[1] > 13 || load.Unreached != nil || !load.From.Equal(time.Now()) {
			t.Errorf("%+v", load)
		}
		c.create(oneShot(30 * time.Second))
		if again, err := n.Load(c.Context(), q); err != nil || again.Copies[0] != 0 {
			t.Errorf("within 10 s: %+v, %v, want the same answer", again, err)
		}
		q.From = time.Now().Add(-time.Minute)
		if other, err := n.Load(c.Context(), q); err != nil || !slices.Equal(other.Copies, []int64{0, 2, 20}) {
			t.Errorf("from a minute ago: %+v, %v", other, err)
		}
		pass(10 * time.Second)
		c.connect("s1", storetest.LinkCut)
		pass(3 * time.Second)
		q.From = time.Time{}
		load, err = n.Load(c.Context(), q)
		if err != nil || !slices.Equal(load.Unreached, []string{"s1"}) || load.Copies[1] == 0 || load.Copies[1] >= 20 {
			t.Errorf("without a shard: %+v, %v", load, err)
		}
		c.connect("s0", storetest.LinkCut)
		c.connect("s2", storetest.LinkCut)
		pass(13 * time.Second)
		if load, err := n.Load(c.Context(), q); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("without shards: %+v, %v", load, err)
		}
	})
}
