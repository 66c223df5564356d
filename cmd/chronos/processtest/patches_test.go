package processtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/scheduler/verify/testkit"
)

// TestNoPatchIsLost: six clients of two nodes change a header each, of the same three timers, while Redis instances stand
// still and are killed. Each header has the value that was acknowledged last, or a later value without an answer.
func TestNoPatchIsLost(t *testing.T) {
	t.Parallel()
	redis, nodes := threeRedisTwoNodes(t)
	const timers = 3
	asked := client.Timer{Interval: time.Hour, URI: "http://127.0.0.1:9/"}
	for n := range timers {
		if _, err := clientOf(t, nodes[0]).Replace(t.Context(), fmt.Sprint("patched-", n), asked); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	acknowledged, unanswered := map[string]int{}, map[string]int{} // the highest value, by timer and header
	done, undecided := 0, 0
	end := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		c, header := clientOf(t, nodes[i%2]), fmt.Sprint("X-Client-", i)
		clients.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				id := fmt.Sprint("patched-", n%timers)
				_, err := c.Patch(t.Context(), id, client.Change{Headers: map[string]*string{header: new(strconv.Itoa(n))}})
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[id+" "+header] = n
					done++
				case errors.Is(err, client.ErrNotFound):
					t.Errorf("%s: %v", id, err)
				default:
					unanswered[id+" "+header] = n
					undecided++
				}
				mu.Unlock()
			}
		})
	}
	stopAndKill(redis)
	testkit.Await(t, 20*time.Second, "enough patches", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done >= 100
	})
	close(end)
	clients.Wait()
	t.Logf("%d patches succeeded, %d were undecided or had no answer", done, undecided)
	if undecided == 0 {
		t.Error("no patch was undecided: the faults did nothing")
	}
	for n := range timers {
		id := fmt.Sprint("patched-", n)
		found, err := clientOf(t, nodes[0]).Lookup(t.Context(), id)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		for i := range 6 {
			header := fmt.Sprint("X-Client-", i)
			at := id + " " + header
			value, err := strconv.Atoi(found.Timer.Headers[header])
			if last := acknowledged[at]; value != last && (value < last || value > unanswered[at]) || err != nil && last != 0 {
				t.Errorf("%s is %q; %d was acknowledged last, and %d had no answer", at, found.Timer.Headers[header], last, unanswered[at])
			}
		}
	}
}
