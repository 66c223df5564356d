package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// single is a timer of one copy.
func single(in time.Duration) scheduler.Timer {
	timer := oneShot(in)
	timer.ReplicationFactor = 1
	return timer
}

// A delete by bare key of a timer whose only shard is away tells nobody, however often it
// is sent: ends that it left elsewhere are no copies.
func TestADeleteThatToldNoOwnerIsRefused(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		for range 10 {
			id := c.create(single(time.Minute)).ID
			bare := scheduler.ID{Key: id.Key}
			owner := c.homes(id.Key, 1)[0]
			c.connect(owner, storetest.LinkCut)
			for range 3 {
				if _, err := c.nodes[0].Delete(c.Context(), bare); !errors.Is(err, scheduler.ErrUnavailable) {
					c.Errorf("delete while the owner is away: %v, want unavailable", err)
				}
			}
			c.connect(owner, storetest.LinkUp)
			if _, err := c.nodes[0].Delete(c.Context(), bare); err != nil {
				c.Errorf("delete when the owner is back: %v", err)
			}
			if holders := c.holders(id.Key); len(holders) > 0 {
				c.Errorf("copies live on %v", holders)
			}
		}
	})
}

// A write by bare key of a timer with two copies is carried out whichever shard is away.
func TestAWriteByKeyWhileAShardIsAway(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		n := c.nodes[0]
		for _, away := range []string{"s0", "s1", "s2"} {
			for range 10 {
				known := scheduler.ID{Key: c.create(oneShot(time.Hour)).ID.Key}
				three := oneShot(time.Hour)
				three.ReplicationFactor = 3
				wide := scheduler.ID{Key: c.create(three).ID.Key}
				fresh := scheduler.ID{Key: "new-" + known.Key}
				c.connect(away, storetest.LinkCut)
				for name, id := range map[string]scheduler.ID{"known": known, "new": fresh} {
					receipt, err := n.Replace(c.Context(), id, oneShot(time.Hour))
					if err != nil || receipt.Copies+receipt.Unreached != 2 || receipt.Copies < 1 || receipt.ID.RF != 2 {
						c.Errorf("%s away, PUT of a %s key: %+v, %v; want two copies, one maybe unreached", away, name, receipt, err)
					}
				}
				kept := oneShot(time.Hour)
				kept.ReplicationFactor = 0
				if receipt, err := n.Replace(c.Context(), wide, kept); err != nil || receipt.ID.RF != 3 {
					c.Errorf("%s away, PUT of a timer with three copies: %+v, %v; want its own factor", away, receipt, err)
				}
				if _, err := n.Delete(c.Context(), known); err != nil {
					c.Errorf("%s away, DELETE: %v", away, err)
				}
				c.connect(away, storetest.LinkUp)
			}
		}
	})
}

// A PUT by key that can't ask the first owner takes its timer for new. The one copy that
// was there hears of that before it fires, once its shard is back.
func TestAOneCopyTimerAsksTheNextOwnerAfterAnOutage(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for range 5 {
			id := c.create(single(8 * time.Second)).ID
			owner := c.homes(id.Key, 1)[0]
			c.connect(owner, storetest.LinkMute)
			pass(3 * time.Second)
			receipt, err := c.nodes[0].Replace(c.Context(), scheduler.ID{Key: id.Key}, oneShot(time.Minute))
			if err != nil || receipt.Unreached != 1 {
				c.Errorf("PUT while the owner is away: %+v, %v; want one unreached", receipt, err)
			}
			pass(3 * time.Second)
			c.connect(owner, storetest.LinkUp)
			pass(30 * time.Second)
			if n := len(c.callbacks(id.Key)); n > 0 {
				c.Errorf("%d callbacks of the replaced timer", n)
			}
			pass(time.Minute)
			if n := len(c.callbacks(id.Key)); n != 1 {
				c.Errorf("%d callbacks, want one of the new timer", n)
			}
		}
	})
}
