package dispatch

import (
	"log/slog"

	"chronos/scheduler/sample"
)

// lines are the kinds of log lines about single timers. One fault may concern every timer, so
// every kind is sampled.
type lines struct {
	suspected, unreadable, ended, givenUp, expired, unsettled, overtaken, leftOut, putOff *sample.Line
}

// leftOutLine is logged where pops of a recurring timer are left out.
const leftOutLine = "pops are left out: their timer was still busy with an earlier pop, or nobody could call back"

// putOffLine is logged if this node can't read a due timer.
const putOffLine = "timers wait for a node that can read them, since a later version of chronos has written them; upgrade this node"

// expiredLine is logged for a pop that is overdue by more than the timer's expires-after.
const expiredLine = "pop has expired, and is not attempted any more; a timer that fires once goes to the dead letters"

func newLines() lines {
	kind := func(level slog.Level, about string) *sample.Line {
		return sample.New(level, about, sample.First, sample.PerSecond)
	}
	return lines{
		suspected:  kind(slog.LevelWarn, "suspected failure of a node for a timer"),
		unreadable: kind(slog.LevelError, "timer can't be read; it goes to the dead letters"),
		ended:      kind(slog.LevelInfo, "receiver wants no more of this timer; it is ended"),
		givenUp:    kind(slog.LevelWarn, "all attempts at a pop failed"),
		expired:    kind(slog.LevelWarn, expiredLine),
		unsettled:  kind(slog.LevelError, "outcome could not be settled; the timer fires again when its lease ends"),
		overtaken:  kind(slog.LevelWarn, "timer was taken over by another node before this one had settled it"),
		leftOut:    kind(slog.LevelWarn, leftOutLine),
		putOff:     kind(slog.LevelError, putOffLine),
	}
}

func (l *lines) all() []*sample.Line {
	return []*sample.Line{l.suspected, l.unreadable, l.ended, l.givenUp, l.expired, l.unsettled, l.overtaken, l.leftOut, l.putOff}
}
