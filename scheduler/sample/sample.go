// Package sample bounds a log that could otherwise have as many lines as there are
// timers. The first lines of a kind are logged, then some lines a second; the lines
// that are left out are counted.
package sample

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Usual bounds of a kind of line: a burst, and a rate after the burst.
const (
	First     = 50
	PerSecond = rate.Limit(10)
)

// RestInterval is the usual time between two calls of Rest.
const RestInterval = 10 * time.Second

// Line is a kind of log line. Make a Line with New. A Line is safe for concurrent use.
type Line struct {
	level slog.Level
	kind  string
	limit *rate.Limiter
	left  atomic.Int64 // lines that were left out since Rest
}

// New makes a kind of line, with the words that Rest names the kind by. A burst of
// lines is logged, and later lines at the given rate.
func New(level slog.Level, kind string, burst int, perSecond rate.Limit) *Line {
	return &Line{level: level, kind: kind, limit: rate.NewLimiter(perSecond, burst)}
}

// Log logs a line, or counts the line as left out and returns false.
func (l *Line) Log(log *slog.Logger, message string, args ...any) bool {
	if !l.limit.Allow() {
		l.left.Add(1)
		return false
	}
	log.Log(context.Background(), l.level, message, args...)
	return true
}

// Rest logs how many lines were left out since the last call of Rest, if any, with
// the args behind the number.
func (l *Line) Rest(log *slog.Logger, args ...any) {
	if left := l.left.Swap(0); left > 0 {
		log.Log(context.Background(), l.level, "lines were left out of the log", append([]any{"line", l.kind, "count", left}, args...)...)
	}
}

// TellRest logs of each line how many were left out, every RestInterval and when ctx ends.
func TellRest(ctx context.Context, log *slog.Logger, lines ...*Line) {
	ticker := time.NewTicker(RestInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		for _, line := range lines {
			line.Rest(log)
		}
	}
}
