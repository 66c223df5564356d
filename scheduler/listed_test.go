package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/listing"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// wantCopies checks the copies of a timer, all but the instants.
func (c *cluster) wantCopies(when string, id timer.ID, want ...listing.Copy) []listing.Copy {
	c.Helper()
	got, err := c.nodes[0].Copies(c.Context(), id)
	if err != nil {
		c.Fatalf("copies %s: %v", when, err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(listing.Copy{}, "Due", "Look")); diff != "" {
		c.Errorf("copies %s (-want +got):\n%s", when, diff)
	}
	return got
}

// A timer's copies are told of on every owner, in each state.
func TestCopiesTellTheirStates(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt == 1 {
				return time.Second, dispatch.Delivered{Reason: "status 503", RetryAfter: 20 * time.Second}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		if _, err := c.nodes[0].Copies(c.Context(), timer.ID{Key: "k", RF: 2}); !errors.Is(err, timer.ErrNotFound) {
			c.Errorf("copies of a timer that never was: %v, want not found", err)
		}
		made := c.create(oneShot(5 * time.Second))
		homes := c.homes(made.ID.Key, 2)
		state := timer.State{Version: made.Version, Seq: 1}
		first, second := listing.Copy{Shard: homes[0], Owner: true, Version: state}, listing.Copy{Shard: homes[1], Rank: 1, Owner: true, Version: state}
		in := func(c listing.Copy, s listing.CopyState, attempt int, lease string) listing.Copy {
			c.State, c.Version.Attempt, c.Lease = s, attempt, lease
			return c
		}
		got := c.wantCopies("that wait", made.ID, in(first, listing.CopyWaiting, 0, ""), in(second, listing.CopyWaiting, 0, ""))
		if !got[0].Due.Equal(made.Due) || !got[0].Look.Equal(made.Due) || got[1].Look.Sub(got[1].Due) != 2*time.Second {
			c.Errorf("copies due at %v, looked at %v and %v, want a skew of 2 s", got[0].Due, got[0].Look, got[1].Look)
		}
		pass(5*time.Second - 50*time.Millisecond)
		c.wantCopies("that are claimed", made.ID, in(first, listing.CopyLeased, 0, nodeName(0)), in(second, listing.CopyWaiting, 0, ""))
		pass(500 * time.Millisecond)
		c.wantCopies("during the callback", made.ID, in(first, listing.CopyFiring, 1, nodeName(0)), in(second, listing.CopyWaiting, 0, ""))
		pass(5 * time.Second)
		retried := c.wantCopies("that wait for the retry", made.ID, in(first, listing.CopyRetrying, 1, ""), in(second, listing.CopyRetrying, 1, ""))
		if !retried[0].Due.Equal(retried[0].Look) || retried[0].Due.Sub(made.Due) < 20*time.Second {
			c.Errorf("the retry is due at %v and looked at %v", retried[0].Due, retried[0].Look)
		}
		c.connect(homes[1], storetest.LinkCut)
		c.wantCopies("with a shard away", made.ID, in(first, listing.CopyRetrying, 1, ""), listing.Copy{Shard: homes[1], Rank: 1, Owner: true, State: listing.CopyUnreached})
		if got, err := c.nodes[0].Copies(c.Context(), timer.ID{Key: made.ID.Key + "x", RF: 3}); err != nil || len(got) != 3 {
			c.Errorf("copies of an unknown timer with a shard away: %+v, %v, want three places", got, err)
		}
		c.connect(homes[1], storetest.LinkUp)
		pass(10 * time.Second)
		c.Wipe(homes[0])
		c.wantCopies("with a copy lost", made.ID, listing.Copy{Shard: homes[0], Owner: true, State: listing.CopyMissing}, in(second, listing.CopyRetrying, 1, ""))
		pass(30 * time.Second)
		deleted := c.create(oneShot(time.Hour))
		end, err := c.nodes[0].Delete(c.Context(), deleted.ID)
		if err != nil {
			c.Fatal(err)
		}
		homes = c.homes(deleted.ID.Key, 2)
		over := timer.State{Version: end.Version, Seq: 1, Ended: true}
		ended := c.wantCopies("of a timer that was deleted", deleted.ID,
			listing.Copy{Shard: homes[0], Owner: true, State: listing.CopyTombstone, Version: over},
			listing.Copy{Shard: homes[1], Rank: 1, Owner: true, State: listing.CopyTombstone, Version: over})
		if !ended[0].Due.IsZero() || ended[0].Look.IsZero() {
			c.Errorf("a tombstone is due at %v, and looked at %v", ended[0].Due, ended[0].Look)
		}
	})
}

// A copy on a shard that is no owner any more comes behind the owners.
func TestCopiesTellOfLeftovers(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		made := c.create(oneShot(time.Hour))
		homes := c.homes(made.ID.Key, 3)
		before, state := c.homes(made.ID.Key, 3), timer.State{Version: made.Version, Seq: 1}
		c.Lay(storetest.Layout{Shards: []string{"s0", "s1", "s2"}, Active: []string{homes[1], homes[2]}, Others: [][]string{{"s0", "s1", "s2"}}, Epoch: 1})
		owners := c.homes(made.ID.Key, 2)
		got, err := c.nodes[0].Copies(c.Context(), made.ID)
		if err != nil || len(got) != 3 {
			c.Fatalf("copies: %+v, %v, want three", got, err)
		}
		for i, owner := range owners {
			if got[i].Shard != owner || !got[i].Owner {
				c.Errorf("copy %d is %+v, want that of %s", i, got[i], owner)
			}
		}
		if left := got[2]; left.Shard != before[0] || left.Owner || left.State != listing.CopyWaiting || left.Version != state {
			c.Errorf("the leftover is %+v", left)
		}
	})
}
