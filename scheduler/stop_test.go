package scheduler_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

func TestStopGivesBackWhatHasNotBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		leaving := startNode(t, m.Open("leaving"), "leaving", r)
		for range 100 {
			create(t, leaving, oneShot(time.Second))
		}
		pass(970 * time.Millisecond) // all are in its wheel
		leaving.stop()
		staying := startNode(t, m.Open("staying"), "staying", r)
		pass(10 * time.Second)
		seen := r.seen()
		if len(seen) != 100 {
			t.Fatalf("%d callbacks for 100 timers", len(seen))
		}
		wantOnTime(t, seen, maxLate)
		if log := staying.log.String(); strings.Contains(log, "suspected") {
			t.Errorf("a node that left in order was suspected:\n%s", log)
		}
	})
}

func TestStopEndsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 1900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		leaving := startNode(t, m.Open("leaving"), "leaving", r)
		for range 100 {
			create(t, leaving, oneShot(time.Second))
		}
		pass(1100 * time.Millisecond)
		begin := time.Now()
		leaving.stop()
		if took := time.Since(begin); took < 1700*time.Millisecond || took > 2*time.Second {
			t.Errorf("stopping took %v with callbacks of which 1.8 s are left", took)
		}
		startNode(t, m.Open("staying"), "staying", r)
		pass(20 * time.Second)
		if got := len(r.seen()); got != 100 {
			t.Errorf("%d callbacks for 100 timers", got)
		}
	})
}

func TestStopIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		create(t, n, oneShot(time.Second))
		pass(1200 * time.Millisecond)
		create(t, n, oneShot(50*time.Millisecond))
		m.Inject(func(op, _ string) error {
			if op == "settle" || op == "leave" {
				<-time.After(500 * time.Millisecond)
				return errors.New("no answer")
			}
			return nil
		}, nil)
		pass(100 * time.Millisecond)
		begin := time.Now()
		n.stop()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("stopping took %v with a shard that doesn't answer, want at most 5s", took)
		}
		if !strings.Contains(n.log.String(), "unsettled") {
			t.Errorf("no word of what was left unsettled:\n%s", n.log)
		}
	})
}

// TestSlowDestinationDelaysOnlyItself: a receiver that hangs, with far more timers than slots,
// beside a receiver that answers.
func TestSlowDestinationDelaysOnlyItself(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if strings.Contains(a.Callback.URI, "slow") {
				return time.Hour, dispatch.Delivered{}
			}
			return time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Slots = 64; c.Attempts = 100 })
		slow := oneShot(time.Second)
		slow.Callback.URI = "http://slow/"
		for range 400 {
			create(t, n, slow)
		}
		quick := recurring(500*time.Millisecond, 60)
		for range 5 {
			create(t, n, quick)
		}
		pass(40 * time.Second)
		var quicks []attempt
		for _, a := range r.seen() {
			if a.Callback.URI == quick.Callback.URI {
				quicks = append(quicks, a)
			}
		}
		if len(quicks) != 5*60 {
			t.Errorf("%d quick callbacks, want %d", len(quicks), 5*60)
		}
		// Claims of a slow destination may hold the credit as long as the claims wait for slots.
		wantOnTime(t, quicks, 250*time.Millisecond)
	})
}

// TestLastWriteWinsWhateverTheClocks: a node whose clock is ten minutes behind updates and deletes
// a timer that another node has written.
func TestLastWriteWinsWhateverTheClocks(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		ahead := startNode(t, m.Open("ahead"), "ahead", r)
		behind := startNode(t, m.Open("behind"), "behind", r, func(c *settings.Config) {
			c.Wall = func() time.Time { return time.Now().Add(-10 * time.Minute) }
		})
		id := create(t, ahead, oneShot(time.Hour)).ID
		if _, err := behind.Replace(t.Context(), id, oneShot(2*time.Hour)); err != nil {
			t.Fatalf("replace: %v", err)
		}
		got, err := ahead.Lookup(t.Context(), id)
		if err != nil || got.Record.Timer.Interval != 2*time.Hour {
			t.Fatalf("after the update: %+v, %v; want an interval of 2h", got.Record.Timer, err)
		}
		if _, err := ahead.Replace(t.Context(), id, oneShot(3*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := behind.Delete(t.Context(), id); err != nil {
			t.Fatalf("delete: %v", err)
		}
		if _, err := ahead.Lookup(t.Context(), id); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("after the delete: %v, want ErrNotFound", err)
		}
	})
}

