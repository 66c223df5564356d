package heldup

import (
	"strings"
	"testing"
	"time"
)

// said is a test that counts its errors and its log lines.
type said struct {
	testing.TB
	errors, logs int
}

func (s *said) Helper()               {}
func (s *said) Errorf(string, ...any) { s.errors++ }
func (s *said) Logf(string, ...any)   { s.logs++ }

// TestABoundIsAsWideAsTheHoldUp: the bound itself holds on a machine without other work. A bound
// is wider after a hold-up, and says nothing after a long hold-up.
func TestABoundIsAsWideAsTheHoldUp(t *testing.T) {
	const bound = 500 * time.Millisecond
	for _, c := range []struct {
		name         string
		took, heldUp time.Duration
		errors, logs int
	}{
		{"in time", bound, 0, 0, 0},
		{"late", bound + 1, usual, 1, 0},
		{"late on a busy machine", 900 * time.Millisecond, 100 * time.Millisecond, 0, 0},
		{"too late on a busy machine", 2 * time.Second, 100 * time.Millisecond, 1, 0},
		{"unknown", time.Minute, 2 * time.Second, 0, 1},
		{"in time after all", bound, 2 * time.Second, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &said{TB: t}
			judge(s, "it", c.took, bound, c.heldUp)
			if s.errors != c.errors || s.logs != c.logs {
				t.Errorf("%d errors and %d logs, want %d and %d", s.errors, s.logs, c.errors, c.logs)
			}
		})
	}
	judged.Store(0)
	unknown.Store(0)
}

type status int

func (s status) Run() int { return int(s) }

// TestManyUnknownBoundsAreAFailure: one bound may be unknown, or one bound in twenty.
func TestManyUnknownBoundsAreAFailure(t *testing.T) {
	defer func() { judged.Store(0); unknown.Store(0) }()
	for _, c := range []struct{ tests, judged, unknown, want int }{
		{0, 5, 0, 0}, {1, 5, 0, 1}, {0, 5, 1, 0}, {0, 5, 2, 1}, {0, 40, 2, 0}, {0, 40, 3, 1}, {2, 40, 3, 2},
	} {
		judged.Store(int64(c.judged))
		unknown.Store(int64(c.unknown))
		var out strings.Builder
		if got := Main(status(c.tests), &out); got != c.want || (out.Len() > 0) != (c.unknown > 0) {
			t.Errorf("%+v: status %d, and said %q", c, got, out.String())
		}
	}
}
