package tokens

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// In any time t at most burst + rate·t requests are counted, however out of order the requests'
// clocks were read.
func TestBucketHoldsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.SampledFrom([]float64{0.5, 1, 3, 10, 1000}).Draw(t, "rate")
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		b := newBucket(perSecond, burst)
		start := time.Now()
		elapsed, counted := time.Duration(0), 0
		var began time.Duration // by the first request's clock
		for i := range rapid.IntRange(1, 200).Draw(t, "requests") {
			elapsed += time.Duration(rapid.IntRange(0, 500).Draw(t, "pause_ms")) * time.Millisecond
			late := time.Duration(rapid.IntRange(0, 300).Draw(t, "late_ms")) * time.Millisecond
			if i == 0 {
				began = elapsed - late
			}
			if b.take(start.Add(elapsed-late)) == 0 {
				counted++
			}
			if most := float64(burst) + perSecond*(elapsed-began).Seconds(); float64(counted) > most+1e-6 {
				t.Fatalf("%d requests in %v, %v allowed", counted, elapsed-began, most)
			}
		}
	})
}

// A request that waits as long as the bucket says is let in. A request just over a millisecond
// earlier isn't.
func TestBucketTellsTheTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.001, 900).Draw(t, "rate")
		burst := rapid.IntRange(1, 5).Draw(t, "burst")
		b := newBucket(perSecond, burst)
		now := time.Now()
		for range burst {
			if b.take(now) != 0 {
				t.Fatal("the burst is refused")
			}
		}
		for range 5 {
			wait := b.take(now)
			if wait < time.Millisecond {
				t.Fatalf("wait %v", wait)
			}
			if early := wait - 1100*time.Microsecond; early > 0 && b.take(now.Add(early)) == 0 {
				t.Fatal("let in before the time told")
			}
			if now = now.Add(wait); b.take(now) != 0 {
				t.Fatal("refused at the time told")
			}
		}
	})
}

func TestBucketUnderContention(t *testing.T) {
	const workers, each, burst = 8, 2000, 100
	b := newBucket(0.001, burst)
	var counted atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if b.take(time.Now()) == 0 {
					counted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if counted.Load() != burst {
		t.Errorf("%d requests were counted, want %d", counted.Load(), burst)
	}
}
