package processtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestLongCallbacksOfAKilledNode kills one of two nodes while callbacks that take longer than a lease are under way. The
// other node makes the killed node's callbacks again, within the promised time, and interrupts none of its own.
func TestLongCallbacksOfAKilledNode(t *testing.T) {
	t.Parallel()
	shards := testkit.StartRedis(t).URL + ",b=" + testkit.StartRedis(t).URL + ",c=" + testkit.StartRedis(t).URL
	nodes := []*nodeProcess{startNode(t, shards), startNode(t, shards)}
	receiver := webhooktest.New(t)
	const takes = hold + 1500*time.Millisecond
	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Delay: takes} })
	const timers = 200
	due := time.Now().Add(3 * time.Second)
	var asked [2][]client.Timer // by node; one request each, so that all callbacks are under way before the first ends
	for i := range timers {
		asked[i%2] = append(asked[i%2], client.Timer{At: due.Add(time.Duration(i) * 5 * time.Millisecond), URI: receiver.URL(), Timeout: takes + 5*time.Second})
	}
	for i, n := range nodes {
		createAll(t, clientOf(t, n), asked[i])
	}
	receiver.WaitFor(t, 20*time.Second, func(calls []webhooktest.Call) bool { return len(calls) == timers })
	watch, err := heldup.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes[0].Signal(syscall.SIGKILL)
	killedAt := time.Now()
	<-nodes[0].Done
	cut := map[string]int{} // attempts of the calls that the killed node made
	calls := receiver.WaitFor(t, 40*time.Second, func(calls []webhooktest.Call) bool {
		clear(cut)
		again := 0
		for _, c := range calls {
			if c.Left {
				cut[c.Key()] = c.Attempt
			}
		}
		for _, c := range calls {
			if _, was := cut[c.Key()]; was && c.Arrived.After(killedAt) {
				again++
			}
		}
		return len(cut) > 0 && again == len(cut)
	})
	testkit.Throughout(t, takes, "no callback is made again though its node lives", func() bool { return len(receiver.Calls()) == len(calls) })
	heldUp := watch.Stop().Longest()
	if len(calls) != timers+len(cut) || len(cut) < timers/10 || len(cut) > timers*9/10 {
		t.Errorf("%d calls of %d timers, and %d were cut off: want each that was cut off again, and no other", len(calls), timers, len(cut))
	}
	worst := time.Duration(0)
	for _, c := range calls {
		if !c.Arrived.After(killedAt) {
			continue
		}
		worst = max(worst, c.Arrived.Sub(killedAt))
		if c.Attempt != cut[c.Key()]+1 {
			t.Errorf("%s after attempt %d", c, cut[c.Key()])
		}
	}
	if most := hold + time.Second + patience + 2*heldUp; worst > most {
		t.Errorf("called again %v after the kill, want %v at most", worst, most)
	}
	t.Logf("%d of %d callbacks were cut off, and made again %v after the kill at most; the test was held up for %v", len(cut), timers, worst, heldUp)
}

// createAll creates timers in one request.
func createAll(t *testing.T, c *client.Client, asked []client.Timer) {
	t.Helper()
	results, err := c.CreateBatch(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// TestPopsExpireWhileARedisStandsStill: pops whose time is over when their Redis goes on are not called. A timer of one pop
// becomes a dead letter, and a recurring timer goes on with a pop that has not expired.
func TestPopsExpireWhileARedisStandsStill(t *testing.T) {
	t.Parallel()
	store := testkit.StartRedis(t)
	node, receiver := startNode(t, store.URL), webhooktest.New(t)
	c := clientOf(t, node)
	const timers, expires = 20, time.Second
	begin := time.Now().Add(1500 * time.Millisecond)
	var asked []client.Timer
	for i := range timers {
		asked = append(asked,
			client.Timer{At: begin, URI: receiver.URL(), ExpiresAfter: expires, Opaque: "once"},
			client.Timer{Interval: 500 * time.Millisecond, RepeatFor: 40 * time.Second, URI: receiver.URL(), ExpiresAfter: expires, Opaque: fmt.Sprint("again ", i)})
	}
	createAll(t, c, asked)
	store.Signal(syscall.SIGSTOP)
	stood := time.Now()
	if stood.After(begin) {
		t.Fatalf("the creates took until %v after the timers were due", stood.Sub(begin))
	}
	time.Sleep(time.Until(begin.Add(4 * time.Second)))
	store.Signal(syscall.SIGCONT)
	resumed := time.Now()
	gone := map[string]bool{}
	receiver.WaitFor(t, 30*time.Second, func(calls []webhooktest.Call) bool {
		for _, call := range calls {
			if call.Arrived.After(resumed) {
				gone[call.Body] = true
			}
		}
		return len(gone) == timers
	})
	// A callback may leave 2 s after the fence that judges the expiry.
	for _, call := range receiver.Calls() {
		if call.Body == "once" || call.Late() > expires+2*time.Second+patience {
			t.Errorf("%s of %q came %v after its due time", call, call.Body, call.Late())
		}
	}
	testkit.Eventually(t, 20*time.Second, "all timers of one pop are dead letters", func() bool {
		return strings.Count(dead(t, node, "list", "--reason", "expired"), "expired") == timers
	})
	var page struct {
		Letters []json.RawMessage `json:"letters"`
	}
	if err := json.Unmarshal([]byte(dead(t, node, "list", "--json")), &page); err != nil || len(page.Letters) != timers {
		t.Errorf("%d dead letters, %v; want those of %d timers alone", len(page.Letters), err, timers)
	}
}
