package scheduler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// A write whose node can't reach one owner meets a newer write through another node. Only the
// owners have copies, and the replaced timer is not called.
func TestAWriteThatMissedAnOwnerMeetsANewerOne(t *testing.T) {
	for name, rival := range map[string]func(c *cluster, id timer.ID) error{
		"by a PUT": func(c *cluster, id timer.ID) error {
			_, err := c.nodes[1].Replace(c.Context(), id, oneShot(5*time.Second))
			return err
		},
		"by a DELETE": func(c *cluster, id timer.ID) error {
			_, err := c.nodes[1].Delete(c.Context(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				for range 10 {
					id := c.create(oneShot(time.Hour)).ID
					stalled := c.homes(id.Key, 2)[0]
					c.Connect(nodeName(0), stalled, storetest.LinkMute)
					var wg sync.WaitGroup
					wg.Go(func() {
						if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(10*time.Second)); err != nil {
							c.Errorf("the write that was held up: %v", err)
						}
					})
					pass(100 * time.Millisecond)
					if err := rival(c, id); err != nil {
						c.Errorf("the other write: %v", err)
					}
					wg.Wait()
					c.Connect(nodeName(0), stalled, storetest.LinkUp)
					for _, name := range c.holders(id.Key) {
						if name != stalled && name != c.homes(id.Key, 2)[1] {
							c.Errorf("%s has a copy of what was replaced", name)
						}
					}
					pass(30 * time.Second)
					if n := len(c.callbacks(id.Key)); n > 1 {
						c.Errorf("%d callbacks of %s, want one at most", n, id.Key)
					}
				}
			})
		})
	}
}

// jitter delays calls of clients' operations by up to most, there and back.
func (c *cluster) jitter(most time.Duration) {
	slow := func(op, _ string) error {
		if op == "merge" || op == "read" {
			time.Sleep(rand.N(most) + time.Microsecond)
		}
		return nil
	}
	c.Inject(slow, slow)
}

// Writes of one timer through two nodes at the same time are all carried out: afterwards the newest
// write is in force on all copies, and is called alone.
func TestWritesAtTheSameTimeAreCarriedOut(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		id := c.create(oneShot(time.Hour)).ID
		c.jitter(3 * time.Millisecond)
		lost := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for client := range 20 {
			wg.Go(func() {
				for i := range 10 {
					_, err := c.nodes[(client+i)%2].Replace(c.Context(), id, oneShot(10*time.Second))
					mu.Lock()
					switch {
					case errors.Is(err, timer.ErrOvertaken):
						lost++
					case err != nil:
						c.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if lost > 0 {
			c.Errorf("%d of 200 writes were overtaken", lost)
		}
		c.Inject(nil, nil)
		first, err := c.nodes[0].Lookup(c.Context(), id)
		if err != nil {
			c.Fatal(err)
		}
		second, err := c.nodes[1].Lookup(c.Context(), id)
		if err != nil || first.Record.State != second.Record.State {
			c.Errorf("the nodes read %v and %v, %v", first.Record.State, second.Record.State, err)
		}
		pass(30 * time.Second)
		c.wantOnce(id.Key, 1, maxLate)
	})
}

// A write loses races to a stream of writes through another node, and is carried out nevertheless:
// every try is newer than the writes during the pause before the try.
func TestAWriteThatLosesRacesIsNewerEachTime(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		id := c.create(oneShot(time.Hour)).ID
		c.jitter(time.Millisecond)
		stop := make(chan struct{})
		var stream sync.WaitGroup
		for range 2 {
			stream.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = c.nodes[1].Replace(c.Context(), id, oneShot(time.Hour)) // the rival may be overtaken, too
					}
				}
			})
		}
		slowest := time.Duration(0)
		for range 50 {
			begun := time.Now()
			if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour)); err != nil {
				c.Error(err)
			}
			slowest = max(slowest, time.Since(begun))
		}
		close(stop)
		stream.Wait()
		c.Logf("the slowest took %v", slowest)
	})
}

// A write whose every try meets a newer write ends as overtaken, however long the tries take: no
// try begins too late to be answered.
func TestAnOvertakenWriteIsNotCutOff(t *testing.T) {
	for each := 20 * time.Millisecond; each < 220*time.Millisecond; each += 10 * time.Millisecond {
		t.Run(each.String(), func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				id := c.create(oneShot(time.Hour)).ID
				var rival sync.Mutex
				var quick atomic.Bool // while the rival writes
				c.Inject(func(op, _ string) error {
					if op != "merge" || quick.Load() {
						return nil
					}
					time.Sleep(each)
					rival.Lock()
					defer rival.Unlock()
					quick.Store(true)
					defer quick.Store(false)
					_, err := c.nodes[1].Replace(context.WithoutCancel(c.Context()), id, oneShot(time.Hour))
					return err
				}, func(op, _ string) error {
					if op == "merge" && !quick.Load() {
						time.Sleep(each)
					}
					return nil
				})
				if _, err := c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour)); !errors.Is(err, timer.ErrOvertaken) {
					c.Errorf("answered %v, want that the write was overtaken", err)
				}
				c.Inject(nil, nil)
			})
		})
	}
}

// A delete that finds a newer end is done.
func TestDeletesAtTheSameTimeAreDone(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.jitter(3 * time.Millisecond)
		for range 20 {
			id := c.create(oneShot(time.Hour)).ID
			var wg sync.WaitGroup
			for client := range 8 {
				wg.Go(func() {
					if _, err := c.nodes[client%2].Delete(c.Context(), id); err != nil {
						c.Error(err)
					}
				})
			}
			wg.Wait()
			if holders := c.holders(id.Key); len(holders) > 0 {
				c.Errorf("copies live on %v", holders)
			}
		}
	})
}
