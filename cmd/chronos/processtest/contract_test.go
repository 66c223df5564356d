package processtest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/cmd/chronos/processtest/timerservice"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestTimerServiceAPI: a client that follows only the document of the Timer Service API works
// unchanged, and all traffic is as described.
func TestTimerServiceAPI(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL)
	timerservice.Run(t, node.url, described(t))
	if err := node.Stop(15 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestBatches: all timers of a batch are stored, on two shards, and every timer fires once. A
// batch that comes again, through another node, makes no new timers.
func TestBatches(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartRedis(t), testkit.StartRedis(t)
	shards := a.URL + ",other=" + b.URL
	nodes := []*nodeProcess{startNode(t, shards), startNode(t, shards)}
	receiver := webhooktest.New(t)
	const refused = 7
	timers := make([]client.Timer, client.MaxBatch)
	for i := range timers {
		timers[i] = client.Timer{Interval: time.Second, URI: receiver.URL(), Opaque: strconv.Itoa(i), ReplicationFactor: 1}
	}
	timers[refused].URI = "ftp://nowhere"
	var ids [2][]string
	for n, node := range nodes {
		results, err := clientOf(t, node).CreateBatch(t.Context(), timers, client.Once("the batch"))
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		for i, r := range results {
			if (r.Err != nil) != (i == refused) || i != refused && r.Receipt.Replayed != (n == 1) {
				t.Errorf("result %d of batch %d: %+v", i, n, r)
			}
			ids[n] = append(ids[n], r.Receipt.ID)
		}
	}
	if !slices.Equal(ids[0], ids[1]) {
		t.Error("the second batch was answered with other timers")
	}
	calls := receiver.WaitFor(t, 15*time.Second, webhooktest.AtLeast(len(timers)-1))
	calls = quiet(t, receiver, calls)
	seen := map[string]int{}
	for _, c := range calls {
		seen[c.Body]++
	}
	for i := range timers {
		want := 1
		if i == refused {
			want = 0
		}
		if got := seen[strconv.Itoa(i)]; got != want {
			t.Errorf("timer %d was called back %d times, want %d", i, got, want)
		}
	}
	for _, shard := range []*testkit.Redis{a, b} {
		if n, err := shard.Admin.DBSize(t.Context()).Result(); err != nil || n == 0 {
			t.Errorf("a shard has %d keys, %v: the batch was not spread", n, err)
		}
	}
}
