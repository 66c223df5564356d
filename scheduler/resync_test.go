package scheduler_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/resync"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// page asks a node for one page.
func (c *cluster) page(n *node, shard string, after store.Place, limit int) (resync.Page, error) {
	return n.Resync(c.Context(), resync.Query{Shard: shard, View: c.Open("probe").View(), After: after, Limit: limit, Bytes: 1 << 20})
}

// readAll reads all pages, through the nodes in turn, and checks every page.
func (c *cluster) readAll(shard string, limit int, between func()) (all []resync.Entry) {
	c.Helper()
	after := &store.Place{}
	for k := 0; after != nil; k++ {
		page, err := c.page(c.nodes[k%len(c.nodes)], shard, *after, limit)
		if err != nil {
			c.Fatalf("page %d of %s: %v", k, shard, err)
		}
		if len(page.Timers) > limit || page.Next != nil && page.Next.Compare(*after) <= 0 {
			c.Fatalf("page %d of %s: %d timers, from %v to %v", k, shard, len(page.Timers), after, page.Next)
		}
		if n := len(count(page.Timers)); n != len(page.Timers) {
			c.Errorf("page %d of %s: %d timers, %d of them twice", k, shard, n, len(page.Timers)-n)
		}
		c.wantInOrder(shard, page.Timers, *after)
		all, after = append(all, page.Timers...), page.Next
		if between != nil {
			between()
		}
	}
	return all
}

// wantInOrder checks the order of the timers of a page behind a place, as the timers show the
// order.
func (c *cluster) wantInOrder(shard string, timers []resync.Entry, after store.Place) {
	c.Helper()
	last := after.At
	for i := range timers {
		if timers[i].At.Before(last) {
			c.Errorf("%s: timer %d, %s, shows %v, and the one before it %v", shard, i, timers[i].Record.ID.Key, timers[i].At, last)
		}
		last = timers[i].At
	}
}

// readByTime reads all pages like a client that goes on behind the time and key of a page's last
// timer.
func (c *cluster) readByTime(n *node, shard string, limit int) (all []resync.Entry) {
	c.Helper()
	var after store.Place
	for range 100 {
		page, err := c.page(n, shard, after, limit)
		if err != nil || page.Next != nil && len(page.Timers) == 0 {
			c.Fatalf("page of %s behind %v: %d timers, %v", shard, after, len(page.Timers), err)
		}
		c.wantInOrder(shard, page.Timers, after)
		if all = append(all, page.Timers...); page.Next == nil {
			return all
		}
		after.At = page.Timers[len(page.Timers)-1].At
	}
	c.Fatalf("%s: after 100 pages the reader is still at %v", shard, after.At)
	return nil
}

// reader is a node that fires nothing.
func (c *cluster) reader() *node {
	c.Helper()
	s, err := scheduler.New(settings.Default("reader", slog.New(slog.DiscardHandler)), c.Open("reader"), c.on("reader"))
	if err != nil {
		c.Fatal(err)
	}
	return &node{Scheduler: s}
}

// failOnce has a timer's callback fail, so the timer waits for its retry.
func (c *cluster) failOnce(kept store.Store, key string, delay time.Duration) {
	c.Helper()
	claim := c.fireOf(kept, key)
	kept.Settle(c.Context(), "s0", []store.Settlement{{Lease: claim.Lease, Outcome: store.OutcomeAgain, Delay: delay}})
}

// fireOf claims and fences a timer that is alone in its partition.
func (c *cluster) fireOf(kept store.Store, key string) store.Claimed {
	c.Helper()
	due, err := kept.Claim(c.Context(), "s0", store.ClaimRequest{
		Partitions: []int{storetest.PartitionOf(key)}, Limit: 100, MaxBytes: 1 << 20, Grace: time.Second,
	})
	if err != nil || len(due.Claims) != 1 || due.Claims[0].Lease.Key != key {
		c.Fatalf("%s is not due alone: %+v, %v", key, due, err)
	}
	claim := due.Claims[0]
	terms := store.FenceTerms{Limit: 2 * time.Second, Hold: 3500 * time.Millisecond}
	if fenced := kept.Fire(c.Context(), "s0", terms, []store.Fence{{Lease: claim.Lease, Pops: 1}})[0]; fenced.Status != store.FencePassed {
		c.Fatalf("%s: %+v", key, fenced)
	}
	return claim
}

