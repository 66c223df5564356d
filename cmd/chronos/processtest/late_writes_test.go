package processtest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// stalls are how long a node's link to a Redis stands still.
var stalls = []time.Duration{700 * time.Millisecond, 1200 * time.Millisecond, 1800 * time.Millisecond, 2500 * time.Millisecond}

// pair is a timer with two writes: the first through a node with a link that stands still, the
// second through the second node, a little later.
type pair struct {
	id, key       string
	first, second answer
}

// raceAStall makes timers, makes a link of the first node stand still, and writes every timer
// through both nodes: first by write, then by second.
func (r *lateRig) raceAStall(shard, round, count int, stall time.Duration, write func(p *pair, node int) answer, second func(p *pair) answer) []pair {
	r.t.Helper()
	pairs := make([]pair, count)
	inParallel(count, 8, func(i int) {
		made := r.client.create(r.t, r.nodes[1], time.Hour, r.receiver.URL(), fmt.Sprintf("old-%d-%d", round, i))
		pairs[i].id, pairs[i].key = made.id.String(), made.id.Key
	})
	link := r.links[0][shard]
	link.standStill()
	time.AfterFunc(stall, link.goOn)
	var wg sync.WaitGroup
	for i := range pairs {
		p := &pairs[i]
		wg.Go(func() { p.first = write(p, 0) })
		wg.Go(func() {
			r.wait(100 * time.Millisecond)
			p.second = second(p)
		})
	}
	wg.Wait()
	r.wait(stall) // longer than the rest of the stall: all requests have arrived
	return pairs
}

// TestAStalledWriteLeavesNoSecondTimer makes two nodes PUT the same timer while a link of the
// first node to a Redis stands still. A single version is called, never both versions.
func TestAStalledWriteLeavesNoSecondTimer(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	const count, interval = 20, 5 * time.Second
	var all []pair
	for round, stall := range stalls {
		all = append(all, r.raceAStall(round%3, round, count, stall,
			func(p *pair, node int) answer { return r.put(node, p.id, interval, "first") },
			func(p *pair) answer { return r.put(1, p.id, interval, "second") })...)
	}
	settle(t, r.receiver, r.receiver.Calls())
	settle(t, r.receiver, r.receiver.Calls())
	both, acknowledged := 0, 0
	for _, p := range all {
		if p.first.status != http.StatusOK || p.second.status != http.StatusOK {
			t.Logf("%s: answered %d and %d", p.key, p.first.status, p.second.status)
			continue
		}
		acknowledged++
		switch called := r.opaquesOf(p.key); len(called) {
		case 1:
		case 0:
			t.Errorf("%s: neither version was called", p.key)
		default:
			both++
		}
	}
	t.Logf("of %d timers with two acknowledged PUTs both fired for %d", acknowledged, both)
	if both > 0 {
		t.Errorf("both of two acknowledged PUTs fired for %d of %d timers", both, acknowledged)
	}
	if acknowledged < len(all)/2 {
		t.Errorf("only %d of %d pairs were acknowledged", acknowledged, len(all))
	}
}

// TestAStalledWriteLeavesNoOrphan deletes timers through the second node while a PUT through the
// first node waits for a link that stands still. After a clean answer to the DELETE, no copy
// of the deleted timer is left.
func TestAStalledWriteLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	hasty := &api{client: &http.Client{Transport: r.client.client.Transport, Timeout: 300 * time.Millisecond}}
	const count = 15
	clean, orphans := 0, 0
	for round, stall := range stalls {
		pairs := r.raceAStall(round%3, round, count, stall,
			func(p *pair, node int) answer {
				return hasty.do(http.MethodPut, r.nodes[node].url+"/timers/"+p.id, timerBody(time.Hour, r.receiver.URL(), "put"))
			},
			func(p *pair) answer { return r.remove(1, p.id) })
		for _, p := range pairs {
			if p.second.status != http.StatusCreated || p.second.inFlight || p.first.status == http.StatusOK {
				continue
			}
			clean++
			if r.orphaned(p.key) {
				orphans++
			}
		}
	}
	t.Logf("%d timers with a PUT that was given up and a clean DELETE, %d orphans", clean, orphans)
	if orphans > 0 {
		t.Errorf("%d of %d timers outlived a clean answer to their DELETE", orphans, clean)
	}
	if clean < count {
		t.Errorf("only %d DELETEs were answered cleanly", clean)
	}
}

// TestSlowLinksLeaveOneVersion makes two nodes PUT the same timer at the same time, over links
// that take 75 to 150 ms for every way. A single version is called, and both nodes agree on the
// version. All writes come at once, so most writes need a new connection; the first answer of a
// new connection takes two ways more.
func TestSlowLinksLeaveOneVersion(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	const count, interval = 150, 10 * time.Second
	ids := make([]string, count)
	keys := make([]string, count)
	inParallel(count, 8, func(i int) {
		made := r.client.create(t, r.nodes[1], time.Hour, r.receiver.URL(), "old")
		ids[i], keys[i] = made.id.String(), made.id.Key
	})
	for n, links := range r.links {
		for s, l := range links {
			delay := time.Duration(75+25*((n+s)%4)) * time.Millisecond
			l.slow(delay, delay)
		}
	}
	answers := make([][2]answer, count)
	inParallel(count, count, func(i int) {
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() { answers[i][n] = r.put(n, ids[i], interval, []string{"first", "second"}[n]) })
		}
		wg.Wait()
	})
	shown := make([][2]string, count)
	inParallel(count, 20, func(i int) { shown[i] = [2]string{r.opaque(0, ids[i]), r.opaque(1, ids[i])} })
	settle(t, r.receiver, r.receiver.Calls())
	settle(t, r.receiver, r.receiver.Calls())
	statuses := make(map[int]int)
	both := 0
	for i := range keys {
		if shown[i][0] != shown[i][1] {
			t.Errorf("%s: the nodes show %q and %q", keys[i], shown[i][0], shown[i][1])
		}
		statuses[answers[i][0].status]++
		statuses[answers[i][1].status]++
		called := r.opaquesOf(keys[i])
		if len(called) > 1 {
			both++
		}
		if len(called) == 0 && (answers[i][0].status == http.StatusOK || answers[i][1].status == http.StatusOK) {
			t.Errorf("%s: neither version was called", keys[i])
		}
	}
	t.Logf("answers %v; both versions fired for %d of %d timers", statuses, both, count)
	if both > 0 {
		t.Errorf("both versions fired for %d of %d timers", both, count)
	}
	if statuses[http.StatusOK] < count {
		t.Errorf("only %d of %d PUTs were acknowledged", statuses[http.StatusOK], 2*count)
	}
}