func TestReplicationFactorOfAnUpdate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		three := oneShot(time.Hour)
		three.ReplicationFactor = 3
		made := create(t, n, three).ID
		bare := timer.ID{Key: made.Key}
		for name, c := range map[string]struct {
			id   timer.ID
			rf   int
			want int // 0: refused
		}{
			"absent, with the id":       {made, 0, 3},
			"absent, with the bare key": {bare, 0, 3},
			"the same":                  {made, 3, 3},
			"the same, bare key":        {bare, 3, 3},
			"another":                   {made, 2, 0},
			"another, bare key":         {bare, 2, 0},
			"another in the id alone":   {timer.ID{Key: made.Key, RF: 2, Hint: made.Hint}, 0, 0},
			"another in id and body":    {timer.ID{Key: made.Key, RF: 2, Hint: made.Hint}, 2, 0},
			"unknown, id and body":      {timer.ID{Key: "newest", RF: 2}, 3, 0},
			"unknown and absent":        {timer.ID{Key: "new"}, 0, 2},
			"unknown and given":         {timer.ID{Key: "newer"}, 5, 5},
		} {
			asked := oneShot(time.Hour)
			asked.ReplicationFactor = c.rf
			receipt, err := n.Replace(t.Context(), c.id, asked)
			refused, isInvalid := errors.AsType[*timer.InvalidError](err)
			if c.want == 0 {
				if !isInvalid || refused.Code != "replication-factor-changed" {
					t.Errorf("%s: %v, want a refusal", name, err)
				}
				continue
			}
			if err != nil || receipt.ID.RF != c.want {
				t.Errorf("%s: rf %d, %v; want %d", name, receipt.ID.RF, err, c.want)
			}
		}
	})
}

func TestConfigReportsAllContradictions(t *testing.T) {
	config := settings.Default("a", slog.New(slog.DiscardHandler))
	if err := config.Validate(); err != nil {
		t.Fatalf("the defaults contradict each other: %v", err)
	}
	config.Hold, config.Slots, config.Attempts, config.PollInterval = 2*time.Second, 0, 0, time.Second
	err := config.Validate()
	for _, want := range []string{"hold 2s", "slots 0", "attempts 0", "poll interval 1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
}

// TestLargeTimersAreTakenAFewAtATime: credit bounds the size of the timers in hand, and not only
// the number.
func TestLargeTimersAreTakenAFewAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		const (
			count = 60
			size  = 200 << 10
			slots = 64 // a credit of 72 units of 16 KiB
		)
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 50 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Slots = slots })
		large := oneShot(time.Second)
		large.Callback.Opaque = strings.Repeat("x", size)
		for range count {
			create(t, n, large)
		}
		pass(30 * time.Second)
		seen := r.seen()
		if len(seen) != count {
			t.Fatalf("%d callbacks for %d timers", len(seen), count)
		}
		most := 0
		for i, a := range seen {
			together := 0
			for _, b := range seen[i:] {
				if b.at.Sub(a.at) < 50*time.Millisecond {
					together++
				}
			}
			most = max(most, together)
		}
		if limit := 72*16<<10/size + 2; most > limit || most < 2 {
			t.Errorf("up to %d of %d bytes under way at once, want some and at most %d", most, size, limit)
		}
	})
}
