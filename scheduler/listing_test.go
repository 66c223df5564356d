package scheduler_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// listAll reads all pages, and checks that each page leads on.
func (c *cluster) listAll(l *listing.Lister, f listing.Filter, limit int, between func()) (all []listing.Timer) {
	c.Helper()
	q := listing.Query{Filter: f, Limit: limit}
	for page := 0; ; page++ {
		got, err := l.List(c.Context(), q)
		if err != nil {
			c.Fatalf("page %d: %v", page, err)
		}
		if len(got.Timers) > limit || page > 10_000 {
			c.Fatalf("page %d has %d timers", page, len(got.Timers))
		}
		all = append(all, got.Timers...)
		if got.Next == "" {
			return all
		}
		q.Cursor = got.Next
		if between != nil {
			between()
		}
	}
}

func keysOf(all []listing.Timer) []string {
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].ID.Key
	}
	return keys
}

// At rest each timer comes once, in due order, whatever the size of the pages, and shows what the timer is.
func TestListShowsEachTimerOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		l, want := c.nodes[0].ListerOf(nil), map[string]timer.Receipt{}
		at := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
		for i := range 150 {
			asked := recurring(time.Hour+time.Duration(i%30)*time.Second, 3)
			if i%3 == 0 { // many at one instant
				asked = oneShot(0)
				asked.At = at
			}
			asked.ReplicationFactor = 1 + i%4
			asked.Tags = []timer.Tag{{Type: "n", Count: i + 1}}
			asked.Callback.URI, asked.Callback.Opaque = fmt.Sprintf("http://receiver.example/%d", i), "secret"
			r := c.create(asked)
			want[r.ID.Key] = r
		}
		if _, err := c.nodes[0].Delete(c.Context(), c.create(oneShot(time.Hour)).ID); err != nil {
			t.Fatal(err)
		}
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: time.Hour}
		}
		retries := map[string]bool{}
		for range 20 {
			retries[c.create(oneShot(0)).ID.Key] = true
		}
		pass(4 * time.Second)
		for _, limit := range []int{1, 7, 1000} {
			all := c.listAll(l, listing.Filter{}, limit, nil)
			if len(all) != len(want)+len(retries) {
				t.Errorf("%d a page: %d timers, want %d", limit, len(all), len(want)+len(retries))
			}
			if !slices.IsSortedFunc(all, func(a, b listing.Timer) int { return a.Due.Compare(b.Due) }) {
				t.Errorf("%d a page: not in order", limit)
			}
			for i := range all {
				got := &all[i]
				if retries[got.ID.Key] {
					if got.State != listing.Retrying || got.Attempts != 1 || got.Due.Before(time.Now().Add(59*time.Minute)) {
						t.Errorf("%d a page: %+v of a timer that waits for a retry", limit, got)
					}
					continue
				}
				receipt, is := want[got.ID.Key]
				var number int
				_, _ = fmt.Sscanf(got.Timer.Callback.URI, "http://receiver.example/%d", &number)
				if !is || got.ID.String() != receipt.ID.String() || got.Version.Written() != receipt.Version || !got.Due.Equal(receipt.Due) ||
					got.State != listing.Waiting || got.Sequence != 1 || got.Attempts != 0 || got.Timer.Callback.Opaque != "" ||
					!slices.Equal(got.Timer.Tags, []timer.Tag{{Type: "n", Count: number + 1}}) || (number%3 == 0) != (got.Timer.RepeatFor == 0) {
					t.Errorf("%d a page: %+v, want %+v", limit, got, receipt)
				}
			}
		}
	})
}

// Shards look at equally many copies, and so come differently far. A list goes on behind the shard that came least far.
func TestListLeavesOutNothingBetweenShards(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		const rounds, each = 2, 10
		many := rounds * 3 * store.Partitions * listing.PerRound
		for i := range many {
			asked := oneShot(time.Hour + time.Duration(i)*time.Second)
			asked.ReplicationFactor = 1
			if i%each == 0 {
				asked.Tags = []timer.Tag{{Type: "n", Count: 1}}
			}
			c.create(asked)
		}
		got := keysOf(c.listAll(c.nodes[0].ListerOf(nil), listing.Filter{Tag: "n"}, listing.MaxLimit, nil))
		slices.Sort(got)
		if n := len(slices.Compact(slices.Clone(got))); len(got) != many/each || n != len(got) {
			t.Errorf("%d timers listed, %d of them different; want %d", len(got), n, many/each)
		}
	})
}

