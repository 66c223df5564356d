package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// silentAfter is how long a shard may leave calls unanswered before others do
// without it. One slow answer is not silence.
const silentAfter = time.Second

// silenceLook is how soon a call is given up when the shard's silence lasts.
const silenceLook = 100 * time.Millisecond

// silence is since when a shard has answered nothing. It is safe for concurrent
// use.
type silence struct {
	begun time.Time    // of the clock
	since atomic.Int64 // ns on it, when the first call began that was not answered; 0 if the last was

	// The last silence that lasted, ns on the clock; 0 if none did.
	lostAt, backAt atomic.Int64

	outage *outage
}

func newSilence() *silence { return &silence{begun: time.Now(), outage: newOutage()} }

// now is what heard wants to know of a call when it begins.
func (s *silence) now() time.Duration { return max(time.Since(s.begun), 1) }

// heard takes the outcome of a call that began at an instant.
func (s *silence) heard(began time.Duration, err error) {
	if err != nil {
		s.outage.failed()
	}
	switch {
	case err == nil:
		if since := s.since.Load(); since != 0 && s.since.CompareAndSwap(since, 0) && s.lasting(since) {
			s.lostAt.Store(since)
			s.backAt.Store(int64(s.now()))
		}
	case errors.Is(err, ErrUnavailable):
		s.since.CompareAndSwap(0, int64(began))
	}
}

// lasts reports whether the shard has been silent for so long that nobody should
// wait for it.
func (s *silence) lasts() bool { return s.lasting(s.since.Load()) }

// cut ends a call, whose ctx it is, if the silence lasts before that has ended.
func (s *silence) cut(ctx context.Context, end context.CancelFunc) {
	time.AfterFunc(silenceLook, func() {
		switch {
		case ctx.Err() != nil:
		case s.lasts():
			end()
		default:
			s.cut(ctx, end)
		}
	})
}

func (s *silence) lasting(since int64) bool {
	return since != 0 && s.now()-time.Duration(since) >= silentAfter
}

// lostFor is how long ago a silence began that lasts, or ended less than this
// while ago; 0 if there is none.
func (s *silence) lostFor(while time.Duration) time.Duration {
	now := s.now()
	if since := s.since.Load(); s.lasting(since) {
		return now - time.Duration(since)
	}
	if back := s.backAt.Load(); back != 0 && now-time.Duration(back) < while {
		return now - time.Duration(s.lostAt.Load())
	}
	return 0
}
