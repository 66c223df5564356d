package shard

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// stopped is the clock of a process. The clock stands still during stopFor.
type stopped struct {
	begun         time.Time
	since         time.Time // zero while the clock goes on
	lost, resumed time.Duration
}

func (s *stopped) clock() *awake.Clock {
	s.begun = time.Now()
	return awake.Following(func() (now, resumed time.Duration) {
		until := time.Now()
		if !s.since.IsZero() {
			until = s.since
		}
		return until.Sub(s.begun) - s.lost, s.resumed
	})
}

func (s *stopped) stopFor(d time.Duration) {
	s.since = time.Now()
	time.Sleep(d)
	s.lost, s.since = s.lost+d, time.Time{}
	if d >= awake.Standstill {
		s.resumed = time.Since(s.begun) - s.lost
	}
}

// The silence begins with the first unanswered call, not with the first call that is given up.
func TestSilenceBeginsWithTheFirstCallThatGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAnswers(new(stopped).clock())
		long := s.Begin()
		time.Sleep(500 * time.Millisecond)
		short := s.Begin()
		time.Sleep(50 * time.Millisecond)
		s.Heard(short, timer.ErrUnavailable)
		time.Sleep(350 * time.Millisecond)
		s.Heard(long, timer.ErrUnavailable)
		time.Sleep(timing.SilentAfter - 901*time.Millisecond)
		if s.lasts() {
			t.Error("the silence lasts before a second has passed")
		}
		time.Sleep(2 * time.Millisecond)
		if !s.lasts() {
			t.Error("the silence does not last a second after the first call began")
		}
	})
}

// A node that stood still gave the shard no time to answer.
func TestSilenceDoesNotCountWhileTheNodeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var process stopped
		s := newAnswers(process.clock())
		began := s.Begin()
		time.Sleep(900 * time.Millisecond)
		process.stopFor(5 * time.Second)
		s.Heard(began, timer.ErrUnavailable)
		time.Sleep(timing.SilentAfter - time.Millisecond)
		if s.lasts() {
			t.Error("the silence lasts, though the node was stopped in between")
		}
		time.Sleep(2 * time.Millisecond)
		if !s.lasts() {
			t.Error("the silence does not last, though nothing answered for a second since the stop")
		}
		// The time of missed writes includes the stop.
		if ago := s.lostFor(time.Minute); ago < 6*time.Second {
			t.Errorf("the shard was lost %v ago, want the whole time since the call began", ago)
		}
		s.Heard(s.Begin(), nil)
		if s.lasts() || s.lostFor(time.Minute) < 6*time.Second || s.lostFor(0) != 0 {
			t.Errorf("after an answer: lasts %v, lost %v ago", s.lasts(), s.lostFor(time.Minute))
		}
	})
}

// A busy machine holds its processes up again and again. Its nodes still notice that a shard is
// silent, and that a slow shard is quick again.
func TestABusyNodeNoticesSilenceAndQuickAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heldUp = 400 * time.Millisecond
		var process stopped
		s := newAnswers(process.clock())
		answer := func(after time.Duration) {
			began := s.Begin()
			time.Sleep(after)
			s.Heard(began, nil)
		}
		s.Heard(s.Begin(), timer.ErrUnavailable)
		for range 10 {
			time.Sleep(timing.SilentAfter / 10)
			process.stopFor(heldUp)
		}
		if !s.lasts() {
			t.Error("the silence does not last, though the node was awake for a second without an answer")
		}
		for s.slowFor() == 0 {
			answer(timing.SlowAnswer + time.Millisecond)
		}
		for range timing.SlowAfter/timing.PromptAnswer + 1 {
			answer(timing.PromptAnswer)
			process.stopFor(heldUp)
		}
		if s.slowFor() > 0 {
			t.Error("the shard counts as slow, though all answers were quick while the node was awake")
		}
	})
}

func TestARefusedConnectionCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAnswers(awake.Always())
		s.Heard(s.Begin(), fmt.Errorf("%w: OOM", timer.ErrRefused))
		if s.lasts() {
			t.Error("a shard that refuses a command is taken for silent")
		}
		s.Heard(s.Begin(), fmt.Errorf("%w: dial: %w", timer.ErrRefused, syscall.ECONNREFUSED))
		if !s.lasts() {
			t.Error("nothing listens, and the shard is not taken for silent")
		}
		s.Heard(s.Begin(), nil)
		if s.lasts() {
			t.Error("it answers, and is taken for silent")
		}
	})
}

func TestLateAnswersMakeAShardSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAnswers(awake.Always())
		answer := func(after time.Duration, err error) {
			began := s.Begin()
			time.Sleep(after)
			s.Heard(began, err)
		}
		for range 20 {
			answer(timing.SlowAnswer+50*time.Millisecond, nil)
			answer(timing.SlowAnswer, nil) // a quick answer in between
		}
		if s.slowFor() != 0 {
			t.Error("every other answer is quick, and the shard is slow")
		}
		begun := time.Now()
		for s.slowFor() == 0 {
			answer(timing.SlowAnswer+50*time.Millisecond, nil)
		}
		if took := time.Since(begun); took < timing.SlowAfter || took > timing.SlowAfter+timing.SlowAnswer+50*time.Millisecond {
			t.Errorf("it is slow after %v, want %v", took, timing.SlowAfter)
		}
		answer(time.Millisecond, nil)
		answer(500*time.Millisecond, timer.ErrUnavailable)
		begun = time.Now()
		for s.slowFor() > 0 {
			answer(100*time.Millisecond, nil)
		}
		if took := time.Since(begun); took < timing.SlowAfter || took > timing.SlowAfter+200*time.Millisecond {
			t.Errorf("it is quick again after %v, want %v", took, timing.SlowAfter)
		}
		if _, over := s.Outage.Over(); over {
			t.Error("what it missed is over at once")
		}
		time.Sleep(timing.OutageOver)
		if _, over := s.Outage.Over(); !over {
			t.Error("it missed nothing, though nobody told it anything")
		}
	})
}

// On a busy machine a caller gives up now and then though the shard is well. The shard lacks
// nothing then. If no answer comes for so long that the shard is silent, the outage began with the
// first call.
func TestACallerThatGivesUpMakesNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAnswers(new(stopped).clock())
		gaveUp := fmt.Errorf("%w: %w", timer.ErrUnavailable, context.DeadlineExceeded)
		for range 10 {
			began := s.Begin()
			time.Sleep(timing.SilentAfter / 4)
			s.Heard(began, gaveUp)
			if s.Outage.Pending() {
				t.Fatal("an outage was noted before the shard is silent")
			}
			s.Heard(s.Begin(), nil)
		}
		for range 5 {
			began := s.Begin()
			time.Sleep(timing.SilentAfter / 4)
			s.Heard(began, gaveUp)
		}
		if !s.Outage.LacksWrites() {
			t.Error("no outage was noted of a silent shard")
		}
		s.Heard(s.Begin(), nil)
		time.Sleep(timing.OutageOver)
		if ago, over := s.Outage.Over(); !over || ago < timing.OutageOver+timing.SilentAfter {
			t.Errorf("the outage began %v ago, over: %t; want since the first call", ago, over)
		}
		s.Outage.Forget()
		s.Heard(s.Begin(), timer.ErrUnavailable) // such as a broken connection
		if !s.Outage.Pending() {
			t.Error("a failed call was not noted")
		}
	})
}
