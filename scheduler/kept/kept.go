// Package kept keeps answers that are costly to read.
package kept

import (
	"context"
	"time"
)

// Answer is an answer that is read at most once in a while. An Answer is safe for concurrent use.
type Answer[T any] struct {
	life time.Duration
	turn chan struct{} // held by the reader, who alone uses last and read
	last T
	read time.Time
}

// New makes an Answer that is kept for so long.
func New[T any](life time.Duration) *Answer[T] {
	return &Answer[T]{life: life, turn: make(chan struct{}, 1)}
}

// Get returns the answer that is kept, or a new answer of read. Several callers wait for one reader, who goes on after the
// reader's own ctx has ended: read must have a deadline of its own. The result false says that ctx ended before the turn
// came.
func (a *Answer[T]) Get(ctx context.Context, read func(ctx context.Context) T) (answer T, ok bool) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return answer, false
	}
	if a.read.IsZero() || time.Since(a.read) >= a.life {
		a.last, a.read = read(context.WithoutCancel(ctx)), time.Now()
	}
	return a.last, true
}