// count says how often each timer was listed.
func count(all []resync.Entry) map[string]int {
	times := map[string]int{}
	for i := range all {
		times[all[i].Record.ID.Key]++
	}
	return times
}

func TestResyncListsWhatBelongsOnAShardOnce(t *testing.T) {
	inCluster(t, 4, 2, func(c *cluster) {
		var ids []timer.ID
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		for i := range 300 {
			asked := oneShot(time.Minute + time.Duration(i%40)*time.Second)
			if i%3 == 0 { // many at one instant
				asked.Interval, asked.At = 0, at
			}
			asked.ReplicationFactor = 1 + i%5
			asked.Tags = []timer.Tag{{Type: "n", Count: i + 1}}
			ids = append(ids, c.create(asked).ID)
			if i%10 == 9 {
				if _, err := c.nodes[0].Delete(c.Context(), ids[len(ids)-1]); err != nil {
					c.Fatal(err)
				}
				ids = ids[:len(ids)-1]
			}
			pass(3 * time.Millisecond)
		}
		for _, limit := range []int{1, 7, 1000} {
			for _, shard := range []string{"s0", "s1", "s2", "s3"} {
				all := c.readAll(shard, limit, nil)
				times := count(all)
				for _, id := range ids {
					homes := c.homes(id.Key, min(id.RF, 4))
					want := 0
					if slices.Contains(homes, shard) {
						want = 1
					}
					if times[id.Key] != want {
						c.Errorf("%s, %d a page: %s is listed %d times, and belongs on %v", shard, limit, id, times[id.Key], homes)
					}
					delete(times, id.Key)
				}
				if len(times) > 0 {
					c.Errorf("%s: listed too: %v", shard, times)
				}
				if !slices.IsSortedFunc(all, func(a, b resync.Entry) int { return a.Due.Compare(b.Due) }) {
					c.Errorf("%s, %d a page: not in order of due time", shard, limit)
				}
				for _, r := range all {
					homes := c.homes(r.Record.ID.Key, min(r.Record.ID.RF, 4))
					if !slices.Equal(r.Replicas, homes) || !slices.Equal(r.Former, homes) || r.Record.Rank != 0 || len(r.Record.Timer.Tags) != 1 {
						c.Fatalf("%+v, want replicas %v", r, homes)
					}
				}
			}
		}
	})
}

// Timers fire, fail, are retried, created, replaced and deleted during the reading. Every timer
// that exists throughout is listed.
func TestResyncMissesNothingMeanwhile(t *testing.T) {
	for name, pace := range map[string]struct {
		limit int // a page
		pause time.Duration
	}{"at once": {5, 0}, "slowly": {20, 40 * time.Millisecond}, "more slowly": {60, 150 * time.Millisecond}, "in leaps": {200, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
					switch {
					case strings.HasPrefix(a.ID.Key, "fails"):
						return 300 * time.Millisecond, dispatch.Delivered{Reason: "status 500"}
					case strings.HasPrefix(a.ID.Key, "slow"):
						return 1900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
					}
					return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				var lasting []string
				put := func(key string, asked timer.Timer) {
					if _, err := c.nodes[len(key)%2].Replace(c.Context(), timer.ID{Key: key}, asked); err != nil {
						c.Fatal(err)
					}
				}
				for i := range 60 {
					for kind, interval := range map[string]time.Duration{"fails": 20 * time.Second, "slow": 3 * time.Second, "quick": 400 * time.Millisecond, "later": 90 * time.Second} {
						key := fmt.Sprintf("%s-%02d", kind, i)
						lasting = append(lasting, key)
						put(key, recurring(interval+time.Duration(i)*23*time.Millisecond, 1000))
					}
					pass(17 * time.Millisecond)
				}
				pass(25 * time.Second)
				listed := map[string]bool{}
				for _, shard := range []string{"s0", "s1", "s2"} {
					n := 0
					for key := range count(c.readAll(shard, pace.limit, func() {
						n++
						put(fmt.Sprintf("new-%s-%03d", shard, n), oneShot(time.Duration(n%7)*time.Second))
						pass(pace.pause)
					})) {
						listed[shard+" "+key] = true
					}
				}
				for _, key := range lasting {
					for _, shard := range c.homes(key, 2) {
						if !listed[shard+" "+key] {
							c.Errorf("%s is not listed for %s", key, shard)
						}
					}
				}
			})
		})
	}
}

