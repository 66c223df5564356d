package wheel

import (
	"context"
	"math"
	"time"
)

// alarm is what Run sleeps by. It is set and unset by many, waited for by one.
type alarm interface {
	set(d time.Duration) // from now; it replaces what was set before
	unset()
	// wait returns after the time that was set, or when ctx has ended; sometimes for
	// no reason.
	wait(ctx context.Context)
	close()
}

// goTimer is Go's own timer. Its precision is that of the runtime's sleep, whole
// milliseconds on Linux.
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
