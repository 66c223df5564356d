package processtest

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// failoverTime is how long after the end of a master callbacks may come twice: the replica takes over within seconds, and
// lacks the writes that were on their way.
const failoverTime = 20 * time.Second

// TestSentinelFailover: two shards are masters with a replica each. One master is killed under load, and Sentinel has the
// replica take over.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartRedis(t), testkit.StartRedis(t)
	testkit.StartReplica(t, a)
	testkit.StartReplica(t, b)
	urls := testkit.StartSentinels(t, 3, map[string]*testkit.Redis{"a": a, "b": b})
	failsOver(t, urls["a"]+",b="+urls["b"], a)
}

// TestClusterFailover: a shard is a Redis Cluster of three masters with a replica each, and another shard a single Redis. A
// master of the cluster is killed under load.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster, masters := testkit.StartCluster(t, 3)
	failsOver(t, cluster+",b="+testkit.StartRedis(t).URL, masters[0])
}

// failsOver kills a Redis while timers are created and fire: no timer is lost, and timers come twice only around the
// failover.
func failsOver(t *testing.T, shards string, victim *testkit.Redis) {
	t.Helper()
	nodes := []*nodeProcess{startNode(t, shards), startNode(t, shards)}
	receiver, client := webhooktest.New(t), newAPI(t)
	const requests, rate = 2000, 100 // a second
	answers := make([]answer, requests)
	killed := make(chan time.Time, 1)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for i := range answers {
		<-tick.C
		if i == requests/4 {
			victim.Kill()
			killed <- time.Now()
		}
		all.Go(func() {
			in := time.Duration(500+i%5000) * time.Millisecond
			answers[i] = client.do(http.MethodPost, nodes[i%2].url+"/timers", timerBody(in, receiver.URL(), strconv.Itoa(i)))
		})
	}
	all.Wait()
	made, failed := map[string]bool{}, 0
	for i := range answers {
		if answers[i].err != nil || answers[i].status != http.StatusOK {
			failed++
			continue
		}
		made[answers[i].id.Key] = true
	}
	calls := receiver.WaitFor(t, time.Minute, func(calls []webhooktest.Call) bool {
		seen := keysOf(calls)
		for key := range made {
			if !seen[key] {
				return false
			}
		}
		return true
	})
	twice, kill := 0, <-killed
	first := map[string]time.Time{}
	for _, call := range calls {
		at, again := first[call.Key()]
		if !again {
			first[call.Key()] = call.Arrived
			continue
		}
		twice++
		if at.Before(kill.Add(-5*time.Second)) || call.Arrived.After(kill.Add(failoverTime)) {
			t.Errorf("%s came twice, far from the failover: %v and %v after the kill", call, at.Sub(kill), call.Arrived.Sub(kill))
		}
	}
	t.Logf("%d timers, %d requests failed, %d callbacks came twice", len(made), failed, twice)
	if failed > requests/10 {
		t.Errorf("%d of %d requests failed", failed, requests)
	}
}