// A timer whose first copy's shard is away is listed from another copy. With two shards away the
// answer is an error rather than an incomplete list.
func TestResyncWithShardsAway(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for i := range 60 {
			asked := oneShot(time.Hour + time.Duration(i)*time.Second)
			asked.ReplicationFactor = 1 + i%3
			ids = append(ids, c.create(asked).ID)
		}
		for name, link := range map[string]storetest.Link{"refused": storetest.LinkCut, "silent": storetest.LinkMute} {
			c.connect("s1", link)
			times := count(c.readAll("s0", 9, nil))
			if page, err := c.page(c.nodes[0], "s1", store.Place{}, 1); err != nil || page.Unreached != 1 {
				c.Errorf("%s: %d unreached, %v; want 1", name, page.Unreached, err)
			}
			for _, id := range ids {
				want := 0
				if slices.Contains(c.homes(id.Key, id.RF), "s0") {
					want = 1
				}
				// A backup stands at the due time of its pop and, behind, at the time to look at the backup.
				if have := times[id.Key]; have < want || have > 2*want {
					c.Errorf("%s: %s is listed %d times, want %d", name, id, have, want)
				}
			}
			c.connect("s2", link)
			if page, err := c.page(c.nodes[0], "s0", store.Place{}, 9); !errors.Is(err, resync.ErrShardsAway) || !errors.Is(err, timer.ErrUnavailable) {
				c.Errorf("%s: two away: %+v, %v", name, page, err)
			}
			c.connect("s1", storetest.LinkUp)
			c.connect("s2", storetest.LinkUp)
			pass(3 * time.Second)
		}
	})
}

// A copy that missed the latest write is not listed.
func TestResyncListsTheNewestStateAlone(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		var replaced, deleted []timer.ID
		for range 20 {
			replaced, deleted = append(replaced, c.create(oneShot(time.Hour)).ID), append(deleted, c.create(oneShot(time.Hour)).ID)
		}
		c.connect("s0", storetest.LinkCut)
		second := oneShot(2 * time.Hour)
		second.Callback.Opaque = "second"
		for i := range replaced {
			if _, err := c.nodes[0].Replace(c.Context(), replaced[i], second); err != nil {
				c.Fatal(err)
			}
			if _, err := c.nodes[0].Delete(c.Context(), deleted[i]); err != nil {
				c.Fatal(err)
			}
		}
		c.connect("s0", storetest.LinkUp)
		all := c.readAll("s1", 3, nil)
		if n := len(count(all)); n != len(replaced) {
			c.Errorf("%d are listed, want the %d that were replaced", n, len(replaced))
		}
		for _, r := range all {
			if r.Record.Timer.Callback.Opaque != "second" {
				c.Errorf("listed: %+v", r.Record)
			}
		}
	})
}

