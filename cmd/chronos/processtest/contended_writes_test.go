package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestContendedWrites makes many clients of two nodes write the same timer at the same time.
// Nearly all writes are carried out; no write is refused as if Redis were away. Both nodes
// then read the same version, and only this version is called.
func TestContendedWrites(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{8, 50} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) { contend(t, clients, false) })
	}
	t.Run("50 clients that delete", func(t *testing.T) { contend(t, 50, true) })
}

func contend(t *testing.T, clients int, deletes bool) {
	const rounds = 60 // writes of a client
	r := newLateRig(t)
	made := r.client.create(t, r.nodes[0], time.Hour, r.receiver.URL(), "old")
	id := made.id.String()
	var mu sync.Mutex
	statuses := make(map[int]int)
	slowest := time.Duration(0)
	var wg sync.WaitGroup
	var count atomic.Int64
	for client := range clients {
		wg.Go(func() {
			for i := range rounds {
				var got answer
				if deletes {
					got = r.remove((client+i)%2, id)
				} else {
					got = r.put((client+i)%2, id, time.Hour, fmt.Sprintf("put-%d", count.Add(1)))
				}
				mu.Lock()
				statuses[got.status]++
				slowest = max(slowest, got.answered.Sub(got.asked))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all := clients * rounds
	done := statuses[http.StatusOK] + statuses[http.StatusCreated]
	t.Logf("%d writes: answers %v, the slowest after %v", all, statuses, slowest.Round(time.Millisecond))
	if lost := all - done; lost*1000 > all {
		t.Errorf("%d of %d writes were not carried out", lost, all)
	}
	if other := all - done - statuses[http.StatusConflict]; other > 0 {
		t.Errorf("%d writes were answered neither 2xx nor 409: %v", other, statuses)
	}
	if deletes {
		return
	}
	// The last writes have a short interval, so that the surviving version is called.
	var last sync.WaitGroup
	for client := range clients {
		last.Go(func() { r.put(client%2, id, 3*time.Second, fmt.Sprintf("last-%d", client)) })
	}
	last.Wait()
	first, second := r.opaque(0, id), r.opaque(1, id)
	if first != second || first == "" {
		t.Errorf("the nodes read %q and %q", first, second)
	}
	settle(t, r.receiver, r.receiver.Calls())
	if called := r.opaquesOf(made.id.Key); len(called) != 1 || called[0] != first {
		t.Errorf("%q were called, want %q alone", called, first)
	}
	if calls := r.receiver.Calls(); len(calls) != 1 {
		t.Errorf("%d callbacks came, want one", len(calls))
	}
}

// opaque is a timer's opaque, as read by a node.
func (r *lateRig) opaque(node int, id string) string {
	r.t.Helper()
	got, err := testkit.Ask(r.client.client, http.MethodGet, r.nodes[node].url+"/timers/"+id, "")
	var said struct {
		Callback struct {
			HTTP struct {
				Opaque string `json:"opaque"`
			} `json:"http"`
		} `json:"callback"`
	}
	if err != nil || json.Unmarshal([]byte(got.Body), &said) != nil {
		r.t.Fatalf("GET: status %d, %v: %s", got.Status, err, got.Body)
	}
	return said.Callback.HTTP.Opaque
}
