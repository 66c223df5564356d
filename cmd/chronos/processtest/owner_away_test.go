package processtest

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// TestWritesWhileOneOfThreeIsAway writes timers with two copies while one of three Redis is away:
// PUTs of new and of known ids, by bare key and by the answered id, and DELETEs. All writes
// are acknowledged within a second.
func TestWritesWhileOneOfThreeIsAway(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			r := newLateRig(t)
			const count = 250
			keys, ids := make([]string, 4*count), make([]string, 4*count)
			inParallel(4*count, 8, func(i int) {
				keys[i] = fmt.Sprintf("known-%d", i)
				ids[i] = r.put(i%2, keys[i], time.Hour, "old").id.String()
			})
			watch, away := heldup.Begin(t), time.Now()
			r.shards[0].Signal(signal)
			defer r.shards[0].Signal(syscall.SIGCONT)
			var mu sync.Mutex
			statuses := make(map[string]int)
			slowest := time.Duration(0)
			inParallel(4*count, 8, func(n int) {
				var got answer
				node := n / 4 % 2
				switch n % 4 {
				case 0:
					got = r.put(node, fmt.Sprintf("new-%d", n), time.Hour, "new")
				case 1:
					got = r.put(node, keys[n], time.Hour, "by key")
				case 2:
					got = r.put(node, ids[n], time.Hour, "by id")
				default:
					got = r.remove(node, []string{keys[n], ids[n]}[n/8%2])
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[fmt.Sprintf("%d %d", n%4, got.status)]++
				slowest = max(slowest, got.answered.Sub(got.asked))
				if got.err != nil || got.status != http.StatusOK && got.status != http.StatusCreated {
					t.Errorf("write %d: status %d, %v", n, got.status, got.err)
				}
			})
			t.Logf("answers by kind of write %v, the slowest after %v", statuses, slowest.Round(time.Millisecond))
			watch.AtMost(t, away, "the slowest write", slowest, time.Second)
		})
	}
}

// TestADeleteThatTellsNoOwnerIsRefused deletes one-copy timers by bare key while their Redis
// stands still. Such a DELETE reaches no copy, and the timers would be called later, so the DELETE
// is refused. Once the Redis goes on, a DELETE works.
func TestADeleteThatTellsNoOwnerIsRefused(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	const count = 12
	body := fmt.Sprintf(`{"timing":{"interval":3600},"callback":{"http":{"uri":%q,"opaque":"one"}},"reliability":{"replication-factor":1}}`, r.receiver.URL())
	for i := range count {
		if got := r.client.do(http.MethodPut, fmt.Sprintf("%s/timers/single-%d", r.nodes[0].url, i), body); got.status != http.StatusOK {
			t.Fatalf("PUT: status %d, %v", got.status, got.err)
		}
	}
	var lone []string // timers with their copy on the first Redis
	for i := range count {
		if key := fmt.Sprintf("single-%d", i); r.holds(0, key) {
			lone = append(lone, key)
		}
	}
	if len(lone) == 0 {
		t.Fatal("no timer has its copy on the first Redis")
	}
	r.shards[0].Signal(syscall.SIGSTOP)
	for try := range 2 { // the record that the first DELETE leaves on a different shard is no copy
		inParallel(len(lone), 4, func(i int) {
			if got := r.remove(i%2, lone[i]); got.status != http.StatusServiceUnavailable {
				t.Errorf("DELETE %d of %s: status %d, %v, want 503", try, lone[i], got.status, got.err)
			}
		})
	}
	r.shards[0].Signal(syscall.SIGCONT)
	for _, key := range lone {
		testkit.Eventually(t, 5*time.Second, "a DELETE is carried out", func() bool { return r.remove(0, key).status == http.StatusCreated })
		if r.holds(0, key) {
			t.Errorf("%s lives after its DELETE", key)
		}
	}
}
