package scheduler

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/time/rate"
)

// How many lines about single timers the log takes: so many at once, and then so many a
// second.
const (
	sampleBurst = 50
	sampleRate  = 10
)

// sample bounds the log lines of one kind, of which there could be as many as timers, and
// counts those that it leaves out. It is safe for concurrent use.
type sample struct {
	log     *slog.Logger
	level   slog.Level
	message string
	limit   *rate.Limiter

	mu   sync.Mutex
	left int // out, since tellRest told
}

func newSample(log *slog.Logger, level slog.Level, message string) *sample {
	return &sample{log: log, level: level, message: message, limit: rate.NewLimiter(sampleRate, sampleBurst)}
}

// say logs the line, or counts it.
func (s *sample) say(args ...any) {
	if s.limit.Allow() {
		s.log.Log(context.Background(), s.level, s.message, args...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
}

// tellRest logs how many lines were left out since it was called last.
func (s *sample) tellRest() {
	s.mu.Lock()
	left := s.left
	s.left = 0
	s.mu.Unlock()
	if left > 0 {
		s.log.Log(context.Background(), s.level, s.message+"; more such lines were left out", "lines", left)
	}
}