// Before, during and after a sweep every timer is listed, with its former owners.
func TestResyncWhileTheSweepMovesCopies(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for i := range 200 {
			asked := oneShot(time.Hour + time.Duration(i)*100*time.Millisecond)
			asked.ReplicationFactor = 1 + i%2
			ids = append(ids, c.create(asked).ID)
		}
		_, announced, after := layouts()
		c.Lay(announced)
		pass(5 * time.Second)
		was := c.Open("probe").View()
		c.Lay(after)
		if _, err := c.nodes[0].Resync(c.Context(), resync.Query{Shard: "s3", View: was, Limit: 1, Bytes: 1}); !isView(err, c.Open("probe").View()) {
			c.Errorf("by the view before: %v", err)
		}
		// check reads all pages.
		check := func(when string, limit int, between func()) {
			c.Helper()
			all := c.readAll("s3", limit, between)
			times, before := count(all), 0
			for _, id := range ids {
				if slices.Contains(c.homes(id.Key, id.RF), "s3") && times[id.Key] == 0 {
					c.Errorf("%s: %s is not listed", when, id)
				}
			}
			for _, r := range all {
				if slices.Contains(r.Former, "s3") {
					before++
				}
			}
			if when != "during the sweep" && before > 0 != (when == "after the sweep") {
				c.Errorf("%s: %d of %d belonged on the shard before", when, before, len(all))
			}
		}
		check("before the sweep", 7, nil)
		c.Inject(func(op, _ string) error {
			if op == "scan" { // so the sweep takes a while
				<-time.After(70 * time.Millisecond)
			}
			return nil
		}, nil)
		after.Epoch = 2
		c.Lay(after)
		for range 1000 {
			if pass(10 * time.Millisecond); len(c.Copies("s3")) > 0 {
				break
			}
		}
		had := len(c.Copies("s3"))
		check("during the sweep", 2, func() { pass(30 * time.Millisecond) }) // longer than the sweeps of two shards are apart
		if now := len(c.Copies("s3")); had == 0 || now < had+30 {
			c.Errorf("%d copies before the sweep and %d after it: it was not in the middle", had, now)
		}
		pass(time.Minute)
		check("after the sweep", 7, nil)
	})
}

func isView(err error, present string) bool {
	view, is := errors.AsType[*resync.ViewError](err)
	return is && view.Present == present
}

func TestResyncRefusesAnUnknownShard(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		if _, err := c.page(c.nodes[0], "s7", store.Place{}, 1); !errors.Is(err, timer.ErrShardUnknown) {
			c.Errorf("resync: %v", err)
		}
		if err := c.nodes[0].DropReferences(c.Context(), "s7", nil); !errors.Is(err, timer.ErrShardUnknown) {
			c.Errorf("drop references: %v", err)
		}
	})
}

// A timer whose retry is far ahead leads no reader past earlier timers.
func TestResyncByTimeMissesNothingWhileRetriesWait(t *testing.T) {
	inCluster(t, 1, 0, func(c *cluster) {
		backend, reader := c.Open("other"), c.reader()
		waiting := map[string]time.Duration{"retry-1": 0, "retry-2": 0, "t1": 5 * time.Second, "t2": 6 * time.Second, "t3": 7 * time.Second, "t4": 40 * time.Second}
		keys := slices.Sorted(maps.Keys(waiting))
		for _, key := range keys {
			asked := oneShot(waiting[key])
			asked.ReplicationFactor = 1
			if _, err := reader.Replace(c.Context(), timer.ID{Key: key, RF: 1}, asked); err != nil {
				c.Fatal(err)
			}
			pass(time.Millisecond) // so no two timers are due at one instant
		}
		c.failOnce(backend, "retry-1", 30*time.Second)
		pass(time.Millisecond)
		c.failOnce(backend, "retry-2", 30*time.Second)
		for _, limit := range []int{2, 3, 10} {
			times := count(c.readByTime(reader, "s0", limit))
			for _, key := range keys {
				if times[key] == 0 {
					c.Errorf("%d a page: %s is not listed", limit, key)
				}
			}
		}
	})
}

