package processtest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestShardDown: one of two shards is down when the node starts, then comes, dies, and comes
// back. Once the node has noticed, no create is refused, since new timers get keys of the living
// shard. The timers of the living shard never notice. A timer with its only copy on the dead
// shard fires as soon as the shard is back.
func TestShardDown(t *testing.T) {
	t.Parallel()
	up := testkit.StartRedis(t)
	late := testkit.NewRedis(t)
	node := startNode(t, up.URL+",late="+late.URL)
	receiver, client := webhooktest.New(t), newAPI(t)

	watch, begun := heldup.Begin(t), time.Now()

	const tries = 40
	create := func() answer {
		return client.do(http.MethodPost, node.url+"/timers", singleCopy(2*time.Second, receiver.URL()))
	}
	creates := func() (all []answer, shards int) {
		t.Helper()
		all = make([]answer, tries)
		inParallel(tries, 8, func(i int) { all[i] = create() })
		hints, slowest := map[timer.Hint]bool{}, time.Duration(0)
		for _, got := range all {
			if got.err != nil || got.status != http.StatusOK {
				t.Errorf("status %d, %v; want 200", got.status, got.err)
			}
			hints[got.id.Hint] = true
			slowest = max(slowest, got.answered.Sub(got.asked))
		}
		watch.AtMost(t, all[0].asked, "the slowest create", slowest, time.Second)
		return all, len(hints)
	}
	bothUp := func() bool {
		_, shards := creates()
		return shards == 2
	}

	notices := func(times int) func() bool {
		return func() bool { return strings.Count(node.Log.String(), `msg="shard can't be used`) == times }
	}
	testkit.Eventually(t, 3*time.Second, "the node notices that the shard does not answer", notices(1))
	if _, shards := creates(); shards != 1 {
		t.Fatalf("with one of two shards down timers are on %d", shards)
	}
	late.Start()
	testkit.Eventually(t, 10*time.Second, "the shard that came late is used", bothUp)
	kept, _ := creates()
	// While an fsync is under way, Redis answers before the file has the write.
	testkit.Eventually(t, 5*time.Second, "the append-only file has it all", func() bool {
		info := late.Admin.Info(t.Context(), "persistence").Val()
		return strings.Contains(info, "aof_buffer_length:0\r\n")
	})
	late.Kill()
	killedAt := time.Now()
	// A one-copy timer is refused if its key was chosen in the moment of the kill.
	testkit.Eventually(t, 3*time.Second, "the node notices that the shard is dead", func() bool {
		create()
		return notices(2)()
	})
	if _, shards := creates(); shards != 1 {
		t.Errorf("with a dead shard timers are on %d", shards)
	}
	<-time.After(time.Until(killedAt.Add(4 * time.Second))) // past the due time of all timers on the shard
	late.Start()
	back := time.Now()
	testkit.Eventually(t, 10*time.Second, "the shard that died is used again", bothUp)
	calls := receiver.WaitFor(t, 15*time.Second, func(calls []webhooktest.Call) bool {
		keys := keysOf(calls)
		for _, c := range kept {
			if !keys[c.id.Key] {
				return false
			}
		}
		return true
	})
	first, waited := firstArrivals(calls), 0
	var afterReturn, elsewhere time.Duration
	for _, c := range kept {
		switch at := first[c.id.Key]; {
		case at.Before(c.due):
			t.Errorf("timer %s came %v early", c.id, c.due.Sub(at))
		case at.After(killedAt.Add(4 * time.Second)):
			waited++
			afterReturn = max(afterReturn, at.Sub(back))
		default: // some copies stand in for the dead shard, and ask the dead shard first
			elsewhere = max(elsewhere, at.Sub(c.due))
		}
	}
	watch.AtMost(t, back, "after the shard was back the last timer", afterReturn, 3*time.Second)
	watch.AtMost(t, begun, "the latest timer of the shard that was up", elsewhere, 500*time.Millisecond)
	if waited == 0 || waited == len(kept) {
		t.Errorf("%d of %d timers waited for the dead shard, want some", waited, len(kept))
	}
	if strings.Count(node.Log.String(), "can't be used") > 3 {
		t.Errorf("an outage fills the log:\n%s", node.Log.Tail(40))
	}
}

// singleCopy is the body of a one-shot timer without a backup.
func singleCopy(interval time.Duration, uri string) string {
	body := timerBody(interval, uri, "")
	return body[:len(body)-1] + `,"reliability":{"replication-factor":1}}`
}

// TestFirstStartHasLostNothing: empty Redis instances at the first start are no loss of data, and
// the log tells of no loss.
func TestFirstStartHasLostNothing(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL+",b="+testkit.StartRedis(t).URL)
	testkit.Eventually(t, 20*time.Second, "the node finds an empty shard", func() bool {
		return strings.Contains(node.Log.String(), `msg="the shard is empty; all shards are swept`)
	})
	if log := node.Log.String(); strings.Contains(log, "lost") {
		t.Errorf("the log tells of a loss:\n%s", log)
	}
}
