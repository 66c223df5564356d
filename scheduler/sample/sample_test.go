package sample_test

import (
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/sample"
	"chronos/scheduler/verify/testkit"
)

func TestLinesAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &testkit.Log{}
		log := slog.New(slog.NewTextHandler(b, nil))
		line := sample.New(slog.LevelWarn, "timer is late", sample.First, sample.PerSecond)
		other := sample.New(slog.LevelInfo, "timer is early", sample.First, sample.PerSecond)
		want := func(n int, part string) {
			t.Helper()
			if got := b.Count(part); got != n {
				t.Errorf("%q is logged %d times, want %d", part, got, n)
			}
		}
		// A thousand lines at once, by several goroutines.
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 100 {
					line.Log(log, "timer tea is late", "seq", 1)
				}
			})
		}
		wg.Wait()
		want(50, `level=WARN msg="timer tea is late" seq=1`)
		if other.Rest(log); !other.Log(log, "timer tea is early") {
			t.Error("another kind of line is left out")
		}
		line.Rest(log, "shard", "a")
		want(1, `level=WARN msg="lines were left out of the log" line="timer is late" count=950 shard=a`)
		line.Rest(log)
		want(1, "left out")

		// A second later there is room for ten more.
		time.Sleep(time.Second)
		for range 100 {
			line.Log(log, "timer tea is late", "seq", 2)
		}
		want(10, "seq=2")
		line.Rest(log)
		want(1, "count=90")
	})
}
