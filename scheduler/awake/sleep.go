package awake

import (
	"context"
	"time"
)

// Sleep waits for d and reports whether ctx lasted.
func Sleep(ctx context.Context, d time.Duration) bool {
	alarm := time.NewTimer(d)
	defer alarm.Stop()
	select {
	case <-alarm.C:
		return true
	case <-ctx.Done():
		return false
	}
}
