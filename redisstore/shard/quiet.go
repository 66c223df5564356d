package shard

import (
	"context"
	"errors"
	"time"

	"chronos/scheduler/timing"
)

// ErrNewProcess is the error of a call under SameProcess that would have been executed by a new process.
var ErrNewProcess = errors.New("another process of the Redis answers")

type sameProcess struct{}

// SameProcess is the context of calls that a new process must not execute. The first of these calls that meets the new
// process fails with ErrNewProcess.
func SameProcess(ctx context.Context) context.Context {
	return context.WithValue(ctx, sameProcess{}, true)
}

// identify notes which process answers, and reports whether the process is a new one. A new process may have lost data
// that the process before had not written to disk. A connection is looked at before the first call, so no call is
// executed by a process whose loss this node has not noticed.
func (s *Shard) identify(identity string) (anew bool) {
	before := s.identity.Swap(&identity)
	if anew = before != nil && *before != identity; anew {
		s.lostData()
		s.verified.Store(false)
	}
	return anew
}

// identifyFirst compares the first process that this node sees with the processes noted on the shard, one process
// for every deliverer kind ever used.
func (s *Shard) identifyFirst(identity string, noticed []any) {
	if s.identity.Load() != nil {
		s.identify(identity)
		return
	}
	known, same := false, false
	for _, lane := range noticed {
		text, is := lane.(string)
		known, same = known || is, same || text == identity
	}
	if known && !same {
		s.lostData()
	}
	s.identity.Store(&identity)
}

func (s *Shard) lostData() { s.lostAt.Store(int64(max(s.Clock.Now(), 1))) }

// Announced notes that this node has announced itself on the shard. A Redis without any announcement left, not even
// this node's own, has been emptied.
func (s *Shard) Announced(alone bool) {
	if alone && s.beaten.Load() {
		s.lostData()
	}
	s.beaten.Store(true)
}

// Quiet is how long the shard stays quiet; 0 if nothing was lost lately.
func (s *Shard) Quiet() time.Duration {
	at := s.lostAt.Load()
	if at == 0 {
		return 0
	}
	return max(time.Duration(at)+timing.QuietTime-s.Clock.Now(), 0)
}
