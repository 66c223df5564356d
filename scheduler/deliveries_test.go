package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/deliveries"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

func logging(config *settings.Config) { config.Deliveries = true }

// inLog runs a test in a cluster with a log of deliveries.
func inLog(t *testing.T, shards, nodes int, test func(c *cluster, log *deliveries.Log)) {
	t.Helper()
	inCluster(t, shards, nodes, func(c *cluster) {
		c.KeepDeliveries(1000)
		backend, ok := c.Open(nodeName(0)).(store.LogStore)
		if !ok {
			t.Fatal("the model has no log")
		}
		test(c, c.nodes[0].Deliveries(backend))
	}, logging)
}

func (c *cluster) logged(log *deliveries.Log, id timer.ID, q deliveries.Query) deliveries.Page {
	c.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	page, err := log.Of(c.Context(), id, q)
	if err != nil {
		c.Fatalf("read the log: %v", err)
	}
	return page
}

// Each attempt leaves an entry, on whatever shard the timer was leased.
func TestAttemptsAreLogged(t *testing.T) {
	for shards := 1; shards <= 3; shards++ {
		inLog(t, shards, 2, func(c *cluster, log *deliveries.Log) {
			c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
				switch a.Attempt {
				case 1:
					return 30 * time.Millisecond, dispatch.Delivered{Reason: "status 500"}
				case 2:
					return time.Hour, dispatch.Delivered{}
				case 3:
					return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 42 * time.Second}
				}
				return 7 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Answer: "status 204"}
			}
			id := c.create(oneShot(time.Second)).ID
			if page := c.logged(log, id, deliveries.Query{}); len(page.Attempts) != 0 || page.Next != "" {
				c.Errorf("before the first attempt: %+v", page)
			}
			pass(2 * time.Minute)
			seen, page := c.callbacks(id.Key), c.logged(log, id, deliveries.Query{})
			if len(seen) != 4 || len(page.Attempts) != 4 || page.Next != "" || len(page.Unreached)+page.Unreadable != 0 {
				c.Fatalf("%d callbacks, log %+v; want 4", len(seen), page)
			}
			results := []string{"status 500", "no answer within 2 s", "status 503", "status 204"}
			took := []time.Duration{30 * time.Millisecond, 2 * time.Second, 0, 7 * time.Millisecond}
			slices.Reverse(page.Attempts)
			for i, got := range page.Attempts {
				want := seen[i]
				if got.Key != id.Key || got.State != (timer.State{Version: want.Version, Seq: 1, Attempt: i + 1}) || got.Node != want.node ||
					got.Result != results[i] || got.OK != (i == 3) || got.Destination != "http://receiver/" {
					c.Errorf("entry %d is %+v", i+1, got)
				}
				if d := got.Started.Sub(want.at); d < -maxLate || d > maxLate || !got.Due.Equal(want.Due) || got.Took < took[i]-maxLate || got.Took > took[i]+maxLate {
					c.Errorf("entry %d: started %v after the callback, due %v, took %v; want due %v, took %v", i+1, d, got.Due, got.Took, want.Due, took[i])
				}
				if d := got.At.Sub(got.Started.Add(got.Took)); d < -maxLate || d > 100*time.Millisecond {
					c.Errorf("entry %d was written %v after the end", i+1, d)
				}
			}
			if last, known := log.Last(c.Context(), id); !known || last.Result != "status 204" {
				c.Errorf("the last attempt is %+v, %v", last, known)
			}
			if _, known := log.Last(c.Context(), timer.ID{Key: "unknown"}); known {
				c.Error("there is a last attempt of an unknown timer")
			}
		})
	}
}

// The key alone is enough to find all attempts, and the attempts of a dead timer are logged once.
func TestAttemptsOfADeadTimerAreLogged(t *testing.T) {
	inLog(t, 4, 2, func(c *cluster, log *deliveries.Log) {
		c.respond = failing
		asked := oneShot(time.Second)
		asked.Callback.Retry.Attempts = 3
		id := c.create(asked).ID
		pass(time.Minute)
		var got []string
		for _, a := range c.logged(log, timer.ID{Key: id.Key}, deliveries.Query{}).Attempts {
			got = append(got, fmt.Sprint(a.State.Attempt, " ", a.Result))
		}
		if want := []string{"3 status 503", "2 status 503", "1 status 503"}; !slices.Equal(got, want) {
			c.Errorf("log %q, want %q", got, want)
		}
	})
}

// A pop that expires leaves an entry, though nobody was called.
func TestExpiredPopsAreLogged(t *testing.T) {
	inLog(t, 2, 2, func(c *cluster, log *deliveries.Log) {
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 10 * time.Second}
		}
		asked := oneShot(time.Second)
		asked.ExpiresAfter = 15 * time.Second
		id := c.create(asked).ID
		pass(time.Minute)
		var got []string
		for _, a := range c.logged(log, id, deliveries.Query{}).Attempts {
			got = append(got, fmt.Sprint(a.State.Attempt, " ", a.Result, " ", a.OK))
		}
		if want := []string{"2 expired false", "2 status 503 false", "1 status 503 false"}; !slices.Equal(got, want) {
			c.Errorf("log %q, want %q", got, want)
		}
	})
}