func TestListFilters(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.ID.Key == "firing" {
				return 1900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: time.Hour}
		}
		put := func(key string, asked timer.Timer) {
			if _, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: key}, asked); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now().Truncate(time.Millisecond)
		put("retrying", oneShot(time.Second))
		for i, key := range []string{"shop.a", "shop.b", "other"} {
			asked := oneShot(time.Duration(i+1) * time.Hour)
			asked.Callback.URI = "http://" + key + ".example/pop"
			asked.Tags = []timer.Tag{{Type: "t" + key, Count: 1}}
			put(key, asked)
		}
		pass(10 * time.Second)
		put("firing", recurring(time.Second, 100))
		pass(1500 * time.Millisecond)
		l := c.nodes[0].ListerOf(nil)
		for name, tc := range map[string]struct {
			filter listing.Filter
			want   []string
		}{
			"none":                    {listing.Filter{}, []string{"firing", "other", "retrying", "shop.a", "shop.b"}},
			"a key":                   {listing.Filter{Key: "shop.a"}, []string{"shop.a"}},
			"a key and another state": {listing.Filter{Key: "shop.a", State: listing.Leased}, nil},
			"a key that is not there": {listing.Filter{Key: "shop."}, nil},
			"no key":                  {listing.Filter{Key: "a b"}, nil},
			"a prefix":                {listing.Filter{KeyPrefix: "shop."}, []string{"shop.a", "shop.b"}},
			"a prefix and a key":      {listing.Filter{KeyPrefix: "shop.", Key: "other"}, nil},
			"waiting":                 {listing.Filter{State: listing.Waiting}, []string{"other", "shop.a", "shop.b"}},
			"leased":                  {listing.Filter{State: listing.Leased}, []string{"firing"}},
			"retrying":                {listing.Filter{State: listing.Retrying}, []string{"retrying"}},
			"text":                    {listing.Filter{Text: "op.b.exam"}, []string{"shop.b"}},
			"a tag":                   {listing.Filter{Tag: "tother"}, []string{"other"}},
			"a destination":           {listing.Filter{Destination: "http://shop.a.example/pop"}, []string{"shop.a"}}, // the recorder's destinations are URIs
			"no destination":          {listing.Filter{Destination: "http://shop.a.example"}, nil},
			"due after":               {listing.Filter{DueAfter: begin.Add(2 * time.Hour)}, []string{"other", "shop.b"}},
			"due before":              {listing.Filter{DueBefore: begin.Add(2 * time.Hour)}, []string{"firing", "retrying", "shop.a"}},
			"due between":             {listing.Filter{DueAfter: begin.Add(time.Minute), DueBefore: begin.Add(90 * time.Minute)}, []string{"retrying", "shop.a"}},
			"all of them": {
				listing.Filter{KeyPrefix: "shop", Text: "example", Tag: "tshop.b", State: listing.Waiting, DueAfter: begin, DueBefore: begin.Add(9 * time.Hour), Destination: "http://shop.b.example/pop"},
				[]string{"shop.b"},
			},
		} {
			got := keysOf(c.listAll(l, tc.filter, 2, nil))
			slices.Sort(got)
			got = slices.Compact(got) // a timer that is called back may come twice
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
		}
	})
}

// Timers fire, fail, are created, replaced and deleted, and a shard comes, or is drained, while somebody reads. A timer
// that is there throughout is never missed. A page never follows a page of another topology.
func TestListMissesNothingMeanwhile(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inCluster(t, 4, 2, func(c *cluster) {
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
				before, announced, after := layouts()
				if seed%2 == 1 { // a drain, the other way round
					four, three := after.Shards, before.Shards
					before = storetest.Layout{Shards: four}
					announced = storetest.Layout{Shards: four, Active: four, Others: [][]string{three}, Announced: true}
					after = storetest.Layout{Shards: four, Active: three, Others: [][]string{four}, Epoch: 2}
				}
				c.Lay(before)
				pass(5 * time.Second)
				c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
					switch {
					case strings.HasPrefix(a.ID.Key, "fails"):
						return 300 * time.Millisecond, dispatch.Delivered{Reason: "status 500"}
					case strings.HasPrefix(a.ID.Key, "slow"):
						return 1900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
					}
					return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				put := func(key string, asked timer.Timer) {
					if _, err := c.nodes[random.IntN(2)].Replace(c.Context(), timer.ID{Key: key}, asked); err != nil {
						t.Fatal(err)
					}
				}
				var lasting []string
				for i := range 50 {
					for kind, interval := range map[string]time.Duration{"fails": 20 * time.Second, "slow": 3 * time.Second, "quick": 400 * time.Millisecond, "later": 90 * time.Second} {
						key := fmt.Sprintf("%s-%02d", kind, i)
						lasting = append(lasting, key)
						put(key, recurring(interval+time.Duration(i)*23*time.Millisecond, 1000))
					}
					pass(17 * time.Millisecond)
				}
				pass(25 * time.Second)
				limit, pause := 1+random.IntN(60), time.Duration(random.IntN(200))*time.Millisecond
				changes, steps := []storetest.Layout{announced, after}, 0
				between := func() {
					steps++
					key := fmt.Sprintf("new-%03d", random.IntN(40))
					switch random.IntN(3) {
					case 0:
						put(key, oneShot(time.Duration(random.IntN(7))*time.Second))
					case 1:
						if _, err := c.nodes[0].Delete(c.Context(), timer.ID{Key: key}); err != nil {
							t.Fatal(err)
						}
					default:
						put("replaced-"+key, recurring(time.Second, 5))
					}
					if len(changes) > 0 && random.IntN(20) == 0 {
						c.Lay(changes[0])
						changes = changes[1:]
					}
					pass(pause)
				}
				lists := []*listing.Lister{c.nodes[0].ListerOf(nil), c.nodes[1].ListerOf(nil)}
				for range 4 {
					c.wantListed(lists, lasting, limit, between)
				}
				if steps < 10 {
					t.Errorf("only %d steps between pages", steps)
				}
			})
		})
	}
}

