package processtest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/webhook/webhooktest"
)

// TestShardDown: of two shards one is down when the node starts, comes, dies,
// and comes back. The other's timers never notice; the dead one's get 503 within
// 1 s, and fire as soon as it is back.
func TestShardDown(t *testing.T) {
	up := startRedis(t)
	port, dir := freePort(t), t.TempDir()
	node := startNode(t, up.url+",late=redis://127.0.0.1:"+port+"/0")
	receiver, client := webhooktest.New(t), newAPI(t)

	const tries = 40
	creates := func() (stored, refused []answer) {
		t.Helper()
		all := make([]answer, tries)
		inParallel(tries, 8, func(i int) {
			all[i] = client.do(http.MethodPost, node.url+"/timers", timerBody(2*time.Second, receiver.URL(), ""))
		})
		for _, got := range all {
			switch took := got.answered.Sub(got.asked); {
			case got.err != nil:
				t.Error(got.err)
			case got.status == http.StatusOK:
				stored = append(stored, got)
			case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "" && took <= time.Second:
				refused = append(refused, got)
			default:
				t.Errorf("status %d with Retry-After %q after %v", got.status, got.header.Get("Retry-After"), took)
			}
		}
		return stored, refused
	}
	bothUp := func() bool {
		_, refused := creates()
		return len(refused) == 0
	}

	stored, refused := creates()
	if len(stored) == 0 || len(refused) == 0 {
		t.Fatalf("with one of two shards down: %d stored, %d refused; want some of each", len(stored), len(refused))
	}
	late := startRedisAt(t, port, dir)
	eventually(t, 10*time.Second, "the shard that came late is used", bothUp)
	kept, _ := creates()
	late.kill()
	killedAt := time.Now()
	_, refused = creates()
	if len(refused) == 0 {
		t.Error("with a dead shard nothing was refused")
	}
	<-time.After(time.Until(killedAt.Add(4 * time.Second))) // past the time of all that it holds
	startRedisAt(t, port, dir)
	back := time.Now()
	eventually(t, 10*time.Second, "the shard that died is used again", bothUp)
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
	for _, c := range kept {
		switch at := first[c.id.Key]; {
		case at.Before(c.due):
			t.Errorf("timer %s came %v early", c.id, c.due.Sub(at))
		case at.After(killedAt.Add(4 * time.Second)):
			waited++
			if at.Sub(back) > 3*time.Second {
				t.Errorf("timer %s came %v after its shard was back", c.id, at.Sub(back))
			}
		case at.Sub(c.due) > 250*time.Millisecond:
			t.Errorf("timer %s of the shard that was up came %v late", c.id, at.Sub(c.due))
		}
	}
	if waited == 0 || waited == len(kept) {
		t.Errorf("%d of %d timers waited for the dead shard, want some", waited, len(kept))
	}
	if strings.Count(node.log.String(), "can't be used") > 3 {
		t.Errorf("an outage fills the log:\n%s", node.log.tail(40))
	}
}
