package scheduler_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
)

// countingStore counts how many partitions its node has asked for.
type countingStore struct {
	store.Store
	asked *atomic.Int64
}

func (s countingStore) Claim(ctx context.Context, shard string, req store.ClaimRequest) (store.ClaimResult, error) {
	s.asked.Add(int64(len(req.Partitions)))
	return s.Store.Claim(ctx, shard, req)
}

// TestEmptyPollsDoNotGrowWithNodes: every poll costs a shard a script call.
func TestEmptyPollsDoNotGrowWithNodes(t *testing.T) {
	polls := map[int]float64{}
	for _, nodes := range []int{1, 2, 8, 32} {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			var asked atomic.Int64
			for i := range nodes {
				name := fmt.Sprintf("node-%d", i)
				startNode(t, countingStore{m.Open(name), &asked}, name, r)
			}
			pass(3 * time.Second) // the nodes know each other
			asked.Store(0)
			pass(20 * time.Second)
			polls[nodes] = float64(asked.Load()) / 20
		})
	}
	t.Logf("partitions asked for a second, by nodes: %v", polls)
	if polls[1] < 150 || polls[1] > 170 {
		t.Errorf("one node asks for %.0f partitions a second, want 16 each 100 ms", polls[1])
	}
	// Owners ask for 160 of the shard's partitions, the nodes behind for 40, 20, 10, …
	for nodes, rate := range polls {
		if rate > 1.6*polls[1] {
			t.Errorf("%d nodes ask for %.0f partitions a second, one for %.0f", nodes, rate, polls[1])
		}
	}
}

// TestTakeover: one of several nodes falls silent. Another node calls back all timers of the silent
// node.
func TestTakeover(t *testing.T) {
	for _, nodes := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				dying := &cutStore{Store: m.Open("dying")}
				startNode(t, dying, "dying", r)
				var living *node
				for i := range nodes - 1 {
					name := fmt.Sprintf("living-%d", i)
					living = startNode(t, m.Open(name), name, r)
				}
				pass(3 * time.Second)
				const n = 400
				for i := range n {
					create(t, living, oneShot(time.Duration(i)*10*time.Millisecond))
				}
				pass(2 * time.Second) // one of eight may own a single partition
				dying.cut.Store(true)
				pass(10 * time.Second)
				byDying, late := 0, 0
				seen := r.seen()
				wantOnTime(t, seen, 1500*time.Millisecond)
				for _, a := range seen {
					if a.node == "dying" {
						byDying++
					}
					if a.late > maxLate {
						late++
					}
				}
				if len(seen) != n || byDying == 0 || late == 0 {
					t.Errorf("%d callbacks, %d by the dying node, %d late; want %d, some, some", len(seen), byDying, late, n)
				}
			})
		})
	}
}

// TestNodesComeAndGoInOrder: no timer is late because of a node that comes or goes.
func TestNodesComeAndGoInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		names := []string{"a", "b", "c", "d"}
		running := []*node{startNode(t, m.Open("first"), "first", r)}
		pass(100 * time.Millisecond)
		const n = 1600
		for i := range n {
			create(t, running[0], oneShot(time.Duration(i)*10*time.Millisecond))
		}
		for _, name := range names {
			running = append(running, startNode(t, m.Open(name), name, r))
			pass(1700 * time.Millisecond)
		}
		for _, leaving := range running[:4] {
			leaving.stop()
			pass(300 * time.Millisecond)
		}
		pass(10 * time.Second)
		seen := r.seen()
		wantOnTime(t, seen, maxLate)
		by := map[string]int{}
		for _, a := range seen {
			by[a.node]++
		}
		if len(seen) != n || len(by) != 5 {
			t.Errorf("%d callbacks, by node %v; want %d, by all", len(seen), by, n)
		}
	})
}
