package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
)

// TestANeglectedPartitionIsAnAlarm: announcements of idle nodes keep the only real node from its
// partitions. Meanwhile the log and Ready name the partitions. Once the announcements end, the
// timers fire and the alarm is over.
func TestANeglectedPartitionIsAnAlarm(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		pass(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go announce(ctx, m, "main", 50)
		pass(2 * time.Second)
		for range 40 {
			create(t, n, oneShot(2*time.Second))
		}
		pass(time.Second)
		if err := n.Ready(); err != nil {
			t.Errorf("before the timers are due: %v", err)
		}
		pass(15 * time.Second)
		const alarm = "timers on shard main are overdue and no node claims them: partitions ["
		if err := n.Ready(); err == nil || !strings.Contains(err.Error(), alarm) {
			t.Errorf("Ready says %v, want %q", err, alarm)
		}
		const line = "timers are overdue and no node claims them"
		if got := strings.Count(n.log.String(), line); got != 1 {
			t.Errorf("the log has %d lines %q, want 1:\n%s", got, line, n.log)
		}
		stop()
		pass(15 * time.Second)
		if got := len(r.seen()); got != 40 {
			t.Errorf("%d of 40 timers fired once the announcements had ended", got)
		}
		if err := n.Ready(); err != nil {
			t.Errorf("after all timers have fired: %v", err)
		}
		if !strings.Contains(n.log.String(), "overdue timers are claimed again") {
			t.Errorf("the log does not say that the alarm is over:\n%s", n.log)
		}
	})
}

// announce announces nodes on a shard that claim nothing.
func announce(ctx context.Context, m *storetest.Model, shard string, nodes int) {
	for ctx.Err() == nil {
		for i := range nodes {
			node := fmt.Sprint("ghost", i)
			if _, err := m.Open(node).Beat(ctx, shard, store.Announcement{Clock: time.Now()}); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// TestABacklogIsNoNeglect: many timers came due while no node ran, and are claimed late. Late
// claims raise no alarm.
func TestABacklogIsNoNeglect(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		first := startNode(t, m.Open("a"), "a", r)
		for range 2000 {
			create(t, first, oneShot(20*time.Second))
		}
		first.stop()
		pass(2 * time.Minute)
		r.respond = slowly(1900 * time.Millisecond)
		n := startNode(t, m.Open("b"), "b", r, func(c *settings.Config) { c.Slots = 64 })
		for range 60 {
			pass(time.Second)
			if err := n.Ready(); err != nil {
				t.Fatalf("while a backlog of timers is worked off: %v", err)
			}
		}
		if strings.Contains(n.log.String(), "no node claims") {
			t.Errorf("the log has an alarm:\n%s", n.log)
		}
	})
}
