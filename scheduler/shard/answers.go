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

// SilenceLook is how soon a call is given up when the shard's silence lasts.
const SilenceLook = 100 * time.Millisecond

// Answers is how a shard answers this node. How long the shard keeps silent is measured
// by a clock that stands still while the node does; since when the shard may have missed
// something is not. It is safe for concurrent use.
type Answers struct {
	begun  time.Time // of the clock that goes on always
	awake  *awake.Clock
	Outage *outage

	Tardy   atomic.Bool // the last call that others wait for got no answer, or not a prompt one
	suspect atomic.Bool // the last call was not answered, or the shard is slow

	mu      sync.Mutex
	since   Moment // when the first call began that was not answered; zero if the last was
	refused bool   // nothing listens there
	slow    tardiness

	// The last silence that lasted, by the clock that goes on always; 0 if none did.
	lostAt, backAt time.Duration
}

// Moment is an instant by the clock that goes on always, and by the one that stands still
// while the node does.
type Moment struct{ real, awake time.Duration }

func newAnswers(clock *awake.Clock) *Answers {
	return &Answers{begun: time.Now(), awake: clock, Outage: newOutage()}
}

// now is an instant of the clock that goes on always.
func (s *Answers) now() time.Duration { return max(time.Since(s.begun), 1) }

// Begin is what Heard wants to know of a call when it begins.
func (s *Answers) Begin() Moment { return Moment{s.now(), s.awake.Now()} }

// Took is how long a call has taken so far.
func (s *Answers) Took(began Moment) time.Duration { return s.awake.Now() - began.awake }

// Answered takes the outcome of a call that others wait for, too.
func (s *Answers) Answered(began Moment, err error) {
	s.Tardy.Store(failed(err) || s.Took(began) > timing.PromptAnswer)
	s.Heard(began, err)
}

// failed reports whether an error says something of the shard: a timer of a later format does not.
func failed(err error) bool { return err != nil && !errors.Is(err, timer.ErrUpgrading) }

// Heard takes the outcome of a call.
func (s *Answers) Heard(began Moment, err error) {
	took, answered := s.Took(began), !failed(err)
	if !answered {
		s.Outage.Failed()
	}
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
	if s.slow.heard(s.awake, took, answered) {
		s.slow.since = s.now()
	}
	if s.slow.is {
		s.Outage.Failed() // nobody tells the shard anything meanwhile
	}
	if wasAway && !s.lasting() && !s.slow.is {
		s.lostAt, s.backAt = since, s.now()
	}
	s.suspect.Store(s.since != Moment{} || s.slow.is)
}

// lasts reports whether the shard has been silent for so long that nobody should
// wait for it.
func (s *Answers) lasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasting()
}

// slowFor is for how long the shard has been slow; 0 if it isn't.
func (s *Answers) slowFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.slow.is {
		return 0
	}
	return max(s.now()-s.slow.since, 1)
}

// Cut ends a call, whose ctx it is, if the silence lasts before that has ended.
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

// The following two are for those who hold mu.

func (s *Answers) lasting() bool {
	return s.since != (Moment{}) && (s.refused || s.awake.Since(s.since.awake) >= timing.SilentAfter)
}

// lostSince is when the shard began to miss what it should be told.
func (s *Answers) lostSince() time.Duration {
	switch {
	case s.slow.is && (s.since == (Moment{}) || s.slow.since < s.since.real):
		return s.slow.since
	default:
		return s.since.real
	}
}

// lostFor is how long ago a silence began that lasts, or ended less than this
// while ago; 0 if there is none.
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

// tardiness is whether a shard's answers are late, by the clock that stands still while
// the node does.
type tardiness struct {
	is    bool
	since time.Duration // when it began, by the clock that goes on always
	first time.Duration // while it isn't: when the first late answer was asked for that no quick one followed; 0 if none was
	last  time.Duration // while it is: when the last answer came that was not quick, or failed
}

// heard takes an answer, and reports whether the shard is slow from now on.
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
	case t.is && clock.Since(t.last) >= timing.SlowAfter:
		*t = tardiness{}
	}
	return false
}