// A fence that was counted, and whose callback could not be sent in time, is no attempt.
func TestAttemptsThatWereNotSentAreNotLogged(t *testing.T) {
	inLog(t, 1, 1, func(c *cluster, log *deliveries.Log) {
		c.nodes[0].stop()
		backend := &lateFence{Store: c.Open("late")}
		backend.left.Store(2)
		n := startNode(c.T, backend, "late", c.recorder, briefly, logging)
		pass(time.Second)
		id := create(c.T, n, oneShot(time.Second)).ID
		pass(30 * time.Second)
		page := c.logged(log, id, deliveries.Query{})
		if seen := c.callbacks(id.Key); len(seen) != 1 || len(page.Attempts) != 1 || page.Attempts[0].State.Attempt != seen[0].Attempt || seen[0].Attempt < 2 {
			c.Errorf("callbacks %+v, log %+v; want a single one, not of the first attempt", seen, page.Attempts)
		}
	})
}

// A shard that can't be asked is named. The attempts on the other shards are listed.
func TestLogOfShardsThatAreAway(t *testing.T) {
	inLog(t, 3, 1, func(c *cluster, log *deliveries.Log) {
		asked := recurring(time.Second, 5)
		asked.ReplicationFactor = 3
		id := c.create(asked).ID
		pass(2500 * time.Millisecond)
		primary := c.homes(id.Key, 1)[0]
		c.connect(primary, storetest.LinkCut)
		pass(20 * time.Second)
		page := c.logged(log, id, deliveries.Query{})
		if !slices.Equal(page.Unreached, []string{primary}) || len(page.Attempts) == 0 || page.Attempts[0].Shard == primary {
			c.Errorf("log %+v, want attempts of other shards than %s", page, primary)
		}
		c.connect(primary, storetest.LinkUp)
		pass(20 * time.Second)
		page = c.logged(log, id, deliveries.Query{})
		if len(page.Unreached) != 0 || len(page.Attempts) != len(c.callbacks(id.Key)) {
			c.Errorf("log %+v, want %d attempts", page, len(c.callbacks(id.Key)))
		}
		for i := 1; i < len(page.Attempts); i++ {
			if page.Attempts[i].State.Seq > page.Attempts[i-1].State.Seq {
				c.Errorf("the attempts are not in order: %+v", page.Attempts)
			}
		}
	})
}

func TestPagesAndFiltersOfTheLog(t *testing.T) {
	inLog(t, 3, 2, func(c *cluster, log *deliveries.Log) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.URI == "http://b:80" {
				return 0, dispatch.Delivered{Verdict: dispatch.VerdictGone, Reason: "status 410"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Answer: "status 200"}
		}
		const timers = 60
		for i := range timers {
			asked := oneShot(time.Duration(i+1) * 100 * time.Millisecond)
			asked.Callback.URI = []string{"http://a:80", "http://b:80", "https://a:443"}[i%3]
			c.create(asked)
		}
		begun := time.Now()
		pass(10 * time.Second)
		all := func(q deliveries.Query) (n int) {
			c.Helper()
			last := time.Now()
			for range timers + 1 {
				page, err := log.All(c.Context(), q)
				if err != nil || len(page.Attempts) > q.Limit {
					c.Fatalf("%d attempts, %v", len(page.Attempts), err)
				}
				for _, a := range page.Attempts {
					if n++; a.At.After(last) {
						c.Errorf("%v comes behind %v", a.At, last)
					}
					last = a.At
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					return n
				}
			}
			c.Fatal("the list has no end")
			return n
		}
		for _, limit := range []int{1, 7, 20, 1000} {
			for q, want := range map[deliveries.Query]int{
				{}: timers, {Result: "ok"}: timers * 2 / 3, {Result: "failed"}: timers / 3, {Result: "status 41"}: timers / 3, {Result: "status 5"}: 0,
				{Destination: "http://a:80"}: timers / 3, {Destination: "A"}: timers * 2 / 3, {Destination: "a:443"}: timers / 3, {Destination: "https://a"}: timers / 3, {Destination: "http"}: 0,
				{Destination: "http://a:8"}:                 0,
				{Since: begun.Add(3050 * time.Millisecond)}: timers / 2, {Destination: "b", Result: "ok"}: 0,
			} {
				q.Limit = limit
				if got := all(q); got != want {
					c.Errorf("%+v: %d attempts, want %d", q, got, want)
				}
			}
		}
	})
}

