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

// TestARepeatedCreateIsCalledOnce repeats creates with an Idempotency-Key after a Redis has lost
// its data, or was away during the first creates. The node that gets the repeated requests has
// slow links to the rest of the Redis, and is stopped now and then. A repeated request makes no
// second timer. The links are part of the test, and a node waits only 550 ms for an owner: a
// create during a hold-up of the test is not judged.
func TestARepeatedCreateIsCalledOnce(t *testing.T) {
	t.Parallel()
	const count = 80
	t.Run("wiped", func(t *testing.T) {
		t.Parallel()
		repeatCreates(t, count, func(*lateRig, int) {}, func(r *lateRig, shard int) {
			if err := r.shards[shard].Admin.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		repeatCreates(t, count,
			func(r *lateRig, shard int) { r.shards[shard].Signal(syscall.SIGSTOP) },
			func(r *lateRig, shard int) { r.shards[shard].Signal(syscall.SIGCONT) })
	})
}

// repeatCreates sends creates that come due soon, and sends the same creates once more after
// the callbacks, for every Redis in turn.
func repeatCreates(t *testing.T, count int, before, between func(r *lateRig, shard int)) {
	r := newLateRig(t)
	watch, err := heldup.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	repeated := make([]heldup.HoldUp, len(r.shards)*count) // when, by key
	keyOf := func(shard, i int) string { return fmt.Sprintf("once-%d-%d", shard, i) }
	for shard := range r.shards {
		var keys []string
		for i := range count {
			keys = append(keys, keyOf(shard, i))
		}
		for s, l := range r.links[0] {
			l.slow(0, 0)
			if s != shard {
				l.slow(120*time.Millisecond, 120*time.Millisecond)
			}
		}
		before(r, shard)
		inParallel(count, 16, func(i int) { r.createOnce(1, keys[i]) })
		testkit.Eventually(t, 20*time.Second, "each timer was called", func() bool { return len(r.calledFor(keys)) == count })
		between(r, shard)
		done := make(chan struct{})
		var stops sync.WaitGroup
		stops.Go(func() { r.stopAgainAndAgain(0, done) })
		inParallel(count, 16, func(i int) {
			sent := time.Now()
			r.createOnce(0, keys[i])
			repeated[shard*count+i] = heldup.HoldUp{From: sent, To: time.Now()}
		})
		close(done)
		stops.Wait()
		settle(t, r.receiver, r.receiver.Calls())
	}
	const long = 150 * time.Millisecond
	holdUps, twice, judged := watch.Stop(), 0, 0
	for n, during := range repeated {
		if holdUps.Within(during.From, during.To).Longest() >= long {
			continue
		}
		judged++
		key := keyOf(n/count, n%count)
		if ids := r.calledFor([]string{key})[key]; len(ids) > 1 {
			twice++
			t.Errorf("%s was called with the webhook-ids %v; it was repeated %v to %v", key, ids, during.From, during.To)
		}
	}
	t.Logf("%d of %d timers were called with two webhook-ids; %d creates met hold-ups of the test, of %v at most", twice, judged, len(repeated)-judged, holdUps.Longest())
	if judged < len(repeated)/2 {
		t.Errorf("unknown: the machine held up the test for %v at most, and only %d of %d creates can be judged", holdUps.Longest(), judged, len(repeated))
	}
}

// stopAgainAndAgain makes a node stand still for 400 ms, again and again, until done is closed.
func (r *lateRig) stopAgainAndAgain(node int, done <-chan struct{}) {
	for {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-done:
			return
		}
		r.nodes[node].Signal(syscall.SIGSTOP)
		r.wait(400 * time.Millisecond)
		r.nodes[node].Signal(syscall.SIGCONT)
	}
}

// createOnce creates a timer with an Idempotency-Key, and tries again while the create
// is answered 503.
func (r *lateRig) createOnce(node int, key string) {
	deadline := time.Now().Add(10 * time.Second)
	body := timerBody(100*time.Millisecond, r.receiver.URL(), key)
	for {
		got, err := testkit.Ask(r.client.client, http.MethodPost, r.nodes[node].url+"/timers", body, "Idempotency-Key", key)
		switch {
		case got.Status == http.StatusOK:
			return
		case time.Now().After(deadline):
			r.t.Errorf("create %s: status %d, %v", key, got.Status, err)
			return
		}
		r.wait(50 * time.Millisecond)
	}
}

// calledFor are the webhook-ids of the callbacks, by opaque.
func (r *lateRig) calledFor(opaques []string) map[string]map[string]bool {
	wanted := make(map[string]bool, len(opaques))
	for _, o := range opaques {
		wanted[o] = true
	}
	found := make(map[string]map[string]bool)
	for _, c := range r.receiver.Calls() {
		if !wanted[c.Body] {
			continue
		}
		if found[c.Body] == nil {
			found[c.Body] = make(map[string]bool)
		}
		found[c.Body][c.WebhookID] = true
	}
	return found
}
