package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/settings"
	"chronos/scheduler/timer"
)

const (
	limited = "http://limited/"
	answers = "http://answers/"
)

// limitTo gives each node a file with a limit for the limited destination.
func limitTo(l destinations.Limit) func(*settings.Config) {
	return func(c *settings.Config) {
		c.Destinations = destinations.NewBook(nil)
		c.Destinations.Limit(map[string]destinations.Limit{limited: l})
	}
}

// dueAt makes n timers of a destination that come due together, on all nodes in turn.
func (c *cluster) dueAt(at time.Time, n int, uri string) {
	c.Helper()
	for i := range n {
		create(c.T, c.nodes[i%len(c.nodes)], timer.Timer{At: at, ReplicationFactor: 2, Callback: timer.Callback{URI: uri}})
	}
}

// spreadFrom makes timers of the destination that answers, one every 50 ms.
func (c *cluster) spreadFrom(at time.Time, lasts time.Duration) (n int) {
	c.Helper()
	for ; time.Duration(n)*50*time.Millisecond < lasts; n++ {
		c.dueAt(at.Add(time.Duration(n)*50*time.Millisecond), 1, answers)
	}
	return n
}

// to are the callbacks of a destination.
func (c *cluster) to(uri string) (all []attempt) {
	for _, a := range c.seen() {
		if a.Callback.URI == uri {
			all = append(all, a)
		}
	}
	return all
}

// wantCalledOnce checks that each of n timers of a destination was called once.
func (c *cluster) wantCalledOnce(uri string, n int) {
	c.Helper()
	calls := map[string]int{}
	for _, a := range c.to(uri) {
		if calls[a.ID.Key]++; calls[a.ID.Key] > 1 || a.Attempt != 1 {
			c.Errorf("timer %s was called %d times, attempt %d", a.ID.Key, calls[a.ID.Key], a.Attempt)
		}
	}
	if len(calls) != n {
		c.Errorf("%d timers of %s were called, want %d", len(calls), uri, n)
	}
}

func TestARateHoldsForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inCluster(t, 2, nodes, func(c *cluster) {
				const backlog, span = 2400, 30 * time.Second
				due := time.Now().Add(5 * time.Second)
				c.dueAt(due, backlog, limited)
				others := c.spreadFrom(due, span)
				pass(time.Until(due.Add(span)))
				c.Logf("%d callbacks in %v", len(c.to(limited)), span)
				if got, want := len(c.to(limited)), rate60*span.Seconds(); float64(got) < want*0.9 || float64(got) > want*1.1 {
					c.Errorf("%d callbacks in %v, want %v within a tenth", got, span, want)
				}
				pass(30 * time.Second)
				wantPrompt(c.T, c.to(answers), others)
				c.wantCalledOnce(limited, backlog)
				c.wantCalledOnce(answers, others)
			}, limitTo(destinations.Limit{Rate: rate60, Burst: 6}))
		})
	}
}

const rate60 = 60

// TestASmallRateHolds: fewer callbacks than one a second, on nodes that share the rate.
func TestASmallRateHolds(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inCluster(t, 2, nodes, func(c *cluster) {
				due := time.Now().Add(5 * time.Second)
				c.dueAt(due, 60, limited)
				pass(time.Until(due.Add(2 * time.Minute)))
				const want = 24 // 0.2 a second
				c.Logf("%d callbacks in 2 minutes", len(c.to(limited)))
				if got := len(c.to(limited)); got < want-4 || got > want+nodes {
					c.Errorf("%d callbacks in 2 minutes, want about %d", got, want)
				}
				pass(5 * time.Minute)
				c.wantCalledOnce(limited, 60)
			}, limitTo(destinations.Limit{Rate: 0.2, Burst: 1}))
		})
	}
}

func TestConcurrencyIsNeverExceeded(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inCluster(t, 2, nodes, func(c *cluster) {
				const most, takes, backlog = 6, 300 * time.Millisecond, 400
				c.respond = slowly(takes)
				due := time.Now().Add(5 * time.Second)
				c.dueAt(due, backlog, limited)
				others := c.spreadFrom(due, 10*time.Second)
				pass(time.Until(due.Add(10 * time.Second)))
				wantAtMost(c.T, c.to(limited), takes, most, most/nodes)
				c.Logf("%d callbacks in 10 s", len(c.to(limited)))
				if got, able := len(c.to(limited)), int(10*time.Second/takes)*most; got < able*8/10 {
					c.Errorf("%d callbacks in 10 s, want nearly %d", got, able)
				}
				pass(time.Minute)
				wantPrompt(c.T, c.to(answers), others)
				c.wantCalledOnce(limited, backlog)
			}, limitTo(destinations.Limit{Concurrency: 6}))
		})
	}
}

// wantAtMost checks how many callbacks were under way at once, in all and by one node.
func wantAtMost(t *testing.T, seen []attempt, takes time.Duration, all, each int) {
	t.Helper()
	for i, a := range seen {
		n, by := 0, 0
		for _, b := range seen[:i+1] {
			if a.at.Sub(b.at) < takes {
				n++
				if b.node == a.node {
					by++
				}
			}
		}
		if n > all || by > each {
			t.Fatalf("%d callbacks were under way at once, %d by %s; want at most %d and %d", n, by, a.node, all, each)
		}
	}
}

// TestALimitOfTheFileChanges: a limit that is lifted has the backlog called soon.
func TestALimitOfTheFileChanges(t *testing.T) {
	var book *destinations.Book
	inCluster(t, 2, 1, func(c *cluster) {
		due := time.Now().Add(5 * time.Second)
		c.dueAt(due, 500, limited)
		pass(time.Until(due.Add(10 * time.Second)))
		if got := len(c.to(limited)); got < 9 || got > 12 {
			c.Errorf("%d callbacks in 10 s, want about 10", got)
		}
		book.Limit(nil)
		pass(6 * time.Second)
		c.wantCalledOnce(limited, 500)
	}, limitTo(destinations.Limit{Rate: 1, Burst: 1}), func(c *settings.Config) { book = c.Destinations })
}
