package simtest

import (
	"testing"
	"time"

	"chronos/scheduler/verify/history"
)

func TestDump(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 2)
		defer c.close()
		receipt := c.create(t, c.machines[0], time.Hour)
		c.shards[0].mini.HSet("chronos:{http.00}:timers", "broken", "what is this")
		c.shards[0].mini.HSet("chronos:{http.00}:tags", "+", "1") // an unreadable record counts as a tombstone
		if _, err := c.shards[1].mini.ZAdd("chronos:{http.00}:due", 4e12, "nobody"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.dump()
		h := c.journal.finish(true)
		if len(h.Copies) != 1 || len(h.Strays) != 2 || len(h.Homes) != 1 || h.End.DumpNs < 0 {
			t.Errorf("dumped %+v, %+v, %+v", h.Copies, h.Strays, h.Homes)
		}
		for rank, shard := range h.Homes[0].Shards {
			for _, found := range h.Copies {
				if found.Shard == shard && (found.Key != receipt.ID.Key || found.Rank != rank || found.Ended || found.ScoreMs < 3_500_000) {
					t.Errorf("copy %+v of %s has not rank %d", found, receipt.ID, rank)
				}
			}
		}
	})
}

func TestWhatIsSlowMayBeCut(t *testing.T) {
	for f, want := range map[fault]history.Class{
		{kind: linkSlow, by: 66 * time.Millisecond}:   history.Slow,
		{kind: linkSlow, by: 67 * time.Millisecond}:   history.LinkCut,
		{kind: shardSlow, by: 133 * time.Millisecond}: history.Slow,
		{kind: shardSlow, by: 134 * time.Millisecond}: history.ShardAway,
		{kind: outSlow, by: 349 * time.Millisecond}:   history.Slow,
		{kind: nodeClock, by: time.Second}:            history.NodeClock,
	} {
		if got := f.class(); got != want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
}
