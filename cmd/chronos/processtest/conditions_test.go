package processtest

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/scheduler/verify/testkit"
)

// TestOneOfManyWritesOnAConditionIsCarriedOut: clients of two nodes read three timers and replace what they have read, while
// Redis instances stand still and are killed. Of all writes on one version at most one succeeds.
func TestOneOfManyWritesOnAConditionIsCarriedOut(t *testing.T) {
	t.Parallel()
	redis, nodes := threeRedisTwoNodes(t)
	asked := client.Timer{Interval: time.Hour, URI: "http://127.0.0.1:9/"}
	var mu sync.Mutex
	won := map[string]string{} // the ETag that followed, by the ETag that was asked for
	refused, undecided := 0, 0
	end := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		c := clientOf(t, nodes[i%2])
		clients.Go(func() {
			for n := i; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				id := fmt.Sprint("contended-", n%3)
				cond := client.Condition{Absent: true}
				found, err := c.Lookup(t.Context(), id)
				switch {
				case err == nil:
					cond = client.Condition{ETag: found.ETag}
				case !errors.Is(err, client.ErrNotFound):
					continue
				}
				receipt, err := c.ReplaceIf(t.Context(), id, cond, asked)
				mu.Lock()
				from := id + " " + cond.ETag
				switch other, was := won[from]; {
				case errors.Is(err, client.ErrConditionFailed):
					refused++
				case err != nil:
					undecided++
				case was:
					t.Errorf("%s was replaced twice, by %s and by %s", from, other, receipt.ETag)
				default:
					won[from] = receipt.ETag
				}
				mu.Unlock()
			}
		})
	}
	stopAndKill(redis)
	testkit.Await(t, 20*time.Second, "enough writes", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(won) >= 100 && refused >= 20
	})
	close(end)
	clients.Wait()
	t.Logf("%d writes succeeded, %d were refused by their conditions, %d were undecided or had no answer", len(won), refused, undecided)
	if len(won) < 100 || refused < 20 || undecided == 0 {
		t.Error("too few of one kind for a test")
	}
}

// threeRedisTwoNodes starts Redis instances that lose nothing when they are killed, and nodes that use them.
func threeRedisTwoNodes(t *testing.T) (redis []*testkit.Redis, nodes []*nodeProcess) {
	t.Helper()
	for range 3 {
		redis = append(redis, testkit.StartRedis(t, "--appendfsync", "always"))
	}
	shards := redis[0].URL + ",b=" + redis[1].URL + ",c=" + redis[2].URL
	return redis, []*nodeProcess{startNode(t, shards), startNode(t, shards)}
}

// stopAndKill has Redis instances stand still and be killed in turn, for some seconds.
func stopAndKill(redis []*testkit.Redis) {
	for round := range 4 {
		time.Sleep(time.Second)
		if r := redis[round%3]; round%2 == 0 {
			r.Signal(syscall.SIGSTOP)
			time.Sleep(1500 * time.Millisecond)
			r.Signal(syscall.SIGCONT)
		} else {
			r.Kill()
			r.Start()
		}
	}
}