func TestCursorsOfTheLog(t *testing.T) {
	inLog(t, 1, 1, func(c *cluster, log *deliveries.Log) {
		for range 20 {
			c.create(oneShot(0))
		}
		pass(2 * time.Second)
		page, err := log.All(c.Context(), deliveries.Query{Limit: 3})
		if err != nil || page.Next == "" {
			c.Fatalf("%+v, %v", page, err)
		}
		for _, wrong := range []deliveries.Query{
			{Cursor: page.Next + "x"}, {Cursor: page.Next[1:]}, {Cursor: page.Next, Result: "ok"}, {Cursor: "+"}, {Cursor: "\x00"}, {Cursor: "AAAA"},
			{Cursor: string(make([]byte, 10000))},
		} {
			wrong.Limit = 3
			if _, err := log.All(c.Context(), wrong); !errors.Is(err, store.ErrCursor) {
				c.Errorf("%+v: %v, want a refused cursor", wrong, err)
			}
		}
		if _, err := log.Of(c.Context(), timer.ID{Key: "k"}, deliveries.Query{Limit: 3, Cursor: page.Next}); !errors.Is(err, store.ErrCursor) {
			c.Errorf("a cursor of another list: %v", err)
		}
		other := c.nodes[0].Deliveries(&endlessLog{})
		if page, err = other.All(c.Context(), deliveries.Query{Limit: 3}); err != nil || page.Next == "" {
			c.Fatalf("%+v, %v", page, err)
		}
		emptied := c.nodes[0].Deliveries(&endlessLog{ended: true})
		if _, err := emptied.All(c.Context(), deliveries.Query{Limit: 3, Cursor: page.Next}); !errors.Is(err, deliveries.ErrStale) {
			c.Errorf("a cursor into what is gone: %v", err)
		}
		if _, err := emptied.All(c.Context(), deliveries.Query{Limit: 3, Cursor: page.Next, Since: time.Now()}); err != nil {
			c.Errorf("a cursor at the end of a time: %v", err)
		}
	})
}

func TestALogThatIsOff(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.KeepDeliveries(1000)
		backend, _ := c.Open(nodeName(0)).(store.LogStore)
		log := c.nodes[0].Deliveries(backend)
		id := c.create(oneShot(0)).ID
		pass(2 * time.Second)
		if _, err := log.Of(c.Context(), id, deliveries.Query{Limit: 1}); !errors.Is(err, deliveries.ErrOff) {
			c.Errorf("the log of a timer: %v", err)
		}
		if _, err := log.All(c.Context(), deliveries.Query{Limit: 1}); !errors.Is(err, deliveries.ErrOff) {
			c.Errorf("the log: %v", err)
		}
		if _, known := log.Last(c.Context(), id); known {
			c.Error("the last attempt is known")
		}
		for _, shard := range c.Open("probe").Shards() {
			if page, err := backend.Log(c.Context(), shard, store.LogQuery{Look: 10}); err != nil || page.Looked != 0 {
				c.Errorf("%s has %+v, %v", shard, page, err)
			}
		}
	})
}

// A request looks at about 20,000 entries, whatever the filter, and requests about a timer are few.
func TestReadsOfTheLogAreBounded(t *testing.T) {
	inLog(t, 1, 1, func(c *cluster, _ *deliveries.Log) {
		endless := &endlessLog{}
		log := c.nodes[0].Deliveries(endless)
		page, err := log.All(c.Context(), deliveries.Query{Limit: 10, Result: "none"})
		if err != nil || page.Next == "" || len(page.Attempts) != 0 || endless.looked < deliveries.MaxLooked || endless.looked > deliveries.MaxLooked+2000 {
			c.Errorf("%d entries looked at, %+v, %v", endless.looked, page, err)
		}
		if page.Unreadable != endless.looked/2 {
			c.Errorf("%d of %d entries were unreadable", page.Unreadable, endless.looked)
		}
		endless.looked = 0
		if _, err := log.Of(c.Context(), timer.ID{Key: "k"}, deliveries.Query{Limit: 10, Result: "none"}); err != nil || endless.looked > 3300 {
			c.Errorf("%d entries looked at for a timer, %v", endless.looked, err)
		}
		endless.looked = 0
		log.Last(c.Context(), timer.ID{Key: "k"})
		if endless.looked > 300 {
			c.Errorf("%d entries looked at for the last attempt", endless.looked)
		}
		refused := 0
		for range 100 {
			if _, err := log.Of(c.Context(), timer.ID{Key: "k"}, deliveries.Query{Limit: 1}); errors.Is(err, timer.ErrOverloaded) {
				refused++
			}
		}
		if refused < 70 {
			c.Errorf("%d of 100 requests at once were refused", refused)
		}
	})
}

// endlessLog is a log without an end, half of whose entries are unreadable.
type endlessLog struct {
	looked int
	ended  bool // nothing is left
}

func (l *endlessLog) Log(_ context.Context, shard string, q store.LogQuery) (page store.LogPage, _ error) {
	if l.ended {
		return store.LogPage{}, nil
	}
	at := store.LogPlace{Ms: 1 << 40, Shard: shard}
	if q.After != nil {
		at = *q.After
	}
	for range q.Look {
		at.Ms--
		e := store.LogEntry{Place: at, Attempt: store.Attempt{Key: "k", Result: "status 200", OK: true}}
		if at.Ms%2 == 0 {
			e = store.LogEntry{Place: at, Err: store.ErrUnreadable}
		}
		page.Entries = append(page.Entries, e)
	}
	l.looked, page.Looked, page.Until = l.looked+q.Look, q.Look, &at
	return page, nil
}