// wantListed reads all pages by several nodes in turn, and begins anew when the shards change.
func (c *cluster) wantListed(lists []*listing.Lister, lasting []string, limit int, between func()) {
	c.Helper()
	listed, q := map[string]bool{}, listing.Query{Limit: limit}
	for page := range 3000 {
		got, err := lists[page%len(lists)].List(c.Context(), q)
		if errors.Is(err, listing.ErrStale) {
			listed, q.Cursor = map[string]bool{}, ""
			between()
			continue
		}
		if err != nil {
			c.Fatal(err)
		}
		for i := range got.Timers {
			listed[got.Timers[i].ID.Key] = true
		}
		if q.Cursor = got.Next; q.Cursor == "" {
			break
		}
		between()
	}
	for _, key := range lasting {
		if !listed[key] {
			c.Errorf("%s is not listed", key)
		}
	}
}

func TestListWithShardsAway(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		for i := range 60 {
			c.create(oneShot(time.Hour + time.Duration(i)*time.Second))
		}
		l := c.nodes[0].ListerOf(nil)
		c.connect("s1", storetest.LinkCut)
		pass(3 * time.Second)
		page, err := l.List(c.Context(), listing.Query{Limit: 1000})
		if err != nil || len(page.Timers) != 60 || !slices.Equal(page.Unreached, []string{"s1"}) {
			t.Errorf("%d timers without a shard, unreached %v, %v", len(page.Timers), page.Unreached, err)
		}
		if page, err := l.List(c.Context(), listing.Query{Filter: listing.Filter{Key: page.Timers[0].ID.Key}, Limit: 1}); err != nil || len(page.Timers) != 1 || !slices.Equal(page.Unreached, []string{"s1"}) {
			t.Errorf("of one key: %+v, %v", page, err)
		}
		for _, shard := range []string{"s0", "s2"} {
			c.connect(shard, storetest.LinkCut)
		}
		pass(3 * time.Second)
		if _, err := l.List(c.Context(), listing.Query{Limit: 1000}); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("without any shard: %v", err)
		}
	})
}

// A needle among many timers takes several requests. Each says how far it came, and leaves the shards time.
func TestListIsBounded(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		const many = 3000
		for i := range many {
			asked := oneShot(time.Hour + time.Duration(i)*time.Second)
			asked.ReplicationFactor = 1
			if i == many-10 {
				asked.Callback.URI = "http://needle/"
			}
			c.create(asked)
		}
		const each = 60 * time.Millisecond // after which the shard has a rest of over a second
		calls := 0
		c.Inject(func(op, _ string) error {
			if op == "list" {
				calls++
				<-time.After(each)
			}
			return nil
		}, nil)
		l := c.nodes[0].ListerOf(nil)
		q := listing.Query{Filter: listing.Filter{Text: "needle"}, Limit: 10}
		var reached time.Time
		found, scanned, start := 0, 0, time.Now()
		for pages := 1; ; pages++ {
			before, begun := calls, time.Now()
			page, err := l.List(c.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(begun)
			if took > 1100*time.Millisecond || calls-before > 1 {
				t.Errorf("page %d: %d calls in %v", pages, calls-before, took)
			}
			found, scanned = found+len(page.Timers), scanned+page.Scanned
			if page.Next == "" {
				if !page.Reached.IsZero() || found != 1 || scanned < many || pages == 1 {
					t.Errorf("%d found, %d looked at, in %d pages, reached %v", found, scanned, pages, page.Reached)
				}
				if calls < 2 || time.Since(start) < time.Duration(calls-1)*20*each {
					t.Errorf("%d calls of %v in %v: the shard has not rested", calls, each, time.Since(start))
				}
				break
			}
			if calls == before { // the shard rests
				if took < time.Second || page.Next != q.Cursor || page.Scanned != 0 {
					t.Errorf("page %d: looked at %d, next %q after %q in %v", pages, page.Scanned, page.Next, q.Cursor, took)
				}
				continue
			}
			if !page.Reached.After(reached) || page.Scanned == 0 {
				t.Errorf("page %d: reached %v after %v, looked at %d", pages, page.Reached, reached, page.Scanned)
			}
			q.Cursor, reached = page.Next, page.Reached
		}
	})
}

func TestListTakesTurns(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		c.Inject(func(op, _ string) error {
			if op == "list" {
				<-time.After(1500 * time.Millisecond)
			}
			return nil
		}, nil)
		l := c.nodes[0].ListerOf(nil)
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := l.List(c.Context(), listing.Query{Limit: 1})
				errs <- err
			}()
		}
		busy := 0
		for range 3 {
			if err := <-errs; errors.Is(err, listing.ErrBusy) {
				busy++
			} else if err != nil {
				t.Error(err)
			}
		}
		if busy != 1 {
			t.Errorf("%d of 3 lists are refused, want 1", busy)
		}
	})
}
