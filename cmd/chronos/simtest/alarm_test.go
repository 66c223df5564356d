package simtest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// alarmed fails the test when a node logs that copies of a timer differ without an explanation.
type alarmed struct {
	slog.Handler
	t testing.TB
}

func (a alarmed) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || a.Handler.Enabled(ctx, level)
}

func (a alarmed) Handle(ctx context.Context, line slog.Record) error {
	if strings.Contains(line.Message, "please report this") {
		text := line.Message
		line.Attrs(func(attr slog.Attr) bool {
			text += " " + attr.String()
			return true
		})
		a.t.Errorf("the sweep at %s: %s", line.Time.UTC().Format("15:04:05"), text)
	}
	if !a.Handler.Enabled(ctx, line.Level) {
		return nil
	}
	return a.Handler.Handle(ctx, line) //nolint:wrapcheck // whose handler it is doesn't matter
}

func (a alarmed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return alarmed{a.Handler.WithAttrs(attrs), a.t}
}

func (a alarmed) WithGroup(name string) slog.Handler { return alarmed{a.Handler.WithGroup(name), a.t} }

// failures counts the errors of a test without failing the test.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Errorf(string, ...any) { f.n++ }

func TestAlarmsOfTheSweepAreFailures(t *testing.T) {
	f := &failures{TB: t}
	log := slog.New(alarmed{slog.DiscardHandler, f}).With("node", "1")
	log.Error("something else")
	log.Error("copies of a timer differ though nothing is under way, and are mended; please report this", "timer", "k")
	if f.n != 1 {
		t.Errorf("%d failures, want 1", f.n)
	}
}
