package scheduler

import (
	"context"
	"log/slog"
	"time"

	"chronos/scheduler/sample"
)

// lines are the kinds of log lines about single timers. One fault may concern every
// timer, so each kind is sampled.
type lines struct {
	suspected, unreadable, ended, givenUp, unsettled, overtaken, unlisted, leftOut *sample.Line
}

// leftOutLine is logged where pops of a recurring timer are left out.
const leftOutLine = "pops are left out: their timer was still busy with an earlier pop, or nobody could call back"

func newLines() lines {
	kind := func(level slog.Level, about string) *sample.Line {
		return sample.New(level, about, sample.First, sample.PerSecond)
	}
	return lines{
		suspected:  kind(slog.LevelWarn, "suspected failure of a node for a timer"),
		unreadable: kind(slog.LevelError, "timer can't be read; it goes to the dead letters"),
		ended:      kind(slog.LevelInfo, "receiver wants no more of this timer; it is ended"),
		givenUp:    kind(slog.LevelWarn, "all attempts at a pop failed"),
		unsettled:  kind(slog.LevelError, "outcome could not be settled; the timer fires again when its lease ends"),
		overtaken:  kind(slog.LevelWarn, "timer was taken over by another node before this one had settled it"),
		unlisted:   kind(slog.LevelWarn, "a timer can't be read, and is left out of a resynchronisation"),
		leftOut:    kind(slog.LevelWarn, leftOutLine),
	}
}

// tellUntilStopped runs tellRest until the caller calls stop, which waits for its end.
func (s *Scheduler) tellUntilStopped(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.tellRest(ctx) }()
	return func() { cancel(); <-done }
}

// tellRest logs how many lines were left out, every ten seconds and when ctx ends.
func (s *Scheduler) tellRest(ctx context.Context) {
	ticker := time.NewTicker(sample.RestInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		l := &s.lines
		for _, kind := range []*sample.Line{l.suspected, l.unreadable, l.ended, l.givenUp, l.unsettled, l.overtaken, l.unlisted, l.leftOut} {
			kind.Rest(s.log)
		}
	}
}
