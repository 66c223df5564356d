package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// TestNothingIsWrittenThatALiveNodeCantRead: while a node of an earlier version is live, only timers in the first format
// are written. All else is written as before.
func TestNothingIsWrittenThatALiveNodeCantRead(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		marked, plain := oneShot(time.Minute), oneShot(time.Minute)
		marked.ExpiresAfter = time.Hour
		before, other := c.create(marked), c.create(plain)
		announce := func(format int) {
			if _, err := c.Open("another").Beat(c.Context(), "s1", store.Announcement{Clock: time.Now(), Format: format}); err != nil {
				c.Fatal(err)
			}
			pass(2 * time.Second)
		}
		writes := func() map[string]error {
			n, errs := c.nodes[0], map[string]error{}
			_, errs["create"] = n.Create(c.Context(), marked)
			_, errs["create once"] = n.CreateOnce(c.Context(), "key", []byte("body"), marked)
			_, errs["replace"] = n.Replace(c.Context(), other.ID, marked)
			_, errs["patch"] = n.Patch(c.Context(), other.ID, timer.Condition{}, elsewhere)
			return errs
		}

		announce(timer.FirstFormat)
		for what, err := range writes() {
			if !errors.Is(err, timer.ErrNotUpgraded) {
				c.Errorf("%s beside an earlier node: %v, want ErrNotUpgraded", what, err)
			}
		}
		if got, err := c.nodes[1].Lookup(c.Context(), other.ID); err != nil || got.Record.State.Version != other.Version || got.Record.State.Rev != 0 {
			c.Errorf("after the refusals there is %+v, %v", got.Record.State, err)
		}
		all := []timer.Creation{{Timer: marked}, {Timer: plain}}
		c.nodes[0].CreateAll(c.Context(), all)
		if !errors.Is(all[0].Err, timer.ErrNotUpgraded) || all[1].Err != nil {
			c.Errorf("a batch beside an earlier node: %v and %v", all[0].Err, all[1].Err)
		}
		if _, err := c.nodes[0].Replace(c.Context(), other.ID, plain); err != nil {
			c.Error(err)
		}
		if _, err := c.nodes[0].Delete(c.Context(), before.ID); err != nil {
			c.Error(err)
		}

		pass(5 * time.Second) // the earlier node has gone
		announce(timer.LastFormat)
		for what, err := range writes() {
			if err != nil {
				c.Errorf("%s without an earlier node: %v", what, err)
			}
		}
	})
}