// A backup stands at the due time of its pop and, behind, at the time to look at the backup: every
// page leads on, no page leads back.
func TestResyncByTimeComesToAnEndWithAShardAway(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		var ids []timer.ID
		for i := range 40 {
			ids = append(ids, c.create(oneShot(time.Hour+time.Duration(i)*300*time.Millisecond)).ID)
		}
		c.connect("s1", storetest.LinkCut)
		for _, limit := range []int{2, 3, 7} {
			times := count(c.readByTime(c.nodes[0], "s0", limit))
			for _, id := range ids {
				if slices.Contains(c.homes(id.Key, id.RF), "s0") && times[id.Key] == 0 {
					c.Errorf("%d a page: %s is not listed", limit, id)
				}
			}
		}
	})
}

// A leased retry stands at the common place of all copies that could be leased at the time: not
// behind the place that a settlement may give, and not before the place of the reading.
func TestResyncListsARetryThatIsLeased(t *testing.T) {
	inCluster(t, 1, 0, func(c *cluster) {
		kept, reader := c.Open("other"), c.reader()
		for key, interval := range map[string]time.Duration{"again": 0, "first": time.Second, "second": 6 * time.Second} {
			asked := oneShot(interval)
			asked.ReplicationFactor = 1
			if _, err := reader.Replace(c.Context(), timer.ID{Key: key, RF: 1}, asked); err != nil {
				c.Fatal(err)
			}
		}
		lease := func() store.Claimed { return c.fireOf(kept, "again") }
		claim := lease()
		pass(10 * time.Millisecond)
		kept.Settle(c.Context(), "s0", []store.Settlement{{Lease: claim.Lease, Outcome: store.OutcomeAgain, Delay: 5 * time.Second}})
		next := func(after store.Place, want string) store.Place {
			c.Helper()
			page, err := c.page(reader, "s0", after, 1)
			if err != nil || len(page.Timers) != 1 || page.Timers[0].Record.ID.Key != want {
				c.Fatalf("behind %+v: %+v, %v; want %s", after, page, err, want)
			}
			if page.Next == nil {
				return after
			}
			return *page.Next
		}
		at := next(store.Place{At: time.Now()}, "first")
		pass(5 * time.Second) // until the retry is due; the reading is past the due time of the pop
		claim = lease()
		next(next(at, "again"), "second")
		kept.Settle(c.Context(), "s0", []store.Settlement{{Lease: claim.Lease, Outcome: store.OutcomeAgain, Delay: 500 * time.Millisecond}})
		next(next(at, "again"), "second")
	})
}

// An attacker who can write to a Redis can't put a key of a foreign form into an answer.
func TestResyncNamesNoHostileKey(t *testing.T) {
	inCluster(t, 1, 0, func(c *cluster) {
		kept, reader := c.Open("other"), c.reader()
		var writes []store.Write
		put := func(key string, in time.Duration) {
			asked := oneShot(in)
			writes = append(writes, store.Write{
				Kind: store.WritePut, Shard: "s0", Key: key, State: timer.State{Version: 1 << 20, Seq: 1}, RF: 1, Life: time.Hour, Timer: &asked, DueIn: in,
			})
		}
		for i := range 40 {
			put(fmt.Sprintf("a\r\nX-Evil: %d", i), 5*time.Second)
		}
		for i := range 5 {
			put(fmt.Sprintf("tea-%d", i), time.Duration(5+i)*time.Second)
		}
		for _, w := range kept.Merge(c.Context(), writes) {
			if w.Err != nil {
				c.Fatal(w.Err)
			}
		}
		for _, limit := range []int{1, 2, 5, 100} {
			var all []resync.Entry
			for after := (&store.Place{}); after != nil; {
				page, err := c.page(reader, "s0", *after, limit)
				if err != nil {
					c.Fatal(err)
				}
				if page.Next != nil && page.Next.Key != "" && !timer.ValidKey(page.Next.Key) {
					c.Fatalf("%d a page: goes on behind %q", limit, page.Next.Key)
				}
				all, after = append(all, page.Timers...), page.Next
			}
			if times := count(all); len(times) != 5 || len(all) != 5 {
				c.Errorf("%d a page: listed are %v", limit, times)
			}
		}
	})
}

