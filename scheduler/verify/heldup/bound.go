package heldup

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// tooLong is a hold-up after which a bound says nothing.
const tooLong = time.Second

// judged and unknown count the bounds of the tests of one package.
var judged, unknown atomic.Int64 //nolint:gochecknoglobals // Main reports on all tests of a package

// Begin starts a watch that ends with the test.
func Begin(t testing.TB) *Watch {
	t.Helper()
	w, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Stop() })
	return w
}

// AtMost fails the test if a measurement since an instant took longer than its bound. The bound
// is wider if the machine has held up the test itself meanwhile. The result is unknown if the
// machine did so for too long: see Main.
func (w *Watch) AtMost(t testing.TB, since time.Time, what string, took, bound time.Duration) {
	t.Helper()
	judge(t, what, took, bound, w.longest(since))
}

// Known tells whether the test's observations since an instant count: the test itself was held up
// for at most the duration most. After a longer hold-up the result is unknown: see Main.
func (w *Watch) Known(t testing.TB, from time.Time, most time.Duration) bool {
	t.Helper()
	heldUp := w.longest(from)
	judged.Add(1)
	if heldUp > most {
		unknown.Add(1)
		t.Logf("unknown: the test itself was held up for %v", heldUp)
	}
	return heldUp <= most
}

// longest is the longest hold-up since an instant.
func (w *Watch) longest(from time.Time) time.Duration {
	now := time.Now()
	for {
		all := w.soFar()
		if n := len(all); n > 0 && all[n-1].To.After(now) { // the probe that waited meanwhile has ended
			return all.Within(from, now).Longest()
		}
		select {
		case <-time.After(interval / 4):
		case <-w.ended:
			return w.soFar().Within(from, now).Longest()
		}
	}
}

func judge(t testing.TB, what string, took, bound, heldUp time.Duration) {
	t.Helper()
	judged.Add(1)
	most := bound + Slack(heldUp)
	switch {
	case took <= most:
	case heldUp > tooLong:
		unknown.Add(1)
		t.Logf("unknown: %s took %v, and the test itself was held up for %v", what, took, heldUp)
	default:
		t.Errorf("%s took %v, want %v at most; the test itself was held up for %v", what, took, most, heldUp)
	}
}

// Main runs the tests of a package and returns the exit status, as testing.M's Run does. The
// status is 1, too, if more than one bound in twenty is unknown, and more than one in all.
func Main(m interface{ Run() int }, out io.Writer) int {
	status := m.Run()
	n, of := unknown.Load(), judged.Load()
	if n == 0 {
		return status
	}
	fmt.Fprintf(out, "%d of %d bounds are unknown, since the machine was too busy\n", n, of) //nolint:errcheck // the status says it, too
	if n > 1 && n*20 > of {
		return max(status, 1)
	}
	return status
}
