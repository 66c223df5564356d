package scheduler_test

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// A repeated create asks all owners before anything is written. An owner that lost its data never
// takes a second timer, however slow the other owner is.
func TestARepeatedCreateIsAskedFirst(t *testing.T) {
	for name, slow := range map[string]time.Duration{"quick": 0, "slow": 240 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 1, func(c *cluster) { repeatAfterALoss(c, slow) })
		})
	}
}

func repeatAfterALoss(c *cluster, slow time.Duration) {
	key := timer.OnceKey("once")
	create := func() timer.Receipt {
		receipt, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Second))
		if err != nil {
			c.Error(err)
		}
		return receipt
	}
	create()
	pass(5 * time.Second)
	better, other := c.homes(key, 2)[0], c.homes(key, 2)[1]
	c.Wipe(better)
	wait := func(op, shard string) {
		if slow > 0 && op == "merge" && shard == other {
			time.Sleep(slow)
		}
	}
	var mu sync.Mutex
	live := false
	c.Inject(func(op, shard string) error {
		wait(op, shard)
		return nil
	}, func(op, shard string) error {
		wait(op, shard)
		mu.Lock()
		defer mu.Unlock()
		state, there := c.Copies(better)[key]
		live = live || there && !state.Ended
		return nil
	})
	if !create().Replayed {
		c.Error("the repeat was taken for the first")
	}
	c.Inject(nil, nil)
	mu.Lock()
	defer mu.Unlock()
	if live {
		c.Error("the owner that lost its data took a second timer")
	}
}

// Rule "a repeated create finds the first": the only owner that acknowledged the create falls silent,
// and the owner that missed the create is back. The repetition is refused until one of them knows.
func TestARepeatedCreateWaitsForTheOwnerThatKnows(t *testing.T) {
	for name, lose := range map[string]func(c *cluster, shard string){
		"no answer": func(c *cluster, shard string) { c.connect(shard, storetest.LinkCut) },
		"known to be down": func(c *cluster, down string) {
			c.Inject(func(_, shard string) error {
				if shard != down {
					return nil
				}
				return fmt.Errorf("%w: %w", timer.ErrRefused, syscall.ECONNREFUSED)
			}, nil)
			pass(timing.OutageAfter / 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 1, func(c *cluster) { repeatWithoutTheOwner(c, lose) })
		})
	}
}

// repeatWithoutTheOwner has one owner miss a create, and the other owner not answer the repeated create.
func repeatWithoutTheOwner(c *cluster, lose func(c *cluster, shard string)) {
	key := timer.OnceKey("once")
	create := func() (timer.Receipt, error) {
		return c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(20*time.Second))
	}
	better, other := c.homes(key, 2)[0], c.homes(key, 2)[1]
	lose(c, better)
	if first, err := create(); err != nil || first.Copies != 1 {
		c.Fatal(first, err)
	}
	c.connect(better, storetest.LinkUp)
	c.Inject(nil, nil)
	c.connect(other, storetest.LinkCut)
	if again, err := create(); !errors.Is(err, timer.ErrUnavailable) {
		c.Errorf("with the owner away that knows the create: %+v, %v; want unavailable", again, err)
	}
	c.connect(other, storetest.LinkUp)
	pass(5 * time.Second) // the write is repaired
	c.connect(other, storetest.LinkCut)
	if again, err := create(); err != nil || !again.Replayed {
		c.Errorf("after the repair: %+v, %v; want the first timer", again, err)
	}
	c.connect(other, storetest.LinkUp)
	pass(30 * time.Second)
	c.wantOnce(key, 1, 2*time.Second+maxLate)
}
