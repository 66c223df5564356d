package processtest

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestARepeatedCreateIsCalledOnce repeats creates with an Idempotency-Key after one
// Redis has lost its data, or was away when they came first. The links of the node that
// gets the second request to the other Redis are slow. The second request of a key makes
// no second timer.
func TestARepeatedCreateIsCalledOnce(t *testing.T) {
	const count = 80
	t.Run("wiped", func(t *testing.T) {
		repeatCreates(t, count, func(*lateRig, int) {}, func(r *lateRig, shard int) {
			if err := r.shards[shard].client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("away", func(t *testing.T) {
		repeatCreates(t, count,
			func(r *lateRig, shard int) { r.shards[shard].signal(syscall.SIGSTOP) },
			func(r *lateRig, shard int) { r.shards[shard].signal(syscall.SIGCONT) })
	})
}

// repeatCreates sends creates that come due soon, and sends them once more after they
// were called, for each Redis in turn.
func repeatCreates(t *testing.T, count int, before, between func(r *lateRig, shard int)) {
	r := newLateRig(t)
	twice := 0
	for shard := range r.shards {
		var keys []string
		for i := range count {
			keys = append(keys, fmt.Sprintf("once-%d-%d", shard, i))
		}
		for s, l := range r.links[0] {
			l.slow(0, 0)
			if s != shard {
				l.slow(120*time.Millisecond, 120*time.Millisecond)
			}
		}
		before(r, shard)
		inParallel(count, 16, func(i int) { r.createOnce(1, keys[i]) })
		eventually(t, 20*time.Second, "each timer was called", func() bool { return len(r.calledFor(keys)) == count })
		between(r, shard)
		inParallel(count, 16, func(i int) { r.createOnce(0, keys[i]) })
		settle(t, r.receiver, r.receiver.Calls())
		for _, ids := range r.calledFor(keys) {
			if len(ids) > 1 {
				twice++
			}
		}
	}
	t.Logf("%d of %d timers were called with two webhook-ids", twice, 3*count)
	if twice > 0 {
		t.Errorf("%d of %d timers were called twice", twice, 3*count)
	}
}

// createOnce creates a timer with an Idempotency-Key, and tries again while the create
// is answered 503.
func (r *lateRig) createOnce(node int, key string) {
	deadline := time.Now().Add(10 * time.Second)
	body := timerBody(100*time.Millisecond, r.receiver.URL(), key)
	for {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.nodes[node].url+"/timers", strings.NewReader(body))
		if err != nil {
			r.t.Error(err)
			return
		}
		req.Header.Set("Idempotency-Key", key)
		status := 0
		res, err := r.client.client.Do(req)
		if err == nil {
			_ = res.Body.Close()
			status = res.StatusCode
		}
		switch {
		case status == http.StatusOK:
			return
		case time.Now().After(deadline):
			r.t.Errorf("create %s: status %d, %v", key, status, err)
			return
		}
		r.wait(50 * time.Millisecond)
	}
}

// calledFor are the webhook-ids that came with each of these opaques.
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
