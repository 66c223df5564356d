package simtest

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

// quietCluster is a cluster without clients and faults.
func quietCluster(t *testing.T, nodes, shards int) *cluster {
	t.Helper()
	return clusterOf(t, setting{seed: 1, mode: history.Liveness, nodes: nodes, shards: shards})
}

func clusterOf(t *testing.T, s setting) *cluster {
	t.Helper()
	s.apart, s.timing = make([]time.Duration, s.shards+s.spares), pollingEvery(quickPoll)
	return newCluster(t, s, options{}, slog.New(slog.DiscardHandler))
}

func (c *cluster) commands() int { return c.counts().commands }

func (c *cluster) callbacks() int { return len(c.receiver.Calls()) }

// create creates a one-shot timer through a node.
func (c *cluster) create(t *testing.T, m *machine, in time.Duration) (receipt timer.Receipt) {
	t.Helper()
	heard, err := m.ask(func(s *scheduler.Scheduler) {
		var failed error
		receipt, failed = s.Create(t.Context(), timer.Timer{
			Interval: in, ReplicationFactor: 1, Callback: timer.Callback{URI: urlOf(promptly, "x"), Opaque: "x"},
		})
		if failed != nil {
			t.Errorf("create: %v", failed)
		}
	})
	if !heard || err != nil {
		t.Fatalf("create: heard %v, %v", heard, err)
	}
	return receipt
}

func TestNodeWorks(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 2, 2)
		defer c.close()
		begun := time.Now()
		for range 10 {
			c.create(t, c.machines[0], 5*time.Second)
		}
		time.Sleep(10 * time.Second)
		calls := c.receiver.Calls()
		if len(calls) != 10 {
			t.Fatalf("%d callbacks, want 10", len(calls))
		}
		for _, call := range calls {
			if at := call.Arrived.Sub(begun); at < 5*time.Second || at > 5*time.Second+50*time.Millisecond {
				t.Errorf("callback after %v, want 5 s", at)
			}
		}
	})
}

// TestNodeIsKilled: nothing from a killed node arrives anywhere, and all its goroutines end.
func TestNodeIsKilled(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 2)
		defer c.close()
		m := c.machines[0]
		c.create(t, m, 2*time.Second)
		c.create(t, m, time.Minute)
		time.Sleep(1950 * time.Millisecond) // the first timer is leased and in the wheel
		synctest.Wait()
		before := c.commands()
		m.kill()
		killed := time.Now()
		m.running.Wait()
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("its goroutines took %v to end", took)
		}
		time.Sleep(time.Minute)
		if now := c.commands(); now != before || c.callbacks() != 0 {
			t.Errorf("%d commands and %d callbacks after it was killed", now-before, c.callbacks())
		}
		for _, l := range m.allLinks() {
			if len(l.conns) != 0 {
				t.Errorf("%d ends of connections to %s are left", len(l.conns), l.target)
			}
		}
		if _, err := m.ask(func(*scheduler.Scheduler) { t.Error("a killed node works") }); !errors.Is(err, errDown) {
			t.Errorf("asked a killed node: %v", err)
		}
		if err := m.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c.callbacks() != 2 {
			t.Errorf("%d callbacks after its restart, want 2", c.callbacks())
		}
	})
}

// TestKilledNodeDoesNotAnswer: no client hears the outcome of an operation that was under way.
func TestKilledNodeDoesNotAnswer(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 1)
		defer c.close()
		m := c.machines[0]
		resume := c.shards[0].pause()
		defer resume()
		time.AfterFunc(100*time.Millisecond, m.kill)
		heard, err := m.ask(func(s *scheduler.Scheduler) { _, _ = s.Delete(t.Context(), timer.ID{Key: "x", RF: 1}) })
		if heard || err != nil {
			t.Errorf("heard %v, %v; want no answer", heard, err)
		}
	})
}

func TestNodeIsPaused(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 1)
		defer c.close()
		m := c.machines[0]
		c.create(t, m, 2*time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		before, begun := c.commands(), time.Now()
		resume := m.pause()
		time.AfterFunc(10*time.Second, func() {
			synctest.Wait()
			if now := c.commands(); now != before || c.callbacks() != 0 {
				t.Errorf("%d commands and %d callbacks while it was paused", now-before, c.callbacks())
			}
			resume()
		})
		heard, err := m.ask(func(*scheduler.Scheduler) {
			if took := time.Since(begun); took != 10*time.Second {
				t.Errorf("it worked after %v, want when it is awake", took)
			}
		})
		if !heard || err != nil {
			t.Errorf("heard %v, %v", heard, err)
		}
		time.Sleep(5 * time.Second)
		if c.callbacks() != 1 {
			t.Errorf("%d callbacks after the pause, want 1", c.callbacks())
		}
	})
	inBubble(t, "and killed meanwhile", func(t *testing.T) {
		c := quietCluster(t, 1, 1)
		defer c.close()
		m := c.machines[0]
		resume := m.pause()
		m.kill()
		if err := m.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		resume()
		c.create(t, m, time.Second)
		time.Sleep(5 * time.Second)
		if c.callbacks() != 1 {
			t.Errorf("%d callbacks by its next process, want 1", c.callbacks())
		}
	})
}

func TestNodeStopsInOrder(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 2, 1)
		defer c.close()
		m := c.machines[0]
		time.Sleep(3 * time.Second)
		for range 50 {
			c.create(t, m, 2*time.Second)
		}
		time.Sleep(1900 * time.Millisecond)
		ended := m.shutdown()
		if m.up() {
			t.Error("a stopping node takes operations")
		}
		<-ended
		time.Sleep(5 * time.Second)
		if c.callbacks() != 50 {
			t.Errorf("%d callbacks, want each of 50 once", c.callbacks())
		}
	})
}

func TestNodesWallClock(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 1)
		defer c.close()
		m := c.machines[0]
		m.wall.Add(int64(-time.Hour))
		receipt := c.create(t, m, time.Second)
		_, _ = m.ask(func(s *scheduler.Scheduler) {
			found, err := s.Lookup(t.Context(), receipt.ID)
			if ahead := time.Until(found.Record.State.Version.Time()).Round(time.Second); err != nil || ahead != -time.Hour {
				t.Errorf("the version is %v ahead, %v; want an hour behind", ahead, err)
			}
		})
		time.Sleep(5 * time.Second)
		if c.callbacks() != 1 {
			t.Errorf("%d callbacks, want 1", c.callbacks())
		}
	})
}