// A page ends when its timers take too many bytes, and has at least one timer.
func TestResyncPagesAreBounded(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		for range 10 {
			asked := oneShot(time.Hour)
			asked.Callback.Opaque = strings.Repeat("x", 1000)
			c.create(asked)
		}
		for bytes, want := range map[int]int{1: 1, 1500: 1, 3500: 3, 1 << 20: 10} {
			page, err := c.nodes[0].Resync(c.Context(), resync.Query{Shard: "s0", View: c.Open("probe").View(), Limit: 100, Bytes: bytes})
			if err != nil || len(page.Timers) != want || (page.Next != nil) != (want < 10) {
				c.Errorf("%d bytes: %d timers, next %v, %v; want %d", bytes, len(page.Timers), page.Next, err, want)
			}
		}
	})
}

// References are dropped where copies don't belong any more and are in place on the owners. Nothing
// else is dropped.
func TestDropReferences(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		var keys []string
		for i := range 90 {
			asked := oneShot(time.Hour)
			if i%3 == 0 {
				asked = oneShot(7500 * time.Millisecond) // due within 2 s at the time of the drop
			}
			asked.ReplicationFactor = 1 + i%2
			keys = append(keys, c.create(asked).ID.Key)
		}
		pass(time.Second)
		c.Lay(storetest.Layout{Shards: []string{"s0", "s1", "s2"}, Active: []string{"s1", "s2"}, Others: [][]string{{"s0", "s1", "s2"}}})
		pass(5 * time.Second)
		before := c.Copies("s0")
		drop := func(shard string, keys ...string) {
			c.Helper()
			if err := c.nodes[0].DropReferences(c.Context(), shard, append(keys, "unknown", keys[0])); err != nil {
				c.Errorf("drop references: %v", err)
			}
		}
		c.connect("s2", storetest.LinkCut)
		drop("s0", keys...)
		for key := range before {
			rf := c.Open("probe").Read(c.Context(), []store.Spot{{Shard: "s0", Key: key}})[0].Record.ID.RF
			_, there := c.Copies("s0")[key]
			if slices.Contains(c.homes(key, max(rf, 1)), "s2") && !there {
				c.Errorf("%s was dropped while a shard on which it belongs was away", key)
			}
		}
		c.connect("s2", storetest.LinkUp)
		drop("s0", keys...)
		for i, key := range keys {
			_, was := before[key]
			_, there := c.Copies("s0")[key]
			switch {
			case there != (was && i%3 == 0):
				c.Errorf("%s: there before: %t, now: %t; due soon: %t", key, was, there, i%3 == 0)
			case was && i%3 != 0:
				if holders, homes := c.holders(key), c.homes(key, 1+i%2); len(holders) != len(homes) {
					c.Errorf("%s is on %v, and belongs on %v", key, holders, homes)
				}
			}
		}
		for _, shard := range []string{"s1", "s2"} { // the owners
			had := len(c.Copies(shard))
			if drop(shard, keys...); len(c.Copies(shard)) != had {
				c.Errorf("%d of %d copies are left on %s, where they belong", len(c.Copies(shard)), had, shard)
			}
		}
		c.connect("s0", storetest.LinkMute)
		pass(3 * time.Second)
		if err := c.nodes[0].DropReferences(c.Context(), "s0", keys); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("of a silent shard: %v", err)
		}
		c.connect("s0", storetest.LinkUp)
		pass(30 * time.Second)
		for i, key := range keys {
			if i%3 == 0 {
				c.wantOnce(key, 1, 4*time.Second)
			}
		}
	})
}
