package simtest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

// written is a created timer, with the times of its callbacks.
type written struct {
	due   time.Time
	skew  time.Duration
	homes []string
	calls []time.Time
}

// TestShardTurnsSlow: only the answers of one of three shards come late. After 5 s the shard's timers are
// late by their skew and little more, and all other timers are on time.
func TestShardTurnsSlow(t *testing.T) {
	for _, late := range []time.Duration{250 * time.Millisecond, 430 * time.Millisecond} {
		inBubble(t, late.String(), func(t *testing.T) {
			c := clusterOf(t, setting{seed: 1, mode: history.Liveness, nodes: 2, shards: 3, opened: 4})
			defer c.close()
			time.Sleep(10 * time.Second)
			var onset time.Time
			all := c.createMany(t, 1500, 8*time.Millisecond, func(i int) {
				if i == 375 {
					onset = time.Now()
					for _, m := range c.machines {
						m.links["b"].slowDown(late / 2) // each way, to the end
					}
				}
			})
			judgeSlow(t, all, onset)
		})
	}
}

// createMany creates timers of many intervals, one after the other, and waits until all timers were due.
func (c *cluster) createMany(t *testing.T, n int, apart time.Duration, before func(i int)) (all map[string]*written) {
	t.Helper()
	all = map[string]*written{}
	var mu sync.Mutex // guards all
	var clients sync.WaitGroup
	for i := range n {
		before(i)
		clients.Go(func() {
			interval := 500*time.Millisecond + time.Duration(i*7919%2500)*time.Millisecond
			one := timer.Timer{
				Interval: interval, ReplicationFactor: 2, Callback: timer.Callback{URI: urlOf(promptly, strconv.Itoa(i)), Opaque: "x"},
			}
			m := c.machines[i%2]
			asked := time.Now()
			_, err := m.have(func(p *process) {
				create := p.engine.Create
				if i%2 == 0 { // a client's own key goes to its owners, whatever the state of the owners
					id := timer.ID{Key: "own" + strconv.Itoa(i), RF: 2}
					create = func(ctx context.Context, asked timer.Timer) (timer.Receipt, error) {
						return p.engine.Replace(ctx, id, asked)
					}
				}
				receipt, err := create(t.Context(), one)
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all[receipt.ID.Key] = &written{
					due: asked.Add(interval), skew: store.DefaultSkew().Of(interval, 2), homes: p.store.Rank(receipt.ID.Key)[:2],
				}
			})
			if err != nil && !errors.Is(err, errDown) {
				t.Error(err)
			}
		})
		time.Sleep(apart)
	}
	clients.Wait()
	time.Sleep(10 * time.Second)
	for _, call := range c.receiver.Calls() {
		all[call.ID.Key].calls = append(all[call.ID.Key].calls, call.Arrived)
	}
	return all
}

func judgeSlow(t *testing.T, all map[string]*written, onset time.Time) {
	t.Helper()
	var begin, later, without []time.Duration
	twice := 0
	for key, w := range all {
		if len(w.calls) == 0 {
			t.Errorf("timer %s was not called", key)
			continue
		}
		twice += len(w.calls) - 1
		switch late := w.calls[0].Sub(w.due); {
		case w.due.Before(onset):
		case w.homes[0] == "b" && w.due.Before(onset.Add(5*time.Second)):
			begin = append(begin, late-w.skew)
		case w.homes[0] == "b":
			later = append(later, late-w.skew)
		case w.homes[1] != "b":
			without = append(without, late)
		}
	}
	for _, part := range []struct {
		name string
		late []time.Duration
		most time.Duration
	}{
		{"timers whose first copy is there, in the first 5 s, beyond their skew", begin, time.Second},
		{"timers whose first copy is there, later, beyond their skew", later, 300 * time.Millisecond},
		{"timers without a copy there", without, 50 * time.Millisecond},
	} {
		slices.Sort(part.late)
		p99 := part.late[len(part.late)*99/100]
		t.Logf("%s: %d, 99th percentile of lateness %v", part.name, len(part.late), p99)
		if p99 > part.most || len(part.late) < 50 {
			t.Errorf("%s: %d, 99th percentile of lateness %v; want %v at most", part.name, len(part.late), p99, part.most)
		}
	}
	if twice > len(all)/1000 {
		t.Errorf("%d second callbacks of %d timers", twice, len(all))
	}
}
