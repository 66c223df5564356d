package wheel

import (
	"context"
	"math"
	"time"
)

// alarm ends the sleep of Run. Many goroutines set and unset an alarm, and one goroutine waits for
// the alarm.
type alarm interface {
	set(d time.Duration) // from now; replaces the time that was set before
	unset()
	// wait returns after the set time, or when ctx has ended; sometimes for no reason.
	wait(ctx context.Context)
	close()
}

// goTimer is Go's own timer, as precise as the runtime's sleep: whole milliseconds on Linux.
type goTimer struct{ *time.Timer }

func newGoTimer() goTimer {
	t := goTimer{time.NewTimer(math.MaxInt64)}
	t.Stop()
	return t
}

func (t goTimer) set(d time.Duration) { t.Reset(d) }

func (t goTimer) unset() { t.Stop() }

func (t goTimer) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (t goTimer) close() { t.Stop() }
