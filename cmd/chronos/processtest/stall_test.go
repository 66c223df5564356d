package processtest

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestStoppedRedis stops the redis-server for 5 s under load. No timer is lost or early; only
// callbacks that were under way at the stop may come twice. Meanwhile requests are refused
// within 1 s.
func TestStoppedRedis(t *testing.T) {
	t.Parallel()
	const (
		count    = 3000
		callback = 100 * time.Millisecond
		stall    = 5 * time.Second
	)
	store := testkit.StartRedis(t)
	nodes := []*nodeProcess{startNode(t, store.URL), startNode(t, store.URL)}
	receiver := webhooktest.New(t)
	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Delay: callback} })
	client := newAPI(t)
	created := make([]answer, count)
	inParallel(count, 16, func(i int) {
		created[i] = client.create(t, nodes[i%2], 3*time.Second+time.Duration(i)*2*time.Millisecond, receiver.URL()+"/kept", "")
	})
	receiver.WaitFor(t, 20*time.Second, webhooktest.AtLeast(count/10))
	store.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	refusedWithin(t, client, nodes, created[count-1], stopped.Add(stall))
	store.Signal(syscall.SIGCONT)
	resumed := time.Now()

	wanted := make(map[string]time.Time, count)
	for _, c := range created {
		wanted[c.id.Key] = c.due
	}
	calls := receiver.WaitFor(t, 30*time.Second, func(calls []webhooktest.Call) bool {
		return len(wantedKeys(calls, wanted)) == count
	})
	calls = settle(t, receiver, calls)
	first := firstArrivals(calls)
	doubled := 0
	for key, n := range wantedKeys(calls, wanted) {
		if early := wanted[key].Sub(first[key]); early > time.Millisecond {
			t.Errorf("timer %s came %v early", key, early)
		}
		if n == 1 {
			continue
		}
		doubled++
		// The fence had passed before the stop, so the callback began at most 2 s after the stop.
		if at := first[key].Sub(stopped); at < -callback-patience || at > 2*time.Second {
			t.Errorf("timer %s came %d times, first %v after the redis-server stopped", key, n, at)
		}
	}
	t.Logf("%d timers, %d came twice; the last came %v after the redis-server went on", count, doubled, lastArrival(calls).Sub(resumed))
}

// refusedWithin sends requests until an instant; every request must be refused within 1 s.
func refusedWithin(t *testing.T, client *api, nodes []*nodeProcess, known answer, until time.Time) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	watch, begun := heldup.Begin(t), time.Now()
	refused, worst := 0, time.Duration(0)
	for i := range 8 {
		node := nodes[i%2]
		wg.Go(func() {
			for time.Until(until) > time.Second {
				var got answer
				switch i % 4 {
				case 0:
					got = client.do(http.MethodPost, node.url+"/timers", timerBody(time.Hour, "http://127.0.0.1:1/never", ""))
				case 1:
					got = client.do(http.MethodPut, node.url+"/timers/refused", timerBody(time.Hour, "http://127.0.0.1:1/never", ""))
				case 2:
					got = client.do(http.MethodDelete, node.url+"/timers/refused", "")
				case 3:
					got = client.do(http.MethodGet, node.url+"/timers/"+known.id.String(), "")
				}
				if got.err != nil || got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
					t.Errorf("request %d with the redis-server stopped: status %d, Retry-After %q, %v; want 503",
						i%4, got.status, got.header.Get("Retry-After"), got.err)
					return
				}
				mu.Lock()
				refused, worst = refused+1, max(worst, got.answered.Sub(got.asked))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	<-time.After(time.Until(until))
	t.Logf("%d requests refused, the slowest after %v", refused, worst)
	if refused < 16 {
		t.Errorf("%d requests refused, want at least 16", refused)
	}
	watch.AtMost(t, begun, "the slowest refusal", worst, time.Second)
}

// wantedKeys counts the calls of every wanted timer.
func wantedKeys(calls []webhooktest.Call, wanted map[string]time.Time) map[string]int {
	counts := make(map[string]int, len(wanted))
	for _, c := range calls {
		if _, ok := wanted[c.Key()]; ok {
			counts[c.Key()]++
		}
	}
	return counts
}

func lastArrival(calls []webhooktest.Call) time.Time {
	var last time.Time
	for _, c := range calls {
		if c.Arrived.After(last) {
			last = c.Arrived
		}
	}
	return last
}

// settle waits until no call has come for longer than a lease lasts.
func settle(t *testing.T, receiver *webhooktest.Receiver, calls []webhooktest.Call) []webhooktest.Call {
	t.Helper()
	for {
		before := len(calls)
		timeout := time.After(hold + time.Second)
		arrived := make(chan []webhooktest.Call, 1)
		ctx := t.Context()
		go func() { // ends with the next call, or with the test
			if more, err := receiver.Wait(ctx, webhooktest.AtLeast(before+1)); err == nil {
				arrived <- more
			}
		}()
		select {
		case calls = <-arrived:
		case <-timeout:
			return receiver.Calls()
		}
	}
}
