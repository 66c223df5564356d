package shard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// SilenceLook is how soon a call is given up once the shard's silence lasts.
const SilenceLook = 100 * time.Millisecond

// Answers is how a shard answers this node. A clock that stands still while the node does
// measures the length of a silence. A clock that always goes on measures since when the shard
// may have missed something. Answers is safe for concurrent use.
type Answers struct {
	begun  time.Time // of the clock that always goes on
	awake  *awake.Clock
	Outage *outage

	Tardy   atomic.Bool // the last call for which claims wait got no prompt answer
	suspect atomic.Bool // the last call got no answer, or the shard is slow

	mu      sync.Mutex
	since   Moment // when the first unanswered call began; zero if the last call was answered
	refused bool   // nothing listens at the shard's address
	slow    tardiness

	// The last lasting silence or slowness, by the clock that always goes on; 0 before the first.
	lostAt, backAt time.Duration
}

// Moment is an instant on two clocks: real always goes on, and awake stands still while the
// node does.
type Moment struct{ real, awake time.Duration }

func newAnswers(clock *awake.Clock) *Answers {
	return &Answers{begun: time.Now(), awake: clock, Outage: newOutage()}
}

// now is the present instant of the clock that always goes on.
func (s *Answers) now() time.Duration { return max(time.Since(s.begun), 1) }

// Begin returns the moment at which a call begins, for Heard and Answered.
func (s *Answers) Begin() Moment { return Moment{s.now(), s.awake.Now()} }

// Took is how long a call has taken so far.
func (s *Answers) Took(began Moment) time.Duration { return s.awake.Now() - began.awake }

// Answered is Heard for a call for which claims wait.
func (s *Answers) Answered(began Moment, err error) {
	s.Tardy.Store(failed(err) || s.Took(began) > timing.PromptAnswer)
	s.Heard(began, err)
}

// failed reports whether an error is a fault of the shard. A timer of a later format is no fault.
func failed(err error) bool { return err != nil && !errors.Is(err, timer.ErrUpgrading) }

// gaveUp reports whether the caller waited no longer. On a busy machine many calls with a short
// patience end so while the shard is well.
func gaveUp(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Heard notes the outcome of a call.
func (s *Answers) Heard(began Moment, err error) {
	took, answered := s.Took(began), !failed(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	wasAway, since := s.lasting() || s.slow.is, s.lostSince()
	switch {
	case answered:
		s.since, s.refused = Moment{}, false
	case errors.Is(err, timer.ErrUnavailable):
		if s.since == (Moment{}) || began.real < s.since.real { // a call that begins later may be given up sooner
			s.since = began
		}
		s.refused = s.refused || errors.Is(err, syscall.ECONNREFUSED)
	}
	switch {
	case answered:
	case !gaveUp(err):
		s.Outage.Failed()
	case s.lasting():
		s.Outage.failedFor(s.now() - s.since.real)
	}
	if s.slow.heard(s.awake, took, answered) {
		s.slow.since = s.now()
	}
	if s.slow.is {
		s.Outage.Failed() // a slow shard may miss writes
	}
	if wasAway && !s.lasting() && !s.slow.is {
		s.lostAt, s.backAt = since, s.now()
	}
	s.suspect.Store(s.since != Moment{} || s.slow.is)
}

// lasts reports whether the silence of the shard lasts: nobody should wait for the shard.
func (s *Answers) lasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasting()
}

// slowFor is how long the shard has been slow; 0 if the shard is not slow.
func (s *Answers) slowFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.slow.is {
		return 0
	}
	return max(s.now()-s.slow.since, 1)
}

// Cut ends the call with the context ctx if the shard's silence lasts before the call has ended.
func (s *Answers) Cut(ctx context.Context, end context.CancelFunc) {
	time.AfterFunc(SilenceLook, func() {
		switch {
		case ctx.Err() != nil:
		case s.lasts():
			end()
		default:
			s.Cut(ctx, end)
		}
	})
}

// The callers of lasting and lostSince hold mu.

func (s *Answers) lasting() bool {
	return s.since != (Moment{}) && (s.refused || s.awake.Since(s.since.awake) >= timing.SilentAfter)
}

// lostSince is when the shard began to miss writes, by the clock that always goes on.
func (s *Answers) lostSince() time.Duration {
	switch {
	case s.slow.is && (s.since == (Moment{}) || s.slow.since < s.since.real):
		return s.slow.since
	default:
		return s.since.real
	}
}

// lostFor is how long ago the shard became silent or slow, if the shard still is, or was within
// the last while; otherwise 0.
func (s *Answers) lostFor(while time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.lasting() || s.slow.is {
		return now - s.lostSince()
	}
	if s.backAt != 0 && now-s.backAt < while {
		return now - s.lostAt
	}
	return 0
}

// tardiness says whether a shard's answers are late. Only since is on the clock that always goes
// on; the clock of first and last stands still while the node does.
type tardiness struct {
	is    bool
	since time.Duration // when the shard became slow
	first time.Duration // while not slow: begin of the first late call since the last quick answer; 0 for none
	last  time.Duration // while slow: when the last late answer or failure came
}

// heard notes an answer, and reports whether the shard becomes slow now.
func (t *tardiness) heard(clock *awake.Clock, took time.Duration, answered bool) (begins bool) {
	now, quick := clock.Now(), answered && took <= timing.SlowAnswer
	switch {
	case !t.is && quick:
		t.first = 0
	case !t.is && answered:
		if t.first == 0 {
			t.first = max(now-took, 1)
		}
		if clock.Since(t.first) >= timing.SlowAfter {
			t.is, t.last = true, now
			return true
		}
	case t.is && !quick:
		t.last = now
	case t.is && now-t.last >= timing.SlowAfter:
		*t = tardiness{}
	}
	return false
}
